package script

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"
)

// # Regular expressions
//
// Go's engine takes a time that grows with the text and not faster. The interpreter has a second
// engine, which backtracks and which nothing can interrupt. It takes that one for what Go's engine
// does not take, but also for other expressions: behind the start of a text, and to find all in a
// text that is not ASCII. So its exec, test and split are replaced by ones on Go's engine alone, to
// which match, matchAll, replace and search come down. A script without expressions has none of it.

// expression is a compiled expression of a script.
type expression struct {
	whole *regexp.Regexp // looks in a text from its start
	// These look from the second character of a text on: assertions look at the first. Their
	// first group is the match.
	behind, next *regexp.Regexp // anywhere, and right there
	lines        bool           // it looks for the begins or ends of lines
}

var (
	escapes = regexp.MustCompile(`(?s)\\(?:[pP]\{[^}]*\}|` +
		`u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|.)|[\[\]]`)
	pair = len(`\uD83D\uDE00`)
)

// noSpace is what \S is within a class, which Go's engine knows for ASCII alone.
const noSpace = `\x00-\x08\x0e-\x1f!-\x9f\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e` +
	`\u2060-\u2fff\u3001-\ufefe\uff00-\uffff`

// translated returns an expression for Go's engine. An error says why it takes it not.
func translated(pattern, flags string) (string, error) {
	unicode, class := strings.Contains(flags, "u"), false
	if err := checkFlags(flags); err != nil {
		return "", err
	}
	var wrong error
	pattern = escapes.ReplaceAllStringFunc(pattern, func(at string) string {
		switch {
		case at == "[" || at == "]":
			class = at == "["
			return at
		case len(at) > 1 && (at[1] == 'p' || at[1] == 'P'):
			if !unicode {
				return at
			}
			marked, err := property(at, flags)
			if wrong == nil {
				wrong = err
			}
			return marked
		case at == `\S` && class && unicode:
			return noSpace + "\U00010000-\U0010ffff"
		case at == `\S` && class:
			return noSpace
		case len(at) < pair || !unicode:
			return at
		}
		first, _ := strconv.ParseUint(at[2:6], 16, 16)
		second, _ := strconv.ParseUint(at[8:12], 16, 16)
		return string(utf16.DecodeRune(rune(first), rune(second)))
	})
	if wrong != nil {
		return "", wrong
	}
	if !unicode { // its characters are units of UTF-16
		var units strings.Builder
		for _, c := range pattern {
			if first, second := utf16.EncodeRune(c); first != utf8.RuneError {
				fmt.Fprintf(&units, `\u%04x\u%04x`, first, second)
			} else {
				units.WriteRune(c)
			}
		}
		pattern = units.String()
	}
	text, err := parser.TransformRegExp(pattern, strings.Contains(flags, "s"), unicode)
	if err != nil {
		return "", err
	}
	text = markedProperty.ReplaceAllString(text, `\$1{$2}`)
	fold := "i"
	if !unicode && strings.Contains(flags, "i") {
		if text, err = folded(text); err != nil {
			return "", err
		}
		fold = ""
	}
	set := strings.Map(func(c rune) rune {
		if strings.ContainsRune(fold+"ms", c) {
			return c
		}
		return -1
	}, flags)
	if set != "" {
		text = "(?" + set + ":" + text + ")"
	}
	_, err = regexp.Compile(text)
	return text, err
}

// checkRegExp refuses what Go's engine does not take: it has no bound of time otherwise.
func checkRegExp(pattern, flags string) error {
	if _, err := translated(pattern, flags); err != nil {
		return fmt.Errorf("expected a regular expression without lookaround, backreferences and repeats above 1,000, "+
			"found /%s/%s: %v", pattern, flags, err)
	}
	return nil
}

