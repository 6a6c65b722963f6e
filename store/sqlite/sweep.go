package sqlite

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// above is the number of a new row where the numbers that are there do not say
// which were used: NULL, so that SQLite takes the next one, unless rows with the
// highest numbers have been swept. stet_floor then has the highest of them.
func above(what, column, table string) string {
	return "(SELECT no+1 FROM stet_floor WHERE what=" + what + " AND no>=coalesce((SELECT max(" + column + ") FROM " + table + "), 0))"
}

// raiseFloor notes the highest numbers before rows are deleted.
const raiseFloor = `INSERT INTO stet_floor (what, no)
	SELECT 1, coalesce(max(run_no), 0) FROM stet_runs UNION ALL SELECT 2, coalesce(max(item_no), 0) FROM stet_inbox
	ORDER BY 1 ON CONFLICT (what) DO UPDATE SET no=max(no, excluded.no)`

const (
	// expired are the runs that a rule is for, after a place in their order.
	// Parameters: workflow, status, latest end, end and number of the place.
	expired = `stet_runs r INDEXED BY stet_runs_ended WHERE r.workflow=?1 AND r.status=?2 AND r.ended>0 AND r.ended<=?3 AND (r.ended, r.run_no)>(?4, ?5)`
	// free says that nothing but its retention keeps a run.
	free = `r.ready=0 AND NOT EXISTS (SELECT 1 FROM stet_inbox i WHERE i.state=1 AND i.run_no=r.run_no)
		AND NOT (r.parent_no>0 AND EXISTS (SELECT 1 FROM stet_runs p CROSS JOIN stet_entries e ON e.run_no=p.run_no AND e.incarnation=p.incarnation AND e.loc=r.parent_loc
			WHERE p.run_no=r.parent_no AND p.began<r.created AND p.status NOT IN (4,5,6)))`
	// anythingToSweep is the one query of a pass that finds nothing.
	anythingToSweep = `SELECT
		EXISTS (SELECT 1 FROM json_each(?1) rule CROSS JOIN stet_runs r INDEXED BY stet_runs_ended
			WHERE r.workflow=rule.value->>0 AND r.status=rule.value->>1 AND r.ended>0 AND r.ended<=rule.value->>2),
		EXISTS (SELECT 1 FROM stet_runs INDEXED BY stet_runs_former WHERE incarnation>swept)`
)

// sweepLook is how many rows an act looks at.
const sweepLook = 2000

// sweep is one act of Sweep.
type sweep struct {
	c      *conn
	now    store.Time
	shards []store.Shard
	left   int // rows that may still be deleted
	looked int
	floor  bool // raised in this act
	store.Swept
}

// Sweep implements store.Store. It looks with a connection that reads, and writes
// only if there is something to delete.
func (s *Store) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	if err := req.Validate(); err != nil {
		return store.Swept{}, err
	}
	var result store.Swept
	if req.From == (store.SweepPlace{}) {
		var runs, former int64
		err := s.read.do(ctx, "look for what to sweep", func(c *conn) error {
			rules, err := encodeRules(req.Rules, s.clock.read())
			if err != nil {
				return err
			}
			_, err = c.row(anythingToSweep, []any{rules}, &runs, &former)
			return err
		})
		switch {
		case err != nil:
			return result, err
		case runs == 0 && former == 0 && !req.Items:
			req.From = store.SweepPlace{Stage: 2, Rule: len(req.Rules)} // only the leases are looked at
			result, err := s.fencedOf(ctx, &req)
			result.Next, result.Done = req.From, true
			return result, err
		case runs == 0:
			req.From = store.SweepPlace{Stage: 1, Rule: len(req.Rules)}
		}
	}
	err := s.write.do(ctx, "sweep", func(c *conn, now store.Time) error {
		w := sweep{c: c, now: now, left: store.SweepRows}
		w.Next = req.From
		err := w.act(&req)
		result = w.Swept
		return err
	})
	if err != nil {
		return store.Swept{}, err
	}
	return result, nil
}

// encodeRules returns rules as anythingToSweep reads them.
func encodeRules(rules []store.Retention, now store.Time) (string, error) {
	list := make([][3]any, len(rules))
	for i := range rules {
		list[i] = [3]any{rules[i].Workflow, int(rules[i].Status), int64(rules[i].Before(now))}
	}
	text, err := json.Marshal(list)
	return string(text), err
}

// fencedOf finds out which leases are not current.
func (s *Store) fencedOf(ctx context.Context, req *store.SweepRequest) (result store.Swept, err error) {
	err = s.read.do(ctx, "look at leases", func(c *conn) error {
		w := sweep{c: c}
		err := w.leases(req.Leases)
		result.Fenced = w.Fenced
		return err
	})
	return result, err
}

