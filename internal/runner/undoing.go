package runner

import (
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/owed"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// # Undoing
//
// A step that carries a compensation and has succeeded is to be undone from its hand-over
// on, if its run is: its entry says so (Owes), and the run remembers how. A run that
// succeeds undoes nothing. One that fails or is cancelled does, if that is requested,
// newest first, when its code has ended:
//
//	                    cancel wins                      cancel is refused
//	code ended ──► proposed ────────► turn taken ──────► begun ──► each undo ──► over
//	                  ▲  Take: the mark Undoing  │ Committed        └─ fails for good: stalled
//	                  └───────── StillReady ─────┘
//
// The mark and the outcome are one commit, which the store holds back while a cancel is
// new; what begins depends on it. A run that is found with the mark replays its code to the
// end, for the compensations, and never goes live in it.
//
// What a saga has undone is owed no more; see saga.go.
//
// Compensations are executed by a branch of their own, one after the other. Each is an
// operation at the step's location and the name "undo", with a number, so the same things
// follow from it as from a step: barrier, attempts, replay.
//
// When the run was ended from within (deadlock, misuse; of earlier builds also a budget) its code has not ended and
// never will. It is dropped: nothing of it gets the baton again, and what it waits for is
// withdrawn, except the steps with compensations, whose ends are awaited before the first
// compensation is executed.

// undoing is what a run knows of its undoing.
type undoing struct {
	onFailure, onCancel bool
	asked               bool // by the code, whatever the policy says

	effects owed.Effects
	open    func() []location.Loc // steps that have not ended and may have had an effect

	outcome   *Outcome      // with which the run ends afterwards; nil: nothing is undone
	turnTaken bool          // the turn that begins it is under way
	begun     bool          // and was committed
	late      []store.Item  // cancels that came since
	branch    *Branch       // nil: not yet
	last      []*journal.Op // of dropped code, to be seen to their ends

	records []*journal.Record // of compensations, until there is a branch
}

// newUndoing takes from the run's row and history whether undoing has begun, and with which
// outcome. An error says that this cannot be read.
func newUndoing(cfg *Config, j *journal.Journal) (undoing, error) {
	run := &cfg.Run
	u := undoing{onFailure: cfg.UndoFailed, onCancel: cfg.UndoCancelled, records: j.Undos(),
		effects: owed.New(cfg.Entries)}
	u.begun = run.Marks&store.Undoing != 0 || len(u.records) > 0
	var err error
	switch {
	case !u.begun:
	case run.Status.Terminal():
		u.outcome = &Outcome{Status: run.Status, Reason: run.Reason}
		if run.Status == store.Failed {
			u.outcome.Output = run.Output
		}
	case run.Marks&store.Undoing == 0:
	case run.Marks&store.Cancelling != 0:
		var end stored.Ending
		end, err = stored.DecodeEnding(run.Output)
		u.outcome = &Outcome{Status: store.Cancelled, Reason: end.Reason}
	default:
		u.outcome = &Outcome{Status: store.Failed, Output: run.Output}
	}
	return u, err
}

// owes reports whether there is something to undo, or may be: the code was stopped and steps
// are under way.
func (u *undoing) owes(returned bool) bool {
	return u.effects.Any() || !returned && len(u.open()) > 0
}

// proposed reports whether undoing is to begin and has not.
func (u *undoing) proposed() bool { return u.outcome != nil && !u.begun }

// abrupt reports whether the run was ended from within.
func (u *undoing) abrupt() bool {
	if u.outcome == nil || u.outcome.Status != store.Failed {
		return false
	}
	f, err := stored.DecodeFailure(u.outcome.Output)
	return err == nil && (f.Code == stored.CodeBudget || f.Code == stored.CodeDeadlock || f.Code == stored.CodeMisuse)
}

// byBug reports whether the run fails with a fault of its code.
func (u *undoing) byBug() bool {
	if u.outcome == nil || u.outcome.Status != store.Failed {
		return false
	}
	f, err := stored.DecodeFailure(u.outcome.Output)
	return err == nil && stored.BugOf(f) != ""
}

// wanted reports whether an outcome is one before which the run is undone.
func (u *undoing) wanted(o *Outcome) bool {
	switch o.Status {
	case store.Failed:
		return u.asked || u.onFailure
	case store.Cancelled:
		return u.asked || u.onCancel
	}
	return false
}

// record is what the run's row keeps of the outcome while it is undone.
func (u *undoing) record() []byte {
	if u.outcome.Status == store.Cancelled {
		return stored.Ending{Reason: u.outcome.Reason}.Encode()
	}
	return u.outcome.Output
}
