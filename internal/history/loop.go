package history

import (
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// loop is a loop, or the state with which an iteration begins. A completed one goes:
// the code that stands begins it again, or enters the iteration again.
type loop struct{ ordinary }

func (loop) reopen(*store.Entry, store.Time) (store.Entry, error) { return store.Entry{}, nil }

// A loop that stands has completed no more iterations than the history reaches.
func (loop) trim(h *history, e *store.Entry, cut int64) (store.Entry, error) {
	if isIteration(e) {
		return store.Entry{}, nil
	}
	progress := h.loops[place(e)]
	from, to := place(e).Iterations()
	reached := progress.Oldest
	for i := range h.entries {
		inner := &h.entries[i]
		if inner.Loc < from || inner.Loc >= to || inner.Seq == 0 || inner.Seq >= cut {
			continue
		}
		for loop, n := range place(inner).Loops() {
			if string(loop) == e.Loc {
				reached = max(reached, n)
			}
		}
	}
	if reached >= progress.Completed {
		return store.Entry{}, nil
	}
	progress.Completed = reached
	open := *e
	open.Size, open.Value = 0, progress.Encode()
	return open, nil
}

// isIteration reports whether an entry is at the location of a loop's iteration.
func isIteration(e *store.Entry) bool { return strings.HasPrefix(place(e).Base(), "~") }

// place returns the location of an entry.
func place(e *store.Entry) location.Loc { return location.Loc(e.Loc) }
