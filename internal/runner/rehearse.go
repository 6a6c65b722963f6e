package runner

import (
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/store"
)

// Rehearsal is what a replay of a history against code has shown.
type Rehearsal struct {
	// Over is how the code has ended, or stalled; nil: it waits for something that
	// is not recorded, as a run that goes on does. Where undoing would begin it is
	// the outcome that this leads to.
	Over *Outcome
	// Misread is the first value that the code could not decode, and went on; nil: none.
	Misread *journal.Stall
	// Replayed is how many recorded completions were handed over.
	Replayed int
}

// Rehearse replays a history against code and goes no further: nothing is begun,
// nothing is to be written, and what is in the inbox is not looked at. Entries
// have their values. It returns when the code has returned or every branch is
// blocked, after the deferred functions of the code.
func Rehearse(cfg Config) (*Rehearsal, error) {
	cfg.Items, cfg.CancelAt, cfg.StallFailed = nil, 0, false
	cfg.Fetch = func(loc string) ([]byte, error) {
		byLocation := func(e store.Entry, loc string) int { return strings.Compare(e.Loc, loc) }
		i, ok := slices.BinarySearchFunc(cfg.Entries, loc, byLocation)
		if !ok {
			return nil, store.ErrDamaged
		}
		return cfg.Entries[i].Value, nil
	}
	r := New(cfg)
	r.Advance(0, 0) // no timer is due at that time
	out := &Rehearsal{Over: r.Over(), Replayed: r.Replayed(), Misread: r.faults.misread}
	if out.Over == nil && r.undo.proposed() {
		out.Over = r.undo.outcome
	}
	err := r.Broken()
	r.Unwind()
	return out, err
}
