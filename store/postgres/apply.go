package postgres

import (
	"context"
	"errors"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/storekit"
)

// Apply implements store.Store. It waits for another transaction that has
// sent the same item, or started the same run, and has not ended.
func (s *Store) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	if err := storekit.ValidateCommands(commands); err != nil {
		return nil, 0, err
	}
	if err := s.promises.refuse(); err != nil {
		return nil, 0, err
	}
	const act = "apply commands"
	answers, at := []store.Answer(nil), store.Time(0)
	err := patiently(ctx, s, func() (err error) {
		answers, at, err = applyNow(ctx, s, act, commands)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	for i := range answers {
		at = max(at, answers[i].Run.Created) // one that was started a moment after now
	}
	s.hint.notify(storekit.ChangeOf(&store.Batch{Commands: commands}, &store.BatchResult{Commands: answers}),
		len(commands))
	return answers, at, nil
}

// applyNow is one try of Apply.
func applyNow(ctx context.Context, s *Store, act string, commands []store.Command) (answers []store.Answer,
	at store.Time, err error) {
	err = errNotAtOnce
	if q := s.newStartSet(commands); q != nil {
		err = s.writeAfter(ctx, act, waitLimit, q, func(_ *tx, now store.Time) error {
			answers, at = q.answers, now
			return nil
		})
	} else if q := s.newCommandBatch(commands); q != nil {
		err = s.writeAfter(ctx, act, waitLimit, q, func(t *tx, now store.Time) (err error) {
			answers, at = q.answers, now
			if !q.done {
				answers, err = s.applyAll(t, now, commands)
			}
			return err
		})
	}
	if errors.Is(err, errNotAtOnce) {
		err = s.write(ctx, act, waitLimit, func(t *tx, now store.Time) (err error) {
			at = now
			answers, err = s.applyAll(t, now, commands)
			return err
		})
	}
	return answers, at, err
}

// applyAll carries out commands that are none of a batch, one after the other.
func (s *Store) applyAll(q querier, now store.Time, commands []store.Command) ([]store.Answer, error) {
	c := sqlstore.Commands{Rows: rows{q}, Now: now}
	return c.All(commands)
}

// rows carries out acts of commands. It implements sqlstore.Rows.
type rows struct{ q querier }

// Exec implements sqlstore.Statements.
func (r rows) Exec(text string, args ...any) (int64, error) { return r.q.exec(text, args...) }

// Row implements sqlstore.Statements.
func (r rows) Row(text string, args []any, dest ...any) (bool, error) {
	if len(dest) == 0 { // the drivers want one for each column
		dest = []any{new(any)}
	}
	return r.q.row(text, args, dest...)
}

// FindRun implements sqlstore.Rows.
func (r rows) FindRun(id string, no store.RunNo) (store.Run, int64, error) {
	where, key := " FROM stet.runs r WHERE r.id=$1", any(id)
	if no != 0 {
		where, key = " FROM stet.runs r WHERE r.run_no=$1", any(no)
	}
	var f runRow
	found, err := r.q.row("SELECT "+runNoOutput+where, []any{key}, f.dest()...)
	if err != nil || !found {
		return store.Run{}, 0, err
	}
	return f.run(), f.ready, nil
}

// InsertRun implements sqlstore.Rows.
func (r rows) InsertRun(run *store.Run, ready int64, line sqlstore.Line) (bool, error) {
	var no int64
	inserted, err := r.q.row(`INSERT INTO stet.runs (id, grp, slot, workflow, status, ready, wake_at, seed, parent_no,
			parent_loc, created, started, input, tags, headers, marks, queue, build, q, qkey, qline)
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21)
		ON CONFLICT (id) DO NOTHING RETURNING run_no`,
		[]any{
			run.ID, run.Shard.Group, run.Shard.Slot, run.Workflow, run.Status, ready, null(run.WakeAt), run.Seed[:], run.Parent,
			[]byte(run.ParentLoc), run.Created, run.Started, run.Input, sqlstore.EncodeTags(run.Tags), run.Headers, run.Marks,
			run.Queue, []byte(run.Build), line.Queue, line.Key, line.Order,
		}, &no)
	if inserted {
		run.No = store.RunNo(no)
	}
	return inserted, err
}

// InsertItem implements sqlstore.Rows.
func (r rows) InsertItem(run store.RunNo, it *store.Item, now store.Time) (store.ItemNo, bool, error) {
	var no int64
	inserted, err := r.q.row(`INSERT INTO stet.inbox (run_no, kind, name, item_id, origin, incarnation, loc, failed,
		sent_at,
			val, headers, generation)
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12) ON CONFLICT (run_no, item_id) DO NOTHING RETURNING item_no`,
		[]any{
			run, it.Kind, it.Name, it.ID, []byte(it.Origin), it.Incarnation, []byte(it.Loc), it.Failed, now,
			it.Value, it.Headers, it.Generation,
		}, &no)
	return store.ItemNo(no), inserted, err
}

// RestoreItem implements sqlstore.Rows.
func (r rows) RestoreItem(run store.RunNo, it *store.Item) (store.ItemNo, bool, error) {
	return r.InsertItem(run, it, it.Sent)
}

// InsertForked implements sqlstore.Rows.
func (r rows) InsertForked(run store.RunNo, e *store.Entry) error {
	_, err := writeEntry(r.q, run, 0, e)
	return err
}

// InsertedBefore implements sqlstore.Rows. A batch whose answer was lost is known by its
// number, which stands in the node's row.
func (r rows) InsertedBefore(store.RunNo, store.ItemNo) (bool, error) { return false, nil }
