package runner

import (
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// Pause makes the run stand still, and its next turn pauses it: nothing more is
// handed over and no body begins. Bodies that are executing are waited for, and
// their ends are recorded without a number; they are handed over when the run goes
// on. A run that is about to be cancelled is not paused. After the turn that pauses
// it there is only Unwind.
func (r *Interpreter) Pause(it store.Item) {
	switch {
	case !r.j.Items.Know(it.No):
	case r.pause != nil:
		r.Answer(it.No, verbs.No(verbs.AlreadyPausing))
	case r.cancel.item != nil:
		r.Answer(it.No, verbs.No(verbs.BeingCancelled))
	default:
		r.pause = &it
	}
}

// WithdrawPause lets a run go on that stands still to be paused, because a cancel is asked
// for or a resume. The pause is refused. A cancel is to be delivered then; the resume is
// decided. It reports false, and does nothing, if the turn that pauses the run is taken, if
// the run has not been asked to pause, or if the item is another verb or a cancel that the
// run will refuse.
func (r *Interpreter) WithdrawPause(by store.Item) bool {
	why := verbs.Withdrawn
	switch {
	case r.pause == nil || r.turns.last || r.over != nil || r.undo.proposed():
		return false
	case by.Kind == store.ItemCancel:
		if r.undo.begun || r.undo.turnTaken || r.undo.outcome != nil || r.cancel.handedOver || r.j.Cancelled() != nil {
			return false
		}
		why = verbs.BeingCancelled
	case by.Kind != store.ItemResume || !r.j.Items.Know(by.No):
		return false
	default:
		r.Answer(by.No, verbs.Yes())
		q := stored.RequestOf(&by)
		r.j.Log.Audit(stored.AuditOf(&by, q.Why, "withdrew a pause that had not taken effect"))
	}
	if r.pause.No != 0 {
		r.Answer(r.pause.No, verbs.No(why))
	}
	r.pause = nil
	r.steps.GoOn()
	return true
}

// Pausing reports whether the run stands still to be paused. What arrives for it now
// is for the activation that resumes it.
func (r *Interpreter) Pausing() bool { return r.pause != nil }

// Paused reports whether the turn that pauses the run was taken.
func (r *Interpreter) Paused() bool { return r.pause != nil && r.turns.last && r.over == nil }

// pauses reports whether the next turn pauses the run.
func (r *Interpreter) pauses() bool {
	return r.pause != nil && r.over == nil && !r.undo.proposed() && r.steps.Settled()
}

// audit notes a verb that the run's turn carries out. What runs ask of one another
// is no act of an operator.
func (r *Interpreter) audit(it *store.Item) {
	if it.Name != "" {
		r.j.Log.Audit(stored.AuditOf(it, string(it.Value), ""))
	}
}
