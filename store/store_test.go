package store_test

import (
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/stet-run/stet/store"
)

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

// TestDrawingOfStatuses: the drawing of docs/architecture.md has the arrows of CanBecome.
func TestDrawingOfStatuses(t *testing.T) {
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]bool{}
	for _, arrow := range regexp.MustCompile(`(?m)^    ([a-z]+) --> ([a-z]+)`).FindAllStringSubmatch(string(page), -1) {
		drawn[arrow[1]+" --> "+arrow[2]] = true
	}
	for _, from := range store.AllStatuses() {
		for _, to := range store.AllStatuses() {
			arrow := from.String() + " --> " + to.String()
			if from != to && from.CanBecome(to) != drawn[arrow] {
				t.Errorf("%s: drawn is %t, allowed is %t", arrow, drawn[arrow], from.CanBecome(to))
			}
		}
	}
}

// TestStatusChanges spells the allowed changes out.
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
	if _, err := store.ParseStatus("done"); err == nil || store.Status(0).CanBecome(store.Running) ||
		store.Status(9).Valid() {
		t.Error("an unknown status is accepted")
	}
}
