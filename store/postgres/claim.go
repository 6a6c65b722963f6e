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

// Claim implements store.Store. It looks with one statement, and writes only if
// there is something to claim. What it then writes is what it has seen, if the leases
// are still held and this process has changed nothing meanwhile, because nobody else
// makes a run that is ready another one; else it looks again.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	if err := req.Validate(); err != nil {
		return store.Claims{}, err
	}
	l := &looking{req: &req, workflows: possible(req.Workflows)}
	floor, test := s.times()
	acts := s.acts.Load()
	idle := len(s.writing) == 0
	err := s.look(ctx, "look for ready runs", func(t *tx) error { return l.at(t, floor, test) })
	if err != nil {
		return store.Claims{}, err
	}
	s.observe(l.claims.Now)
	if (len(l.candidates) == 0 || req.Limit == 0) && !l.items {
		l.claims.More = l.claims.More || len(l.candidates) > 0
		return l.claims, nil
	}
	if err := s.enter(ctx); err != nil {
		return store.Claims{}, err
	}
	defer s.leave()
	if idle && s.acts.Load() == acts+1 && !l.late && l.leases.fenced && len(l.claims.Fenced) == 0 {
		if done, err := s.claimSeen(ctx, l); done || err != nil {
			return l.claims, err
		}
	}
	late := l.late
	err = s.write(ctx, "claim runs", lockLimit, func(t *tx, now store.Time) error {
		held, err := l.hold(t)
		if err != nil {
			return err
		}
		if late {
			if err := t.buryLate(shardsOf(held)); err != nil {
				return err
			}
		}
		if err := l.at(t, int64(now), int64(now)); err != nil {
			return err
		}
		return l.claim(t)
	})
	return l.claims, err
}

// hold keeps the leases until the transaction ends, and returns those that are held:
// by the boot's row, whose lock costs less than those of all leases, or by these, if
// some are not the boot's.
func (l *looking) hold(t *tx) ([]store.Lease, error) {
	_, err := t.row("SELECT FROM stet.nodes WHERE node=$1 AND boot=$2 FOR SHARE", []any{name(l.req.Node), name(l.req.Boot)})
	if err != nil {
		return nil, err
	}
	if l.leases, err = t.know(l.req.Node, l.req.Boot); err != nil {
		return nil, err
	}
	if !l.leases.fenced || !l.leases.holds(l.req.Leases) {
		if _, err := t.share(l.req.Leases); err != nil {
			return nil, err
		}
		if l.leases, err = t.knowThese(l.req.Leases); err != nil {
			return nil, err
		}
	}
	var held []store.Lease
	for _, lease := range l.req.Leases {
		if l.leases.held(&lease) {
			held = append(held, lease)
		}
	}
	return held, nil
}

// claimSeen claims what was seen, in one round trip. It reports false if the leases are
// perhaps not held any more; nothing is written then.
func (s *Store) claimSeen(ctx context.Context, l *looking) (done bool, err error) {
	const act = "claim runs"
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, s.classify(ctx, act, err)
	}
	defer conn.Release()
	t := &tx{ctx: ctx, s: s, conn: conn.Conn()}
	k := &l.leases
	batch := &pgx.Batch{}
	s.queueSteady(batch)
	batch.Queue(fmt.Sprintf("SELECT set_config('lock_timeout', '%dms', true)", lockLimit.Milliseconds()))
	batch.Queue(s.sql("SELECT FROM stet.nodes WHERE node=$1 AND boot=$2 AND fence=$3::uuid FOR SHARE"), k.node, k.boot, pgtype.UUID{Bytes: k.fence, Valid: true})
	w := l.writing()
	w.queue(s, batch)
	warned := s.warnings(conn).Load()
	results := t.conn.SendBatch(ctx, batch)
	err = s.readSteady(results)
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
		return false, fmt.Errorf("%s: %w: %w: the wait for the standby was cut short", act, store.ErrUnavailable, store.ErrUnknown)
	case err == nil && done:
		return true, l.after(t)
	case err == nil:
		return false, nil
	case definite(err):
		return false, s.classify(ctx, act, err)
	}
	return false, fmt.Errorf("%w: %w", s.classify(ctx, act, err), store.ErrUnknown)
}

// looking is a search for what is ready.
type looking struct {
	req        *store.ClaimRequest
	workflows  []string // of the request, as far as the server can take them
	leases     known
	claims     store.Claims
	candidates []sqlstore.Candidate // in order, Limit+1 of each class at most
	items      bool                 // claimed runs, or some that have ended, have unexamined items
	late       bool                 // those that have ended
}

