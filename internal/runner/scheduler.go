package runner

import (
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// owner is the run as its scheduler sees it.
type owner struct{ r *Run }

// Stopped reports whether no branch goes on.
func (o owner) Stopped() bool { return o.r.over != nil || o.r.broken != nil }

// HandOver hands over one completion. It reports false when there is none, or the
// turn is full.
func (o owner) HandOver() bool {
	r := o.r
	switch {
	case r.pause != nil: // every branch is blocked, as at any commit
		r.settleArrived()
		return false
	case !r.live:
		r.replayNext()
		return true
	}
	return !r.full() && r.liveNext()
}

// Panicked ends the code of the run with a failure.
func (o owner) Panicked(b *sched.Branch, f *stored.Failure) {
	if b == &o.r.root.Branch {
		o.r.end(nil, f)
	}
}

// Returned ends the run, or lets its undoing begin, when its code has ended; and ends
// the run when its undoing has.
func (o owner) Returned(b *sched.Branch) {
	r := o.r
	if b != &r.root.Branch {
		r.paidUp()
		r.root.Exit()
		return
	}
	r.returned = true
	if r.finished(); r.over != nil {
		b.Exit() // otherwise compensations may need what it closes
	}
}

// Unawaited notes the failure of a branch that the code has not looked at.
func (o owner) Unawaited(f *Future) {
	if b, err := f.Outcome(); !o.r.repeats() {
		o.r.note(b.At(), "nobody has awaited the error of this branch", err)
	}
}

// Fail ends the run with f.
func (o owner) Fail(f *stored.Failure) { o.r.fail(f) }

// Note adds a line to the log of the process.
func (o owner) Note(loc location.Loc, text string, err error) { o.r.note(loc, text, err) }

// fail ends the run with f. The code that has made what is recorded did not fail
// before the last completion, so a failure before it is a divergence.
func (r *Run) fail(f *stored.Failure) {
	switch {
	case r.over != nil:
	case r.returned, r.dropped:
		r.note("", "an operation was called by code that has ended", f)
	case r.undo.begun && r.undo.abrupt() && r.remaining() != nil:
		// As before: what follows is recorded. The branch goes no further.
	case r.undo.begun && r.undo.outcome != nil && !r.undo.abrupt():
		s := r.unended()
		s.Asked = "the failure of the run: " + f.Message
		r.stall(s)
	case !r.live && r.remaining() != nil:
		s := r.mismatch(r.remaining())
		s.Asked = "the failure of the run: " + f.Message
		r.stall(s)
	default:
		r.conclude(&Outcome{Status: store.Failed, Output: stored.EncodeFailure(f)})
	}
}

func (r *Run) note(loc location.Loc, text string, err error) {
	r.notes = append(r.notes, Note{Location: loc, Text: text, Err: err})
}

// liveNext hands over one completion of what has arrived or is due. It reports
// whether there was anything.
func (r *Run) liveNext() bool {
	switch {
	case r.undo.proposed():
		return false // the next thing is its commit
	case r.cancelItem != nil:
		it := r.cancelItem
		r.cancelItem = nil
		r.log.Consume(it.No, verbs.Yes())
		r.audit(it)
		r.takeCancel(it.Value)
	case r.nextArrival():
	case r.sched.Deadlocked():
		r.deadlock()
	default:
		at := r.policyAt()
		if at == 0 || at > r.bound {
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

// policyAt returns when the run's policies cancel it, or 0.
func (r *Run) policyAt() store.Time {
	if r.cancelling || r.undo.outcome != nil || r.undo.begun {
		return 0
	}
	at := r.cfg.CancelAt
	if r.cfg.MaxSuspended > 0 && r.steps.inFlight == 0 && r.live {
		if limit := r.now.Add(r.cfg.MaxSuspended); at == 0 || limit < at {
			at = limit
		}
	}
	return at
}

// takeCancel hands over the cancel of the whole run.
func (r *Run) takeCancel(reason []byte) {
	r.nextCompletion()
	r.entries++
	r.log.Add(store.Entry{Loc: string(cancelLocation), Kind: store.KindCancel, State: store.Done, Seq: r.seq, Born: r.seq - 1, At: r.now, Started: r.now, Ended: r.now, Value: reason})
	r.log.Mark()
	r.cancelRun(reason)
}

func (r *Run) cancelRun(reason []byte) {
	r.cancelling, r.reason = true, reasonOf("cancelled", reason)
	r.sched.Cancel(&r.root.Branch)
}

func (r *Run) deadlock() {
	var places []string
	for _, b := range r.sched.Branches() {
		places = append(places, b.Title())
	}
	slices.Sort(places)
	r.fail(&stored.Failure{
		Code:    stored.CodeDeadlock,
		Message: "every branch waits for another one and no operation is open: " + strings.Join(places[:min(len(places), 20)], ", "),
	})
}

// end notes what the workflow's function has returned. The run is over when its
// branches have ended too.
func (r *Run) end(output []byte, failure *stored.Failure) {
	switch r.result = (&Outcome{Status: store.Succeeded, Output: output}); {
	case failure == nil && r.renewal != nil:
		r.result = &Outcome{Status: store.Running, Renewal: r.renewal}
	case failure != nil:
		r.result = &Outcome{Status: store.Failed, Output: stored.EncodeFailure(failure)}
	}
}

// finished is called when the code of every branch has ended.
func (r *Run) finished() {
	if r.over != nil {
		return
	}
	if !r.live {
		r.passGone()
		if r.remaining() != nil {
			r.stall(r.blocked())
			return
		}
		if r.replay.unasked > 0 {
			r.stall(r.unasked())
			return
		}
		if !r.undo.begun {
			r.goLive()
		}
		if r.over != nil {
			return
		}
	}
	if r.cancelling {
		r.result = &Outcome{Status: store.Cancelled, Reason: r.reason}
	}
	r.conclude(r.result)
}
