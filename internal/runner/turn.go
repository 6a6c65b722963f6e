package runner

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// full reports whether the turn that fills holds as much as one should.
func (r *Run) full() bool { return r.log.Full(r.limits.TurnEntries, r.limits.TurnBytes) }

// Take returns what is to be committed, or nil if nothing is. Until Committed is
// called the run fills the next turn, and Take returns nil. It also does while
// the run is suspended, because nobody may commit for a run that is not claimed:
// what arrives then is for after Resumed. After the turn that ends the run there
// is none, unless it is answered by StillReady.
//
// The turn of a run that is over ends it; that of a run that waits and can do
// without its node suspends it. Shard and Build are the caller's to fill in.
func (r *Run) Take() *store.Turn {
	if r.underWay || r.suspended || r.closed || r.broken != nil {
		return nil
	}
	if r.over != nil && r.over.Status.Terminal() && r.live {
		r.children.end()
	}
	if r.over != nil && r.over.Status != store.Stalled {
		r.topics.end()
		r.permits.endAll()
	}
	if r.live || r.over != nil {
		r.updates.answerLate(&r.log)
	}
	pauses := r.pauses()
	if pauses {
		r.noteTrouble()
	}
	turn := r.log.Turn(&r.cfg.Run)
	switch {
	case r.over != nil && r.over.Status == store.Stalled && !r.live:
		// A stalled replay has begun nothing and leaves everything as it was.
		turn = &store.Turn{Run: turn.Run, Shard: turn.Shard, Incarnation: turn.Incarnation, Seen: turn.Seen}
		turn.Update = r.update(store.Stalled)
	case r.over != nil:
		turn.Update = r.update(r.over.Status)
		switch {
		case r.over.Status.Terminal():
			turn.Update.Sends = r.children.orphans()
		case r.over.Renewal != nil:
			r.renew(turn)
		}
	case r.undo.proposed():
		turn.Update = r.update(store.Running)
		turn.Update.Output = r.undo.record()
		r.undo.taken = true
	case pauses:
		turn.Update = r.update(store.Running)
		turn.Update.Marks |= store.Paused
		if r.pause.No != 0 {
			turn.Consumed = append(turn.Consumed, store.Consumption{Item: r.pause.No, Verdict: verbs.Yes()})
		} else {
			turn.Update.Reason = reasonOf("paused", r.pause.Value)
		}
		turn.Audit = append(turn.Audit, stored.AuditOf(r.pause, string(r.pause.Value), ""))
	case r.live && r.pause == nil && r.idle():
		turn.Update = r.update(store.Suspended)
		turn.Update.WakeAt, _ = r.NextTimer()
		turn.Update.Waits = r.waits()
	case r.log.Marked():
		turn.Update = r.update(store.Running)
	case r.log.Empty():
		return nil
	}
	if it := r.cancelItem; it != nil && r.over != nil && r.over.Status == store.Stalled {
		// It is left unexamined, because who owns a stalled run decides it.
		turn.Seen = slices.DeleteFunc(turn.Seen, func(no store.ItemNo) bool { return no == it.No })
	}
	r.inbox.take(turn)
	r.underWay, r.taken = true, r.pos
	r.closed = r.over != nil || pauses
	r.suspended = turn.Update != nil && turn.Update.Status == store.Suspended
	r.log.Next()
	return turn
}

func (r *Run) update(status store.Status) *store.Update {
	u := &store.Update{Status: status, Marks: r.cfg.Run.Marks & store.Paused}
	if !status.Terminal() {
		u.Marks |= r.cfg.Run.Marks & (store.Cancelling | store.Undoing) // a replay may not have come so far
		if r.cancelling {
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
		if status == store.Cancelled && u.Output == nil {
			u.Output = stored.CancelledOutput(u.Reason, nil, r.cfg.Run.Output)
		}
	}
	return u
}

// Committed tells that the turn taken last is durable.
func (r *Run) Committed() {
	r.underWay, r.durable = false, r.taken
	r.inbox.committed()
	r.lighten()
	r.begunUndo()
}

// StillReady tells that the turn taken last is durable, but that the run was
// neither suspended nor ended because something is new in its inbox.
func (r *Run) StillReady() {
	late := r.heldUndo()
	r.Committed()
	r.suspended, r.closed = false, false
	r.Deliver(late...)
}

// Suspended reports whether the last turn taken suspends the run and nothing
// has happened since.
func (r *Run) Suspended() bool { return r.suspended }

// idle reports whether the run only waits for what a later activation can await
// as well. What was delivered since the last Advance is not examined yet.
func (r *Run) idle() bool {
	if r.steps.inFlight > 0 || r.full() || r.sched.AnyReady() || r.cancelItem != nil || !r.arrivals.none() || r.mail.Unlooked() > 0 {
		return false
	}
	t, ok := r.timers.first()
	return !ok || !t.op.isDelay() || t.at >= r.bound+shortWait
}

// Wait describes something that a suspended run waits for.
type Wait struct {
	Location string     `json:"location"`
	Kind     string     `json:"kind"`
	Names    []string   `json:"names,omitempty"` // of messages
	Run      string     `json:"run,omitempty"`   // of a child or an awaited run, its ID
	Topic    string     `json:"topic,omitempty"` // of an event
	Queue    string     `json:"queue,omitempty"` // of a step that waits for a permit
	Since    time.Time  `json:"since"`
	Until    *time.Time `json:"until,omitempty"` // deadline, end of a sleep, next attempt
}

// until describes that the wait ends at a time; 0: none.
func (w *Wait) until(at store.Time) {
	if at != 0 {
		t := at.Time()
		w.Until = &t
	}
}

// maxWaits bounds the waits that a run's row describes.
const maxWaits = 10

// waits describes what the run waits for.
func (r *Run) waits() []byte {
	var list []Wait
	for _, b := range r.sched.Branches() {
		if b.Dropped() {
			continue
		}
		for awaited := range b.AwaitedOperations() {
			o := awaited.(*op)
			w := Wait{Location: o.loc.String(), Kind: o.kind.String(), Since: o.asked.Time()}
			o.is.show(&w)
			list = append(list, w)
		}
		if len(list) >= maxWaits {
			break
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		return nil // names that are no text; what a run waits for is only shown
	}
	return data
}
