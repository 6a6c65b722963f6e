package postgres

import (
	"context"
	"slices"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

const (
	// expired are the runs that a rule is for, after a place in their order.
	// Parameters: workflow, status, latest end, end and number of the place.
	expired = `stet.runs r WHERE r.workflow=$1 AND r.status=$2 AND r.ended>0 AND r.ended<=$3 AND (r.ended, r.run_no)>($4::bigint, $5::bigint)`
	// free says that nothing but its retention keeps a run.
	free = `r.ready=0 AND NOT EXISTS (SELECT 1 FROM stet.inbox i WHERE i.state=1 AND i.run_no=r.run_no)
		AND NOT (r.parent_no>0 AND EXISTS (SELECT 1 FROM stet.runs p JOIN stet.entries e ON e.run_no=p.run_no AND e.incarnation=p.incarnation AND e.loc=r.parent_loc
			WHERE p.run_no=r.parent_no AND p.began<r.created AND p.status NOT IN (4,5,6)))`
	// anythingToSweep is the one query of a pass that finds nothing.
	anythingToSweep = `SELECT
		EXISTS (SELECT 1 FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS rule(workflow, status, before), LATERAL (
			SELECT FROM stet.runs r WHERE r.workflow=rule.workflow AND r.status=rule.status AND r.ended>0 AND r.ended<=rule.before LIMIT 1) r),
		EXISTS (SELECT 1 FROM stet.runs WHERE incarnation>swept)`
)

// sweepLook is how many rows an act looks at.
const sweepLook = 2000

// sweep is one act of Sweep.
type sweep struct {
	t      *tx
	now    store.Time
	shards map[store.Shard]bool
	left   int // rows that may still be deleted
	looked int
	store.Swept
}

// Sweep implements store.Store. It looks first, and writes only if there is
// something to delete.
func (s *Store) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	if err := req.Validate(); err != nil {
		return store.Swept{}, err
	}
	var result store.Swept
	if req.From == (store.SweepPlace{}) {
		runs, former, err := s.anything(ctx, req.Rules)
		switch {
		case err != nil:
			return result, err
		case !runs && !former && !req.Items:
			result.Next, result.Done = store.SweepPlace{Stage: 2, Rule: len(req.Rules)}, true // only the leases are looked at
			err := s.look(ctx, "look at leases", func(t *tx) error {
				w := sweep{t: t}
				err := w.leases(req.Leases)
				result.Fenced = w.Fenced
				return err
			})
			return result, err
		case !runs:
			req.From = store.SweepPlace{Stage: 1, Rule: len(req.Rules)}
		}
	}
	if err := s.enter(ctx); err != nil {
		return store.Swept{}, err
	}
	defer s.leave()
	err := s.write(ctx, "sweep", lockLimit, func(t *tx, now store.Time) error {
		w := sweep{t: t, now: now, left: store.SweepRows}
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

// anything reports whether there may be runs or former incarnations to delete.
func (s *Store) anything(ctx context.Context, rules []store.Retention) (runs, former bool, err error) {
	d, err := s.Now(ctx)
	if err != nil {
		return false, false, err
	}
	workflows, statuses, before := make([]string, len(rules)), make([]int64, len(rules)), make([]int64, len(rules))
	for i := range rules {
		workflows[i], statuses[i], before[i] = rules[i].Workflow, int64(rules[i].Status), int64(rules[i].Before(d))
	}
	err = s.look(ctx, "look for what to sweep", func(t *tx) error {
		_, err := t.row(anythingToSweep, []any{workflows, statuses, before}, &runs, &former)
		return err
	})
	return runs, former, err
}

// Now returns the store's time.
func (s *Store) Now(ctx context.Context) (store.Time, error) {
	floor, test := s.times()
	var now int64
	err := s.look(ctx, "read the time", func(t *tx) error {
		_, err := t.row("SELECT "+nowExpr, []any{floor, test}, &now)
		return err
	})
	s.observe(store.Time(now))
	return store.Time(now), err
}

func (w *sweep) leases(leases []store.Lease) error {
	var err error
	if w.shards, err = w.t.share(leases); err != nil {
		return err
	}
	for i := range leases {
		if !w.shards[leases[i].Shard] {
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
func (w *sweep) delete(text string, args ...any) (int, error) {
	if w.left == 0 {
		return 0, nil
	}
	n, err := w.t.exec(text, append(args, w.left)...)
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
		err := w.t.each("SELECT r.run_no, r.ended, r.grp, r.slot, "+free+" FROM "+expired+" ORDER BY r.ended, r.run_no LIMIT $6",
			[]any{rule.Workflow, rule.Status, rule.Before(w.now), w.Next.Ended, w.Next.No, store.SweepRows}, func(scan func(...any) error) error {
				var f found
				var shard store.Shard
				err := scan(&f.no, (*int64)(&f.ended), &shard.Group, &shard.Slot, &f.free)
				f.free = f.free && w.shards[shard]
				list = append(list, f)
				return err
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

// belongings delete what belongs to a run, in this order.
var belongings = []string{
	`DELETE FROM stet.entries WHERE run_no=$1 AND (incarnation, loc) IN (SELECT incarnation, loc FROM stet.entries WHERE run_no=$1 ORDER BY incarnation, loc LIMIT $2)`,
	`DELETE FROM stet.inbox WHERE item_no IN (SELECT item_no FROM stet.inbox WHERE run_no=$1 LIMIT $2)`,
	`DELETE FROM stet.streams WHERE run_no=$1 AND (name, pos) IN (SELECT name, pos FROM stet.streams WHERE run_no=$1 LIMIT $2)`,
	`DELETE FROM stet.feeds WHERE run_no=$1 AND (stream, name) IN (SELECT stream, name FROM stet.feeds WHERE run_no=$1 LIMIT $2)`,
	`DELETE FROM stet.audit WHERE run_no=$1 AND no IN (SELECT no FROM stet.audit WHERE run_no=$1 LIMIT $2)`,
}

// run deletes what belongs to a run, and then the run. It reports false if that
// takes more than this act.
func (w *sweep) run(no int64) (gone bool, err error) {
	for _, text := range belongings {
		if _, err := w.delete(text, no); err != nil {
			return false, err
		}
	}
	if w.left == 0 {
		_, err := w.t.exec("UPDATE stet.runs SET marks=marks|$1 WHERE run_no=$2", store.Expiring, no)
		return false, err
	}
	var tags []byte
	if _, err := w.t.row("SELECT tags FROM stet.runs WHERE run_no=$1", []any{no}, &tags); err != nil {
		return false, err
	}
	former, err := sqlstore.DecodeTags(tags)
	if err != nil {
		return false, err
	}
	if err := retag(w.t, store.RunNo(no), former, nil); err != nil {
		return false, err
	}
	if _, err := w.delete("DELETE FROM stet.runs WHERE run_no=$1 AND $2::bigint>0", no); err != nil {
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
	type owner struct {
		no, incarnation int64
		shard           store.Shard
	}
	var list []owner
	err := w.t.each("SELECT run_no, incarnation, grp, slot FROM stet.runs WHERE incarnation>swept AND run_no>$1 ORDER BY run_no LIMIT $2",
		[]any{w.Next.No, store.SweepRows}, func(scan func(...any) error) error {
			var o owner
			err := scan(&o.no, &o.incarnation, &o.shard.Group, &o.shard.Slot)
			list = append(list, o)
			return err
		})
	if err != nil {
		return false, err
	}
	for _, o := range list {
		if w.shards[o.shard] {
			if _, err := w.delete(`DELETE FROM stet.entries WHERE run_no=$1 AND (incarnation, loc) IN
				(SELECT incarnation, loc FROM stet.entries WHERE run_no=$1 AND incarnation<$2 ORDER BY incarnation, loc LIMIT $3)`, o.no, o.incarnation); err != nil {
				return false, err
			}
			more, err := w.t.row("SELECT FROM stet.entries WHERE run_no=$1 AND incarnation<$2 LIMIT 1", []any{o.no, o.incarnation})
			if err != nil || more {
				return false, err
			}
			if _, err := w.t.exec("UPDATE stet.runs SET swept=$1 WHERE run_no=$2", o.incarnation, o.no); err != nil {
				return false, err
			}
		}
		w.Next.No = o.no
	}
	if len(list) == store.SweepRows {
		return false, nil
	}
	w.Next = store.SweepPlace{Stage: 2, Rule: w.Next.Rule}
	return true, nil
}

// consumed deletes items that are done with, and those whose run was deleted
// before they became visible. It reports whether the stage is over.
func (w *sweep) consumed() (bool, error) {
	var old []int64
	last, looked, recent := w.Next.No, 0, true // all that was looked at
	err := w.t.each(`SELECT i.item_no, i.sent_at<=$1, r.run_no IS NULL OR i.state=3 AND (i.kind<>8 OR i.verdict IS NOT NULL), r.run_no IS NULL, coalesce(r.grp, ''), coalesce(r.slot, 0)
		FROM stet.inbox i LEFT JOIN stet.runs r ON r.run_no=i.run_no WHERE i.item_no>$2 ORDER BY i.item_no LIMIT $3`,
		[]any{w.now - store.Time(store.DedupWindow), last, sweepLook}, func(scan func(...any) error) error {
			var no int64
			var aged, done, lost bool
			var shard store.Shard
			if err := scan(&no, &aged, &done, &lost, &shard.Group, &shard.Slot); err != nil {
				return err
			}
			looked++
			if len(old) >= w.left {
				return nil
			}
			recent = recent && !aged
			if aged && done && (lost || w.shards[shard]) {
				old = append(old, no)
			}
			last = no
			return nil
		})
	if err != nil {
		return false, err
	}
	full := len(old) >= w.left
	if len(old) > 0 {
		slices.Sort(old)
		if _, err := w.delete("DELETE FROM stet.inbox WHERE item_no=ANY($1::bigint[]) AND $2::bigint>0", old); err != nil {
			return false, err
		}
	}
	w.Next.No = last
	return !full && (recent || looked < sweepLook), nil // what comes after is younger still
}
