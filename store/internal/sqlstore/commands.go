package sqlstore

import (
	"bytes"
	"fmt"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
	"github.com/stet-run/stet/store/storekit"
)

// Rows are the acts of commands in which the stores differ. They are carried out in one
// transaction.
type Rows interface {
	Statements
	// FindRun returns the run with the ID, or with the number if that is not 0, and its
	// value of the column ready. The run has its input and no output. A run that does not
	// exist has no number.
	FindRun(id string, no store.RunNo) (run store.Run, ready int64, err error)
	// InsertRun inserts a run and sets its number. It reports false if the ID is taken.
	InsertRun(run *store.Run, ready int64, line Line) (inserted bool, err error)
	// InsertItem inserts a new item that is sent now. It reports false if the run has one
	// with its ID.
	InsertItem(run store.RunNo, it *store.Item, now store.Time) (no store.ItemNo, inserted bool, err error)
	// RestoreItem inserts a new item that was sent before, at the item's own time. It
	// reports false if the run has one with its ID.
	RestoreItem(run store.RunNo, it *store.Item) (no store.ItemNo, inserted bool, err error)
	// InsertForked inserts an entry of a run that has just been inserted.
	InsertForked(run store.RunNo, e *store.Entry) error
	// InsertedBefore reports whether an earlier try of the batch that is being applied,
	// whose answer was lost, inserted the item, or the run if item is 0.
	InsertedBefore(run store.RunNo, item store.ItemNo) (bool, error)
}

// Commands carries out commands in one transaction. It locks and changes no row of an
// existing run, except where it claims the run or gives its ID to another.
type Commands struct {
	Rows  Rows
	Now   store.Time
	Batch *Batch // nil: no run is claimed
}

