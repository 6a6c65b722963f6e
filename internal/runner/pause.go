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
	case !r.Know(it.No):
	case r.pause != nil:
		r.Answer(it.No, verbs.No(verbs.AlreadyPausing))
	case r.cancel.item != nil:
		r.Answer(it.No, verbs.No(verbs.BeingCancelled))
	default:
		r.pause = &it
	}
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

// pauser is the author of a pause for failures, in the run's audit.
const pauser = "engine"

// audit notes a verb that the run's turn carries out. What runs ask of one another
// is no act of an operator.
func (r *Interpreter) audit(it *store.Item) {
	if it.Name != "" {
		r.j.Log.Audit(stored.AuditOf(it, string(it.Value), ""))
	}
}
