package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseFilter reads the text form of a filter: terms separated by spaces, all of
// which must hold.
//
//	id=order-42            the ID; with a * at the end: IDs that begin so
//	workflow=a,b           one of these
//	status=failed,stalled  one of these
//	mark=cancelling        has the mark: paused, cancelling, undoing
//	parent=17              children of the run with this number
//	created>2026-01-31     created then or later; also with a time in RFC 3339
//	created<2026-02-01T12:00:00Z
//
// The empty text selects all. The error wraps ErrInvalid and names the term.
func ParseFilter(text string) (Filter, error) {
	var f Filter
	for _, term := range strings.Fields(text) {
		if err := f.parseTerm(term); err != nil {
			return Filter{}, fmt.Errorf("%w: query term %q: %w", ErrInvalid, term, err)
		}
	}
	return f, nil
}

func (f *Filter) parseTerm(term string) error {
	at := strings.IndexAny(term, "=<>")
	if at < 1 || at == len(term)-1 {
		return fmt.Errorf("expected FIELD=VALUE, created>TIME or created<TIME")
	}
	field, op, value := term[:at], term[at], term[at+1:]
	if (field == "created") == (op == '=') {
		return fmt.Errorf("expected created with < or >, and other fields with =")
	}
	list := strings.Split(value, ",")
	if op == '=' && slices.Contains(list, "") {
		return fmt.Errorf("expected values between the commas")
	}
	switch field {
	case "id":
		for _, id := range list {
			prefix, isPrefix := strings.CutSuffix(id, "*")
			switch {
			case !isPrefix:
				f.IDs = append(f.IDs, id)
			case len(list) > 1 || f.IDPrefix != "":
				return fmt.Errorf("expected one ID with a *, alone")
			default:
				f.IDPrefix = prefix
			}
		}
	case "workflow":
		f.Workflows = append(f.Workflows, list...)
	case "status":
		for _, name := range list {
			s, err := ParseStatus(name)
			if err != nil {
				return err
			}
			f.Statuses = append(f.Statuses, s)
		}
	case "mark":
		for _, name := range list {
			mark, ok := markNames[name]
			if !ok {
				return fmt.Errorf("expected paused, cancelling or undoing, found %q", name)
			}
			f.Marks |= mark
		}
	case "parent":
		no, err := strconv.ParseInt(value, 10, 64)
		if err != nil || no < 1 {
			return fmt.Errorf("expected the number of a run")
		}
		f.Parent = RunNo(no)
	case "created":
		t, err := parseTime(value)
		if err != nil {
			return err
		}
		if op == '>' {
			f.CreatedFrom = t
		} else {
			f.CreatedBefore = t
		}
	default:
		return fmt.Errorf("expected one of id, workflow, status, mark, parent, created; found %q", field)
	}
	return nil
}

var markNames = map[string]Marks{"paused": Paused, "cancelling": Cancelling, "undoing": Undoing}

// String returns the marks by name, separated by commas.
func (m Marks) String() string {
	var names []string
	for _, name := range []string{"paused", "cancelling", "undoing"} {
		if m&markNames[name] != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

func parseTime(text string) (Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil && t.UnixMicro() > 0 {
			return TimeOf(t), nil
		}
	}
	return 0, fmt.Errorf("expected a date or a time after 1970 like 2026-01-31 or 2026-01-31T12:00:00Z, found %q", text)
}

// String returns the filter as ParseFilter reads it. What only List knows
// (limit, cursor, values) and run numbers are left out.
func (f Filter) String() string {
	var terms []string
	add := func(field string, values []string) {
		if len(values) > 0 {
			terms = append(terms, field+"="+strings.Join(values, ","))
		}
	}
	add("id", f.IDs)
	if f.IDPrefix != "" {
		add("id", []string{f.IDPrefix + "*"})
	}
	add("workflow", f.Workflows)
	var statuses []string
	for _, s := range f.Statuses {
		statuses = append(statuses, s.String())
	}
	add("status", statuses)
	if f.Marks != 0 {
		add("mark", []string{f.Marks.String()})
	}
	if f.Parent != 0 {
		add("parent", []string{strconv.FormatInt(int64(f.Parent), 10)})
	}
	if f.CreatedFrom != 0 {
		terms = append(terms, "created>"+f.CreatedFrom.String())
	}
	if f.CreatedBefore != 0 {
		terms = append(terms, "created<"+f.CreatedBefore.String())
	}
	return strings.Join(terms, " ")
}
