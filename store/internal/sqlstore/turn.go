package sqlstore

import (
	"slices"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// RunState is what a turn must know of its run.
type RunState struct {
	Shard       store.Shard
	Incarnation int
	Status      store.Status
	Claimed     bool
	Generation  int         // needed if the turn's update has one
	Marks       store.Marks // needed if the turn's update is of a run that undoes
}

// turn writes one turn, in the order of the laws. The error of one that breaks a law is a
// Refusal.
func (b *Batch) turn(turn *store.Turn) (store.Verdict, error) {
	state, err := b.state(turn)
	if err != nil {
		return 0, err
	}
	if err := b.prune(turn); err != nil {
		return 0, err
	}
	for i := range turn.Rewrites {
		if err := b.rewrite(turn, &turn.Rewrites[i]); err != nil {
			return 0, err
		}
	}
	for i := range turn.Entries {
		if err := b.entry(turn, i); err != nil {
			return 0, err
		}
	}
	if err := b.items(turn); err != nil {
		return 0, err
	}
	if err := note(b.Rows, turn.Run, turn.Audit, b.Now); err != nil {
		return 0, err
	}
	if err := b.publish(turn); err != nil {
		return 0, err
	}
	verdict := store.Committed
	if turn.Update != nil {
		if verdict, err = b.update(turn, &state); err != nil {
			return 0, err
		}
		if verdict == store.Committed {
			state.Status = turn.Update.Status
		}
	}
	if len(turn.Returned) > 0 && state.Status.Terminal() {
		err = b.bury(turn.Run, false, nil)
	}
	return verdict, err
}

// state returns the state of the run that a turn changes, or refuses the turn.
func (b *Batch) state(turn *store.Turn) (RunState, error) {
	state, found, err := b.Rows.RunState(turn)
	if err == nil && !found {
		err = refuse("there is no run number %d", turn.Run)
	}
	if err == nil {
		err = state.allows(turn)
	}
	return state, err
}

// allows refuses a turn that the state of its run rules out.
func (s *RunState) allows(turn *store.Turn) error {
	u := turn.Update
	switch {
	case s.Shard != turn.Shard:
		return refuse("the run is of shard %s, not %s", s.Shard, turn.Shard)
	case s.Incarnation != turn.Incarnation:
		return refuse("the run is in incarnation %d, not %d", s.Incarnation, turn.Incarnation)
	case !s.Claimed:
		return refuse("the run is not claimed")
	case u == nil:
		return nil
	case u.Continue != nil && s.Status != store.Running:
		return refuse("a %s run cannot continue as new", s.Status)
	case !s.Status.CanBecome(u.Status):
		return refuse("a %s run cannot become %s", s.Status, u.Status)
	case u.Generation != 0 && u.Generation <= s.Generation:
		return refuse("generation %d does not follow %d", u.Generation, s.Generation)
	}
	return nil
}

// prune deletes the parts of the history that the turn drops.
func (b *Batch) prune(turn *store.Turn) error {
	for _, s := range turn.Prune {
		const span = " WHERE run_no=$1 AND incarnation=$2 AND loc>=$3 AND loc<$4"
		args := []any{int64(turn.Run), turn.Incarnation, []byte(s.From), []byte(s.To)}
		if _, err := b.Rows.Exec("DELETE FROM stet.entries"+span, args...); err != nil {
			return err
		}
		for _, table := range b.EntryTables {
			if _, err := b.Rows.Exec("DELETE FROM stet."+table+span, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewrite writes an entry in place of an existing one, final or not.
func (b *Batch) rewrite(turn *store.Turn, e *store.Entry) error {
	old, found, err := b.Rows.Entry(turn, e.Loc)
	switch {
	case err != nil:
		return err
	case !found:
		return refuse("there is no entry at %q to be rewritten", e.Loc)
	}
	return b.Rows.Overwrite(turn, &old, e)
}

// entry writes one entry: a plain insert, unless there is one at its location. One that
// is final must be equal, or lack only the completion number that this one brings.
func (b *Batch) entry(turn *store.Turn, i int) error {
	inserted, err := b.Rows.InsertEntry(turn, i)
	if err != nil || inserted {
		return err
	}
	e := &turn.Entries[i]
	old, _, err := b.Rows.Entry(turn, e.Loc)
	if err != nil {
		return err
	}
	if old.State == store.Open || old.State == store.Withdrawn {
		return b.Rows.Overwrite(turn, &old, e)
	}
	numbered := old
	if numbered.Seq == 0 && e.Seq != 0 {
		numbered.Seq, numbered.At = e.Seq, e.At
	}
	if !EqualEntries(&numbered, e) {
		return refuse("the entry at %q is final and different", e.Loc)
	}
	if old.Seq != e.Seq {
		_, err = b.Rows.Exec("UPDATE stet.entries SET seq=$4, at=$5 WHERE run_no=$1 AND incarnation=$2 AND loc=$3",
			int64(turn.Run), turn.Incarnation, []byte(e.Loc), e.Seq, e.At)
	}
	return err
}

// send carries out what a turn sends, and answers a watch that no run gets.
func (b *Batch) send(turn *store.Turn, result *store.TurnResult) error {
	commands := b.commands()
	for _, sends := range turn.Sent(result.Verdict) {
		for i := range sends {
			answer, err := commands.Apply(&sends[i])
			if err != nil {
				return err
			}
			result.Sends = append(result.Sends, answer)
			nobody := answer.Outcome == store.NotFound || answer.Outcome == store.Ended
			if it := sends[i].Item; nobody && it != nil && it.Kind == store.ItemWatch {
				if err := b.answerWatch(turn.Run, it); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// answerWatch sends a run that has not ended the answer that it waits for none (law 15).
func (b *Batch) answerWatch(run store.RunNo, watch *store.Item) error {
	over, err := b.Rows.Row("SELECT 1 FROM stet.runs WHERE run_no=$1 AND status IN {ended}", []any{int64(run)})
	if err == nil && !over {
		_, _, err = b.Rows.InsertItem(run, storekit.UnwatchableEnd(watch), b.Now)
	}
	return err
}

// items marks the items that a turn has seen, consumed, answered, given up and returned, and those that its update
// consumes.
func (b *Batch) items(turn *store.Turn) error {
	run := int64(turn.Run)
	if err := markAll(b.Rows, "the run has no item number %d", turn.Seen,
		"UPDATE stet.inbox SET state=greatest(state,{seen}) WHERE item_no=$1 AND run_no+0=$2",
		func(no store.ItemNo) (store.ItemNo, []any) { return no, []any{int64(no), run} }); err != nil {
		return err
	}
	if err := b.consume(turn.Run, turn.Consumed); err != nil {
		return err
	}
	if err := markAll(b.Rows, "the run has no pending item number %d for a dead letter", turn.Dead,
		"UPDATE stet.inbox SET state={dead} WHERE item_no=$1 AND run_no+0=$2 AND state<{consumed} AND kind NOT IN {answered}",
		func(no store.ItemNo) (store.ItemNo, []any) { return no, []any{int64(no), run} }); err != nil {
		return err
	}
	if err := markAll(b.Rows, "the run has no pending item number %d to refuse", turn.Refused,
		`UPDATE stet.inbox SET state={dead}, verdict=$1,
			item_id=CASE WHEN kind={resolution} THEN $2 ELSE item_id END
		WHERE item_no=$3 AND run_no+0=$4 AND state<{consumed} AND (kind NOT IN {answered} OR kind={delivery})`,
		func(x store.Refusal) (store.ItemNo, []any) {
			return x.Item, []any{x.Reason, store.RefusedID(x.Item), int64(x.Item), run}
		}); err != nil {
		return err
	}
	if err := b.examine(turn); err != nil {
		return err
	}
	for _, c := range turn.Answers {
		if c.Verdict == nil {
			return refuse("the answer to update number %d is none", c.Item)
		}
	}
	if err := markAll(b.Rows, "the run has no update number %d that is consumed and not answered", turn.Answers,
		`UPDATE stet.inbox SET verdict=$1
		WHERE item_no=$2 AND run_no+0=$3 AND kind={update} AND state={consumed} AND verdict IS NULL`,
		func(c store.Consumption) (store.ItemNo, []any) {
			return c.Item, []any{c.Verdict, int64(c.Item), run}
		}); err != nil {
		return err
	}
	for i := range turn.Returned {
		it := &turn.Returned[i]
		if slices.ContainsFunc(turn.Returned[:i], func(former store.Item) bool { return former.ID == it.ID }) {
			return refuse("the item %q is returned twice", it.ID)
		}
		if err := b.giveAgain(turn.Run, it); err != nil {
			return err
		}
	}
	return nil
}

// examine marks as seen, until it is known whether the update takes effect, what it consumes.
func (b *Batch) examine(turn *store.Turn) error {
	b.examined = b.examined[:0]
	if turn.Update == nil {
		return nil
	}
	for i, c := range turn.Update.Consumed {
		var state int64
		found, err := b.Rows.Row("SELECT state FROM stet.inbox WHERE item_no=$1 AND run_no+0=$2 AND state<{consumed}",
			[]any{int64(c.Item), int64(turn.Run)}, &state)
		if err != nil {
			return err
		}
		same := func(former store.Consumption) bool { return former.Item == c.Item }
		if !found || slices.ContainsFunc(turn.Update.Consumed[:i], same) {
			return refuse("the run has no pending item number %d to consume with the update", c.Item)
		}
		if store.ItemState(state) != store.New {
			continue
		}
		if _, err := b.Rows.Exec("UPDATE stet.inbox SET state={seen} WHERE item_no=$1", int64(c.Item)); err != nil {
			return err
		}
		b.examined = append(b.examined, c.Item)
	}
	return nil
}

// settle consumes what the update consumes, and notes its acts; or, if it is held back, leaves all as it was.
func (b *Batch) settle(turn *store.Turn, held bool) error {
	if held {
		for _, no := range b.examined {
			if _, err := b.Rows.Exec("UPDATE stet.inbox SET state={new} WHERE item_no=$1", int64(no)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := b.consume(turn.Run, turn.Update.Consumed); err != nil {
		return err
	}
	return note(b.Rows, turn.Run, turn.Update.Audit, b.Now)
}

// consume uses items up.
func (b *Batch) consume(run store.RunNo, list []store.Consumption) error {
	return markAll(b.Rows, "the run has no pending item number %d to consume", list,
		`UPDATE stet.inbox SET state={consumed}, val=NULL, headers=NULL, verdict=$1
		WHERE item_no=$2 AND run_no+0=$3 AND state<{consumed}`,
		func(c store.Consumption) (store.ItemNo, []any) {
			return c.Item, []any{c.Verdict, int64(c.Item), int64(run)}
		})
}

// markAll executes a statement that changes an item for each of a list, and refuses the turn if there is none to
// change. of returns the number of the item, and the arguments.
func markAll[T any](rows BatchRows, refusal string, list []T, text string, of func(T) (store.ItemNo, []any)) error {
	if len(list) == 0 {
		return nil
	}
	args := make([][]any, len(list))
	for i, x := range list {
		_, args[i] = of(x)
	}
	n, err := rows.ExecEach(text, args)
	if err == nil && n < len(list) {
		no, _ := of(list[n])
		err = refuse(refusal, no)
	}
	return err
}

// giveAgain puts a consumed item into the inbox again. One that was swept gets its number
// if no other item has that.
func (b *Batch) giveAgain(run store.RunNo, it *store.Item) error {
	var no, state, kind int64
	var answered bool
	found, err := b.Rows.Row(`SELECT item_no, state, kind, verdict IS NOT NULL
		FROM stet.inbox WHERE run_no=$1 AND item_id=$2`,
		[]any{int64(run), it.ID}, &no, &state, &kind, &answered)
	switch {
	case err != nil:
		return err
	case found && store.ItemState(state) != store.Consumed:
		return refuse("the item %q to be returned is not consumed", it.ID)
	case found && answered && store.ItemKind(kind) == store.ItemUpdate:
		return nil
	case found && answered:
		return refuse("the item %q to be returned was answered", it.ID)
	case found:
		_, err = b.Rows.Exec("UPDATE stet.inbox SET state={new}, val=$1, headers=$2 WHERE item_no=$3",
			it.Value, it.Headers, no)
		return err
	}
	restored, _, err := b.Rows.RestoreItem(run, it)
	if err != nil || it.No <= 0 || it.No >= restored {
		return err
	}
	_, err = b.Rows.Exec(`UPDATE stet.inbox SET item_no=$1 WHERE item_no=$2
		AND NOT EXISTS (SELECT 1 FROM stet.inbox WHERE item_no=$1)`, int64(it.No), int64(restored))
	return err
}
