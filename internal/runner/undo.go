package runner

import (
	"context"
	"fmt"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/owed"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// Rollback requests that the run's completed steps be undone when its code has ended,
// unless it succeeds.
func (b *Branch) Rollback() { b.run.undo.asked = true }

// conclude ends the run with an outcome, or lets its undoing begin before. A
// cancel that has come and was not handed over wins.
func (r *Interpreter) conclude(o *Outcome) {
	if r.terminate != nil {
		r.terminated()
		return
	}
	u := &r.undo
	if it := r.cancel.item; it != nil && !u.begun {
		r.cancel.item = nil
		o = r.acceptCancel(it)
	}
	if !u.begun {
		switch {
		case o.Status == store.Failed && r.cfg.StallFailed && !u.asked:
			r.over = failureStall(o)
			return
		case !u.wanted(o) || !u.owes(r.returned) || r.cfg.Run.Status.Terminal(): // an ended run is replayed only
			r.over = o
			return
		}
	}
	if s := r.undo.effects.Lacking(); s != nil {
		r.stall(s)
		return
	}
	if u.outcome == nil {
		u.outcome = o
	}
	if !r.returned {
		r.dropCode()
	}
	if u.begun {
		r.launch()
	}
}

// failureStall is the end of a failed run that is to wait for a person.
func failureStall(o *Outcome) *Outcome {
	return &Outcome{Status: store.Stalled, Output: o.Output, Reason: stored.StalledReason(o.Output)}
}

// launch begins the compensations. From here on what is recorded of them takes part in the
// replay.
func (r *Interpreter) launch() {
	u := &r.undo
	if u.branch != nil {
		return
	}
	u.branch = r.begin(r.executeUndos)
	r.j.ReplayUndos(u.records)
	u.records = nil
}

// executeUndos is the code of the undo branch.
func (r *Interpreter) executeUndos(b *Branch) (any, error) {
	for _, o := range r.undo.last {
		w := b.NewWait(Call{})
		w.Add(&o.Source)
		if _, err := b.Block(w); err != nil {
			return nil, err
		}
	}
	for _, d := range r.undo.effects.Newest() {
		if err := b.compensate(d, store.KindUndo, nil); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// compensate executes one compensation.
func (b *Branch) compensate(d *owed.Effect, kind store.Kind, in *journal.Segment) error {
	r := b.run
	u := attempts.Undoing{Kind: kind, At: b.Bounded(history.UndoOf(d.Loc)), In: in, Undone: d.Settle}
	if d.Undo != nil {
		u.Policy = d.Undo.Policy
	}
	u.Body = func(done bool) (what Step) {
		if done {
			return what
		}
		value, err := d.Value(r.cfg.Fetch)
		if err != nil {
			r.broken = fmt.Errorf("fetch the value of %s for its undoing: %w", d.Loc, err)
			b.Halt()
		}
		if d.Undo.Task != nil {
			if what.Task = d.Undo.Task(value); what.Task != nil {
				what.Permit = d.Undo.Permit
				return what
			}
		} else {
			what.Permit = d.Undo.Permit
		}
		what.Func = func(ctx context.Context, body *Body) BodyResult { return d.Undo.Func(ctx, body, value) }
		return what
	}
	return r.steps.Undo(&b.Branch, u)
}

// allUndone is called when the code of the undo branch has ended.
func (r *Interpreter) allUndone() {
	if r.over != nil || r.broken != nil {
		return
	}
	if !r.j.Live() {
		if r.j.Ended() {
			return
		}
		if r.terminate != nil {
			r.terminated()
			return
		}
		if r.goLive(); r.over != nil {
			return
		}
	}
	r.over = r.undo.outcome
}

// dropCode lets the code go no further.
func (r *Interpreter) dropCode() {
	if r.dropped {
		return
	}
	r.dropped = true
	r.sched.Drop()
	for _, b := range r.sched.Branches() {
		b.CloseOwned()
		for o := range journal.Awaited(b) {
			if o.Is.Abandon() {
				r.undo.last = append(r.undo.last, o)
			}
		}
		for _, src := range b.Lingering() {
			r.undo.last = append(r.undo.last, src.Op.(*journal.Op))
		}
	}
	if r.j.Live() || r.undo.begun {
		return
	}
	r.goLive()
	for _, o := range r.undo.last {
		if o.Rec != nil && o.Rec.State == store.Done && !o.Rec.Numbered() {
			o.RecallUnnumbered()
		}
	}
}

// lateCancel looks at a cancel that has come after the code has ended.
func (r *Interpreter) lateCancel(it *store.Item) {
	r.over, r.undo.outcome = nil, nil
	r.conclude(r.acceptCancel(it))
}

// acceptCancel answers a cancel, with which the run then ends.
func (r *Interpreter) acceptCancel(it *store.Item) *Outcome {
	r.Answer(it.No, verbs.Yes())
	r.audit(it)
	r.cancel.handedOver, r.cancel.reason = true, reasonOf("cancelled", it.Value)
	return &Outcome{Status: store.Cancelled, Reason: r.cancel.reason}
}

// begunUndo is called when the turn that begins the undoing is durable.
func (r *Interpreter) begunUndo() {
	u := &r.undo
	if !u.turnTaken {
		return
	}
	u.turnTaken, u.begun = false, true
	for _, it := range u.late {
		r.Answer(it.No, verbs.No(verbs.Undoing))
	}
	u.late = nil
	r.launch()
}

// heldUndo is called when the turn was held back. It returns the cancels that
// were kept for the answer to the begin of undoing.
func (r *Interpreter) heldUndo() []store.Item {
	u := &r.undo
	late := u.late
	u.turnTaken, u.late = false, nil
	for i := range late {
		r.j.Items.Lose(late[i].No)
	}
	return late
}

// replayAbrupt is called when the code of a run whose undoing has begun can be
// replayed no further and has not ended.
func (r *Interpreter) replayAbrupt() {
	switch {
	case r.undo.abrupt():
		r.dropCode()
		r.launch()
	case r.undo.outcome == nil && r.sched.Deadlocked():
		r.deadlock()
	default:
		r.stall(unended(r.j))
	}
}

// unended is the divergence in which the code of a run whose undoing has begun
// has not ended.
func unended(j *journal.Journal) *journal.Stall {
	s := &journal.Stall{
		Recorded: "the end of the workflow's function, after which undoing has begun", Asked: "nothing new",
		Remedy: "restore the code with which the function ended; " +
			"then resume the run, or terminate it, which lists what is owed",
	}
	if o := j.FirstNew(); o != nil {
		s.Location, s.Asked = o.Loc.String(), journal.Describe(o.Kind, o.Loc)
	}
	return s
}
