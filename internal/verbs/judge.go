package verbs

import (
	"fmt"
	"strings"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Ruling is what the law says of a verb.
type Ruling struct {
	// Refused is the reason for which the run's owner refuses the verb, as it is
	// stored; "": nothing in the run's row speaks against it.
	Refused string
	// Ended says that Refused holds for good: the run has ended.
	Ended bool
	// NeedsCode says that the run's code decides the verb and carries it out.
	NeedsCode bool
}

// Judge returns the ruling on a verb about the run as it stands. It reads the
// run's ID, number, workflow, status, marks and reason, and whether it has an
// output, even if the listing leaves it out. The order of the cases decides which reason is given if there are several.
func Judge(run *store.Run, verb store.ItemKind) Ruling {
	if store.IsEntity(run.Workflow) && verb != store.ItemResume && verb != store.ItemWatch {
		return refused("%s", OfEntity(verb))
	}
	switch verb {
	case store.ItemCancel, store.ItemTerminate, store.ItemPause, store.ItemResume, store.ItemNudge:
		if r := ended(run); r.Refused != "" {
			return r
		}
	case store.ItemRetry, store.ItemRewind, store.ItemEdit:
		switch {
		case expiring(run):
			return ended(run)
		case Superseded(run):
			return refused("the run was replaced by a later one with its ID: it can be read and forked")
		}
	}
	switch paused := run.Marks&store.Paused != 0; verb {
	case store.ItemCancel:
		// The code of a stalled or paused run is not executed: such a run ends at once.
		switch {
		case run.Status != store.Stalled && !paused:
			return Ruling{NeedsCode: true}
		case run.Marks&store.Undoing != 0:
			return refused(Undoing)
		}
	case store.ItemTerminate, store.ItemWatch:
	case store.ItemPause:
		switch {
		case run.Status == store.Stalled:
			return refused("the run is stalled: it is not taken up until it is resumed")
		case paused:
			return refused("the run is already paused")
		}
	case store.ItemResume:
		if run.Status != store.Stalled && !paused {
			return refused("the run is %s, not stalled or paused", run.Status)
		}
	case store.ItemRetry:
		if run.Status != store.Failed && !stalledByFailure(run) && !stored.CauseOf(run).IsBug() {
			return NotFailed(run.Status)
		}
	case store.ItemRewind, store.ItemEdit:
		return executing(run)
	case store.ItemNudge:
		switch {
		case run.Status == store.Stalled:
			return refused("the run is stalled: resume it, which executes its code again")
		case paused:
			return refused("the run is paused: resume it, which executes its code again")
		case run.Marks&store.Held != 0:
			return refused("the run waits for a permit of its queue: its code is executed when it has it")
		case run.Status == store.Queued:
			return refused("the run is queued: its code is executed when it begins")
		}
		return Ruling{NeedsCode: true}
	default:
		return refused("nobody knows %s", verb)
	}
	return Ruling{}
}

// JudgeFork returns the ruling on a fork of the run, which is no verb: it reads the
// run and changes nothing of it, so a superseded one may be forked.
func JudgeFork(run *store.Run) Ruling {
	if expiring(run) {
		return ended(run)
	}
	return executing(run)
}

// OfEntity returns why a verb about an entity is refused.
func OfEntity(verb store.ItemKind) string {
	return "this is no run of a workflow: it has no " + verb.String()
}

// NotFailed returns the ruling on a retry of a run with this status that has not failed.
func NotFailed(status store.Status) Ruling {
	return refused("the run is %s: only one that has failed can be retried", status)
}

// Superseded reports whether a later run was started with the ID of this one.
func Superseded(run *store.Run) bool {
	return strings.HasSuffix(run.ID, fmt.Sprintf("@%d", run.No))
}

// stalledByFailure reports whether a run is stalled because it has failed, as its row
// says: the owner also looks whether its output is a failure.
func stalledByFailure(run *store.Run) bool {
	return stored.CauseOf(run) == stored.CauseFailure && (run.Output != nil || run.OutputSize > 0)
}

// ended refuses what is for live runs only.
func ended(run *store.Run) Ruling {
	var r Ruling
	switch {
	case expiring(run):
		r = refused("its retention is over, and its history is being deleted")
	case run.Status.Terminal():
		r = refused("the run is already %s", run.Status)
	}
	r.Ended = r.Refused != ""
	return r
}

// executing refuses what changes or copies the history of a run, if its code may
// be executing or be executed.
func executing(run *store.Run) Ruling {
	if !run.Status.Terminal() && run.Status != store.Stalled && run.Marks&store.Paused == 0 {
		return refused("the run is %s: pause or cancel it first", run.Status)
	}
	return Ruling{}
}

// expiring reports whether the run's history is being deleted.
func expiring(run *store.Run) bool { return run.Marks&store.Expiring != 0 }

func refused(format string, args ...any) Ruling { return Ruling{Refused: fmt.Sprintf(format, args...)} }
