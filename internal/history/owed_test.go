package history_test

import (
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// What is owed can be read from the history alone; a completion without a number
// is the newest.
func TestOwed(t *testing.T) {
	entry := func(loc location.Loc, kind store.Kind, state store.EntryState, seq int64, owes bool) store.Entry {
		return store.Entry{Loc: string(loc), Kind: kind, State: state, Seq: seq, Owes: owes}
	}
	entries := []store.Entry{
		entry(path("a"), store.KindStep, store.Done, 1, true),
		entry(path("b"), store.KindStep, store.Done, 5, true),
		entry(history.UndoOf(path("b")), store.KindUndo, store.Open, 0, false), // tried, and not done
		entry(path("c"), store.KindStep, store.Done, 3, false),
		entry(path("d"), store.KindStep, store.Done, 4, true),
		entry(history.UndoOf(path("d")), store.KindUndo, store.Done, 6, false),
		entry(path("e"), store.KindStep, store.Done, 0, true),
		entry(path("f"), store.KindStep, store.Open, 0, true),
		entry(path("h"), store.KindStep, store.Done, 2, true),
		entry(history.UndoOf(path("h")), store.KindSagaUndo, store.Done, 7, false),
		entry(path("g"), store.KindStep, store.FailedEntry, 2, true),
	}
	if got, want := history.Owed(entries), []string{"e", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("owed are %q, want %q", got, want)
	}
}
