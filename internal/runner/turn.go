package runner

import (
	"slices"

	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// Take returns what is to be committed, or nil if nothing is. Until Committed is
// called the run fills the next turn, and Take returns nil. It also does while
// the run is suspended, because no node may commit for a run that is not claimed:
// what arrives then is for after Resumed. After the turn that ends the run there
// is none, unless it is answered by StillReady.
//
// The turn of a run that is over ends it; that of a run that waits and can do
// without its node suspends it. Shard and Build are the caller's to fill in.
func (r *Interpreter) Take() *store.Turn {
	if r.turns.underWay || r.turns.suspended || r.turns.last || r.broken != nil {
		return nil
	}
	if r.over != nil && r.over.Status.Terminal() && (r.j.Live() || r.ending != nil) {
		r.runs.End()
	}
	if r.over != nil && r.over.Status != store.Stalled {
		r.topics.End()
		r.steps.End()
	}
	if r.j.Live() || r.over != nil {
		r.updates.answerLate(&r.j.Log)
	}
	pauses := r.pauses()
	if pauses {
		r.steps.Pauses()
	}
	suspends := r.j.Live() && r.pause == nil && r.idle()
	if r.over == nil && !pauses && !suspends && !r.undo.proposed() && !r.j.Log.Marked() && r.j.Log.Empty() {
		return nil
	}
	turn := r.j.Log.Turn(&r.cfg.Run)
	switch {
	case r.over != nil && r.over.Status == store.Stalled && (!r.j.Live() || r.faults.broken):
		// A stalled replay has begun nothing and leaves everything as it was.
		turn = &store.Turn{Run: turn.Run, Shard: turn.Shard, Incarnation: turn.Incarnation, Seen: turn.Seen}
		turn.Update = r.update(store.Stalled)
	case r.over != nil:
		turn.Update = r.update(r.over.Status)
		switch {
		case r.over.Status.Terminal():
			turn.Update.Sends = r.runs.Orphans()
		case r.over.Renewal != nil:
			r.renew(turn)
		}
	case r.undo.proposed():
		turn.Update = r.update(store.Running)
		turn.Update.Output = r.undo.record()
		r.undo.turnTaken = true
	case pauses:
		turn.Update = r.update(store.Running)
		turn.Update.Marks |= store.Paused
		if r.pause.No != 0 {
			turn.Consumed = append(turn.Consumed, store.Consumption{Item: r.pause.No, Verdict: verbs.Yes()})
		} else {
			turn.Update.Reason = reasonOf("paused", r.pause.Value)
		}
		turn.Audit = append(turn.Audit, stored.AuditOf(r.pause, string(r.pause.Value), ""))
	case suspends:
		turn.Update = r.update(store.Suspended)
		at, _ := r.NextTimer()
		turn.Update.WakeAt = stored.WakeAt(at)
		failed := 0
		if turn.Update.Waits, failed = r.j.Waits(); failed >= store.FailingAfter {
			turn.Update.Marks |= store.Failing
		}
	case r.j.Log.Marked() || r.turns.failing && r.j.Live(): // the step has succeeded, or is over
		turn.Update = r.update(store.Running)
	}
	if turn.Update != nil {
		r.turns.failing = turn.Update.Marks&store.Failing != 0
	}
	if it := r.cancel.item; it != nil && r.over != nil && r.over.Status == store.Stalled {
		// It is left unexamined, because the owner of a stalled run decides it.
		turn.Seen = slices.DeleteFunc(turn.Seen, func(no store.ItemNo) bool { return no == it.No })
	}
	r.j.Items.Take(turn)
	r.turns.underWay, r.turns.taken = true, r.j.Pos()
	r.turns.progressed = r.steps.TakeProgress()
	r.turns.last = r.over != nil || pauses
	r.turns.suspended = turn.Update != nil && turn.Update.Status == store.Suspended
	r.j.Log.Next()
	return turn
}

func (r *Interpreter) update(status store.Status) *store.Update {
	run := &r.cfg.Run
	u := &store.Update{Status: status, Marks: run.Marks & store.Paused, Keep: stored.Keep(run.Headers, status)}
	if !status.Terminal() {
		u.Marks |= run.Marks & (store.Cancelling | store.Undoing) // a replay may not have come so far
		if r.cancel.handedOver {
			u.Marks |= store.Cancelling
		}
		if r.undo.outcome != nil {
			u.Marks |= store.Undoing
		}
	}
	if r.over != nil {
		u.Output, u.Reason = r.over.Output, r.over.Reason
		if r.over.Stall != nil {
			u.Reason = r.over.Stall.Error()
		}
		for i := range r.ending {
			it := &r.ending[i]
			u.Consumed = append(u.Consumed, store.Consumption{Item: it.No, Verdict: verbs.Yes()})
			if it.Name != "" {
				u.Audit = append(u.Audit, stored.AuditOf(it, string(it.Value), ""))
			}
		}
		if status == store.Stalled {
			u.Audit = append(u.Audit, stored.StallAudit(u.Reason))
		}
		if status == store.Cancelled && u.Output == nil {
			u.Output = stored.CancelledOutput(u.Reason, nil, r.cfg.Run.Output)
		}
	}
	return u
}

// Committed notes that the turn taken last is durable.
func (r *Interpreter) Committed() {
	r.turns.underWay, r.turns.durable = false, r.turns.taken
	r.j.Items.Committed()
	r.undo.effects.Lighten(r.turns.durable)
	r.begunUndo()
}

// StillReady notes that the turn taken last is durable, but that the run was
// neither suspended nor ended because something is new in its inbox.
func (r *Interpreter) StillReady() {
	late := r.heldUndo()
	r.Committed()
	r.turns.suspended, r.turns.last = false, false
	r.Deliver(late...)
}

// Suspended reports whether the last turn taken suspends the run and nothing
// has happened since.
func (r *Interpreter) Suspended() bool { return r.turns.suspended }

// idle reports whether the run only waits for what a later activation can await
// as well. What was delivered since the last Advance is not examined yet.
func (r *Interpreter) idle() bool {
	if r.steps.InFlight() > 0 || r.hasArrivals() || r.j.Full() || r.sched.AnyReady() || r.cancel.item != nil {
		return false
	}
	if t, ok := r.j.Timers.First(); ok && t.Op.IsDelay() && t.At < r.j.Bound()+journal.ShortWait {
		return false
	}
	// A run that was claimed ahead of its time is not suspended again before that.
	at, _ := r.NextTimer()
	return at == 0 || at > r.j.Bound()+2*stored.Ahead
}
