package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// Claim implements store.Store. It queries with one statement, and writes only if there is
// something to claim. It claims the candidates of the query without another one if
//
//   - the leases are still held: then no other process changes a run that is ready;
//   - and this process has begun no act in between.
//
// Otherwise it queries again in the transaction that claims.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	return s.claimFirst(ctx, req, nil)
}

// claimFirst claims what the request selects. Runs that are first go before others, in whatever order.
func (s *Store) claimFirst(ctx context.Context, req store.ClaimRequest, first map[store.RunNo]bool) (
	store.Claims, error,
) {
	if err := req.Validate(); err != nil {
		return store.Claims{}, err
	}
	ctx = on(ctx, s.looking)
	q := &claimQuery{req: &req, workflows: possible(req.Workflows), first: first}
	if err := q.find(ctx, s); err != nil {
		return store.Claims{}, err
	}
	if q.restingItems >= s.cfg.restAt {
		q.rest(ctx, s)
	}
	return q.claims, nil
}

// find queries, and claims what it finds.
func (q *claimQuery) find(ctx context.Context, s *Store) error {
	floor, test := s.times()
	acts := s.acts.Load()
	idle := len(s.writing) == 0
	limited, looked := s.looked.watch(ctx, "look for ready runs")
	err := s.single(limited, "look for ready runs", func(t *tx) error { return q.run(t, floor, test) })
	if err = looked(err); err != nil {
		return err
	}
	s.beats.look()
	s.observe(q.claims.Now)
	if (len(q.candidates) == 0 || q.req.Limit == 0) && !q.items {
		q.claims.More = q.claims.More || len(q.candidates) > 0
		return nil
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	ctx, claimed := s.looked.watch(ctx, "claim runs")
	if idle && s.acts.Load() == acts+1 && !q.late && q.leases.fenced && len(q.claims.Fenced) == 0 {
		if done, err := s.claimFound(ctx, q); done || err != nil {
			return claimed(err)
		}
	}
	late := q.late
	err = s.write(ctx, "claim runs", lockLimit, func(t *tx, now store.Time) error {
		held, err := q.hold(t)
		if err != nil {
			return err
		}
		if late {
			if err := t.buryLate(shardsOf(held)); err != nil {
				return err
			}
		}
		if err := q.run(t, int64(now), int64(now)); err != nil {
			return err
		}
		return q.claim(t)
	})
	return claimed(err)
}

// hold keeps the leases until the transaction ends, and returns those that are held. It
// locks the boot's row, which costs less than locks of all leases, or these if some are not
// the boot's.
func (q *claimQuery) hold(t *tx) ([]store.Lease, error) {
	var fence [16]byte
	found, err := t.row("SELECT fence FROM stet.boots WHERE node=$1 AND boot=$2 FOR UPDATE",
		[]any{name(q.req.Node), name(q.req.Boot)}, &fence)
	if err != nil {
		return nil, err
	}
	// While the row is locked it keeps its fence, and with it what is known of the leases.
	if !found || !q.leases.fenced || q.leases.fence != fence || !q.known(t.s.servers.timeline.Load()) {
		if q.leases, err = t.know(q.req.Node, q.req.Boot); err != nil {
			return nil, err
		}
	}
	if !q.leases.fenced || !q.leases.holds(q.req.Leases) {
		if _, err := t.share(q.req.Leases); err != nil {
			return nil, err
		}
		if q.leases, err = t.knowThese(q.req.Leases); err != nil {
			return nil, err
		}
	}
	var held []store.Lease
	for _, lease := range q.req.Leases {
		if q.leases.held(&lease) {
			held = append(held, lease)
		}
	}
	return held, nil
}

// claimFound claims the candidates of a query, in one round trip. It reports false if the
// leases may not be held any more; nothing is written then.
func (s *Store) claimFound(ctx context.Context, q *claimQuery) (done bool, err error) {
	const act = "claim runs"
	conn, err := connection(ctx, s)
	if err != nil {
		return false, s.classify(ctx, act, err)
	}
	defer conn.Release()
	t := &tx{ctx: ctx, s: s, conn: conn.Conn()}
	k := &q.leases
	batch := &pgx.Batch{}
	queueSteady(batch, s.pooled)
	batch.Queue(fmt.Sprintf("SELECT set_config('lock_timeout', '%dms', true)", lockLimit.Milliseconds()))
	batch.Queue(s.sql("SELECT FROM stet.boots WHERE node=$1 AND boot=$2 AND fence=$3::uuid FOR UPDATE"),
		k.node, k.boot, pgtype.UUID{Bytes: k.fence, Valid: true})
	w := q.write()
	w.queue(s, batch)
	warned := s.warnings(conn).Load()
	results := t.conn.SendBatch(ctx, batch)
	err = readSteady(results, s.pooled)
	if err == nil {
		_, err = results.Exec()
	}
	if err == nil {
		var tag pgconn.CommandTag
		tag, err = results.Exec()
		done = tag.RowsAffected() == 1
	}
	if err == nil {
		err = w.read(results)
	}
	err = errors.Join(err, results.Close())
	switch {
	case repeatable(err):
		return false, nil
	case err == nil && done && s.warnings(conn).Load() != warned:
		return false, fmt.Errorf("%s: %w: %w: the wait for the standby was cut short",
			act, store.ErrUnavailable, store.ErrUnknown)
	case err == nil && done:
		return true, q.after(t)
	case err == nil:
		return false, nil
	case definite(err):
		return false, s.classify(ctx, act, err)
	}
	return false, fmt.Errorf("%w: %w", s.classify(ctx, act, err), store.ErrUnknown)
}

// claim claims the candidates, up to the limit, and adds the unexamined items of all
// claimed runs. The transaction keeps the leases.
func (q *claimQuery) claim(t *tx) error {
	batch := &pgx.Batch{}
	w := q.write()
	w.queue(t.s, batch)
	results := t.conn.SendBatch(t.ctx, batch)
	if err := errors.Join(w.read(results), results.Close()); err != nil {
		return err
	}
	return q.after(t)
}

// claimWrite claims candidates, and reads the runs and their items.
type claimWrite struct {
	*claimQuery
	chosen []sqlstore.Candidate
	index  map[store.RunNo]int // of claims.Runs
}

func (q *claimQuery) write() *claimWrite {
	return &claimWrite{claimQuery: q, chosen: q.candidates[:min(len(q.candidates), q.req.Limit)]}
}

// takeText claims runs. One is claimed at rest if it is paused or to be paused, or held
// without a grant (laws 18 and 28).
const takeText = `UPDATE stet.runs r SET (ready, wake_at, marks, status, started) = (
	SELECT {claimed}, CASE WHEN c.rest THEN r.wake_at END, CASE WHEN c.rest THEN r.marks ELSE r.marks & ~{held} END,
		CASE WHEN NOT c.rest AND r.status IN ({queued},{suspended}) THEN {running} ELSE r.status END,
		CASE WHEN NOT c.rest AND r.started=0 AND r.status IN ({queued},{running},{suspended}) THEN $2 ELSE r.started END
	FROM (SELECT r.marks & {paused} = {paused}
		OR EXISTS (SELECT 1 FROM stet.inbox i WHERE i.run_no=r.run_no AND i.state={new} AND i.kind={pause})
		OR r.marks & {held} <> 0 AND NOT EXISTS (
			SELECT 1 FROM stet.inbox i WHERE i.run_no=r.run_no AND i.state={new} AND i.kind={grant}) AS rest OFFSET 0) c)
	WHERE r.run_no=ANY($1::bigint[]) AND r.ready+0<>{claimed}
		AND ($3::text IS NULL OR EXISTS (SELECT FROM stet.boots WHERE node=$3 AND boot=$4 AND fence=$5::uuid))
	RETURNING ` + runValues

// itemsText returns the unexamined items of all claimed runs of the shards, by run.
var itemsText = "SELECT " + itemHeads + `, i.run_no
	FROM (SELECT * FROM stet.inbox i WHERE i.state={new} AND NOT i.rests
		ORDER BY i.run_no, i.item_no OFFSET 0) i, LATERAL (
		SELECT FROM stet.runs r WHERE r.run_no=i.run_no AND r.ready+0={claimed} AND CASE
			WHEN r.slot<$3::integer THEN get_bit(($2::bytea[])[array_position($1::text[], r.grp)], r.slot)=1 END OFFSET 0) r
	ORDER BY i.run_no, i.item_no LIMIT $4`

func (w *claimWrite) queue(s *Store, batch *pgx.Batch) {
	nos := make([]int64, len(w.chosen))
	for i, c := range w.chosen {
		nos[i] = int64(c.No)
	}
	slices.Sort(nos)
	k := &w.leases
	var node any
	if k.fenced {
		node = k.node
	}
	if len(nos) > 0 {
		batch.Queue(s.sql(takeText), nos, int64(w.claims.Now), node, k.boot, pgtype.UUID{Bytes: k.fence, Valid: true})
		batch.Queue(s.sql(stirText), nos)
	}
	grps, held, bits := w.shards()
	batch.Queue(s.sql(itemsText), grps, held, bits, int64(store.MaxClaim+1))
}

func (w *claimWrite) read(results pgx.BatchResults) error {
	q := w.claimQuery
	q.claims.More = len(q.candidates) > len(w.chosen)
	q.claims.Runs = make([]store.Claimed, len(w.chosen))
	w.index = make(map[store.RunNo]int, len(w.chosen))
	for i, c := range w.chosen {
		w.index[c.No] = i
	}
	if len(w.chosen) > 0 {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		err = eachRow(rows, func(scan func(...any) error) error {
			run, err := scanRun(scan)
			if err == nil {
				q.claims.Runs[w.index[run.No]] = store.Claimed{New: true, Run: run}
			}
			return err
		})
		if err != nil {
			return err
		}
		// Another claim for this boot may have been faster.
		q.claims.Runs = slices.DeleteFunc(q.claims.Runs, func(c store.Claimed) bool { return c.Run.No == 0 })
		clear(w.index)
		for i := range q.claims.Runs {
			w.index[q.claims.Runs[i].Run.No] = i
		}
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	count := 0
	return eachRow(rows, func(scan func(...any) error) error {
		var no int64
		it, err := scanHead(scan, &no)
		if err != nil {
			return err
		}
		if count++; count > store.MaxClaim {
			q.claims.MoreItems = true
			return nil
		}
		i, ok := w.index[store.RunNo(no)]
		if !ok {
			i = len(q.claims.Runs)
			w.index[store.RunNo(no)] = i
			q.claims.Runs = append(q.claims.Runs, store.Claimed{Run: store.Run{No: store.RunNo(no)}})
		}
		q.claims.Runs[i].Items = append(q.claims.Runs[i].Items, it)
		return nil
	})
}

// after reads the next wake time again if a run was claimed before its wake time.
func (q *claimQuery) after(t *tx) error {
	chosen := q.candidates[:min(len(q.candidates), q.req.Limit)]
	early := slices.ContainsFunc(chosen, func(c sqlstore.Candidate) bool { return c.Class == called })
	if q.claims.NextWake == 0 || !early {
		return nil
	}
	req := &store.ClaimRequest{Node: q.req.Node, Boot: q.req.Boot, Leases: q.req.Leases, Build: q.req.Build}
	again := &claimQuery{req: req, workflows: q.workflows, leases: q.leases}
	_, err := again.execute(t, int64(q.claims.Now), int64(q.claims.Now))
	q.claims.NextWake = again.claims.NextWake
	return err
}

// shardArrays are shards as columns.
type shardArrays struct {
	grps  []string
	slots []int64
}

func shardsOf(leases []store.Lease) shardArrays {
	grps, slots, _ := leaseArrays(leases)
	return shardArrays{grps, slots}
}