// All carries commands out one after the other.
func (c *Commands) All(commands []store.Command) ([]store.Answer, error) {
	answers := make([]store.Answer, len(commands))
	for i := range commands {
		var err error
		if answers[i], err = c.Apply(&commands[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// Apply carries out one command.
func (c *Commands) Apply(cmd *store.Command) (store.Answer, error) {
	switch {
	case cmd.Start != nil:
		return c.start(cmd)
	case cmd.Admit != "":
		return c.admit(cmd)
	}
	for {
		run, ready, err := c.Rows.FindRun(cmd.RunID, cmd.RunNo)
		if err != nil || run.No == 0 {
			return store.Answer{Outcome: store.NotFound}, err
		}
		answer := store.Answer{Outcome: store.Applied}
		inserted, taken := false, takes(&run, cmd.Item)
		if taken {
			if answer.Item, inserted, err = c.Rows.InsertItem(run.No, cmd.Item, c.Now); err != nil {
				return answer, err
			}
		}
		if !inserted {
			answer, found, err := c.known(cmd, &run, ready)
			if err == nil && taken && !found {
				continue // the one that was there has just been refused: it is a dead letter, with another ID
			}
			return answer, err
		}
		if answer.Claimed, err = c.claim(cmd, &run, ready); err != nil {
			return answer, err
		}
		answer.Run = run
		return answer, nil
	}
}

// takes reports whether an item may be inserted into the inbox of a run: of one that has
// ended only a verb, unless the run is being swept.
func takes(run *store.Run, it *store.Item) bool {
	return !run.Status.Terminal() || it.Kind.Verb() && run.Marks&store.Expiring == 0
}

// known answers a command whose item was not inserted: the run has it already, or does
// not take it. found says that it has it.
func (c *Commands) known(cmd *store.Command, run *store.Run, ready int64) (answer store.Answer, found bool, err error) {
	answer = store.Answer{Outcome: store.Ended}
	var no int64
	var origin []byte
	found, err = c.Rows.Row("SELECT item_no, origin FROM stet.inbox WHERE run_no=$1 AND item_id=$2",
		[]any{int64(run.No), cmd.Item.ID}, &no, &origin)
	if err != nil {
		return answer, false, err
	}
	if found {
		answer.Outcome = store.Duplicate
		if string(origin) == cmd.Item.Origin {
			answer.Outcome, answer.Item, answer.Repeated = store.Applied, store.ItemNo(no), true
			answer.Claimed, err = c.claimedBefore(cmd, run, ready, answer.Item)
		}
	}
	answer.Run = *run
	return answer, found, err
}

// claim claims a run that exists, if the command asks for it, the batch leads its shard,
// and the run is due or suspended. In a repeat of the batch it reports whether the run is
// claimed.
func (c *Commands) claim(cmd *store.Command, run *store.Run, ready int64) (bool, error) {
	switch {
	case !c.mayClaim(cmd, run.Shard):
		return false, nil
	case c.repeat():
		return ready == words.Claimed, nil
	case ready == words.Claimed, run.Marks&store.Paused != 0, cmd.Item != nil && cmd.Item.Kind == store.ItemPause:
		return false, nil
	case !storekit.Claimable(run, ready == words.Ready, cmd.Item, c.Now):
		return false, nil
	}
	n, err := c.Rows.Exec(`UPDATE stet.runs SET ready={claimed}, wake_at=NULL, status={running}, marks=marks & ~{held},
		started=CASE WHEN started=0 THEN $2 ELSE started END WHERE run_no=$1 AND ready<>{claimed}`, int64(run.No), c.Now)
	if err != nil || n == 0 {
		return false, err
	}
	c.claimed(run)
	return true, Stir(c.Rows, run.No)
}

// claimedBefore reports whether an earlier try of this batch claimed the run: the batch
// is a repeat, or that try inserted the item (or the run, if item is 0).
func (c *Commands) claimedBefore(cmd *store.Command, run *store.Run, ready int64, item store.ItemNo) (bool, error) {
	if ready != words.Claimed || !c.mayClaim(cmd, run.Shard) {
		return false, nil
	}
	if c.repeat() {
		return true, nil
	}
	return c.Rows.InsertedBefore(run.No, item)
}

func (c *Commands) repeat() bool { return c.Batch != nil && c.Batch.repeat }

func (c *Commands) mayClaim(cmd *store.Command, shard store.Shard) bool {
	return cmd.Claim && c.Batch != nil && c.Batch.current[shard]
}

// claimed changes the run to one that was just claimed.
func (c *Commands) claimed(run *store.Run) {
	run.Status, run.Claimed, run.WakeAt = store.Running, true, 0
	run.Marks &^= store.Held
	if run.Started == 0 {
		run.Started = c.Now
	}
	c.Batch.Rows.RunClaimed(run)
}

// start makes a run, or answers for the one that exists.
func (c *Commands) start(cmd *store.Command) (store.Answer, error) {
	st := cmd.Start
	run, ready := newRun(st, c.Now)
	line := lineOf(st, c.Now)
	claim := ready == words.Ready && st.Fork == nil && st.Queue == nil && !c.repeat() && c.mayClaim(cmd, st.Shard)
	if claim {
		run.Status, run.Started, run.Build, ready = store.Running, c.Now, st.Build, words.Claimed
	}
	for {
		inserted, err := c.insertRun(&run, ready, line)
		if err != nil {
			return store.Answer{}, err
		}
		if inserted {
			break
		}
		old, oldReady, err := c.Rows.FindRun(st.ID, 0)
		switch {
		case err != nil:
			return store.Answer{}, err
		case old.No == 0:
			continue // it has just been swept, or renamed
		case old.FirstSeed() == st.Seed:
			return c.started(cmd, &old, oldReady)
		case !st.Existing.Replaces(old.Status):
			return store.Answer{Outcome: store.Exists, Run: old}, nil
		}
		switch moved, err := c.moveAway(&old); {
		case err != nil:
			return store.Answer{}, err
		case !moved:
			return store.Answer{Outcome: store.Exists, Run: old}, nil
		}
	}
	if st.Fork != nil {
		if err := c.fork(&run, st.Fork); err != nil {
			return store.Answer{}, err
		}
	}
	for i := range st.Items {
		if _, _, err := c.Rows.InsertItem(run.No, &st.Items[i], c.Now); err != nil {
			return store.Answer{}, err
		}
	}
	if claim {
		c.claimed(&run)
	} else {
		var err error
		if claim, err = c.claim(cmd, &run, ready); err != nil {
			return store.Answer{}, err
		}
	}
	if st.Queue != nil && st.Queue.Line == nil {
		ask := st.Queue.Ask
		ask.Claim = false
		if _, err := c.Apply(&ask); err != nil {
			return store.Answer{}, err
		}
	}
	run.Input, run.Headers = bytes.Clone(st.Input), bytes.Clone(st.Headers)
	return store.Answer{Outcome: store.Applied, Run: run, Claimed: claim}, nil
}

// newRun returns the run that a start makes, before anybody claims it, and its value of
// the column ready.
func newRun(st *store.Start, now store.Time) (store.Run, int64) {
	run := store.Run{
		ID: st.ID, Shard: st.Shard, Workflow: st.Workflow, Status: store.Queued, Seed: st.Seed,
		Parent: st.Parent, ParentLoc: st.ParentLoc, Created: now, Input: st.Input, InputSize: len(st.Input),
		Tags: store.MergeTags(nil, st.Tags), Headers: st.Headers,
	}
	if st.Queue != nil {
		run.Marks, run.Queue = store.Held, bytes.Clone(st.Queue.Data)
	}
	if at := st.Due(now); at > now && st.Queue == nil {
		run.WakeAt = at
		return run, words.Idle
	}
	return run, words.Ready
}

// started answers a start that made the run before.
func (c *Commands) started(cmd *store.Command, run *store.Run, ready int64) (store.Answer, error) {
	claimed, err := c.claimedBefore(cmd, run, ready, 0)
	if err == nil && !claimed {
		claimed, err = c.claim(cmd, run, ready)
	}
	return store.Answer{Outcome: store.Applied, Run: *run, Claimed: claimed}, err
}

// insertRun inserts a run with its tags. It reports false if its ID is taken.
func (c *Commands) insertRun(run *store.Run, ready int64, line Line) (bool, error) {
	inserted, err := c.Rows.InsertRun(run, ready, line)
	if err != nil || !inserted {
		return false, err
	}
	return true, retag(c.Rows, run.No, nil, run.Tags)
}

// moveAway gives a run the name ID@N. It reports false if that is too long or taken.
func (c *Commands) moveAway(run *store.Run) (bool, error) {
	id := fmt.Sprintf("%s@%d", run.ID, run.No)
	if len(id) > store.MaxRunID {
		return false, nil
	}
	n, err := c.Rows.Exec(`UPDATE stet.runs SET id=$1 WHERE run_no=$2
		AND NOT EXISTS (SELECT 1 FROM stet.runs WHERE id=$1)`, id, int64(run.No))
	return n == 1, err
}

// fork gives a new run the state that it begins with.
func (c *Commands) fork(run *store.Run, f *store.Fork) error {
	run.Random, run.Started = f.Random, f.Started
	if _, err := c.Rows.Exec("UPDATE stet.runs SET random=$1, started=$2 WHERE run_no=$3",
		f.Random[:], f.Started, int64(run.No)); err != nil {
		return err
	}
	for i := range f.Entries {
		if err := c.Rows.InsertForked(run.No, &f.Entries[i]); err != nil {
			return err
		}
	}
	for i := range f.Items {
		no, _, err := c.Rows.RestoreItem(run.No, &f.Items[i])
		if err != nil {
			return err
		}
		if f.Items[i].State == store.Consumed {
			if _, err := c.Rows.Exec("UPDATE stet.inbox SET state={consumed} WHERE item_no=$1", int64(no)); err != nil {
				return err
			}
		}
	}
	return note(c.Rows, run.No, f.Audit, c.Now)
}

// note adds acts of operators to those of a run.
func note(s Statements, run store.RunNo, audit []store.Audit, now store.Time) error {
	for i := range audit {
		a := &audit[i]
		_, err := s.Exec(`INSERT INTO stet.audit (run_no, no, at, who, verb, why, detail)
			SELECT $1::bigint, coalesce(max(no), 0)+1, $2::bigint, $3::text, $4::text, $5::bytea, $6::bytea
			FROM stet.audit WHERE run_no=$1::bigint`,
			int64(run), now, a.Who, a.Verb, Bytes(a.Why), Bytes(a.Detail))
		if err != nil {
			return err
		}
	}
	return nil
}