// The classes of runs that may be claimed, in their order, and what else a look
// finds.
const (
	due = iota
	called
	marked
	hasItems
	nextWake
	theTime
	isUnfit
	isLate
)

// wakeLook is how many sleeping runs a look for the next wake time passes by that
// are of others.
const wakeLook = 10_000

// fits says that the node can load the run r.
const fits = "(r.workflow=ANY($9::text[]) AND ($10::bytea='' OR r.build<=$10::bytea))"

// here says that the run r is in one of the shards: bit by bit of a group's slots, which
// costs less than to look hundreds of them up.
const here = "CASE WHEN r.slot<$8::integer THEN get_bit(($7::bytea[])[array_position($6::text[], r.grp)], r.slot)=1 END"

const (
	isDue    = "r.wake_at IS NOT NULL AND r.marks & 17 = 0 AND r.wake_at<=(SELECT now FROM t)"
	isMarked = "r.ready=1 AND r.marks & 17 = 0"
	noMore   = ", ''::text, ''::text, ''::bytea"
)

// lookText is one look. Parameters: the two of nowExpr; node, boot and fence; groups, a
// bit for each slot of theirs that is held, and how many; workflows, build, limit, and
// whether it is told what does not fit. For its shape see plan.go.
var lookText = `WITH t AS MATERIALIZED (SELECT ` + nowExpr + ` AS now),
	new AS MATERIALIZED (SELECT r.*, i.kind FROM (SELECT i.run_no, i.kind FROM stet.inbox i WHERE i.state=1 OFFSET 0) i, LATERAL (
		SELECT r.run_no, r.ready, r.grp, r.slot, r.status, r.marks, r.wake_at, r.workflow, r.build FROM stet.runs r WHERE r.run_no=i.run_no AND ` + here + ` OFFSET 0) r)
	(SELECT 0, r.run_no, r.wake_at` + noMore + ` FROM stet.runs r WHERE ` + isDue + " AND r.ready+0=0 AND " + fits + " AND " + here + ` ORDER BY r.wake_at, r.run_no LIMIT $11)
	UNION ALL (SELECT DISTINCT 1, r.run_no, 0::bigint` + noMore + ` FROM new r WHERE r.ready<>2
		AND NOT (` + isDue + " AND " + fits + ") AND " + sqlstore.Calls("r", fits) + ` ORDER BY r.run_no LIMIT $11)
	UNION ALL (SELECT 2, r.run_no, 0::bigint` + noMore + ` FROM stet.runs r WHERE ` + isMarked + " AND " + fits + " AND " + here + ` ORDER BY r.run_no LIMIT $11)
	UNION ALL (SELECT 3, 0::bigint, 0::bigint` + noMore + ` WHERE EXISTS (SELECT 1 FROM new r WHERE r.ready=2 OR r.status IN (4,5,6)))
	UNION ALL (SELECT 7, 0::bigint, 0::bigint` + noMore + ` WHERE EXISTS (SELECT 1 FROM new r WHERE r.ready=0 AND r.status IN (4,5,6)))
	UNION ALL (SELECT 4, 0::bigint, coalesce((SELECT r.wake_at FROM ` + sleeping + " WHERE r.ready=0 AND " + fits + " AND " + here + ` ORDER BY r.wake_at LIMIT 1),
		(SELECT max(r.wake_at) FROM ` + sleeping + " HAVING count(*)=" + fmt.Sprint(wakeLook) + "), 0)" + noMore + `)
	UNION ALL (SELECT 5, EXISTS (SELECT FROM stet.nodes WHERE node=$3 AND boot=$4 AND fence=$5::uuid)::integer, now` + noMore + ` FROM t)
	UNION ALL (SELECT DISTINCT ON (r.grp, r.slot, r.workflow) 6, 0::bigint, r.slot::bigint, r.grp, r.workflow, r.build FROM (
			SELECT r.run_no FROM stet.runs r WHERE ` + isDue + ` AND r.ready+0=0 AND $12::boolean
			UNION SELECT r.run_no FROM stet.runs r WHERE ` + isMarked + ` AND $12::boolean
			UNION SELECT r.run_no FROM new r WHERE r.ready<>2 AND $12::boolean AND ` + sqlstore.Calls("r", "true") + `) c,
			LATERAL (SELECT r.grp, r.slot, r.workflow, r.build FROM stet.runs r WHERE r.run_no=c.run_no AND ` + here + ` OFFSET 0) r
		WHERE NOT ` + fits + ` AND NOT EXISTS (SELECT 1 FROM new r WHERE r.run_no=c.run_no AND ` + sqlstore.Calls("r", "false") + `)
		ORDER BY r.grp, r.slot, r.workflow, r.build DESC)`

