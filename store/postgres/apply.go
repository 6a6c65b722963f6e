package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/storekit"
)

// Apply implements store.Store. It waits for a transaction of somebody else that
// has sent the same item, or started the same run, and has not ended.
func (s *Store) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	if err := storekit.ValidateCommands(commands); err != nil {
		return nil, 0, err
	}
	const act = "apply commands"
	answers, at, err := []store.Answer(nil), store.Time(0), errNotAtOnce
	if q := s.newCommandBatch(commands); q != nil {
		err = s.writeAfter(ctx, act, lockLimit, q, func(t *tx, now store.Time) (err error) {
			answers, at = q.answers, now
			if !q.done {
				answers, err = (&applier{q: t, now: now}).all(commands)
			}
			return err
		})
	}
	if errors.Is(err, errNotAtOnce) {
		err = s.write(ctx, act, lockLimit, func(t *tx, now store.Time) (err error) {
			at = now
			answers, err = (&applier{q: t, now: now}).all(commands)
			return err
		})
	}
	if err != nil {
		return nil, 0, err
	}
	for i := range answers {
		at = max(at, answers[i].Run.Created) // one that was started a moment after now
	}
	s.tell(storekit.ChangeOf(&store.Batch{Commands: commands}, &store.BatchResult{Commands: answers}), len(commands))
	return answers, at, nil
}

