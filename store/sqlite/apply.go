package sqlite

import (
	"bytes"
	"context"
	"fmt"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/storekit"
)

// querier executes statements in a transaction: ours, or one of a caller's.
type querier interface {
	exec(sql string, args ...any) (changes int64, err error)
	row(sql string, args []any, dest ...any) (ok bool, err error)
}

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	if err := storekit.ValidateCommands(commands); err != nil {
		return nil, 0, err
	}
	if err := s.refuseStarts(commands); err != nil {
		return nil, 0, err
	}
	answers := make([]store.Answer, len(commands))
	var now store.Time
	err := s.write.do(ctx, "apply commands", func(c *conn, at store.Time) error {
		now = at
		a := applier{q: c, now: at}
		for i := range commands {
			var err error
			if answers[i], err = a.apply(&commands[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return answers, now, nil
}

// applier carries out commands in one transaction.
type applier struct {
	q      querier
	now    store.Time
	batch  *committing // nil: runs are not adopted
	stamp  int64       // of the batch; 0: none
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
	var no, stamp int64
	var origin string
	ok, err := a.q.row("SELECT item_no, origin, stamp FROM stet_inbox WHERE run_no=? AND item_id=?", []any{int64(run.No), cmd.Item.ID}, &no, &origin, &stamp)
	if err != nil {
		return answer, err
	}
	if ok {
		answer.Outcome = store.Duplicate
		if origin == cmd.Item.Origin {
			answer.Outcome, answer.Item, answer.Repeated = store.Applied, store.ItemNo(no), true
			answer.Claimed = a.adoptedBefore(cmd, run, condition, stamp)
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
	if err := a.batch.c.claim(run.No, a.now, caller{grant: cmd.Item != nil && cmd.Item.Kind == store.ItemGrant}); err != nil {
		return false, err
	}
	a.take(run)
	return true, nil
}

// adoptedBefore reports whether a former try of this very batch, as the row's
// stamp shows, has adopted the run.
func (a *applier) adoptedBefore(cmd *store.Command, run *store.Run, condition, stamp int64) bool {
	return condition == sqlstore.Claimed && (a.repeat || a.stamped(stamp)) && a.mayAdopt(cmd, run.Shard)
}

// stamped reports whether a row with the stamp was inserted by a former try of the
// batch: not if this try has inserted something.
func (a *applier) stamped(stamp int64) bool {
	return a.batch != nil && !a.batch.inserted && stamp != 0 && stamp == a.stamp
}

// inserted notes that this try has inserted a row.
func (a *applier) inserted() {
	if a.batch != nil {
		a.batch.inserted = true
	}
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
	a.batch.hand.put(run.No, inHand{run.Shard, run.Incarnation, run.Status, true})
}

// find returns the run with the ID, or with the number if that is not 0, with its
// input and without its output.
func (a *applier) find(id string, no store.RunNo) (run store.Run, condition int64, err error) {
	where, key := " FROM stet_runs WHERE id=?", any(id)
	if no != 0 {
		where, key = " FROM stet_runs WHERE run_no=?", any(int64(no))
	}
	var f runFields
	ok, err := a.q.row("SELECT id, "+answerColumns+where, []any{key}, append([]any{&id}, f.dest()...)...)
	if err != nil || !ok {
		return run, 0, err
	}
	run, condition, err = f.run()
	run.ID = id
	if err == nil && run.InputSize > smallPayload {
		_, err = a.q.row("SELECT val FROM stet_payloads WHERE run_no=? AND what=?", []any{int64(run.No), payloadInput}, &run.Input)
	}
	return run, condition, err
}

// answerColumns are the columns of a run that an Answer holds, besides its ID.
const answerColumns = `run_no, grp, slot, workflow, status, marks, ready, coalesce(wake_at, 0), incarnation, generation, seed, build,
	suspect, strikes, alone, parent_no, parent_loc, created, started, ended, input_size, output_size, reason, input, waits, tags, headers, random, first, began, queue`

// runFields are the values of answerColumns.
type runFields struct {
	no, slot, status, marks, ready, wakeAt, incarnation, generation    int64
	suspect, strikes, alone, parent, created, started, ended, in, out  int64
	began                                                              int64
	group, workflow, build, reason                                     string
	seed, parentLoc, input, waits, tags, headers, random, first, queue []byte
}

func (f *runFields) dest() []any {
	return []any{&f.no, &f.group, &f.slot, &f.workflow, &f.status, &f.marks, &f.ready, &f.wakeAt, &f.incarnation, &f.generation, &f.seed, &f.build,
		&f.suspect, &f.strikes, &f.alone, &f.parent, &f.parentLoc, &f.created, &f.started, &f.ended, &f.in, &f.out, &f.reason, &f.input, &f.waits, &f.tags, &f.headers, &f.random, &f.first, &f.began, &f.queue}
}

func (f *runFields) run() (store.Run, int64, error) {
	r := store.Run{
		No: store.RunNo(f.no), Shard: store.Shard{Group: f.group, Slot: int(f.slot)}, Workflow: f.workflow,
		Status: store.Status(f.status), Marks: store.Marks(f.marks), Claimed: f.ready == sqlstore.Claimed,
		Incarnation: int(f.incarnation), Generation: int(f.generation), Build: f.build,
		Suspect: int(f.suspect), Strikes: int(f.strikes), Alone: f.alone != 0,
		Parent: store.RunNo(f.parent), ParentLoc: string(f.parentLoc), Created: store.Time(f.created), Started: store.Time(f.started),
		Ended: store.Time(f.ended), WakeAt: store.Time(f.wakeAt), InputSize: int(f.in), OutputSize: int(f.out),
		Reason: f.reason, Input: f.input, Waits: f.waits, Headers: f.headers, Queue: f.queue,
	}
	copy(r.Seed[:], f.seed)
	copy(r.Random[:], f.random)
	r.First, r.Began = sqlstore.DecodeOrigin(f.first), store.Time(f.began)
	var err error
	r.Tags, err = sqlstore.DecodeTags(f.tags)
	return r, f.ready, err
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
	isNew, err := a.insertRun(&run, condition)
	if err != nil {
		return store.Answer{}, err
	}
	if !isNew {
		old, oldCondition, err := a.find(st.ID, 0)
		if err != nil {
			return store.Answer{}, err
		}
		switch {
		case old.FirstSeed() == st.Seed:
			return a.again(cmd, &old, oldCondition)
		case st.Existing != store.ReplaceFailed || old.Status != store.Failed && old.Status != store.Cancelled:
			return store.Answer{Outcome: store.Exists, Run: old}, nil
		}
		switch moved, err := a.moveAway(&old); {
		case err != nil:
			return store.Answer{}, err
		case !moved:
			return store.Answer{Outcome: store.Exists, Run: old}, nil
		}
		if _, err := a.insertRun(&run, condition); err != nil {
			return store.Answer{}, err
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
	} else if adopt, err = a.adopted(cmd, &run, condition); err != nil {
		return store.Answer{}, err
	}
	if st.Queue != nil {
		ask := st.Queue.Ask
		ask.Claim = false
		if _, err := a.apply(&ask); err != nil {
			return store.Answer{}, err
		}
	}
	run.Input = append([]byte(nil), st.Input...)
	if st.Input != nil && run.Input == nil {
		run.Input = []byte{}
	}
	run.Headers = bytes.Clone(st.Headers)
	return store.Answer{Outcome: store.Applied, Run: run, Claimed: adopt}, nil
}

// again answers a start that has made the run before.
func (a *applier) again(cmd *store.Command, run *store.Run, condition int64) (store.Answer, error) {
	answer := store.Answer{Outcome: store.Applied}
	var stamp int64
	_, err := a.q.row("SELECT stamp FROM stet_runs WHERE run_no=?", []any{int64(run.No)}, &stamp)
	if err != nil {
		return answer, err
	}
	if answer.Claimed = a.adoptedBefore(cmd, run, condition, stamp); !answer.Claimed {
		answer.Claimed, err = a.adopted(cmd, run, condition)
	}
	answer.Run = *run
	return answer, err
}

// moveAway gives a run the name ID@N. It reports false if that is too long or
// taken.
func (a *applier) moveAway(run *store.Run) (bool, error) {
	id := fmt.Sprintf("%s@%d", run.ID, run.No)
	if len(id) > store.MaxRunID {
		return false, nil
	}
	n, err := a.q.exec("UPDATE OR IGNORE stet_runs SET id=? WHERE run_no=?", id, int64(run.No))
	return n == 1, err
}

// insertRun inserts a run. It reports false if its ID is taken.
func (a *applier) insertRun(run *store.Run, condition int64) (bool, error) {
	input := run.Input
	if len(input) > smallPayload {
		input = nil
	}
	var wakeAt any
	if run.WakeAt != 0 {
		wakeAt = int64(run.WakeAt)
	}
	var no int64
	ok, err := a.q.row(`INSERT INTO stet_runs (run_no, id, grp, slot, workflow, status, ready, wake_at, seed, parent_no, parent_loc, created, started, input_size, input, tags, headers, stamp, marks, queue, build)
		VALUES (`+above("1", "run_no", "stet_runs")+`,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING RETURNING run_no`,
		[]any{run.ID, run.Shard.Group, int64(run.Shard.Slot), run.Workflow, int64(run.Status), condition, wakeAt, run.Seed[:], int64(run.Parent),
			[]byte(run.ParentLoc), int64(run.Created), int64(run.Started), int64(len(run.Input)), input, sqlstore.EncodeTags(run.Tags), run.Headers, a.stamp, int64(run.Marks), run.Queue, run.Build}, &no)
	if err != nil || !ok {
		return false, err
	}
	run.No = store.RunNo(no)
	a.inserted()
	if err := retag(a.q, run.No, nil, run.Tags); err != nil {
		return false, err
	}
	if len(run.Input) > smallPayload {
		_, err = a.q.exec("INSERT INTO stet_payloads (run_no, what, val) VALUES (?,?,?)", no, int64(payloadInput), run.Input)
	}
	return true, err
}

// insert inserts an item. It reports false if the run has one with its ID.
func (a *applier) insert(run store.RunNo, it *store.Item, no *int64) (bool, error) {
	failed := int64(0)
	if it.Failed {
		failed = 1
	}
	ok, err := a.q.row(`INSERT INTO stet_inbox (item_no, run_no, kind, state, name, item_id, origin, incarnation, loc, failed, sent_at, val, headers, generation, stamp)
		VALUES (`+above("2", "item_no", "stet_inbox")+`,?,?,1,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (run_no, item_id) DO NOTHING RETURNING item_no`,
		[]any{int64(run), int64(it.Kind), it.Name, it.ID, it.Origin, int64(it.Incarnation), []byte(it.Loc), failed, int64(a.now), it.Value, it.Headers, int64(it.Generation), a.stamp}, no)
	if ok {
		a.inserted()
	}
	return ok, err
}