func (w *sweep) leases(leases []store.Lease) error {
	for i := range leases {
		current, err := w.c.current(&leases[i])
		if err != nil {
			return err
		}
		if current {
			w.shards = append(w.shards, leases[i].Shard)
		} else {
			w.Fenced = append(w.Fenced, leases[i].Shard)
		}
	}
	return nil
}

// act carries out the act.
func (w *sweep) act(req *store.SweepRequest) error {
	if err := w.leases(req.Leases); err != nil {
		return err
	}
	done, err := w.ended(req.Rules)
	if err != nil || !done {
		return err
	}
	if done, err = w.former(); err != nil || !done {
		return err
	}
	if req.Items {
		done, err = w.consumed()
	}
	w.Done = done
	return err
}

// delete executes a statement that deletes at most so many rows, given to it as
// the last parameter, and counts them.
func (w *sweep) delete(text string, args ...any) (rows int, err error) {
	if w.left == 0 {
		return 0, nil
	}
	if !w.floor {
		if _, err := w.c.exec(raiseFloor); err != nil {
			return 0, err
		}
		w.floor = true
	}
	n, err := w.c.exec(text, append(args, w.left)...)
	w.left -= int(n)
	w.Rows += int(n)
	return int(n), err
}

// found is a run that may be deleted, and whether nothing else keeps it.
type found struct {
	no    int64
	ended store.Time
	free  bool
}

// ended deletes runs. It reports whether the stage is over.
func (w *sweep) ended(rules []store.Retention) (bool, error) {
	if w.Next.Stage > 0 {
		return true, nil
	}
	for w.Next.Rule < len(rules) {
		rule := &rules[w.Next.Rule]
		var list []found
		err := w.c.each("SELECT r.run_no, r.ended, r.grp, r.slot, "+free+" FROM "+expired+" ORDER BY r.ended, r.run_no LIMIT ?6",
			[]any{rule.Workflow, int(rule.Status), rule.Before(w.now), w.Next.Ended, w.Next.No, store.SweepRows}, func(s *sqlite3.Stmt) error {
				owned := slices.Contains(w.shards, store.Shard{Group: s.ColumnText(2), Slot: s.ColumnInt(3)})
				list = append(list, found{s.ColumnInt64(0), store.Time(s.ColumnInt64(1)), owned && s.ColumnBool(4)})
				return nil
			})
		if err != nil {
			return false, err
		}
		for _, f := range list {
			if f.free {
				if gone, err := w.run(f.no); err != nil || !gone {
					return false, err
				}
			}
			w.Next.Ended, w.Next.No = f.ended, f.no
		}
		if w.looked += len(list); w.looked >= sweepLook {
			return false, nil
		}
		if len(list) < store.SweepRows {
			w.Next = store.SweepPlace{Rule: w.Next.Rule + 1}
		}
	}
	w.Next = store.SweepPlace{Stage: 1, Rule: len(rules)}
	return true, nil
}

// belongings delete what belongs to a run, in this order; each is left out of the
// count that is not a row of its own to the contract.
var belongings = []struct {
	text    string
	counted bool
}{
	{`DELETE FROM stet_blobs WHERE run_no=?1 AND (incarnation, loc) IN (SELECT incarnation, loc FROM stet_entries WHERE run_no=?1 ORDER BY incarnation, loc LIMIT ?2)`, false},
	{`DELETE FROM stet_entries WHERE run_no=?1 AND (incarnation, loc) IN (SELECT incarnation, loc FROM stet_entries WHERE run_no=?1 ORDER BY incarnation, loc LIMIT ?2)`, true},
	{`DELETE FROM stet_inbox WHERE item_no IN (SELECT item_no FROM stet_inbox WHERE run_no=?1 LIMIT ?2)`, true},
	{`DELETE FROM stet_streams WHERE run_no=?1 AND (name, pos) IN (SELECT name, pos FROM stet_streams WHERE run_no=?1 LIMIT ?2)`, true},
	{`DELETE FROM stet_feeds WHERE run_no=?1 AND (stream, name) IN (SELECT stream, name FROM stet_feeds WHERE run_no=?1 LIMIT ?2)`, true},
	{`DELETE FROM stet_audit WHERE run_no=?1 AND no IN (SELECT no FROM stet_audit WHERE run_no=?1 LIMIT ?2)`, true},
}

