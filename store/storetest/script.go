package storetest

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stet-run/stet/store"
)

// A script is operations, one in a line, for example
//
//	# what this is about
//	acquire node=n boot=1 shards=default/0,other/0 ttl=10s
//	commit node=n boot=1 leases=default/0:1 command{claim=true start{id=r shard=default/0 workflow=w seed=1}}
//	commit node=n boot=1 leases=default/0:1 turn{run=1 shard=default/0 entry{loc=a kind=step state=done value="x"*5000}}
//
// Fields are those of the types in op.go and of package store, in small letters and in any order; lists of structs are
// named by one element. Zero fields are left out. A string is quoted as in Go unless it is letters, digits and ._@-; a
// value is always quoted, "" is an empty one, and *N repeats it. A time is the clock's distance from its start. An
// empty list that is not nil is [].

// printScript is the inverse of parseScript.
func printScript(ops []op) string {
	var b strings.Builder
	for _, o := range ops {
		b.WriteString(o.verb())
		printFields(&b, reflect.ValueOf(o).Elem())
		b.WriteByte('\n')
	}
	return b.String()
}

// fieldName is the name of a field in a script.
func fieldName(f reflect.StructField) string {
	t := f.Type
	if t.Kind() == reflect.Slice && (t.Elem().Kind() == reflect.Struct && !isScalar(t.Elem())) {
		switch f.Name {
		case "Entries":
			return "entry"
		default:
			return strings.ToLower(strings.TrimSuffix(f.Name, "s"))
		}
	}
	return strings.ToLower(f.Name)
}

// isScalar reports whether values of the type are written without braces.
func isScalar(t reflect.Type) bool {
	return t.Kind() != reflect.Struct || t == reflect.TypeFor[store.Shard]() || t == reflect.TypeFor[leaseRef]()
}

var bytesType = reflect.TypeFor[[]byte]()

func printFields(b *strings.Builder, v reflect.Value) {
	for i := range v.NumField() {
		name, f := fieldName(v.Type().Field(i)), v.Field(i)
		if f.IsZero() {
			continue
		}
		switch {
		case f.Kind() == reflect.Pointer:
			printStruct(b, name, f.Elem())
		case !isScalar(f.Type()):
			printStruct(b, name, f)
		case f.Kind() == reflect.Slice && f.Type() != bytesType:
			printList(b, name, f)
		default:
			fmt.Fprintf(b, " %s=%s", name, printScalar(f))
		}
	}
}

func printStruct(b *strings.Builder, name string, v reflect.Value) {
	var inner strings.Builder
	printFields(&inner, v)
	fmt.Fprintf(b, " %s{%s}", name, strings.TrimPrefix(inner.String(), " "))
}

func printList(b *strings.Builder, name string, list reflect.Value) {
	if !isScalar(list.Type().Elem()) {
		for i := range list.Len() {
			printStruct(b, name, list.Index(i))
		}
		return
	}
	if list.Len() == 0 {
		fmt.Fprintf(b, " %s=[]", name)
		return
	}
	parts := make([]string, list.Len())
	for i := range parts {
		parts[i] = printScalar(list.Index(i))
	}
	fmt.Fprintf(b, " %s=%s", name, strings.Join(parts, ","))
}

// enums are the names of values by their number.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[store.Status](): {"", "queued", "running", "suspended", "succeeded", "failed", "cancelled",
		"stalled"},
	reflect.TypeFor[store.Kind](): {"", "step", "sleep", "receive", "promise", "timer", "cancel", "wait", "undo",
		"loop", "child", "run"},
	reflect.TypeFor[store.EntryState](): {"", "open", "done", "failed", "withdrawn"},
	reflect.TypeFor[store.ItemKind](): {"", "message", "resolution", "cancel", "terminate", "resume", "end", "watch",
		"update", 10: "pause", "retry", "rewind", "edit"},
	reflect.TypeFor[store.ItemState]():      {"", "new", "seen", "consumed", "dead"},
	reflect.TypeFor[store.ExistingPolicy](): {"keep", "replace"},
}

