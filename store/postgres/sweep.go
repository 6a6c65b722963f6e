package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// anythingToSweep is the one query of a pass that finds nothing.
const anythingToSweep = `SELECT
	EXISTS (SELECT 1 FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS rule(workflow, status, before), LATERAL (
		SELECT FROM stet.runs r WHERE r.workflow=rule.workflow AND r.status=rule.status AND r.ended>0
			AND r.expires IS NULL AND r.ended<=rule.before LIMIT 1) r)
		OR EXISTS (SELECT 1 FROM stet.runs WHERE expires>0 AND expires<=$4),
	EXISTS (SELECT 1 FROM stet.runs WHERE incarnation>swept)`

// sweepRows carries out acts of a sweep. It implements sqlstore.SweepRows.
type sweepRows struct {
	rows
	t *tx
}

func newSweep(t *tx, now store.Time) *sqlstore.Sweep {
	w := &sqlstore.Sweep{Rows: sweepRows{rows{t}, t}, Now: now}
	if t.s.seat != nil {
		w.Needed = t.needed
	}
	return w
}

// Each implements sqlstore.SweepRows.
func (r sweepRows) Each(text string, args []any, fn func(scan func(dest ...any) error) error) error {
	return r.t.each(text, args, fn)
}

// Lock implements sqlstore.SweepRows.
func (r sweepRows) Lock(run int64) (bool, error) {
	return r.t.row("SELECT 1 FROM stet.runs WHERE run_no=$1 AND ready={idle} FOR UPDATE", []any{run}, new(int64))
}

// Current implements sqlstore.SweepRows.
func (r sweepRows) Current(leases []store.Lease) (map[store.Shard]bool, error) {
	return r.t.share(leases)
}

// BeforeDelete implements sqlstore.SweepRows.
func (r sweepRows) BeforeDelete() error { return nil }

const (
	// idleRuns locks runs, and gives those that are idle, with their tags.
	idleRuns = `SELECT run_no, tags FROM stet.runs WHERE run_no=ANY($1::bigint[]) AND ready={idle}
		ORDER BY run_no FOR UPDATE`
	// sizesOfRuns gives how many rows runs have besides their own.
	sizesOfRuns = `SELECT q.run, (SELECT count(*) FROM stet.entries x WHERE x.run_no=q.run)+
			(SELECT count(*) FROM stet.inbox x WHERE x.run_no=q.run)+
			(SELECT count(*) FROM stet.streams x WHERE x.run_no=q.run)+
			(SELECT count(*) FROM stet.feeds x WHERE x.run_no=q.run)+
			(SELECT count(*) FROM stet.audit x WHERE x.run_no=q.run)
		FROM unnest($1::bigint[]) WITH ORDINALITY AS q(run, place) ORDER BY q.place`
	deleteTags = `DELETE FROM stet.tags t USING (SELECT t.ctid AS at
			FROM unnest($1::text[], $2::text[], $3::bigint[]) AS q(key, value, run),
			LATERAL (SELECT ctid FROM stet.tags t WHERE t.key=q.key AND t.value=q.value AND t.tagged=q.run OFFSET 0) t
			) q WHERE t.ctid=q.at`
)

// tablesOfRuns are those with rows of runs, that of the runs last.
var tablesOfRuns = []string{"entries", "inbox", "streams", "feeds", "audit", "runs"}

