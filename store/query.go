package store

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseFilter reads the text form of a filter: terms separated by spaces, all of
// which must hold.
//
//	id=order-42            this ID, or one of several: id=a,b
//	id=order-*             IDs with this beginning
//	workflow=a,b           one of these
//	status=failed,stalled  one of these
//	mark=cancelling,paused has all of these marks: paused, cancelling, undoing, expiring, held, failing,
//	                       locked
//	tag.tenant=acme,ibm    has the tag tenant with one of these values
//	parent=etl-7           children of the run with this ID, or number
//	created>2026-01-31     created then or later; also with a time in RFC 3339
//	created<2026-02-01T12:00:00Z
//	ended>2026-01-31       has ended, then or later
//	ended<2026-02-01T12:00:00Z
//
// A value with a space, comma, quote or control character, or an ID that ends in
// a star, stands in double quotes, as in a Go program: id="order 42","x*".
//
// Each term may be given once, except that id may be given once with a star and
// once without. The empty text selects all. The error wraps ErrInvalid and names
// the term.
func ParseFilter(text string) (Filter, error) {
	var f Filter
	given := map[string]bool{}
	for text = strings.TrimLeft(text, spaces); text != ""; text = strings.TrimLeft(text, spaces) {
		t, rest, err := cutTerm(text)
		if err == nil {
			if given[t.name()] {
				err = fmt.Errorf("expected %s once", t.name())
			}
			given[t.name()] = true
		}
		if err == nil {
			err = f.apply(t)
		}
		if err != nil {
			return Filter{}, fmt.Errorf(
				"%w: query term %.100q: %w",
				ErrInvalid,
				strings.TrimRight(text[:len(text)-len(rest)], spaces),
				err,
			)
		}
		text = rest
	}
	return f, nil
}

const spaces = " \t\r\n"

// term is one condition of a filter's text.
type term struct {
	field  string
	op     byte     // = < >
	values []string // one at least
	prefix bool     // the one value was followed by a star
}

// name returns the name under which the term may be given once.
func (t *term) name() string {
	switch {
	case t.prefix:
		return t.field + " with a star"
	case t.op != '=':
		return t.field + string(t.op)
	}
	return t.field
}

// timed reports whether the term's field is a time.
func (t *term) timed() bool { return t.field == "created" || t.field == "ended" }

// cutTerm reads the first term of a text. After an error the rest begins after the text
// that looks like the term.
func cutTerm(text string) (t term, rest string, err error) {
	end := strings.IndexAny(text, spaces)
	if end < 0 {
		end = len(text)
	}
	at := strings.IndexAny(text[:end], "=<>")
	if at < 1 {
		return t, text[end:], errors.New("expected FIELD=VALUE, or created or ended with > or < and a time")
	}
	t.field, t.op, rest = text[:at], text[at], text[at+1:]
	for {
		var value string
		var star bool
		if value, star, rest, err = cutValue(rest); err != nil {
			return t, text[end:], err
		}
		t.values = append(t.values, value)
		t.prefix = t.prefix || star
		switch {
		case rest == "" || strings.ContainsRune(spaces, rune(rest[0])):
			if t.prefix && len(t.values) > 1 {
				err = errors.New("expected one value with a star, alone")
			}
			return t, rest, err
		case rest[0] != ',':
			return t, text[end:], fmt.Errorf("expected a comma or a space after %q", value)
		}
		rest = rest[1:]
	}
}

// cutValue reads a value, quoted or not, and the star after it.
func cutValue(text string) (value string, star bool, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, ","+spaces)
		if end < 0 {
			end = len(text)
		}
		value, star = strings.CutSuffix(text[:end], "*")
		if value == "" && !star {
			return "", false, text, errors.New("expected a value")
		}
		return value, star, text[end:], nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", false, text, errors.New("expected a closing quote")
	}
	if value, err = strconv.Unquote(quoted); err != nil {
		return "", false, text, fmt.Errorf("expected a quoted text as in Go: %w", err)
	}
	rest, star = strings.CutPrefix(text[len(quoted):], "*")
	return value, star, rest, nil
}

// apply adds the term's condition to the filter.
func (f *Filter) apply(t term) error {
	switch {
	case t.timed() == (t.op == '='):
		return errors.New("expected created and ended with < or >, and other fields with =")
	case t.prefix && t.field != "id":
		return errors.New("expected a star after an ID only")
	case len(t.values) > 1 && (t.timed() || t.field == "parent"):
		return errors.New("expected one value")
	}
	if key, ok := strings.CutPrefix(t.field, "tag."); ok {
		for _, value := range t.values {
			tag := Pair{key, value}
			if err := CheckTag(tag, false); err != nil {
				return err
			}
			f.Tags = append(f.Tags, tag)
		}
		return nil
	}
	switch t.field {
	case "id":
		if t.prefix {
			f.IDPrefix = t.values[0]
		} else {
			f.IDs = t.values
		}
	case "workflow":
		f.Workflows = t.values
	case "status":
		for _, name := range t.values {
			s, err := ParseStatus(name)
			if err != nil {
				return err
			}
			f.Statuses = append(f.Statuses, s)
		}
	case "mark":
		for _, name := range t.values {
			mark, ok := markNames[name]
			if !ok || mark == Admitted {
				return fmt.Errorf("expected %s, found %q", aMark, name)
			}
			f.Marks |= mark
		}
	case "parent":
		if t.values[0] == "" {
			return errors.New("expected the ID or number of a run")
		}
		f.ParentID = t.values[0]
	case "created", "ended":
		at, err := parseTime(t.values[0])
		if err != nil {
			return err
		}
		*map[string]*Time{
			"created>": &f.CreatedFrom, "created<": &f.CreatedBefore, "ended>": &f.EndedFrom, "ended<": &f.EndedBefore,
		}[t.field+string(t.op)] = at
	default:
		return fmt.Errorf("expected one of id, workflow, status, mark, tag.KEY, parent, created, ended; found %q", t.field)
	}
	return nil
}