// printScalar writes a value that needs no braces.
func printScalar(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case store.Shard:
		return printText(x.Group) + "/" + strconv.Itoa(x.Slot)
	case leaseRef:
		return printText(x.Shard.Group) + "/" + strconv.Itoa(x.Shard.Slot) + ":" + strconv.FormatInt(x.Epoch, 10)
	case store.Seed:
		return printText(strings.TrimLeft(string(x[:len(x)-1]), "0") + string(x[len(x)-1:]))
	case []byte:
		return printValue(x)
	case time.Duration:
		return printDuration(x)
	case store.Delay:
		if x > -store.MaxDelay && x < store.MaxDelay {
			return printDuration(time.Duration(x) * time.Microsecond)
		}
	case store.Time:
		if d := store.Delay(x - begin); d > -store.MaxDelay && d < store.MaxDelay {
			return printDuration(time.Duration(d) * time.Microsecond)
		}
	}
	switch {
	case v.Kind() == reflect.String:
		return printText(v.String())
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case v.CanUint():
		if names := enums[v.Type()]; v.Uint() < uint64(len(names)) {
			return names[v.Uint()]
		}
		return strconv.FormatUint(v.Uint(), 10)
	}
	return strconv.FormatInt(v.Int(), 10)
}

// begin is the first time of every test's clock.
var begin = store.TimeOf(newClock().Now())

func printDuration(d time.Duration) string { return strings.ReplaceAll(d.String(), "µ", "u") }

func bare(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._@-", c) >= 0
}

