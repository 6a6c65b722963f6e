package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// rewrite writes an entry in place of one that is there, final or not.
func (t *committing) rewrite(turn *store.Turn, e *store.Entry) error {
	var old store.Entry
	err := t.c.each("SELECT "+entryColumns+" FROM stet_entries WHERE run_no=? AND incarnation=? AND loc=?",
		[]any{int64(turn.Run), turn.Incarnation, bytesOf(e.Loc)}, func(s *sqlite3.Stmt) error {
			old = scanEntry(s)
			return nil
		})
	switch {
	case err != nil:
		return err
	case old.Loc == "":
		return refuse("there is no entry at %q to be rewritten", e.Loc)
	}
	return t.overwrite(turn, &old, e)
}

// giveAgain puts a consumed item into the inbox again, a swept one with its
// number if nobody has that.
func (t *committing) giveAgain(run store.RunNo, it *store.Item) error {
	var no, state, answered, kind int64
	found, err := t.c.row("SELECT item_no, state, verdict IS NOT NULL, kind FROM stet_inbox WHERE run_no=? AND item_id=?", []any{int64(run), it.ID}, &no, &state, &answered, &kind)
	switch {
	case err != nil:
		return err
	case found && store.ItemState(state) != store.Consumed:
		return refuse("the item %q to be returned is not consumed", it.ID)
	case found && answered != 0 && store.ItemKind(kind) == store.ItemUpdate:
		return nil
	case found && answered != 0:
		return refuse("the item %q to be returned was answered", it.ID)
	case found:
		_, err = t.c.exec("UPDATE stet_inbox SET state=1, val=?, headers=? WHERE item_no=?", it.Value, it.Headers, no)
		return err
	}
	a := applier{q: t.c, now: it.Sent}
	if _, err := a.insert(run, it, &no); err != nil || it.No <= 0 || int64(it.No) >= no {
		return err
	}
	_, err = t.c.exec("UPDATE OR IGNORE stet_inbox SET item_no=? WHERE item_no=?", int64(it.No), no)
	return err
}

// fork gives a new run what it begins with.
func (a *applier) fork(run *store.Run, f *store.Fork) error {
	run.Random, run.Started = f.Random, f.Started
	if _, err := a.q.exec("UPDATE stet_runs SET random=?, started=? WHERE run_no=?", f.Random[:], int64(f.Started), int64(run.No)); err != nil {
		return err
	}
	for i := range f.Entries {
		e := &f.Entries[i]
		inline := e.Value
		if len(inline) >= store.LargeValue {
			inline = nil
			if _, err := a.q.exec("INSERT INTO stet_blobs (run_no, incarnation, loc, val) VALUES (?,0,?,?)", int64(run.No), []byte(e.Loc), e.Value); err != nil {
				return err
			}
		}
		_, err := a.q.exec("INSERT INTO stet_entries (run_no, incarnation, "+entryColumns+", val) VALUES (?,0,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
			int64(run.No), []byte(e.Loc), int64(e.Kind), int64(e.State), e.Seq, e.Born, int64(e.At), int64(e.Wake), int64(e.Attempt),
			boolean(e.Owes), int64(e.Started), int64(e.Ended), int64(len(e.Value)), int64(e.Generation), inline)
		if err != nil {
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
			if _, err := a.q.exec("UPDATE stet_inbox SET state=3 WHERE item_no=?", no); err != nil {
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
		_, err := q.exec(`INSERT INTO stet_audit (run_no, no, at, who, verb, why, detail)
			SELECT ?1, coalesce(max(no), 0)+1, ?2, ?3, ?4, ?5, ?6 FROM stet_audit WHERE run_no=?1`,
			int64(run), int64(now), a.Who, a.Verb, a.Why, a.Detail)
		if err != nil {
			return err
		}
	}
	return nil
}

// Audit implements store.Store.
func (s *Store) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	var audit []store.Audit
	err := s.read.do(ctx, fmt.Sprintf("read what was done to run number %d", run), func(c *conn) error {
		return c.each("SELECT no, at, who, verb, why, detail FROM stet_audit WHERE run_no=? ORDER BY no", []any{int64(run)}, func(r *sqlite3.Stmt) error {
			audit = append(audit, store.Audit{
				No: r.ColumnInt(0), Time: store.Time(r.ColumnInt64(1)), Who: r.ColumnText(2), Verb: r.ColumnText(3), Why: r.ColumnText(4), Detail: r.ColumnText(5),
			})
			return nil
		})
	})
	return audit, err
}
