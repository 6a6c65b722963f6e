package runner

import "github.com/stet-run/stet/store"

// Pause makes the run stand still, and its next turn pauses it: nothing more is
// handed over and no body begins. Bodies that are executing are waited for, and
// their ends are recorded without a number; they are handed over when the run goes
// on. A run that is about to be cancelled is not paused. After the turn that pauses
// it there is only Unwind.
func (r *Run) Pause(it store.Item) {
	switch {
	case !r.Know(it.No):
	case r.pause != nil:
		r.Answer(it.No, Verdict(false, "the run is already being paused"))
	case r.cancelItem != nil:
		r.Answer(it.No, Verdict(false, "the run is being cancelled"))
	default:
		r.pause = &it
	}
}

// Pausing reports whether the run stands still to be paused. What comes for it now
// is for whoever takes it up again.
func (r *Run) Pausing() bool { return r.pause != nil }

// Paused reports whether the turn that pauses the run was taken.
func (r *Run) Paused() bool { return r.pause != nil && r.closed && r.over == nil }

// executing reports whether a body is given out.
func (r *Run) executing() bool {
	for _, o := range r.bodies {
		if o.given {
			return true
		}
	}
	return false
}

// settleArrived records the ends of bodies while the run stands still.
func (r *Run) settleArrived() {
	for r.arrived.len() > 0 {
		r.attemptEnded(r.arrived.pop())
	}
}

// shelve records the end of a step that is not handed over.
func (r *Run) shelve(o *op) {
	e := store.Entry{State: store.Done, Attempt: o.attempt, Started: o.from, Ended: o.until, Value: o.value}
	if o.failure != nil {
		e.State, e.Value = store.FailedEntry, EncodeFailure(o.failure)
	}
	r.write(o, e)
}

// AuditOf returns the record of a verb that was carried out. detail says what it
// did.
func AuditOf(it *store.Item, why, detail string) store.Audit {
	return store.Audit{Who: it.Name, Verb: it.Kind.String(), Why: cut(why, store.MaxWhy-4), Detail: cut(detail, store.MaxDetail-4)}
}

// audit notes a verb that the run's turn carries out. What runs ask of one another
// is no act of an operator.
func (r *Run) audit(it *store.Item) {
	if it.Name != "" {
		r.log.audit = append(r.log.audit, AuditOf(it, string(it.Value), ""))
	}
}
