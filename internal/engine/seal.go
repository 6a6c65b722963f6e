package engine

import (
	"errors"
	"time"

	"github.com/stet-run/stet/store"
)

// seal makes the stored form of a turn. While the objects that it needs cannot be
// written it tries again. It reports false if the turn is not to be written.
func (c *committer) seal(p *pendingTurn) bool {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var err error
		p.sealed, err = c.t.e.cfg.Payloads.SealTurn(p.h.Context(), p.turn)
		switch {
		case err == nil:
			return true
		case p.h.Context().Err() != nil:
			return false
		case !errors.Is(err, store.ErrUnavailable):
			c.t.log().Error("sealing a turn", "error", err, "run_no", p.turn.Run)
			p.done(store.TurnResult{Verdict: store.Refused, Reason: err.Error()})
			return false
		}
		c.t.log().Error("sealing a turn; trying again", "error", err, "run_no", p.turn.Run, "wait", wait)
		select {
		case <-time.After(wait):
		case <-p.h.Context().Done():
			return false
		}
	}
}

// unreadable is how long a run rests whose values cannot be read.
const unreadable = 30 * time.Second

// open opens the items of a claim. It reports false if that cannot be done: the
// activation is over then, and the run is tried again later.
func (a *activation) open(ev *event) bool {
	if !ev.sealed {
		return true
	}
	err := a.t.e.cfg.Payloads.OpenItems(a.h.Context(), ev.claimed.Items)
	if err == nil {
		return true
	}
	if a.h.Context().Err() == nil {
		a.t.log().Error("reading what was sent to a run; trying again later", "run_id", a.id, "error", err)
	}
	a.leave(nil)
	a.t.reloadAfter(a.h, a.no, unreadable)
	return false
}

// origin says how a run began whose stored input is not what it was given.
func (e *Engine) origin(run *store.Run, next *store.Continuation) {
	if run.Incarnation == 0 && e.cfg.Payloads.Active() {
		next.First = run.Origin()
	}
}
