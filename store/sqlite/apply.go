package sqlite

import (
	"context"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/internal/words"
	"github.com/stet-run/stet/store/storekit"
)

// querier executes statements in a transaction of the Store, or of a caller.
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
	var answers []store.Answer
	var now store.Time
	err := s.write.do(ctx, "apply commands", func(c *conn, at store.Time) (err error) {
		now = at
		answers, err = applyAll(c, at, commands)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return answers, now, nil
}

// applyAll carries out commands outside of a batch.
func applyAll(q querier, now store.Time, commands []store.Command) ([]store.Answer, error) {
	c := sqlstore.Commands{Rows: &rows{querier: q}, Now: now}
	return c.All(commands)
}

// rows carries out acts of commands. It implements sqlstore.Rows.
type rows struct {
	querier
	stamp    int64 // of the batch, for what its commands insert; 0: none
	inserted bool  // a command of this try inserted a row
}

// Exec implements sqlstore.Statements.
func (r *rows) Exec(text string, args ...any) (int64, error) { return r.exec(form(text), args...) }

// Row implements sqlstore.Statements.
func (r *rows) Row(text string, args []any, dest ...any) (bool, error) {
	return r.row(form(text), args, dest...)
}

// FindRun implements sqlstore.Rows.
func (r *rows) FindRun(id string, no store.RunNo) (run store.Run, ready int64, err error) {
	where, key := " FROM stet_runs WHERE id=?", any(id)
	if no != 0 {
		where, key = " FROM stet_runs WHERE run_no=?", any(int64(no))
	}
	var f runFields
	found, err := r.row("SELECT id, "+answerColumns+where, []any{key}, append([]any{&id}, f.dest()...)...)
	if err != nil || !found {
		return run, 0, err
	}
	run, ready = f.run()
	run.ID = id
	if run.InputSize > smallPayload {
		_, err = r.row("SELECT val FROM stet_payloads WHERE run_no=? AND what=?",
			[]any{int64(run.No), payloadInput}, &run.Input)
	}
	return run, ready, err
}

// answerColumns are the columns of a run that an Answer holds, besides its ID.
const answerColumns = `run_no, grp, slot, workflow, status, marks, ready, coalesce(wake_at, 0), incarnation, generation,
	seed, build, suspect, strikes, alone, parent_no, parent_loc, created, started, ended, input_size, output_size,
	reason, input, waits, tags, headers, random, first, began, queue, coalesce(expires, 0)`

// runFields are the values of answerColumns.
type runFields struct {
	no, slot, status, marks, ready, wakeAt, incarnation, generation    int64
	suspect, strikes, alone, parent, created, started, ended, in, out  int64
	began, expires                                                     int64
	group, workflow, build, reason                                     string
	seed, parentLoc, input, waits, tags, headers, random, first, queue []byte
}

func (f *runFields) dest() []any {
	return []any{
		&f.no, &f.group, &f.slot, &f.workflow, &f.status, &f.marks, &f.ready, &f.wakeAt, &f.incarnation, &f.generation,
		&f.seed, &f.build, &f.suspect, &f.strikes, &f.alone, &f.parent, &f.parentLoc, &f.created, &f.started, &f.ended,
		&f.in, &f.out, &f.reason, &f.input, &f.waits, &f.tags, &f.headers, &f.random, &f.first, &f.began, &f.queue,
		&f.expires,
	}
}

// run returns the run and its value of the column ready.
func (f *runFields) run() (store.Run, int64) {
	r := store.Run{
		No: store.RunNo(f.no), Shard: store.Shard{Group: f.group, Slot: int(f.slot)}, Workflow: f.workflow,
		Status: store.Status(f.status), Marks: store.Marks(f.marks), Claimed: f.ready == words.Claimed,
		Incarnation: int(f.incarnation), Generation: int(f.generation), Build: f.build,
		Suspect: int(f.suspect), Strikes: int(f.strikes), Alone: f.alone != 0,
		Parent: store.RunNo(f.parent), ParentLoc: string(f.parentLoc),
		Created: store.Time(f.created), Started: store.Time(f.started), Ended: store.Time(f.ended),
		WakeAt: store.Time(f.wakeAt), InputSize: int(f.in), OutputSize: int(f.out),
		Reason: f.reason, Input: f.input, Waits: f.waits, Headers: f.headers, Queue: f.queue,
	}
	copy(r.Seed[:], f.seed)
	copy(r.Random[:], f.random)
	r.First, r.Began, r.Expires = sqlstore.DecodeOrigin(f.first), store.Time(f.began), store.Time(f.expires)
	sqlstore.ReadTags(&r, f.tags)
	return r, f.ready
}

// InsertRun implements sqlstore.Rows.
func (r *rows) InsertRun(run *store.Run, ready int64, line sqlstore.Line) (bool, error) {
	input := run.Input
	if len(input) > smallPayload {
		input = nil
	}
	var wakeAt any
	if run.WakeAt != 0 {
		wakeAt = int64(run.WakeAt)
	}
	var no int64
	inserted, err := r.row(`INSERT INTO stet_runs (run_no, id, grp, slot, workflow, status, ready, wake_at, seed,
			parent_no, parent_loc, created, started, input_size, input, tags, headers, stamp, marks, queue, build,
			q, qkey, qline)
		VALUES (`+above("1", "run_no", "stet_runs")+`
			,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (id) DO NOTHING RETURNING run_no`,
		[]any{
			run.ID, run.Shard.Group, int64(run.Shard.Slot), run.Workflow, int64(run.Status), ready, wakeAt, run.Seed[:],
			int64(run.Parent), []byte(run.ParentLoc), int64(run.Created), int64(run.Started), int64(len(run.Input)), input,
			sqlstore.EncodeTags(run.Tags), run.Headers, r.stamp, int64(run.Marks), run.Queue, run.Build,
			line.Queue, line.Key, line.Order,
		}, &no)
	if err != nil || !inserted {
		return false, err
	}
	run.No, r.inserted = store.RunNo(no), true
	if len(run.Input) > smallPayload {
		_, err = r.exec("INSERT INTO stet_payloads (run_no, what, val) VALUES (?,?,?)", no, int64(payloadInput), run.Input)
	}
	return true, err
}

// InsertItem implements sqlstore.Rows.
func (r *rows) InsertItem(run store.RunNo, it *store.Item, now store.Time) (store.ItemNo, bool, error) {
	no, inserted, err := r.insertItem(run, it, now, r.stamp)
	r.inserted = r.inserted || inserted
	return no, inserted, err
}

// RestoreItem implements sqlstore.Rows.
func (r *rows) RestoreItem(run store.RunNo, it *store.Item) (store.ItemNo, bool, error) {
	return r.insertItem(run, it, it.Sent, 0)
}

func (r *rows) insertItem(run store.RunNo, it *store.Item, sent store.Time, stamp int64) (store.ItemNo, bool, error) {
	var no int64
	inserted, err := r.row(`INSERT INTO stet_inbox (item_no, run_no, kind, state, name, item_id, origin, incarnation,
			loc, failed, sent_at, val, headers, generation, stamp)
		VALUES (`+above("2", "item_no", "stet_inbox")+`,?,?,{new},?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (run_no, item_id) DO NOTHING RETURNING item_no`,
		[]any{
			int64(run), int64(it.Kind), it.Name, it.ID, it.Origin, int64(it.Incarnation), []byte(it.Loc),
			boolean(it.Failed), int64(sent), it.Value, it.Headers, int64(it.Generation), stamp,
		}, &no)
	return store.ItemNo(no), inserted, err
}

// InsertForked implements sqlstore.Rows.
func (r *rows) InsertForked(run store.RunNo, e *store.Entry) error {
	inline := e.Value
	if len(inline) >= store.LargeValue {
		inline = nil
		if _, err := r.exec("INSERT INTO stet_blobs (run_no, incarnation, loc, val) VALUES (?,0,?,?)",
			int64(run), []byte(e.Loc), e.Value); err != nil {
			return err
		}
	}
	_, err := r.exec(`INSERT INTO stet_entries (run_no, incarnation, `+entryColumns+`, val)
		VALUES (?,0,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		int64(run), []byte(e.Loc), int64(e.Kind), int64(e.State), e.Seq, e.Born, int64(e.At), int64(e.Wake), int64(e.Attempt),
		boolean(e.Owes), int64(e.Started), int64(e.Ended), int64(len(e.Value)), int64(e.Generation), inline)
	return err
}

// InsertedBefore implements sqlstore.Rows: the row has the batch's stamp, which is not of
// this try as long as this try has inserted nothing.
func (r *rows) InsertedBefore(run store.RunNo, item store.ItemNo) (bool, error) {
	if r.stamp == 0 || r.inserted {
		return false, nil
	}
	text, key := "SELECT 1 FROM stet_inbox WHERE item_no=? AND stamp=?", int64(item)
	if item == 0 {
		text, key = "SELECT 1 FROM stet_runs WHERE run_no=? AND stamp=?", int64(run)
	}
	return r.row(text, []any{key, r.stamp})
}
