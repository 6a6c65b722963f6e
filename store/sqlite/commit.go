package sqlite

import (
	"context"
	"errors"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/internal/words"
)

// entryTables are the tables besides entries that have rows with the key of an entry.
var entryTables = []string{"blobs"}

// Commit implements store.Store. If a turn breaks a law, the transaction is taken back and
// repeated without it.
func (s *Store) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := b.Validate(); err != nil {
		return store.BatchResult{}, err
	}
	refused := map[int]string{}
	for {
		var result store.BatchResult
		err := s.write.do(ctx, "commit a batch", func(c *conn, now store.Time) (err error) {
			t := committing{rows: rows{querier: c}, c: c, cache: &s.write.cache, b: &b, now: now}
			batch := sqlstore.Batch{Rows: &t, Now: now, Batch: &b, Refused: refused, EntryTables: entryTables}
			result, err = batch.Commit()
			return err
		})
		var r *sqlstore.Refusal
		if !errors.As(err, &r) {
			return result, err
		}
		refused[r.Turn] = r.Reason
	}
}

// committing is one try of a batch in one transaction. It implements sqlstore.BatchRows.
type committing struct {
	rows
	c       *conn
	cache   *cache
	b       *store.Batch
	now     store.Time
	listed  bool  // the node's row is there
	life    int64 // of the row
	stamped bool  // an entry holds the batch's number
}

// RecordBatch implements sqlstore.BatchRows: it writes the batch's number and verdicts
// into the node's row, unless an entry holds them.
func (t *committing) RecordBatch(turns []store.TurnResult) error {
	if !t.listed || len(turns) > 0 && !(t.stamped && turns[0].Verdict == store.Committed) {
		if _, err := t.c.row(`INSERT INTO stet_nodes (node, boot, batch_no, verdicts, seen_at) VALUES (?1,?2,?3,?4,?5)
			ON CONFLICT DO UPDATE SET batch_no=?3, verdicts=?4 RETURNING life`,
			[]any{t.b.Node, t.b.Boot, t.b.No, sqlstore.EncodeVerdicts(turns), t.now}, &t.life); err != nil {
			return err
		}
	}
	t.cache.last = batchNo{bootOf(t.b), t.b.No, t.life}
	return nil
}

// CurrentLeases implements sqlstore.BatchRows.
func (t *committing) CurrentLeases() (map[store.Shard]bool, error) {
	current := make(map[store.Shard]bool, len(t.b.Leases))
	for i := range t.b.Leases {
		l := &t.b.Leases[i]
		if epoch, known := t.cache.epochs[l.Shard]; known && epoch == l.Epoch {
			current[l.Shard] = true // nothing was written since it was read
			continue
		}
		ok, err := t.c.current(l)
		if err != nil {
			return nil, err
		}
		current[l.Shard] = ok
		t.cache.holds(l.Shard, l.Epoch, ok)
	}
	return current, nil
}

// RunClaimed implements sqlstore.BatchRows.
func (t *committing) RunClaimed(run *store.Run) {
	t.cache.put(run.No, cachedRun{run.Shard, run.Incarnation, run.Status, true})
}

// ExecEach implements sqlstore.BatchRows.
func (t *committing) ExecEach(text string, args [][]any) (changed int, err error) {
	for i, a := range args {
		if n, err := t.Exec(text, a...); err != nil || n == 0 {
			return i, err
		}
	}
	return len(args), nil
}

// RunState implements sqlstore.BatchRows.
func (t *committing) RunState(turn *store.Turn) (sqlstore.RunState, bool, error) {
	var state sqlstore.RunState
	run, cached := t.cache.runs[turn.Run]
	if !cached {
		var group string
		var slot, incarnation, status, condition int64
		found, err := t.c.row("SELECT grp, slot, incarnation, status, ready FROM stet_runs WHERE run_no=?",
			[]any{int64(turn.Run)}, &group, &slot, &incarnation, &status, &condition)
		if err != nil || !found {
			return state, false, err
		}
		shard := store.Shard{Group: group, Slot: int(slot)}
		run = cachedRun{shard, int(incarnation), store.Status(status), condition == words.Claimed}
		if run.claimed {
			t.cache.put(turn.Run, run)
		}
	}
	state = sqlstore.RunState{Shard: run.shard, Incarnation: run.incarnation, Status: run.status, Claimed: run.claimed}
	if u := turn.Update; u != nil && (u.Generation != 0 || u.Marks&store.Undoing != 0) {
		var generation, marks int64
		if _, err := t.c.row("SELECT generation, marks FROM stet_runs WHERE run_no=?",
			[]any{int64(turn.Run)}, &generation, &marks); err != nil {
			return state, false, err
		}
		state.Generation, state.Marks = int(generation), store.Marks(marks)
	}
	return state, true, nil
}

