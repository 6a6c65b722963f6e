package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// owner is the run as its scheduler sees it.
type owner struct{ r *Interpreter }

// Stopped reports whether no branch goes on.
func (o owner) Stopped() bool { return o.r.over != nil || o.r.broken != nil }

// HandOver hands over one completion. It reports false when there is none, or the
// turn is full.
func (o owner) HandOver() (again bool) {
	r := o.r
	defer r.faults.guard()
	switch {
	case r.pause != nil && (r.j.Live() || r.cfg.First): // every branch is blocked, as at any commit
		for r.steps.NextEnd() { // recorded, not handed over
			journal.Checkpoint(r.j)
		}
		return false
	case !r.j.Live():
		r.replayNext()
		return true
	}
	if r.j.Full() {
		return false
	}
	journal.Checkpoint(r.j)
	return r.liveNext()
}

// Panicked stops the run. If a fault of the code is to be a failure it is the branch's, and
// of the workflow's function the run's.
func (o owner) Panicked(b *sched.Branch, f *stored.Failure) {
	switch {
	case o.r.faults.stopFor(f, b.At()):
	case b == &o.r.root.Branch:
		o.r.end(nil, f)
	}
}

// Returned ends the run, or lets its undoing begin, when its code has ended; and ends
// the run when its undoing has.
func (o owner) Returned(b *sched.Branch) {
	r := o.r
	defer r.faults.guard()
	if b != &r.root.Branch {
		r.allUndone()
		r.root.Exit()
		return
	}
	if f := r.sched.Misused(); f != nil {
		r.fail(f)
	}
	r.returned = true
	if r.over == nil && !r.undo.proposed() {
		r.finished()
	}
	if r.over != nil {
		b.Exit() // otherwise compensations may need what it closes
	}
}

// Unawaited notes the failure of a branch that the code has not looked at.
func (o owner) Unawaited(f *Future) {
	if b, err := f.Outcome(); !o.r.j.Repeats() {
		o.r.note(b.At(), "nobody has awaited the error of this branch", err)
	}
}

// Stall ends the activation: history and code do not fit together.
func (o owner) Stall(s *journal.Stall) { o.r.stall(s) }

// Damaged ends the activation: what is stored at a location cannot be read.
func (o owner) Damaged(loc location.Loc, err error) { o.r.damaged(loc, err) }

// Break ends the activation for an error that is not the run's.
func (o owner) Break(err error) { o.r.broken = err }

// StandsStill reports whether the run is about to be paused.
func (o owner) StandsStill() bool { return o.r.pause != nil }

// HasReturned reports whether the workflow's function has returned.
func (o owner) HasReturned() bool { return o.r.result != nil }

// Owes notes that a recorded step carries a compensation.
func (o owner) Owes(rec *journal.Record, seq int64, step *journal.Op) {
	if step == nil {
		o.r.undo.effects.Passed(location.Loc(rec.Loc), seq)
		return
	}
	o.r.undo.effects.Add(step, attempts.UndoOf(step), seq, 0)
}

// Undone notes that a recorded step was undone by a saga that the code has no more.
func (o owner) Undone(step location.Loc) { o.r.undo.effects.Settle(step) }

// Owe notes that a step carries a compensation.
func (o owner) Owe(step *journal.Op, undo *Undo) {
	o.r.undo.effects.Add(step, undo, o.r.j.Seq(), o.r.j.Pos())
}

// UndoFailed stops the run for a person.
func (o owner) UndoFailed(loc location.Loc, why string) {
	o.r.over = &Outcome{Status: store.Stalled, At: loc, Reason: fmt.Sprintf(
		"undo: %s failed: %s; fix the cause and resume the run, which tries it again", loc, why)}
}

// Undecodable stops the run for a recorded value that does not fit the code of a body.
func (o owner) Undecodable(loc location.Loc, u *journal.Undecodable) (stops bool) {
	return o.r.faults.stopForValue(u, loc)
}

// Unrecorded stops the run for the end of a body whose result cannot be recorded.
func (o owner) Unrecorded(loc location.Loc, f *stored.Failure, owes bool) (stops bool) {
	return o.r.faults.stopForResult(f, loc, owes)
}

// PauseFor makes the run stand still like Pause, unless it does.
func (o owner) PauseFor(reason string) {
	if o.r.pause == nil {
		o.r.pause = &store.Item{Kind: store.ItemPause, Name: stored.Engine, Value: []byte(stored.Cut(reason, store.MaxWhy-4))}
	}
}

// BeingCancelled reports whether the cancel of the run is to be handed over.
func (o owner) BeingCancelled() bool { return o.r.cancel.item != nil }

// Fail ends the run with f.
func (o owner) Fail(f *stored.Failure) { o.r.fail(f) }

// Note adds a line to the log of the process.
func (o owner) Note(loc location.Loc, text string, err error) { o.r.note(loc, text, err) }

// fail ends the run with f. The code that has made what is recorded did not fail
// before the last completion, so a failure before it is a divergence.
func (r *Interpreter) fail(f *stored.Failure) {
	switch {
	case r.faults.takesBack(f):
	case r.over != nil:
	case r.returned, r.dropped:
		r.note("", "an operation was called by code that has ended", f)
	case r.undo.begun && r.undo.abrupt() && r.j.Remaining() != nil:
		// As before: what follows is recorded. The branch goes no further.
	case r.faults.stopFor(f, ""):
	case r.undo.begun && r.undo.outcome != nil && !r.undo.abrupt():
		s := unended(r.j)
		s.Asked = "the failure of the run: " + f.Message
		r.stall(s)
	case !r.j.Live() && r.j.Remaining() != nil:
		s := r.j.Mismatch(r.j.Remaining())
		s.Asked = "the failure of the run: " + f.Message
		r.stall(s)
	default:
		r.conclude(&Outcome{Status: store.Failed, Output: stored.EncodeFailure(f)})
	}
}