// run deletes what belongs to a run, and then the run. It reports false if that
// takes more than this act.
func (w *sweep) run(no int64) (gone bool, err error) {
	for _, b := range belongings {
		if !b.counted {
			if _, err := w.c.exec(b.text, no, w.left); err != nil {
				return false, err
			}
			continue
		}
		if _, err := w.delete(b.text, no); err != nil {
			return false, err
		}
	}
	if w.left == 0 {
		_, err := w.c.exec("UPDATE stet_runs SET marks=marks|? WHERE run_no=?", int64(store.Expiring), no)
		return false, err
	}
	var tags []byte
	if _, err := w.c.row("SELECT tags FROM stet_runs WHERE run_no=?", []any{no}, &tags); err != nil {
		return false, err
	}
	former, err := sqlstore.DecodeTags(tags)
	if err != nil {
		return false, err
	}
	if err := retag(w.c, store.RunNo(no), former, nil); err != nil {
		return false, err
	}
	if _, err := w.c.exec("DELETE FROM stet_payloads WHERE run_no=?", no); err != nil {
		return false, err
	}
	if _, err := w.delete("DELETE FROM stet_runs WHERE run_no=?1 AND ?2>0", no); err != nil {
		return false, err
	}
	w.Runs++
	return true, nil
}

// former deletes entries of former incarnations. It reports whether the stage is
// over.
func (w *sweep) former() (bool, error) {
	if w.Next.Stage > 1 {
		return true, nil
	}
	type owner struct{ no, incarnation int64 }
	var list []owner
	err := w.c.each("SELECT run_no, incarnation, grp, slot FROM stet_runs INDEXED BY stet_runs_former WHERE incarnation>swept AND run_no>? ORDER BY run_no LIMIT ?",
		[]any{w.Next.No, store.SweepRows}, func(s *sqlite3.Stmt) error {
			if slices.Contains(w.shards, store.Shard{Group: s.ColumnText(2), Slot: s.ColumnInt(3)}) {
				list = append(list, owner{s.ColumnInt64(0), s.ColumnInt64(1)})
			}
			return nil
		})
	if err != nil {
		return false, err
	}
	for _, o := range list {
		const former = " FROM stet_entries WHERE run_no=?1 AND incarnation<?2"
		const some = "run_no=?1 AND (incarnation, loc) IN (SELECT incarnation, loc" + former + " ORDER BY incarnation, loc LIMIT ?3)"
		if _, err := w.c.exec("DELETE FROM stet_blobs WHERE "+some, o.no, o.incarnation, w.left); err != nil {
			return false, err
		}
		if _, err := w.delete("DELETE FROM stet_entries WHERE "+some, o.no, o.incarnation); err != nil {
			return false, err
		}
		if w.left == 0 {
			if more, err := w.c.row("SELECT 1"+former+" LIMIT 1", []any{o.no, o.incarnation}); err != nil || more {
				return false, err
			}
		}
		if _, err := w.c.exec("UPDATE stet_runs SET swept=? WHERE run_no=?", o.incarnation, o.no); err != nil {
			return false, err
		}
		w.Next.No = o.no
	}
	if len(list) == store.SweepRows {
		return false, nil
	}
	w.Next = store.SweepPlace{Stage: 2, Rule: w.Next.Rule}
	return true, nil
}

// consumed deletes items that are done with. It reports whether the stage is over.
func (w *sweep) consumed() (bool, error) {
	var old []int64
	last, looked, recent := w.Next.No, 0, true // all that was looked at
	err := w.c.each(`SELECT i.item_no, i.sent_at<=?1, i.state=3 AND (i.kind<>8 OR i.verdict IS NOT NULL), r.grp, r.slot
		FROM stet_inbox i CROSS JOIN stet_runs r ON r.run_no=i.run_no WHERE i.item_no>?2 ORDER BY i.item_no LIMIT ?3`,
		[]any{w.now - store.Time(store.DedupWindow), last, sweepLook}, func(s *sqlite3.Stmt) error {
			looked++
			if len(old) >= w.left {
				return nil
			}
			if recent = recent && !s.ColumnBool(1); s.ColumnBool(1) && s.ColumnBool(2) && slices.Contains(w.shards, store.Shard{Group: s.ColumnText(3), Slot: s.ColumnInt(4)}) {
				old = append(old, s.ColumnInt64(0))
			}
			last = s.ColumnInt64(0)
			return nil
		})
	if err != nil {
		return false, err
	}
	full := len(old) >= w.left
	if len(old) > 0 {
		text, err := json.Marshal(old)
		if err != nil {
			return false, err
		}
		if _, err := w.delete("DELETE FROM stet_inbox WHERE item_no IN (SELECT value FROM json_each(?1)) AND ?2>0", string(text)); err != nil {
			return false, err
		}
	}
	w.Next.No = last
	return !full && (recent || looked < sweepLook), nil // what comes after is younger still
}