// sleeping are the runs that sleep, the next ones first.
var sleeping = "(SELECT r.wake_at, r.workflow, r.ready, r.grp, r.slot, r.build FROM stet.runs r" +
	" WHERE r.wake_at IS NOT NULL AND r.marks & 17 = 0 AND r.wake_at>(SELECT now FROM t) ORDER BY r.wake_at LIMIT " + fmt.Sprint(wakeLook) + ") r"

// at looks at a moment. What an earlier look has found is dropped.
func (l *looking) at(t *tx, floor int64, test any) (err error) {
	if l.leases.conn == nil {
		l.leases = *t.s.claims.Load()
	}
	for {
		if !l.known(t.s.timeline.Load()) {
			if l.leases, err = t.know(l.req.Node, l.req.Boot); err != nil {
				return err
			}
			if l.leases.fenced {
				seen := l.leases
				t.s.claims.Store(&seen)
			}
			if !l.leases.fenced || !l.leases.holds(l.req.Leases) {
				if l.leases, err = t.knowThese(l.req.Leases); err != nil {
					return err
				}
			}
		}
		same, err := l.once(t, floor, test)
		if err != nil || same || !l.leases.fenced {
			return err
		}
		l.leases = known{} // its boot has another fence by now
	}
}

// known reports whether all leases of the request are known to be those of its boot, or
// were looked up within this act.
func (l *looking) known(timeline int64) bool {
	k := &l.leases
	return k.conn != nil && (!k.fenced || k.timeline == timeline && k.node == l.req.Node && k.boot == l.req.Boot && k.holds(l.req.Leases))
}

// shards returns the shards whose leases are held, as the parameters of here.
func (l *looking) shards() (grps []string, held [][]byte, bits int64) {
	grps, bits = []string{}, int64(l.most()+1)
	place := map[string]int{}
	for i := range l.req.Leases {
		lease := &l.req.Leases[i]
		if !l.leases.held(lease) {
			continue
		}
		at, ok := place[lease.Shard.Group]
		if !ok {
			at = len(grps)
			place[lease.Shard.Group] = at
			grps, held = append(grps, name(lease.Shard.Group)), append(held, make([]byte, bits/8+1))
		}
		held[at][lease.Shard.Slot/8] |= 1 << (lease.Shard.Slot % 8)
	}
	return grps, held, bits
}

// most is the highest slot of the leases.
func (l *looking) most() (slot int) {
	for i := range l.req.Leases {
		slot = max(slot, l.req.Leases[i].Shard.Slot)
	}
	return slot
}

// once looks once. It reports false if the leases are perhaps not what was known of them.
func (l *looking) once(t *tx, floor int64, test any) (same bool, err error) {
	l.claims, l.candidates, l.items, l.late = store.Claims{}, nil, false, false
	for i := range l.req.Leases {
		if !l.leases.held(&l.req.Leases[i]) {
			l.claims.Fenced = append(l.claims.Fenced, l.req.Leases[i].Shard)
		}
	}
	grps, held, bits := l.shards()
	args := []any{floor, test, name(l.req.Node), name(l.req.Boot), pgtype.UUID{Bytes: l.leases.fence, Valid: true}, grps, held, bits, l.workflows, []byte(l.req.Build), l.req.Limit + 1, l.req.Unservable}
	err = t.eachSteady(lookText, args, func(scan func(...any) error) error {
		var class, no, order int64
		var group, workflow string
		var build []byte
		if err := scan(&class, &no, &order, &group, &workflow, &build); err != nil {
			return err
		}
		switch class {
		case due, called, marked:
			l.candidates = append(l.candidates, sqlstore.Candidate{Class: int(class), Order: order, No: store.RunNo(no)})
		case hasItems:
			l.items = true
		case isLate:
			l.late = true
		case nextWake:
			l.claims.NextWake = store.Time(order)
		case theTime:
			same, l.claims.Now = no == 1, store.Time(order)
		case isUnfit:
			l.claims.Unservable = append(l.claims.Unservable, store.Unservable{Shard: store.Shard{Group: group, Slot: int(order)}, Workflow: workflow, Build: string(build)})
		}
		return nil
	})
	l.candidates = sqlstore.SortCandidates(l.candidates)
	return same, err
}

// claim takes the candidates in hand, up to the limit, and adds the unexamined items of
// all runs in hand. The leases are kept by the transaction.
func (l *looking) claim(t *tx) error {
	batch := &pgx.Batch{}
	w := l.writing()
	w.queue(t.s, batch)
	results := t.conn.SendBatch(t.ctx, batch)
	if err := errors.Join(w.read(results), results.Close()); err != nil {
		return err
	}
	return l.after(t)
}