const (
	insertEntry  = "INSERT" + intoEntries + " ON CONFLICT DO NOTHING"
	replaceEntry = "REPLACE" + intoEntries
	intoEntries  = " INTO stet_entries (run_no, incarnation, " + entryColumns + ", val, stamp)" +
		" VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)

// writeEntry executes insertEntry or replaceEntry.
func (t *committing) writeEntry(text string, turn *store.Turn, e *store.Entry, stamp int64) error {
	s, err := t.c.stmt(text)
	if err != nil {
		return err
	}
	if err := errors.Join(bindEntry(s, turn, e), s.BindInt64(17, stamp)); err != nil {
		return err
	}
	return s.Exec()
}

// InsertEntry implements sqlstore.BatchRows.
func (t *committing) InsertEntry(turn *store.Turn, i int) (bool, error) {
	e, stamp := &turn.Entries[i], t.stampOf(i)
	if err := t.writeEntry(insertEntry, turn, e, stamp); err != nil {
		return false, err
	}
	if t.c.Changes() == 0 {
		return false, nil
	}
	t.stamped = t.stamped || stamp != 0
	return true, t.blob(turn, e)
}

// bindEntry binds the columns of an entry in their order, without the stamp.
func bindEntry(s *sqlite3.Stmt, turn *store.Turn, e *store.Entry) error {
	for i, v := range [...]int64{int64(turn.Run), int64(turn.Incarnation)} {
		if err := s.BindInt64(1+i, v); err != nil {
			return err
		}
	}
	if err := s.BindBlob(3, bytesOf(e.Loc)); err != nil {
		return err
	}
	for i, v := range [...]int64{int64(e.Kind), int64(e.State), e.Seq, e.Born, int64(e.At), int64(e.Wake),
		int64(e.Attempt), boolean(e.Owes), int64(e.Started), int64(e.Ended), int64(len(e.Value)), int64(e.Generation)} {
		if err := s.BindInt64(4+i, v); err != nil {
			return err
		}
	}
	if len(e.Value) >= store.LargeValue {
		return s.BindNull(16)
	}
	return bindValue(s, 16, e.Value)
}

func boolean(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// blob writes a value that is too long for the entry's row.
func (t *committing) blob(turn *store.Turn, e *store.Entry) error {
	if len(e.Value) < store.LargeValue {
		return nil
	}
	_, err := t.c.exec("INSERT OR REPLACE INTO stet_blobs (run_no, incarnation, loc, val) VALUES (?,?,?,?)",
		int64(turn.Run), turn.Incarnation, bytesOf(e.Loc), e.Value)
	return err
}

// Entry implements sqlstore.BatchRows.
func (t *committing) Entry(turn *store.Turn, loc string) (e store.Entry, found bool, err error) {
	key := []any{int64(turn.Run), turn.Incarnation, bytesOf(loc)}
	err = t.c.each("SELECT "+entryColumns+", val FROM stet_entries WHERE run_no=? AND incarnation=? AND loc=?", key,
		func(s *sqlite3.Stmt) error {
			e, found = scanEntry(s), true
			e.Value = value(s, entryWidth)
			return nil
		})
	if err == nil && e.Size >= store.LargeValue {
		_, err = t.c.row("SELECT val FROM stet_blobs WHERE run_no=? AND incarnation=? AND loc=?", key, &e.Value)
	}
	return e, found, err
}

// Overwrite implements sqlstore.BatchRows.
func (t *committing) Overwrite(turn *store.Turn, old, e *store.Entry) error {
	if old.Size >= store.LargeValue && len(e.Value) < store.LargeValue {
		if _, err := t.c.exec("DELETE FROM stet_blobs WHERE run_no=? AND incarnation=? AND loc=?",
			int64(turn.Run), turn.Incarnation, bytesOf(e.Loc)); err != nil {
			return err
		}
	}
	stamp := int64(0)
	if t.stamped && e.Loc == turn.Entries[0].Loc {
		stamp = t.stampOf(0) // it was inserted by this very turn
	}
	if err := t.writeEntry(replaceEntry, turn, e, stamp); err != nil {
		return err
	}
	return t.blob(turn, e)
}

// suspicions are the assignments of an UPDATE to the columns suspect, strikes and alone.
var suspicions = [...]string{
	sqlstore.SuspicionEnds:  "suspect=0, strikes=0, alone=0",
	sqlstore.SuspicionStays: "suspect=suspect",
	sqlstore.Isolated:       "alone=1",
	sqlstore.Tried:          "alone=1, strikes=0",
	sqlstore.NotIsolated:    "alone=0, strikes=0",
}

// updateTexts are the statements of UpdateRun: by suspicion, whether any build will do, and what is written.
var updateTexts = func() (texts [len(suspicions)][2][3]string) {
	for i := range suspicions {
		for anyBuild, build := range [...]string{"max(build, ?2)", "?2"} {
			held := "UPDATE stet_runs SET " + suspicions[i] + ", build=" + build
			plain := held + ", ended=CASE WHEN ?3<0 THEN ended ELSE ?3 END, expires=CASE WHEN ?3<0 THEN expires ELSE ?13 END, " +
				"status=?4, marks=?5 & (marks | ~{admitted}), ready=?6, wake_at=?7, reason=?8, waits=?9, generation=max(generation, ?10), " +
				"started=CASE WHEN started=0 THEN ?11 ELSE started END, queue=coalesce(?12, queue)"
			texts[i][anyBuild] = [...]string{
				updateHeld:   held + " WHERE run_no=?1",
				updatePlain:  plain + " WHERE run_no=?1",
				updateOutput: plain + ", output=?14, output_size=?15 WHERE run_no=?1",
			}
		}
	}
	return texts
}()

// What UpdateRun writes: the build alone, all but the output, all.
const (
	updateHeld = iota
	updatePlain
	updateOutput
)

// UpdateRun implements sqlstore.BatchRows.
func (t *committing) UpdateRun(turn *store.Turn, c *sqlstore.Change) error {
	no := int64(turn.Run)
	texts := &updateTexts[c.Suspicion][boolean(c.AnyBuild)]
	if c.Held {
		_, err := t.c.exec(texts[updateHeld], no, c.Build)
		return err
	}
	args := [15]any{
		no, c.Build, c.Ended, int64(c.Status), int64(c.Marks), c.Ready, null(c.WakeAt), c.Reason, c.Waits,
		int64(c.Generation), c.Started, c.Queue, null(c.Expires),
	}
	what, given := updatePlain, args[:13]
	if c.Output != nil {
		inline, err := t.payload(no, payloadOutput, c.Output)
		if err != nil {
			return err
		}
		args[13], args[14] = inline, len(c.Output)
		what, given = updateOutput, args[:]
	}
	if _, err := t.c.exec(texts[what], given...); err != nil {
		return err
	}
	if c.Ready == words.Claimed {
		t.cache.set(turn.Run, c.Update)
	} else {
		t.cache.drop(turn.Run)
	}
	return nil
}

// Continue implements sqlstore.BatchRows.
func (t *committing) Continue(turn *store.Turn, began store.Time) error {
	c, no := turn.Update.Continue, int64(turn.Run)
	inline, err := t.payload(no, payloadInput, c.Input)
	if err != nil {
		return err
	}
	_, err = t.c.exec(`UPDATE stet_runs SET incarnation=incarnation+1, workflow=?, input=?, input_size=?, seed=?,
		random=NULL, began=? WHERE run_no=?`, c.Workflow, inline, len(c.Input), c.Seed[:], began, no)
	return err
}

// payload writes an input or output that is too long for the run's row in place of the
// former one, and returns the value of the row's column.
func (t *committing) payload(no int64, what int, value []byte) (inline []byte, err error) {
	if len(value) <= smallPayload {
		_, err = t.c.exec("DELETE FROM stet_payloads WHERE run_no=? AND what=?", no, what)
		return value, err
	}
	_, err = t.c.exec("INSERT OR REPLACE INTO stet_payloads (run_no, what, val) VALUES (?,?,?)", no, what, value)
	return nil, err
}
