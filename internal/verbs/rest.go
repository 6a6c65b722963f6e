package verbs

import (
	"slices"

	"github.com/stet-run/stet/store"
)

// Resting reports whether a claimed run was claimed at rest: its code was not
// executing, and is not to be executed yet.
func Resting(run *store.Run) bool {
	return run.Marks&(store.Paused|store.Held) != 0 || run.Status == store.Queued || run.Status == store.Suspended
}

// NeedsNoCode reports whether the inbox of a claimed run is decided without its
// code. The run has ended, is stalled or rests; or it is to be paused, to be
// terminated, or to be cancelled before its code was executed. first says that no process
// has executed it before.
func NeedsNoCode(s *store.Snapshot, first bool) bool {
	if s.Run.Status.Terminal() || s.Run.Status == store.Stalled || Resting(&s.Run) {
		return true
	}
	for i := range s.Items {
		switch s.Items[i].Kind {
		case store.ItemTerminate:
			return true
		case store.ItemPause:
			if !CancelAmong(s.Items[:i]) {
				return true
			}
		case store.ItemCancel:
			if Unrun(s, first) {
				return true
			}
		}
	}
	return false
}

// CancelAmong reports whether a cancel is among the items. A pause behind it is
// refused.
func CancelAmong(items []store.Item) bool {
	for i := range items {
		if items[i].Kind == store.ItemCancel {
			return true
		}
	}
	return false
}

// TerminateAmong reports whether a terminate is among the items.
func TerminateAmong(items []store.Item) bool {
	return slices.ContainsFunc(items, func(it store.Item) bool { return it.Kind == store.ItemTerminate })
}

// ReplaysBefore reports whether a verb that needs no code, a terminate or a pause, waits
// for the replay of a run that was executed before. If it was executing when its process
// ended, only its code tells which steps with compensations may have had an effect. A
// suspect that was found twice is not executed for that.
func ReplaysBefore(s *store.Snapshot) bool {
	run := &s.Run
	if run.Status != store.Running || Resting(run) || run.Suspect > 1 || store.IsEntity(run.Workflow) {
		return false
	}
	return slices.ContainsFunc(s.Items, func(it store.Item) bool {
		return it.Kind == store.ItemTerminate || it.Kind == store.ItemPause
	})
}

// Unrun reports whether the code of the run was never executed: it is queued, or first
// says that no process has executed it before, and there is no sign of a committed turn. A
// run that a process had begun when it was killed may have effects of which nothing is
// committed. A new incarnation, and a run that was rewound to its beginning, have no sign
// of a turn, but the build of a node that has committed: they count as having run.
func Unrun(s *store.Snapshot, first bool) bool {
	run := &s.Run
	return (first || run.Status == store.Queued) && run.Waits == nil && len(s.Entries) == 0 &&
		(run.Build == "" || run.Incarnation == 0 && run.Generation == 0)
}

// NoWaits is the sign that Unrun looks for, of a run that waits for nothing: without
// it a committed turn that has no entry could not be seen.
func NoWaits() []byte { return []byte{} }

// KeepSign returns the waits of a run that goes on: none, but if a turn of it was
// committed that is still to be seen.
func KeepSign(run *store.Run) []byte {
	if run.Waits == nil {
		return nil
	}
	return NoWaits()
}

// StallsAsFound reports whether a turn stalls its run and records nothing by which could be
// seen that its code was executed. The run's build and its sign stay then: a build whose
// code fits takes the run up again.
func StallsAsFound(t *store.Turn) bool {
	return t.Update.Status == store.Stalled && len(t.Entries)+len(t.Rewrites)+len(t.Prune)+len(t.Consumed)+
		len(t.Answers)+len(t.Values)+len(t.Appends)+len(t.Tags)+len(t.Sends) == 0
}

// SuspendsAsFound reports whether a turn suspends its run and records nothing but answers to
// verbs: any build whose code fits may take the run up, as before.
func SuspendsAsFound(t *store.Turn, run *store.Run) bool {
	u := t.Update
	return u != nil && u.Status == store.Suspended && u.Marks == run.Marks && u.Output == nil &&
		!slices.ContainsFunc(t.Consumed, func(c store.Consumption) bool { return c.Verdict == nil }) &&
		len(t.Entries)+len(t.Rewrites)+len(t.Prune)+len(t.Answers)+len(t.Values)+len(t.Appends)+len(t.Tags)+
			len(t.Sends)+len(u.Sends) == 0
}

// BareTurn is a turn that only updates the run's row.
func BareTurn(run *store.Run, u store.Update) *store.Turn {
	if u.Waits == nil {
		u.Waits = KeepSign(run)
	}
	return &store.Turn{Run: run.No, Shard: run.Shard, Incarnation: run.Incarnation, Update: &u}
}
