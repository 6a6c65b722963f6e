package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stet-run/stet/store"
)

func TestParseFilter(t *testing.T) {
	day := store.TimeOf(time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC))
	noon := store.TimeOf(time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		text string
		want store.Filter
	}{
		{"", store.Filter{}},
		{" \t\n", store.Filter{}},
		{"id=a,b", store.Filter{IDs: []string{"a", "b"}}},
		{"id=order-*", store.Filter{IDPrefix: "order-"}},
		{"id=*", store.Filter{}},
		{"id=a id=b*", store.Filter{IDs: []string{"a"}, IDPrefix: "b"}},
		{`id="order 42","a,b","x*"`, store.Filter{IDs: []string{"order 42", "a,b", "x*"}}},
		{`id="order 4"*`, store.Filter{IDPrefix: "order 4"}},
		{`id=a=b,c<d,e*f`, store.Filter{IDs: []string{"a=b", "c<d", "e*f"}}},
		{"workflow=x  status=failed,stalled ", store.Filter{Workflows: []string{"x"}, Statuses: []store.Status{store.Failed, store.Stalled}}},
		{"mark=cancelling parent=7", store.Filter{Marks: store.Cancelling, ParentID: "7"}},
		{`parent="etl 8"`, store.Filter{ParentID: "etl 8"}},
		{"mark=cancelling,paused", store.Filter{Marks: store.Cancelling | store.Paused}},
		{"created>2026-01-31 created<2026-02-01T12:00:00Z", store.Filter{CreatedFrom: day, CreatedBefore: noon}},
		{"ended>2026-01-31 ended<2026-02-01T12:00:00Z", store.Filter{EndedFrom: day, EndedBefore: noon}},
		{"created<2026-02-01T14:00:00+02:00", store.Filter{CreatedBefore: noon}},
	} {
		got, err := store.ParseFilter(c.text)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("ParseFilter(%q) = %+v, %v; want %+v", c.text, got, err, c.want)
		}
	}
}

func TestParseFilterNamesTheBadTerm(t *testing.T) {
	const syntax = "expected FIELD=VALUE, or created or ended with > or < and a time"
	for _, c := range []struct{ text, term, want string }{
		{"x", "x", syntax},
		{"=", "=", syntax},
		{"status=", "status=", "expected a value"},
		{"status=failed, id=a", "status=failed,", "expected a value"},
		{"id=a,", "id=a,", "expected a value"},
		{"id=a*,b", "id=a*,b", "expected one value with a star, alone"},
		{`id="a`, `id="a`, "expected a closing quote"},
		{`id="a"b`, `id="a"b`, `expected a comma or a space after "a"`},
		{"workflow=a*", "workflow=a*", "expected a star after an ID only"},
		{"id=a status=done", "status=done", `unknown status "done": expected one of [queued running`},
		{"status<failed", "status<failed", "expected created and ended with < or >, and other fields with ="},
		{"created=2026-01-01", "created=2026-01-01", "expected created and ended with < or >, and other fields with ="},
		{"created>yesterday", "created>yesterday", "expected a date or a time after 1970"},
		{"ended=2026-01-01", "ended=2026-01-01", "expected created and ended with < or >"},
		{"ended>2026-01-01,2026-01-02", "ended>2026-01-01,2026-01-02", "expected one value"},
		{"ended<x", "ended<x", "expected a date or a time after 1970"},
		{"created>1969-12-31", "created>1969-12-31", "expected a date or a time after 1970"},
		{"created>2026-01-01,2026-01-02", "created>2026-01-01,2026-01-02", "expected one value"},
		{`parent=""`, `parent=""`, "expected the ID or number of a run"},
		{"parent=1,2", "parent=1,2", "expected one value"},
		{"mark=blue", "mark=blue", `expected paused, cancelling, undoing, expiring, held, failing or locked, found "blue"`},
		{"colour=red", "colour=red", "expected one of id, workflow, status, mark, tag.KEY, parent, created, ended"},
		{"status=failed id=x status=stalled", "status=stalled", "expected status once"},
		{"id=a* id=b*", "id=b*", "expected id with a star once"},
		{"created>2026-01-01 created>2026-01-02", "created>2026-01-02", "expected created> once"},
	} {
		_, err := store.ParseFilter(c.text)
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("ParseFilter(%q) = %v; want ErrInvalid", c.text, err)
			continue
		}
		if want := "query term " + strconv.Quote(c.term) + ": " + c.want; !strings.Contains(err.Error(), want) {
			t.Errorf("ParseFilter(%q) = %v; want it to say %s", c.text, err, want)
		}
	}
}

// FuzzFilterString: what String prints of any names is read back as the same
// filter.
func FuzzFilterString(f *testing.F) {
	f.Add("order-42", "a b", "x*", int64(1), uint8(1), int64(1_770_000_000_000_000))
	f.Add(`"`, `a"b,c\`, "*", int64(0), uint8(7), int64(0))
	f.Add("\u00a0", "é\n", "\x7f", int64(1<<62), uint8(2), int64(5))
	f.Fuzz(func(t *testing.T, id, workflow, prefix string, parent int64, marks uint8, created int64) {
		if !utf8.ValidString(id) || !utf8.ValidString(workflow) || !utf8.ValidString(prefix) || parent < 0 {
			return // no run has such an ID
		}
		const year10000 = 253_402_300_800_000_000
		if created < 0 || created >= year10000 {
			return // not written with four digits
		}
		want := store.Filter{
			IDs: []string{id, workflow}, IDPrefix: prefix, Workflows: []string{workflow}, Statuses: store.AllStatuses(),
			Marks: store.Marks(marks % 8), Parent: store.RunNo(parent), CreatedFrom: store.Time(created),
			CreatedBefore: store.Time(created), EndedFrom: store.Time(created), EndedBefore: store.Time(created),
		}
		if id != "" {
			want.Parent, want.ParentID = 0, id
		}
		got, err := store.ParseFilter(want.String())
		if want.Parent != 0 {
			want.Parent, want.ParentID = 0, fmt.Sprint(parent)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is read as %+v, %v; want %+v", want.String(), got, err, want)
		}
	})
}

func FuzzParseFilter(f *testing.F) {
	for _, seed := range []string{
		"id=a* status=failed", "workflow=x,y mark=paused", "created>2026-01-31T00:00:00Z", "parent=3 id=z",
		`id="a b","c" id="d"*`, `id="\u00e9"`, "created<0001-01-01",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := store.ParseFilter(text)
		if err != nil {
			if !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("%q: %v is not ErrInvalid", text, err)
			}
			return
		}
		again, err := store.ParseFilter(filter.String())
		if err != nil || !reflect.DeepEqual(again, filter) {
			t.Fatalf("%q gives %+v and %q, which is read as %+v, %v", text, filter, filter.String(), again, err)
		}
	})
}