func (r *Interpreter) stall(s *journal.Stall) {
	if r.faults.misread != nil && !r.j.Live() && r.over == nil {
		s = r.faults.misread // the code has gone on with it, and so another way
	}
	switch {
	case r.terminate != nil:
		r.j.Forget()
		r.terminated()
	case r.over == nil:
		r.over = &Outcome{Status: store.Stalled, Stall: s}
	}
}

// damaged stalls the run because what is stored cannot be read.
func (r *Interpreter) damaged(loc location.Loc, err error) {
	switch {
	case r.terminate != nil:
		r.terminated()
	case r.over == nil:
		r.over = &Outcome{Status: store.Stalled, At: loc, Reason: fmt.Sprintf(
			"damaged entry %s: %v; restore the store from a backup, or edit the entry", loc, err)}
	}
}

func (r *Interpreter) note(loc location.Loc, text string, err error) {
	r.notes = append(r.notes, Note{Location: loc, Text: text, Err: err})
}

// liveNext hands over one completion of what has arrived or is due. It reports
// whether there was anything.
func (r *Interpreter) liveNext() bool {
	switch {
	case r.undo.proposed():
		return false // the next thing is its commit
	case r.steps.NextPostponed(): // is recorded: it is known before the cancel
	case r.cancel.item != nil:
		it := r.cancel.item
		r.cancel.item = nil
		r.j.Log.Consume(it.No, verbs.Yes())
		r.audit(it)
		r.takeCancel(it.Value)
	case r.nextArrival():
	case r.sched.Deadlocked():
		r.deadlock()
	default:
		at := r.policies.due(r)
		if at == 0 {
			return false
		}
		reason := r.cfg.CancelReason
		if r.cfg.CancelAt == 0 || at < r.cfg.CancelAt {
			reason = "suspended longer than " + r.cfg.MaxSuspended.String()
		}
		r.takeCancel([]byte(reason))
	}
	return true
}

// takeCancel hands over the cancel of the whole run.
func (r *Interpreter) takeCancel(reason []byte) {
	r.j.NextCompletion()
	r.j.Count(nil, 1, 0)
	seq, now := r.j.Seq(), r.j.Now()
	r.j.Log.Add(store.Entry{
		Loc: string(cancelLocation), Kind: store.KindCancel, State: store.Done,
		Seq: seq, Born: seq - 1, At: now, Started: now, Ended: now, Value: reason,
	})
	r.j.Log.Mark()
	journal.Checkpoint(r.j) // a cancel stays, whatever the code does because of it
	r.cancelRun(reason)
}

func (r *Interpreter) cancelRun(reason []byte) {
	r.cancel.handedOver, r.cancel.reason = true, reasonOf("cancelled", reason)
	r.sched.Cancel(&r.root.Branch)
}

func (r *Interpreter) deadlock() {
	var places []string
	for _, b := range r.sched.Branches() {
		places = append(places, b.Title())
	}
	slices.Sort(places)
	r.fail(&stored.Failure{
		Code: stored.CodeDeadlock,
		Message: "every branch waits for another one and no operation is open: " +
			strings.Join(places[:min(len(places), 20)], ", "),
	})
}

// end notes what the workflow's function has returned. The run is over when its
// branches have ended too.
func (r *Interpreter) end(output []byte, failure *stored.Failure) {
	if failure != nil && r.faults.stopFor(failure, "") {
		return
	}
	switch r.result = (&Outcome{Status: store.Succeeded, Output: output}); {
	case failure == nil && r.renewal != nil:
		r.result = &Outcome{Status: store.Running, Renewal: r.renewal}
	case failure != nil:
		r.result = &Outcome{Status: store.Failed, Output: stored.EncodeFailure(failure)}
	}
}

// finished is called when the code of every branch has ended.
func (r *Interpreter) finished() {
	if r.over != nil {
		return
	}
	if !r.j.Live() {
		r.j.PassGone()
		if r.j.Ended() {
			return
		}
		switch {
		case r.terminate != nil:
			r.terminated()
		case !r.undo.begun:
			r.goLive()
		}
		if r.over != nil {
			return
		}
	}
	if r.cancel.handedOver {
		r.result = &Outcome{Status: store.Cancelled, Reason: r.cancel.reason}
	}
	r.conclude(r.result)
}

// cancelLocation is where the cancel of the whole run is recorded. No operation can
// stand there: keys follow names.
var cancelLocation = location.Loc("").Key("cancel", 1)

// replayNext hands over the next recorded completion. When there is none left it makes
// the run live, or stalls it.
func (r *Interpreter) replayNext() {
	switch r.j.Next() {
	case journal.Cancels:
		r.cancelRun(r.j.Cancelled().Value)
	case journal.Passed:
		if r.terminate != nil {
			r.terminated()
			return
		}
		if r.undo.begun && r.undo.branch == nil {
			r.replayAbrupt()
			return
		}
		r.goLive()
	}
}

// goLive lets what was called and is not recorded take effect.
func (r *Interpreter) goLive() {
	if r.j.GoLive(r.topics.GoLive) {
		r.runs.GoLive()
		r.topics.DeliverEarly()
		r.steps.GoLive()
	}
}
