package store_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
)

func TestParseFilter(t *testing.T) {
	for _, c := range []struct {
		text string
		want store.Filter
	}{
		{"", store.Filter{}},
		{"id=a,b", store.Filter{IDs: []string{"a", "b"}}},
		{"id=order-*", store.Filter{IDPrefix: "order-"}},
		{"workflow=x status=failed,stalled", store.Filter{Workflows: []string{"x"}, Statuses: []store.Status{store.Failed, store.Stalled}}},
		{"mark=cancelling parent=7", store.Filter{Marks: store.Cancelling, Parent: 7}},
		{"created>2026-01-31 created<2026-02-01T12:00:00Z", store.Filter{CreatedFrom: 1769817600000000, CreatedBefore: 1769947200000000}},
	} {
		got, err := store.ParseFilter(c.text)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("ParseFilter(%q) = %+v, %v; want %+v", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{
		"x", "=", "status=", "status=done", "created=2026-01-01", "status<failed", "id=a,", "id=a*,b", "parent=x", "parent=-1",
		"created>yesterday", "color=red", "mark=blue",
	} {
		_, err := store.ParseFilter(bad)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), bad) {
			t.Errorf("ParseFilter(%q) = %v; want ErrInvalid with the term", bad, err)
		}
	}
}

func FuzzParseFilter(f *testing.F) {
	for _, seed := range []string{"id=a* status=failed", "workflow=x,y mark=paused", "created>2026-01-31T00:00:00Z", "parent=3 id=z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := store.ParseFilter(text)
		if err != nil {
			return
		}
		again, err := store.ParseFilter(filter.String())
		if err != nil {
			t.Fatalf("%q gives %q, which is refused: %v", text, filter.String(), err)
		}
		if again.String() != filter.String() {
			t.Fatalf("%q gives %q, then %q", text, filter.String(), again.String())
		}
	})
}

func FuzzDecodeCursor(f *testing.F) {
	f.Add(store.EncodeCursor(1))
	f.Add("AQAAAAAAAAAB")
	f.Add("")
	f.Fuzz(func(t *testing.T, cursor string) {
		below, err := store.DecodeCursor(cursor)
		if err != nil {
			if !errors.Is(err, store.ErrBadCursor) {
				t.Fatalf("%q: %v is not ErrBadCursor", cursor, err)
			}
			return
		}
		if below < 1 || store.EncodeCursor(below) != cursor {
			t.Fatalf("%q decodes to %d, which encodes to %q", cursor, below, store.EncodeCursor(below))
		}
	})
}

// TestStatusChanges is the table of DESIGN.md's words.
func TestStatusChanges(t *testing.T) {
	allowed := map[store.Status][]store.Status{
		store.Queued:    {store.Running, store.Cancelled, store.Stalled},
		store.Running:   {store.Suspended, store.Succeeded, store.Failed, store.Cancelled, store.Stalled},
		store.Suspended: {store.Running, store.Cancelled, store.Stalled},
		store.Stalled:   {store.Running, store.Cancelled},
		store.Failed:    {store.Running},
		store.Succeeded: {store.Running},
		store.Cancelled: {store.Running},
	}
	for _, from := range store.AllStatuses() {
		for _, to := range store.AllStatuses() {
			want := from == to
			for _, a := range allowed[from] {
				want = want || a == to
			}
			if from.CanBecome(to) != want {
				t.Errorf("%s to %s: got %v, want %v", from, to, !want, want)
			}
		}
		if parsed, err := store.ParseStatus(from.String()); err != nil || parsed != from {
			t.Errorf("ParseStatus(%q) = %v, %v", from, parsed, err)
		}
	}
	if _, err := store.ParseStatus("done"); err == nil || store.Status(0).CanBecome(store.Running) || store.Status(9).Valid() {
		t.Error("an unknown status is accepted")
	}
}