// all carries commands out one after the other.
func (a *applier) all(commands []store.Command) ([]store.Answer, error) {
	answers := make([]store.Answer, len(commands))
	for i := range commands {
		var err error
		if answers[i], err = a.apply(&commands[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// applier carries out commands in one transaction. It locks and changes no row of
// a run that exists, except where it adopts the run or gives its ID to another.
type applier struct {
	q      querier
	now    store.Time
	batch  *committing // nil: runs are not adopted
	repeat bool        // the batch has been applied before
}

func (a *applier) apply(cmd *store.Command) (store.Answer, error) {
	if cmd.Start != nil {
		return a.start(cmd)
	}
	run, condition, err := a.find(cmd.RunID, cmd.RunNo)
	if err != nil || run.No == 0 {
		return store.Answer{Outcome: store.NotFound}, err
	}
	answer := store.Answer{Outcome: store.Applied}
	it := cmd.Item
	insert := !run.Status.Terminal() || it.Kind.Verb() && run.Marks&store.Expiring == 0
	var no int64
	if insert {
		if insert, err = a.insert(run.No, it, &no); err != nil {
			return answer, err
		}
	}
	if !insert {
		return a.known(cmd, &run, condition)
	}
	answer.Item = store.ItemNo(no)
	if answer.Claimed, err = a.adopted(cmd, &run, condition); err != nil {
		return answer, err
	}
	answer.Run = run
	return answer, nil
}

// known answers a command whose item is there already, or cannot be.
func (a *applier) known(cmd *store.Command, run *store.Run, condition int64) (store.Answer, error) {
	answer := store.Answer{Outcome: store.Ended}
	var no int64
	var origin []byte
	ok, err := a.q.row("SELECT item_no, origin FROM stet.inbox WHERE run_no=$1 AND item_id=$2", []any{run.No, cmd.Item.ID}, &no, &origin)
	if err != nil {
		return answer, err
	}
	if ok {
		answer.Outcome = store.Duplicate
		if string(origin) == cmd.Item.Origin {
			answer.Outcome, answer.Item, answer.Repeated = store.Applied, store.ItemNo(no), true
			answer.Claimed = condition == sqlstore.Claimed && a.repeat && a.mayAdopt(cmd, run.Shard)
		}
	}
	answer.Run = *run
	return answer, nil
}

// adopted claims a run that exists, if the command asks for it, the batch leads
// its shard, and it is due or suspended.
func (a *applier) adopted(cmd *store.Command, run *store.Run, condition int64) (bool, error) {
	if !a.mayAdopt(cmd, run.Shard) {
		return false, nil
	}
	if !a.repeat && (run.Marks&store.Paused != 0 || cmd.Item != nil && cmd.Item.Kind == store.ItemPause) {
		return false, nil
	}
	if a.repeat || condition == sqlstore.Claimed {
		return a.repeat && condition == sqlstore.Claimed, nil
	}
	if !storekit.Claimable(run, condition == sqlstore.Ready, cmd.Item, a.now) {
		return false, nil
	}
	n, err := a.q.exec(`UPDATE stet.runs SET ready=2, wake_at=NULL, status=2, marks=marks & ~16, started=CASE WHEN started=0 THEN $2 ELSE started END WHERE run_no=$1 AND ready<>2`, run.No, a.now)
	if err != nil || n == 0 {
		return false, err
	}
	a.take(run)
	return true, nil
}

func (a *applier) mayAdopt(cmd *store.Command, shard store.Shard) bool {
	return cmd.Claim && a.batch != nil && a.batch.current[shard]
}

// take changes the run to one that was claimed.
func (a *applier) take(run *store.Run) {
	run.Status, run.Claimed, run.WakeAt = store.Running, true, 0
	run.Marks &^= store.Held
	if run.Started == 0 {
		run.Started = a.now
	}
}

// find returns the run with the ID, or with the number if that is not 0, with its
// input and without its output.
func (a *applier) find(id string, no store.RunNo) (store.Run, int64, error) {
	where, key := " FROM stet.runs r WHERE r.id=$1", any(id)
	if no != 0 {
		where, key = " FROM stet.runs r WHERE r.run_no=$1", any(no)
	}
	var f runRow
	ok, err := a.q.row("SELECT "+runNoOutput+where, []any{key}, f.dest()...)
	if err != nil || !ok {
		return store.Run{}, 0, err
	}
	run, err := f.run()
	return run, f.ready, err
}

// start makes a run, or answers for the one that exists.
func (a *applier) start(cmd *store.Command) (store.Answer, error) {
	st := cmd.Start
	run := store.Run{
		ID: st.ID, Shard: st.Shard, Workflow: st.Workflow, Status: store.Queued, Seed: st.Seed, Parent: st.Parent, ParentLoc: st.ParentLoc,
		Created: a.now, Input: st.Input, InputSize: len(st.Input), Tags: store.MergeTags(nil, st.Tags), Headers: st.Headers,
	}
	at := st.At
	if st.After > 0 {
		at = max(at, a.now+store.Time(st.After))
	}
	condition := int64(sqlstore.Ready)
	if at > a.now {
		run.WakeAt, condition = at, sqlstore.Idle
	}
	adopt := condition == sqlstore.Ready && st.Fork == nil && st.Queue == nil && !a.repeat && a.mayAdopt(cmd, st.Shard)
	if adopt {
		run.Status, run.Started, run.Build, condition = store.Running, a.now, st.Build, sqlstore.Claimed
	}
	if st.Queue != nil {
		run.Marks, run.Queue = store.Held, bytes.Clone(st.Queue.Data)
	}
	for {
		isNew, err := a.insertRun(&run, condition)
		if err != nil {
			return store.Answer{}, err
		}
		if isNew {
			break
		}
		old, oldCondition, err := a.find(st.ID, 0)
		switch {
		case err != nil:
			return store.Answer{}, err
		case old.No == 0:
			continue // it has just been swept, or renamed
		case old.FirstSeed() == st.Seed:
			answer := store.Answer{Outcome: store.Applied}
			answer.Claimed, err = a.adopted(cmd, &old, oldCondition)
			answer.Run = old
			return answer, err
		case st.Existing != store.ReplaceFailed || old.Status != store.Failed && old.Status != store.Cancelled:
			return store.Answer{Outcome: store.Exists, Run: old}, nil
		}
		switch moved, err := a.moveAway(&old); {
		case err != nil:
			return store.Answer{}, err
		case !moved:
			return store.Answer{Outcome: store.Exists, Run: old}, nil
		}
	}
	if st.Fork != nil {
		if err := a.fork(&run, st.Fork); err != nil {
			return store.Answer{}, err
		}
	}
	for i := range st.Items {
		var no int64
		if _, err := a.insert(run.No, &st.Items[i], &no); err != nil {
			return store.Answer{}, err
		}
	}
	if adopt {
		a.take(&run)
	} else {
		var err error
		if adopt, err = a.adopted(cmd, &run, condition); err != nil {
			return store.Answer{}, err
		}
	}
	if st.Queue != nil {
		ask := st.Queue.Ask
		ask.Claim = false
		if _, err := a.apply(&ask); err != nil {
			return store.Answer{}, err
		}
	}
	run.Input, run.Headers = bytes.Clone(st.Input), bytes.Clone(st.Headers)
	return store.Answer{Outcome: store.Applied, Run: run, Claimed: adopt}, nil
}

// moveAway gives a run the name ID@N. It reports false if that is too long or
// taken.
func (a *applier) moveAway(run *store.Run) (bool, error) {
	id := fmt.Sprintf("%s@%d", run.ID, run.No)
	if len(id) > store.MaxRunID {
		return false, nil
	}
	n, err := a.q.exec("UPDATE stet.runs SET id=$1 WHERE run_no=$2 AND NOT EXISTS (SELECT 1 FROM stet.runs WHERE id=$1)", id, run.No)
	return n == 1, err
}

// insertRun inserts a run. It reports false if its ID is taken.
func (a *applier) insertRun(run *store.Run, condition int64) (bool, error) {
	var no int64
	ok, err := a.q.row(`INSERT INTO stet.runs (id, grp, slot, workflow, status, ready, wake_at, seed, parent_no, parent_loc, created, started, input, tags, headers, marks, queue, build)
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18) ON CONFLICT (id) DO NOTHING RETURNING run_no`,
		[]any{run.ID, run.Shard.Group, run.Shard.Slot, run.Workflow, run.Status, condition, null(run.WakeAt), run.Seed[:], run.Parent,
			[]byte(run.ParentLoc), run.Created, run.Started, run.Input, sqlstore.EncodeTags(run.Tags), run.Headers, run.Marks, run.Queue, []byte(run.Build)}, &no)
	if err != nil || !ok {
		return false, err
	}
	run.No = store.RunNo(no)
	return true, retag(a.q, run.No, nil, run.Tags)
}

// insert inserts an item. It reports false if the run has one with its ID.
func (a *applier) insert(run store.RunNo, it *store.Item, no *int64) (bool, error) {
	return a.q.row(`INSERT INTO stet.inbox (run_no, kind, name, item_id, origin, incarnation, loc, failed, sent_at, val, headers, generation)
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12) ON CONFLICT (run_no, item_id) DO NOTHING RETURNING item_no`,
		[]any{run, it.Kind, it.Name, it.ID, []byte(it.Origin), it.Incarnation, []byte(it.Loc), it.Failed, a.now, it.Value, it.Headers, it.Generation}, no)
}

// fork gives a new run what it begins with.
func (a *applier) fork(run *store.Run, f *store.Fork) error {
	run.Random, run.Started = f.Random, f.Started
	if _, err := a.q.exec("UPDATE stet.runs SET random=$1, started=$2 WHERE run_no=$3", f.Random[:], f.Started, run.No); err != nil {
		return err
	}
	for i := range f.Entries {
		if _, err := writeEntry(a.q, run.No, 0, &f.Entries[i]); err != nil {
			return err
		}
	}
	for i := range f.Items {
		it := &f.Items[i]
		sent := applier{q: a.q, now: it.Sent}
		var no int64
		if _, err := sent.insert(run.No, it, &no); err != nil {
			return err
		}
		if it.State == store.Consumed {
			if _, err := a.q.exec("UPDATE stet.inbox SET state=3 WHERE item_no=$1", no); err != nil {
				return err
			}
		}
	}
	return note(a.q, run.No, f.Audit, a.now)
}

// note adds to what operators did to a run.
func note(q querier, run store.RunNo, audit []store.Audit, now store.Time) error {
	for i := range audit {
		a := &audit[i]
		_, err := q.exec(`INSERT INTO stet.audit (run_no, no, at, who, verb, why, detail)
			SELECT $1::bigint, coalesce(max(no), 0)+1, $2::bigint, $3::text, $4::text, $5::bytea, $6::bytea FROM stet.audit WHERE run_no=$1::bigint`,
			run, now, a.Who, a.Verb, []byte(a.Why), []byte(a.Detail))
		if err != nil {
			return err
		}
	}
	return nil
}
