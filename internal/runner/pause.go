package runner

import (
	"fmt"

	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// Pause makes the run stand still, and its next turn pauses it: nothing more is
// handed over and no body begins. Bodies that are executing are waited for, and
// their ends are recorded without a number; they are handed over when the run goes
// on. A run that is about to be cancelled is not paused. After the turn that pauses
// it there is only Unwind.
func (r *Run) Pause(it store.Item) {
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

// Pausing reports whether the run stands still to be paused. What comes for it now
// is for whoever takes it up again.
func (r *Run) Pausing() bool { return r.pause != nil }

// Paused reports whether the turn that pauses the run was taken.
func (r *Run) Paused() bool { return r.pause != nil && r.turns.last && r.over == nil }

// pauses reports whether the next turn pauses the run.
func (r *Run) pauses() bool {
	return r.pause != nil && r.over == nil && !r.undo.proposed() && !r.steps.executing() && r.arrivals.bodies.Len() == 0
}

// pauser is who a pause for failures is by, in the run's audit.
const pauser = "engine"

// failsTooOften reports whether the run is to be paused for the attempt of a step
// that has just failed, and that another one is to follow.
func (r *Run) failsTooOften(o *stepOp) bool {
	n := r.cfg.PauseAfter
	return n > 0 && (o.attempt-o.former)%n == 0 && r.cancel.item == nil
}

// pauseFor makes the run stand still like Pause, for the failures of a step. Other
// bodies may be executing, and the process may end before they do: the step's entry
// says until the turn that pauses the run that it is to be paused.
func (r *Run) pauseFor(o *stepOp) {
	r.steps.troubled = append(r.steps.troubled, o)
	if r.pause != nil {
		return // it is paused anyway
	}
	reason := fmt.Sprintf("%s has failed %d times", journal.Describe(o.Kind, o.Loc), o.attempt-o.former)
	if n := len(o.causes); n > 0 {
		reason += ", at last with: " + o.causes[n-1].Message
	}
	r.pause = &store.Item{Kind: store.ItemPause, Name: pauser, Value: []byte(stored.Cut(reason, store.MaxWhy-4))}
}

// noteTrouble records in the turn that pauses the run that it was paused for its
// steps.
func (r *Run) noteTrouble() {
	for _, o := range r.steps.troubled {
		o.trouble = false
		if !o.Settled() && !o.Closed {
			o.writeProgress(o.Deadline)
		}
	}
	r.steps.troubled = nil
}

// settleArrived records the ends of bodies while the run stands still.
func (r *Run) settleArrived() {
	for r.arrivals.bodies.Len() > 0 {
		r.attemptEnded(r.arrivals.bodies.Pop())
	}
}

// audit notes a verb that the run's turn carries out. What runs ask of one another
// is no act of an operator.
func (r *Run) audit(it *store.Item) {
	if it.Name != "" {
		r.j.Log.Audit(stored.AuditOf(it, string(it.Value), ""))
	}
}