// DeleteRuns implements sqlstore.SweepRows.
func (r sweepRows) DeleteRuns(runs []int64, limit int) (gone []int64, rows int64, full bool, err error) {
	tags := map[int64][]store.Pair{}
	idle := map[int64]bool{}
	err = r.t.each(idleRuns, []any{runs}, func(scan func(...any) error) error {
		var no int64
		var stored []byte
		err := scan(&no, &stored)
		if err == nil { // one whose tags cannot be read is deleted alone
			if tags[no], err = sqlstore.DecodeTags(stored); errors.Is(err, store.ErrDamaged) {
				return nil
			}
		}
		idle[no] = true
		return err
	})
	if err != nil {
		return nil, 0, false, err
	}
	runs = slices.DeleteFunc(slices.Clone(runs), func(no int64) bool { return !idle[no] })
	left := int64(limit)
	err = r.t.each(sizesOfRuns, []any{runs}, func(scan func(...any) error) error {
		var no, size int64
		err := scan(&no, &size)
		if full = full || size+1 > left; !full {
			gone, left = append(gone, no), left-size-1
		}
		return err
	})
	if err != nil || len(gone) == 0 {
		return nil, 0, full, err
	}
	batch := &pgx.Batch{}
	var keys, texts []string
	var tagged []int64
	for _, no := range gone {
		for _, tag := range tags[no] {
			keys, texts, tagged = append(keys, tag.Key), append(texts, tag.Value), append(tagged, no)
		}
	}
	for _, table := range tablesOfRuns {
		batch.Queue(r.t.s.sql("DELETE FROM stet."+table+" WHERE run_no=ANY($1::bigint[])"), gone)
	}
	if len(tagged) > 0 {
		batch.Queue(r.t.s.sql(deleteTags), keys, texts, tagged)
	}
	results := r.t.conn.SendBatch(r.t.ctx, batch)
	for range tablesOfRuns {
		var tag pgconn.CommandTag
		if tag, err = results.Exec(); err != nil {
			break
		}
		rows += tag.RowsAffected()
	}
	return gone, rows, full, errors.Join(err, results.Close())
}

// DeleteItems implements sqlstore.SweepRows.
func (r sweepRows) DeleteItems(nos []int64) (int64, error) {
	slices.Sort(nos)
	return r.t.exec("DELETE FROM stet.inbox WHERE item_no=ANY($1::bigint[])", nos)
}

// Sweep implements store.Store. It reads first, and writes only if something is to be
// deleted.
func (s *Store) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	return sweepSome(ctx, s, req, req.Bound())
}

// sweepSome is Sweep of at most so many rows.
func sweepSome(ctx context.Context, s *Store, req store.SweepRequest, most int) (store.Swept, error) {
	if err := req.Validate(); err != nil {
		return store.Swept{}, err
	}
	var result store.Swept
	if len(req.Runs) == 0 && req.From == (store.SweepPlace{}) {
		runs, former, err := s.anything(ctx, req.Rules)
		switch {
		case err != nil:
			return result, err
		case !runs && !former && !req.Items:
			// Only the leases are checked.
			result.Next, result.Done = store.SweepPlace{Stage: 2, Rule: len(req.Rules)}, true
			err := s.single(ctx, "look at leases", func(t *tx) error {
				w := newSweep(t, 0)
				err := w.Leases(req.Leases)
				result.Fenced = w.Result.Fenced
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
		w := newSweep(t, now)
		w.Most = most
		err := w.Act(&req)
		result = w.Result
		return err
	})
	if err != nil {
		return store.Swept{}, err
	}
	return result, nil
}

// anything reports whether there may be runs or old incarnations to delete.
func (s *Store) anything(ctx context.Context, rules []store.Retention) (runs, former bool, err error) {
	d, err := s.Now(ctx)
	if err != nil {
		return false, false, err
	}
	workflows, statuses, before := make([]string, len(rules)), make([]int64, len(rules)), make([]int64, len(rules))
	for i := range rules {
		workflows[i], statuses[i], before[i] = rules[i].Workflow, int64(rules[i].Status), int64(rules[i].Before(d))
	}
	err = s.single(ctx, "look for what to sweep", func(t *tx) error {
		_, err := t.row(anythingToSweep, []any{workflows, statuses, before, int64(d)}, &runs, &former)
		return err
	})
	return runs, former, err
}

// Now returns the store's time.
func (s *Store) Now(ctx context.Context) (store.Time, error) {
	floor, test := s.times()
	var now int64
	err := s.single(ctx, "read the time", func(t *tx) error {
		_, err := t.row("SELECT "+nowExpr, []any{floor, test}, &now)
		return err
	})
	s.observe(store.Time(now))
	return store.Time(now), err
}