// writing is what a claim writes and reads.
type writing struct {
	*looking
	chosen []sqlstore.Candidate
	index  map[store.RunNo]int // of claims.Runs
}

func (l *looking) writing() *writing {
	return &writing{looking: l, chosen: l.candidates[:min(len(l.candidates), l.req.Limit)]}
}

// At rest, if it is paused or to be paused, or held without a grant (laws 18 and 28).
const takeText = `UPDATE stet.runs r SET (ready, wake_at, marks, status, started) = (
	SELECT 2, CASE WHEN c.rest THEN r.wake_at END, CASE WHEN c.rest THEN r.marks ELSE r.marks & ~16 END,
		CASE WHEN NOT c.rest AND r.status IN (1,3) THEN 2 ELSE r.status END,
		CASE WHEN NOT c.rest AND r.started=0 AND r.status IN (1,2,3) THEN $2 ELSE r.started END
	FROM (SELECT r.marks & 1 = 1 OR EXISTS (SELECT 1 FROM stet.inbox i WHERE i.run_no=r.run_no AND i.state=1 AND i.kind=10)
		OR r.marks & 16 <> 0 AND NOT EXISTS (SELECT 1 FROM stet.inbox i WHERE i.run_no=r.run_no AND i.state=1 AND i.kind=31) AS rest OFFSET 0) c)
	WHERE r.run_no=ANY($1::bigint[]) AND r.ready+0<>2 AND ($3::text IS NULL OR EXISTS (SELECT FROM stet.nodes WHERE node=$3 AND boot=$4 AND fence=$5::uuid))
	RETURNING ` + runValues

// itemsText gives the unexamined items of all claimed runs of the shards, by run.
const itemsText = "SELECT " + itemColumns + ", i.run_no FROM (SELECT * FROM stet.inbox i WHERE i.state=1 ORDER BY i.run_no, i.item_no OFFSET 0) i," +
	" LATERAL (SELECT FROM stet.runs r WHERE r.run_no=i.run_no AND r.ready+0=2 AND " + hereItems + " OFFSET 0) r ORDER BY i.run_no, i.item_no LIMIT $4"

const hereItems = "CASE WHEN r.slot<$3::integer THEN get_bit(($2::bytea[])[array_position($1::text[], r.grp)], r.slot)=1 END"

func (w *writing) queue(s *Store, batch *pgx.Batch) {
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
	}
	grps, held, bits := w.shards()
	batch.Queue(s.sql(itemsText), grps, held, bits, int64(store.MaxClaim+1))
}

func (w *writing) read(results pgx.BatchResults) error {
	l := w.looking
	l.claims.More = len(l.candidates) > len(w.chosen)
	l.claims.Runs = make([]store.Claimed, len(w.chosen))
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
				l.claims.Runs[w.index[run.No]] = store.Claimed{New: true, Run: run}
			}
			return err
		})
		if err != nil {
			return err
		}
		// Whoever else claims for this boot may have been faster.
		l.claims.Runs = slices.DeleteFunc(l.claims.Runs, func(c store.Claimed) bool { return c.Run.No == 0 })
		clear(w.index)
		for i := range l.claims.Runs {
			w.index[l.claims.Runs[i].Run.No] = i
		}
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	count := 0
	return eachRow(rows, func(scan func(...any) error) error {
		var no int64
		it, err := scanItem(scan, &no)
		if err != nil {
			return err
		}
		if count++; count > store.MaxClaim {
			l.claims.More = true
			return nil
		}
		i, ok := w.index[store.RunNo(no)]
		if !ok {
			i = len(l.claims.Runs)
			w.index[store.RunNo(no)] = i
			l.claims.Runs = append(l.claims.Runs, store.Claimed{Run: store.Run{No: store.RunNo(no)}})
		}
		l.claims.Runs[i].Items = append(l.claims.Runs[i].Items, it)
		return nil
	})
}

// after looks for the next wake time once more, if what was called before its time
// sleeps no more.
func (l *looking) after(t *tx) error {
	if l.claims.NextWake == 0 || !slices.ContainsFunc(l.candidates[:min(len(l.candidates), l.req.Limit)], func(c sqlstore.Candidate) bool { return c.Class == called }) {
		return nil
	}
	again := &looking{req: &store.ClaimRequest{Node: l.req.Node, Boot: l.req.Boot, Leases: l.req.Leases, Build: l.req.Build}, workflows: l.workflows, leases: l.leases}
	_, err := again.once(t, int64(l.claims.Now), int64(l.claims.Now))
	l.claims.NextWake = again.claims.NextWake
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