func printText(s string) string {
	for i := range len(s) {
		if !bare(s[i]) {
			return strconv.Quote(s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}

// printValue writes bytes, those that repeat in short.
func printValue(v []byte) string {
	s := string(v)
	if len(s) > 16 && strings.Count(s, s[:1]) == len(s) {
		return strconv.Quote(s[:1]) + "*" + strconv.Itoa(len(s))
	}
	return strconv.Quote(s)
}

// scriptError is a mistake in a line of a script.
type scriptError struct {
	line int
	what string
}

func (e *scriptError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.what) }

// parseScript reads a script.
func parseScript(text string) ([]op, error) {
	var ops []op
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		o, err := parseLine(line)
		if err != nil {
			return nil, &scriptError{i + 1, err.Error()}
		}
		ops = append(ops, o)
	}
	return ops, nil
}

// maxValue bounds the values of a script.
const maxValue = 4 << 20

type scriptParser struct{ rest string }

func parseLine(line string) (op, error) {
	if !utf8.ValidString(line) {
		return nil, fmt.Errorf("expected UTF-8, with other bytes quoted")
	}
	p := &scriptParser{line}
	verb := p.name()
	o := newOp(verb)
	if o == nil {
		return nil, fmt.Errorf("expected an operation, found %q", verb)
	}
	if err := p.fields(reflect.ValueOf(o).Elem()); err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	if p.rest != "" {
		return nil, fmt.Errorf("%s: expected a field, found %.20q", verb, p.rest)
	}
	return o, nil
}

// name reads letters.
func (p *scriptParser) name() string {
	n := 0
	for n < len(p.rest) && p.rest[n] >= 'a' && p.rest[n] <= 'z' {
		n++
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	return name
}

func (p *scriptParser) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *scriptParser) space() { p.rest = strings.TrimLeft(p.rest, " ") }

// fields reads fields until the end or a closing brace.
func (p *scriptParser) fields(v reflect.Value) error {
	seen := map[string]bool{}
	for p.space(); p.rest != "" && p.rest[0] != '}'; p.space() {
		name := p.name()
		f, isList, err := fieldOf(v, name)
		if err != nil {
			return err
		}
		if seen[name] && !isList {
			return fmt.Errorf("%s is there twice", name)
		}
		seen[name] = true
		if err := p.field(f, isList); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// fieldOf finds a field. isList: it takes a further struct each time.
func fieldOf(v reflect.Value, name string) (f reflect.Value, isList bool, err error) {
	for i := range v.NumField() {
		if sf := v.Type().Field(i); fieldName(sf) == name {
			f = v.Field(i)
			return f, f.Kind() == reflect.Slice && !isScalar(f.Type().Elem()), nil
		}
	}
	return f, false, fmt.Errorf("%s has no field %q", v.Type(), name)
}

func (p *scriptParser) field(f reflect.Value, isList bool) error {
	switch {
	case isList:
		element := reflect.New(f.Type().Elem()).Elem()
		if err := p.braces(element); err != nil {
			return err
		}
		f.Set(reflect.Append(f, element))
		return nil
	case f.Kind() == reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
		return p.braces(f.Elem())
	case !isScalar(f.Type()):
		return p.braces(f)
	case !p.take('='):
		return fmt.Errorf("expected =, found %.10q", p.rest)
	case f.Kind() == reflect.Slice && f.Type() != bytesType:
		if strings.HasPrefix(p.rest, "[]") {
			p.rest = p.rest[2:]
			f.Set(reflect.MakeSlice(f.Type(), 0, 0))
			return nil
		}
		for {
			element := reflect.New(f.Type().Elem()).Elem()
			if err := p.scalar(element); err != nil {
				return err
			}
			f.Set(reflect.Append(f, element))
			if !p.take(',') {
				return nil
			}
		}
	}
	return p.scalar(f)
}

func (p *scriptParser) braces(v reflect.Value) error {
	if !p.take('{') {
		return fmt.Errorf("expected {, found %.10q", p.rest)
	}
	if err := p.fields(v); err != nil {
		return err
	}
	if !p.take('}') {
		return fmt.Errorf("expected }, found the end")
	}
	return nil
}

// text reads a string, quoted or not.
func (p *scriptParser) text() (string, error) {
	if strings.HasPrefix(p.rest, `"`) {
		quoted, err := strconv.QuotedPrefix(p.rest)
		if err != nil {
			return "", fmt.Errorf("expected a closed string, found %.20q", p.rest)
		}
		p.rest = p.rest[len(quoted):]
		return strconv.Unquote(quoted)
	}
	n := 0
	for n < len(p.rest) && bare(p.rest[n]) {
		n++
	}
	if n == 0 {
		return "", fmt.Errorf("expected a value, found %.10q", p.rest)
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	return word, nil
}

// scalar reads a value that has no braces.
func (p *scriptParser) scalar(v reflect.Value) error {
	if v.Type() == bytesType {
		return p.value(v)
	}
	word, err := p.text()
	if err != nil {
		return err
	}
	switch x := v.Addr().Interface().(type) {
	case *store.Shard:
		x.Group = word
		return p.after('/', &x.Slot)
	case *leaseRef:
		x.Shard.Group = word
		if err := p.after('/', &x.Shard.Slot); err != nil {
			return err
		}
		return p.after(':', &x.Epoch)
	case *store.Seed:
		if len(word) > len(x) {
			return fmt.Errorf("expected at most %d bytes, found %q", len(x), word)
		}
		*x = store.Seed([]byte(strings.Repeat("0", len(x)-len(word)) + word))
		return nil
	case *time.Duration, *store.Delay, *store.Time:
		return setTime(v, word)
	}
	return setPlain(v, word)
}

// after reads a number behind a separator.
func (p *scriptParser) after(separator byte, into any) error {
	if !p.take(separator) {
		return fmt.Errorf("expected %c, found %.10q", separator, p.rest)
	}
	word, err := p.text()
	if err != nil {
		return err
	}
	return setPlain(reflect.ValueOf(into).Elem(), word)
}

// value reads bytes.
func (p *scriptParser) value(v reflect.Value) error {
	if !strings.HasPrefix(p.rest, `"`) {
		return fmt.Errorf("expected a quoted value, found %.10q", p.rest)
	}
	text, err := p.text()
	if err != nil {
		return err
	}
	times := 1
	if strings.HasPrefix(p.rest, "*") {
		if err := p.after('*', &times); err != nil {
			return err
		}
	}
	if times < 1 || len(text) > 0 && times > maxValue/len(text) {
		return fmt.Errorf("expected a value of at most %d bytes", maxValue)
	}
	value := []byte(text)
	if len(text) > 0 {
		value = []byte(strings.Repeat(text, times))
	}
	v.SetBytes(value)
	return nil
}

// setTime sets a time or a duration: one with a unit, or the bare number.
func setTime(v reflect.Value, word string) error {
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		v.SetInt(n)
		return nil
	}
	d, err := time.ParseDuration(word)
	switch {
	case err != nil:
		return fmt.Errorf("expected a duration or a number, found %q", word)
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(d))
	case v.Type() == reflect.TypeFor[store.Time]():
		v.SetInt(int64(begin.Add(d)))
	default:
		v.SetInt(int64(d / time.Microsecond))
	}
	return nil
}

func setPlain(v reflect.Value, word string) error {
	for i, name := range enums[v.Type()] {
		if name == word && name != "" {
			v.SetUint(uint64(i))
			return nil
		}
	}
	var err error
	switch {
	case v.Kind() == reflect.String:
		v.SetString(word)
	case v.Kind() == reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(word)
		v.SetBool(b)
	case v.CanUint():
		var n uint64
		n, err = strconv.ParseUint(word, 10, v.Type().Bits())
		v.SetUint(n)
	default:
		var n int64
		n, err = strconv.ParseInt(word, 10, v.Type().Bits())
		v.SetInt(n)
	}
	if err != nil {
		return fmt.Errorf("expected a %s, found %q", v.Kind(), word)
	}
	return nil
}