func parseTime(text string) (Time, error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil && t.UnixMicro() > 0 {
			return TimeOf(t), nil
		}
	}
	return 0, fmt.Errorf("expected a date or a time after 1970 like 2026-01-31 or 2026-01-31T12:00:00Z, found %q", text)
}

// String returns the filter in the form that ParseFilter reads, without run numbers,
// shards, and the fields for List (limit, cursor, values).
func (f Filter) String() string {
	var terms []string
	add := func(field string, values []string) {
		if len(values) > 0 {
			terms = append(terms, field+"="+strings.Join(values, ","))
		}
	}
	add("id", quoteAll(f.IDs))
	if f.IDPrefix != "" {
		add("id", []string{quote(f.IDPrefix) + "*"})
	}
	add("workflow", quoteAll(f.Workflows))
	var statuses []string
	for _, s := range f.Statuses {
		statuses = append(statuses, s.String())
	}
	add("status", statuses)
	if f.Marks != 0 {
		add("mark", []string{f.Marks.String()})
	}
	for _, key := range f.tagKeys() {
		add("tag."+key, quoteAll(f.tagValues(key)))
	}
	if f.ParentID != "" {
		add("parent", []string{quote(f.ParentID)})
	} else if f.Parent != 0 {
		add("parent", []string{strconv.FormatInt(int64(f.Parent), 10)})
	}
	for _, bound := range []struct {
		name string
		at   Time
	}{
		{"created>", f.CreatedFrom}, {"created<", f.CreatedBefore}, {"ended>", f.EndedFrom}, {"ended<", f.EndedBefore},
	} {
		if bound.at != 0 {
			terms = append(terms, bound.name+bound.at.String())
		}
	}
	return strings.Join(terms, " ")
}

// tagKeys returns the keys of the filter's tags, each once, in their order.
func (f *Filter) tagKeys() []string {
	var keys []string
	for _, tag := range f.Tags {
		if !slices.Contains(keys, tag.Key) {
			keys = append(keys, tag.Key)
		}
	}
	return keys
}

// tagValues returns the values that the filter's tags of a key have.
func (f *Filter) tagValues(key string) []string {
	var values []string
	for _, tag := range f.Tags {
		if tag.Key == key {
			values = append(values, tag.Value)
		}
	}
	return values
}

// TagValues returns, by key, the values of which a run's tag must have one.
func (f *Filter) TagValues() map[string][]string {
	values := map[string][]string{}
	for _, key := range f.tagKeys() {
		values[key] = f.tagValues(key)
	}
	return values
}

func quoteAll(values []string) []string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quote(v)
	}
	return quoted
}

// quote returns a value in the form that cutValue reads.
func quote(value string) string {
	if value == "" || strings.ContainsAny(value, ","+spaces) || strings.HasSuffix(value, "*") ||
		strconv.Quote(value) != `"`+value+`"` {
		return strconv.Quote(value)
	}
	return value
}

var markNames = map[string]Marks{
	"paused":     Paused,
	"cancelling": Cancelling,
	"undoing":    Undoing,
	"expiring":   Expiring,
	"held":       Held,
	"failing":    Failing,
	"locked":     Locked,
	"admitted":   Admitted, // which a store keeps for itself: no filter names it
}

const aMark = "paused, cancelling, undoing, expiring, held, failing or locked"

// String returns the marks by name, separated by commas.
func (m Marks) String() string {
	var names []string
	for _, name := range []string{"paused", "cancelling", "undoing", "expiring", "held", "failing", "locked", "admitted"} {
		if m&markNames[name] != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// MarshalText returns the marks as String does; no mark is an empty text. Each bit is a mark, so there is no error.
func (m Marks) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is the inverse of MarshalText. A text with a word that is no mark is an error and
// changes nothing.
func (m *Marks) UnmarshalText(text []byte) error {
	var all Marks
	if len(text) > 0 {
		for name := range strings.SplitSeq(string(text), ",") {
			mark, ok := markNames[name]
			if !ok {
				return fmt.Errorf("marks: expected %s, found %q: %w", aMark, name, ErrInvalid)
			}
			all |= mark
		}
	}
	*m = all
	return nil
}
