package runner

import (
	"fmt"

	"github.com/stet-run/stet/store"
)

// policies cancel a run that takes too long.
type policies struct {
	takenUp store.Time // by an operator, as far as that was asked
}

// at returns when the run is cancelled, or 0.
func (p *policies) at(r *Interpreter) store.Time {
	if r.cancel.handedOver || r.undo.outcome != nil || r.undo.begun {
		return 0
	}
	at := r.cfg.CancelAt
	if r.cfg.MaxSuspended > 0 && r.steps.InFlight() == 0 && r.j.Live() {
		if limit := max(r.j.Now(), p.takenUp).Add(r.cfg.MaxSuspended); at == 0 || limit < at {
			at = limit
		}
	}
	return at
}

// due returns at, if the run is to be cancelled now, and otherwise 0. Before the first time
// it looks when an operator has last made the run go on, from where the policies count.
func (p *policies) due(r *Interpreter) store.Time {
	at := p.at(r)
	if at != 0 && at <= r.j.Bound() && r.cfg.TakenUp != nil {
		taken, err := r.cfg.TakenUp()
		if err != nil {
			r.broken = fmt.Errorf("look when the run was taken up: %w", err)
			return 0
		}
		r.cfg.TakenUp, p.takenUp = nil, taken
		if taken != 0 && r.cfg.CancelAt != 0 {
			r.cfg.CancelAt = max(r.cfg.CancelAt, taken.Add(r.cfg.MaxRun))
		}
		at = p.at(r)
	}
	if at > r.j.Bound() {
		return 0
	}
	return at
}
