package runner

import "github.com/stet-run/stet/store"

// Rehearsal is what a replay of a history against code has shown.
type Rehearsal struct {
	// Over is how the code has ended, or stalled; nil: it waits for something that
	// is not recorded, as a run that goes on does.
	Over *Outcome
	// Replayed is how many recorded completions were handed over.
	Replayed int
}

// Rehearse replays a history against code and goes no further: nothing is begun,
// nothing is to be written, and what is in the inbox is not looked at. Entries
// have their values. It returns when the code has returned or every branch is
// blocked, after the deferred functions of the code.
func Rehearse(cfg Config) (*Rehearsal, error) {
	cfg.Items, cfg.CancelAt = nil, 0
	if cfg.Fetch == nil {
		cfg.Fetch = func(string) ([]byte, error) { return nil, store.ErrDamaged }
	}
	r := New(cfg)
	r.Advance(0, 0) // no timer is due at that time
	r.Unwind()
	return &Rehearsal{Over: r.Over(), Replayed: r.Replayed()}, r.Broken()
}
