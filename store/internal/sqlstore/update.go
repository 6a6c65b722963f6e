package sqlstore

import (
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
)

// Change is what an update makes of a run's row: of the columns that it sets, those whose
// value is not simply that of the Update.
type Change struct {
	*store.Update
	Marks store.Marks // to be written, of them Admitted only if the run has it
	// Held says that something unexamined holds the update back (law 5): only the build
	// and the suspicion are written.
	Held      bool
	Suspicion Suspicion
	Ready     int64
	WakeAt    store.Time // 0: none
	Started   store.Time // of a run that has not begun before; 0: it has not begun
	Ended     store.Time // Stays: as it is, and Expires too
	Expires   store.Time // as Run.Expires
}

// Stays is the value of a column that is not changed.
const Stays store.Time = -1

// Suspicion is what becomes of the columns suspect, strikes and alone.
type Suspicion int

const (
	SuspicionEnds  Suspicion = iota // all are cleared
	SuspicionStays                  // none is changed
	Isolated                        // alone is set
	Tried                           // alone is set, strikes is cleared
	NotIsolated                     // alone and strikes are cleared
)

// newChange returns the change that an update makes of a run with a status.
func newChange(u *store.Update, from store.Status, held bool, now store.Time) Change {
	c := Change{Update: u, Marks: u.MarksOver(store.Admitted), Held: held}
	switch {
	case held && (u.Isolate || u.EndIsolation):
		c.Suspicion = SuspicionStays
	case u.Isolate && u.EndIsolation:
		c.Suspicion = Tried
	case u.Isolate:
		c.Suspicion = Isolated
	case u.EndIsolation:
		c.Suspicion = NotIsolated
	}
	if u.Status == store.Suspended || u.Status == store.Queued && u.WakeAt > now {
		c.WakeAt = u.WakeAt
	}
	switch {
	case u.Status == store.Running && u.Marks&(store.Paused|store.Held) == 0 && !u.Unclaim:
		c.Ready = words.Claimed
	case u.Status == store.Running, u.Status == store.Queued && c.WakeAt == 0:
		c.Ready = words.Ready
	}
	if u.Status == store.Running {
		c.Started = now // it may have been claimed at rest
	}
	switch {
	case u.Status.Terminal() && from.Terminal():
		c.Ended = Stays
	case u.Status.Terminal():
		c.Ended, c.Expires = now, u.Expires(now)
	}
	return c
}

// update changes the run's row, except where something unexamined holds it back.
func (b *Batch) update(turn *store.Turn, from *RunState) (store.Verdict, error) {
	u := turn.Update
	held, err := b.heldBack(turn, from)
	if err == nil {
		err = b.settle(turn, held)
	}
	if err != nil {
		return 0, err
	}
	if !held {
		err = b.lineUp(turn)
	}
	if err != nil {
		return 0, err
	}
	change := newChange(u, from.Status, held, b.Now)
	if err := b.Rows.UpdateRun(turn, &change); err != nil {
		return 0, err
	}
	if held {
		return store.StillReady, nil
	}
	switch was, is := from.Status.Terminal(), u.Status.Terminal(); {
	case is && !was:
		if err = b.abandon(turn.Run, ""); err == nil {
			err = b.bury(turn.Run, u.Discard, u.DiscardNames)
		}
	case was && !is:
		err = b.unbury(turn.Run, turn.Incarnation)
	}
	if err == nil && u.Continue != nil {
		err = b.continueAsNew(turn)
	}
	return store.Committed, err
}

// heldBack reports whether an unexamined item keeps the run from suspending, from ending,
// or from beginning to undo. Ending and undoing wait only for the verbs that end a run.
func (b *Batch) heldBack(turn *store.Turn, from *RunState) (bool, error) {
	const unexamined = "SELECT 1 FROM stet.inbox WHERE state={new} /*sqlite AND state<{consumed} */ AND run_no=$1"
	u, run := turn.Update, []any{int64(turn.Run)}
	switch {
	case u.Status == store.Suspended && u.Marks&(store.Paused|store.Held) == 0:
		return b.Rows.Row(unexamined+" LIMIT 1", run)
	case u.Status.Terminal() && !from.Status.Terminal(), u.Marks&^from.Marks&store.Undoing != 0:
		return b.Rows.Row(unexamined+" AND kind IN ({cancel},{terminate}) LIMIT 1", run)
	}
	return false, nil
}

// continueAsNew begins the next incarnation. The first time it keeps how the run began.
func (b *Batch) continueAsNew(turn *store.Turn) error {
	c := turn.Update.Continue
	if err := b.abandon(turn.Run, " AND state={consumed}"); err != nil {
		return err
	}
	if turn.Incarnation == 0 {
		first := c.First
		if first == (store.Origin{}) {
			run, _, err := b.Rows.FindRun("", turn.Run)
			if err != nil {
				return err
			}
			first = run.Origin()
		}
		if _, err := b.Rows.Exec("UPDATE stet.runs SET first=$1 WHERE run_no=$2",
			EncodeOrigin(&first), int64(turn.Run)); err != nil {
			return err
		}
	}
	return b.Rows.Continue(turn, max(c.At, b.Now))
}

// abandon answers the updates of a run that have no answer, or only some. It is called when a
// run ends or, for the updates that were received, continues as new.
func (b *Batch) abandon(run store.RunNo, some string) error {
	_, err := b.Rows.Exec(`UPDATE stet.inbox /*sqlite INDEXED BY stet.inbox_unanswered */
		SET state={consumed}, val=NULL, headers=NULL, verdict=$1 WHERE run_no=$2 AND kind={update} AND verdict IS NULL`+some,
		[]byte(store.Unanswered), int64(run))
	return err
}

// bury makes dead letters of the items that a run leaves behind when it ends, or discards
// all, or the messages of these names.
func (b *Batch) bury(run store.RunNo, all bool, names []string) error {
	const discarded = "state={consumed}, val=NULL, headers=NULL"
	set := "state={dead}"
	if all {
		set, names = discarded, nil
	}
	for _, name := range names {
		if _, err := b.Rows.Exec("UPDATE stet.inbox SET "+discarded+
			" WHERE run_no=$1 AND state IN ({new},{seen}) AND kind={message} AND name=$2", int64(run), name); err != nil {
			return err
		}
	}
	_, err := b.Rows.Exec("UPDATE stet.inbox SET "+set+
		" WHERE run_no=$1 AND state IN ({new},{seen}) AND kind NOT IN {answered}", int64(run))
	return err
}

// unbury makes the dead letters of a run that goes on new again, except those for an older
// incarnation and those that were refused.
func (b *Batch) unbury(run store.RunNo, incarnation int) error {
	_, err := b.Rows.Exec(`UPDATE stet.inbox SET state={new} WHERE run_no=$1 AND state={dead} AND verdict IS NULL
		AND (kind={message} OR incarnation>=$2)`, int64(run), incarnation)
	return err
}