func compileExpression(pattern, flags string) (*expression, error) {
	text, err := translated(pattern, flags)
	if err != nil {
		return nil, checkRegExp(pattern, flags)
	}
	e := &expression{lines: strings.Contains(flags, "m") && strings.ContainsAny(pattern, "^$")}
	for _, part := range []struct {
		re   **regexp.Regexp
		text string
	}{
		{&e.whole, text}, {&e.behind, `\A(?s:.)(?s:.*?)(` + text + `)`}, {&e.next, `\A(?s:.)(` + text + `)`},
	} {
		if *part.re, err = regexp.Compile(part.text); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// expressions are the compiled ones of a script, for all of its runs.
type expressions struct {
	mu       sync.Mutex
	compiled map[[2]string]*expression // by pattern and flags
}

// maxExpressions bounds the cache, which is emptied then.
const maxExpressions = 1000

func (c *expressions) of(pattern, flags string) (*expression, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{pattern, flags}
	if e := c.compiled[key]; e != nil {
		return e, nil
	}
	e, err := compileExpression(pattern, flags)
	if err != nil {
		return nil, err
	}
	if c.compiled == nil || len(c.compiled) >= maxExpressions {
		c.compiled = map[[2]string]*expression{}
	}
	c.compiled[key] = e
	return e, nil
}

// bound is an expression of the interpreter: without compile, which no script has, it never changes.
type bound struct {
	*expression
	object                  *goja.Object
	global, sticky, unicode bool
}

// maxBound is how many of them a run remembers.
const maxBound = 64

// boundTo returns the expression of an object.
func (r *interpreter) boundTo(v goja.Value) *bound {
	object, _ := v.(*goja.Object)
	if b := r.bound[object]; b != nil {
		return b
	}
	if object == nil || object.ClassName() != "RegExp" {
		panic(r.vm.NewTypeError("expected a regular expression"))
	}
	pattern, flags := r.textOf(object.Get("source")), object.Get("flags").String()
	e, err := r.expressions.of(unpaired(pattern), flags)
	if err != nil {
		panic(r.syntaxError(err))
	}
	if r.bound == nil || len(r.bound) >= maxBound {
		r.bound = map[*goja.Object]*bound{}
	}
	b := &bound{expression: e, object: object, global: strings.Contains(flags, "g"), sticky: strings.Contains(flags, "y"),
		unicode: strings.Contains(flags, "u")}
	r.bound[object] = b
	return b
}

// match returns the places of the groups in a text, from a place on; nil: there is no match. sticky
// says that it begins right there.
func (r *interpreter) match(b *bound, text goja.String, from int, sticky bool) []int {
	if b.lines {
		r.checkLines(text)
	}
	if b.unicode && from > 0 && from < text.Length() && within(text, from) {
		from--
	}
	begin, re := 0, b.whole
	switch {
	case from > text.Length():
		return nil
	case from > 0 && sticky:
		begin, re = from-1, b.next
	case from > 0:
		begin, re = from-1, b.behind
	}
	if b.unicode && begin > 0 && within(text, begin) {
		begin--
	}
	var found []int
	if plain, ok := ascii(text); ok && len(plain) < maxPlain {
		found = re.FindStringSubmatchIndex(plain[begin:])
	} else {
		found = re.FindReaderSubmatchIndex(&units{text: text, at: begin, points: b.unicode, stopped: r.stopped})
	}
	r.heed()
	if from > 0 && found != nil {
		found = found[2:] // the first group is the match
	}
	for i := range found {
		if found[i] >= 0 {
			found[i] += begin
		}
	}
	if sticky && found != nil && found[0] != from {
		return nil
	}
	return found
}

// checkLines refuses a text with ends of lines that Go's engine does not know. A text is looked at once, however many
// matches it has.
func (r *interpreter) checkLines(text goja.String) {
	at := identity{reflect.ValueOf(text).Pointer(), text.Length()}
	if r.lines.at == at && r.lines.text != nil {
		return
	}
	bad := func(c rune) bool { return c == '\r' || c == '\u2028' || c == '\u2029' }
	if plain, ok := ascii(text); ok && strings.IndexByte(plain, '\r') < 0 {
		r.lines.text, r.lines.at = text, at
		return
	}
	for i := range text.Length() {
		if c := rune(text.CharAt(i)); bad(c) {
			panic(r.rangeError("^ and $ with the flag m: expected a text whose lines end with \\n, found %q at %d; replace it "+
				"first", c, i))
		}
	}
	r.lines.text, r.lines.at = text, at
}

// identity tells texts apart that are in use.
type identity struct {
	at     uintptr
	length int
}

// maxPlain bounds the texts in which Go's engine looks without a sign of life.
const maxPlain = 1 << 18

// nothing is a program that does nothing.
var nothing = goja.MustCompile(preludeName, "", true)

// heed ends a stretch that is to be stopped: one call of the language may look for matches many times, and
// the interpreter stops only where it executes something.
func (r *interpreter) heed() {
	if r.stopped != nil && r.stopped.cut.Load() {
		if _, err := r.vm.RunProgram(nothing); err != nil {
			panic(err)
		}
	}
}

// within reports whether a place in a text is within a code point.
func within(text goja.String, at int) bool {
	return utf16.DecodeRune(rune(text.CharAt(at-1)), rune(text.CharAt(at))) != utf8.RuneError
}

// ascii returns a text of ASCII without a copy.
func ascii(text goja.String) (string, bool) {
	if reflect.TypeOf(text).Kind() == reflect.Slice { // of units: that it is not ASCII costs no look
		return "", false
	}
	s := text.String()
	return s, len(s) == text.Length()
}

// units reads the units of UTF-16 of a text, or its code points.
type units struct {
	text    goja.String
	at      int
	points  bool
	stopped *stopped // nil, or the text ends early when it is cut, and nobody is to look at what was found
}

func (u *units) ReadRune() (rune, int, error) {
	if u.at >= u.text.Length() || u.at%1024 == 0 && u.stopped != nil && u.stopped.cut.Load() {
		return 0, 0, io.EOF
	}
	c, size := rune(u.text.CharAt(u.at)), 1
	if u.points && utf16.IsSurrogate(c) && u.at+1 < u.text.Length() {
		if point := utf16.DecodeRune(c, rune(u.text.CharAt(u.at+1))); point != utf8.RuneError {
			c, size = point, 2
		}
	}
	u.at += size
	return c, size, nil
}

// installExpressions replaces what the interpreter does with its own engines.
func (r *interpreter) installExpressions() error {
	proto, _ := r.vm.Get("RegExp").ToObject(r.vm).Get("prototype").(*goja.Object)
	if err := proto.Delete("compile"); err != nil {
		return err
	}
	for _, method := range []struct {
		name string
		call func(b *bound, a args) goja.Value
	}{
		{"exec", func(b *bound, a args) goja.Value {
			text := r.textOf(a.at(0))
			if found := r.exec(b, text); found != nil {
				return r.matched(b, text, found)
			}
			return goja.Null()
		}},
		{"test", func(b *bound, a args) goja.Value {
			return r.vm.ToValue(r.exec(b, r.textOf(a.at(0))) != nil)
		}},
	} {
		f := func(c goja.FunctionCall) goja.Value { return method.call(r.boundTo(c.This), args(c)) }
		err := proto.DefineDataProperty(method.name, r.vm.ToValue(f), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
		if err != nil {
			return err
		}
	}
	split := func(c goja.FunctionCall) goja.Value { return r.split(r.boundTo(c.This), args(c)) }
	yes, no := goja.FLAG_TRUE, goja.FLAG_FALSE
	return proto.DefineDataPropertySymbol(goja.SymSplit, r.vm.ToValue(split), yes, yes, no)
}

// textOf returns a value as a text. ToString of the interpreter leaves numbers as they are.
func (r *interpreter) textOf(v goja.Value) goja.String {
	if text, ok := v.ToString().(goja.String); ok {
		return text
	}
	return r.vm.ToValue(v.String()).(goja.String)
}

// exec looks for a match where the expression stands, and has it stand behind.
func (r *interpreter) exec(b *bound, text goja.String) []int {
	if !b.global && !b.sticky {
		return r.match(b, text, 0, false)
	}
	found, last := r.match(b, text, int(max(b.object.Get("lastIndex").ToInteger(), 0)), b.sticky), 0
	if found != nil {
		last = found[1]
	}
	if err := b.object.Set("lastIndex", last); err != nil {
		panic(err)
	}
	return found
}

// step returns the place of the next character.
func step(b *bound, text goja.String, at int) int {
	if at++; b.unicode && at < text.Length() && within(text, at) {
		at++
	}
	return at
}

// count returns how many matches a text has, to a million.
func (r *interpreter) count(b *bound, text goja.String) (n int) {
	for at := 0; n <= maxArray; n++ {
		found := r.match(b, text, at, false)
		if found == nil {
			break
		}
		if at = found[1]; found[0] == found[1] {
			at = step(b, text, at)
		}
	}
	return n
}

// split is that of a text at an expression.
func (r *interpreter) split(b *bound, a args) goja.Value {
	text, most, parts := r.textOf(a.at(0)), uint32(1<<32-1), []any{}
	if limit := a.at(1); !goja.IsUndefined(limit) {
		most = uint32(limit.ToInteger())
	}
	add := func(part goja.Value) (full bool) {
		r.checkList(len(parts))
		parts = append(parts, part)
		return len(parts) == int(most)
	}
	if most == 0 || text.Length() == 0 && r.match(b, text, 0, false) != nil {
		return r.vm.NewArray()
	}
	begin := 0 // of the part
	for at := 0; at < text.Length(); {
		found := r.match(b, text, at, false)
		if found == nil || found[0] >= text.Length() {
			break
		}
		if found[1] == begin {
			at = step(b, text, begin)
			continue
		}
		if add(text.Substring(begin, found[0])) {
			return r.vm.NewArray(parts...)
		}
		at, begin = found[1], found[1]
		for _, group := range r.groups(text, found)[1:] {
			if add(group.(goja.Value)) {
				return r.vm.NewArray(parts...)
			}
		}
	}
	add(text.Substring(begin, text.Length()))
	return r.vm.NewArray(parts...)
}

// groups returns what the groups of a match have found, the match first.
func (r *interpreter) groups(text goja.String, found []int) []any {
	parts, before := make([]any, len(found)/2), 0
	for i := range parts {
		part := goja.Value(goja.Undefined())
		// The language forgets what a group has found in a former round of a repeat.
		if begin, end := found[2*i], found[2*i+1]; begin >= 0 && (i == 0 || end >= before) {
			part = text.Substring(begin, end)
			if i > 0 {
				before = begin
			}
		}
		parts[i] = part
	}
	return parts
}

// matched is what exec returns.
func (r *interpreter) matched(b *bound, text goja.String, found []int) goja.Value {
	named, parts := goja.Value(goja.Undefined()), r.groups(text, found)
	for i, name := range b.whole.SubexpNames() {
		if name == "" {
			continue
		}
		if goja.IsUndefined(named) {
			named = r.vm.CreateObject(nil)
		}
		if err := named.(*goja.Object).Set(name, parts[i]); err != nil {
			panic(err)
		}
	}
	out := r.vm.NewArray(parts...)
	for _, field := range []struct {
		name  string
		value goja.Value
	}{{"index", r.vm.ToValue(found[0])}, {"input", text}, {"groups", named}} {
		if err := out.Set(field.name, field.value); err != nil {
			panic(err)
		}
	}
	return out
}

// unpaired returns a pattern in which halves of code points are escaped: a text of Go has none.
func unpaired(pattern goja.String) string {
	if plain, ok := ascii(pattern); ok {
		return plain
	}
	var out strings.Builder
	for u := (&units{text: pattern, points: true}); ; {
		c, _, err := u.ReadRune()
		switch {
		case err != nil:
			return out.String()
		case utf16.IsSurrogate(c):
			fmt.Fprintf(&out, `\u%04x`, c)
		default:
			out.WriteRune(c)
		}
	}
}

func (r *interpreter) syntaxError(err error) *goja.Object {
	e, newErr := r.vm.New(r.vm.Get("SyntaxError"), r.vm.ToValue(err.Error()))
	if newErr != nil {
		panic(newErr)
	}
	return e
}
