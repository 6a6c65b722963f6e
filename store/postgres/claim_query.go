package postgres

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// claimQuery is the query of a claim for runs that are ready, and its result.
type claimQuery struct {
	req       *store.ClaimRequest
	workflows []string             // of the request, as far as the server can take them
	first     map[store.RunNo]bool // these go before others
	leases    known

	claims     store.Claims
	candidates []sqlstore.Candidate // in order, Limit+1 of each class at most
	items      bool                 // claimed runs, or some that have ended, have unexamined items
	late       bool                 // those that have ended

	resting      []int64 // runs with items that make them ready for no node, restRuns at most
	restingItems int64   // theirs
}

// prefer puts the candidates that are first before the others.
func (q *claimQuery) prefer() {
	if len(q.first) == 0 {
		return
	}
	others := func(c sqlstore.Candidate) bool { return !q.first[c.No] }
	rest := slices.DeleteFunc(slices.Clone(q.candidates), func(c sqlstore.Candidate) bool { return !others(c) })
	q.candidates = append(slices.DeleteFunc(q.candidates, others), rest...)
}

// The classes of rows: runs that may be claimed, in their order, and other results.
const (
	due = iota
	called
	marked
	hasItems
	nextWake
	theTime
	isUnservable
	isLate
	isResting
)

const (
	// maxForeignSleepers is how many sleeping runs of other shards, of each workflow and
	// group, a query for the next wake time skips.
	maxForeignSleepers = 1000
	// maxUnfit is how many runs, of each workflow and group, are looked at for those that the
	// node cannot load.
	maxUnfit = 1000
)

// claimParts are the parts of the query. Of a run r: fits says that the node can load it;
// here that it is in one of the shards, bit by bit of a group's slots, which costs less
// than to search hundreds of them.
var claimParts = func() params {
	p := params{
		"fitsBy": "($10::bytea='' OR r.build<=$10::bytea)",
		"here":   "CASE WHEN r.slot<$8::integer THEN get_bit(($7::bytea[])[array_position($6::text[], r.grp)], r.slot)=1 END",

		"sleeps":   "r.wake_at IS NOT NULL AND r.marks & {pausedOrHeld} = 0",
		"isDue":    "r.wake_at IS NOT NULL AND r.marks & {pausedOrHeld} = 0 AND r.wake_at<=(SELECT now FROM t)",
		"isMarked": "r.ready={ready} AND r.marks & {pausedOrHeld} = 0",
		"waits":    sqlstore.Waits,
		"isEntity": "r.workflow>='" + store.EntityPrefix + "' AND r.workflow<'" + store.AfterEntityPrefix + "'",
		"ofSort":   "r.workflow=s.workflow AND r.grp=s.grp",
		"noMore":   ", ''::text, ''::text, ''::bytea",
		"ofLine":   ", ''::text, s.workflow, ''::bytea",
		"asked":    "$12::boolean",
		"now":      nowExpr,
		"most":     fmt.Sprint(maxForeignSleepers),
		"mostBad":  fmt.Sprint(maxUnfit),
		"mostRest": fmt.Sprint(restRuns),
	}
	p["fits"] = "(r.workflow=ANY($9::text[]) AND " + p["fitsBy"] + ")"
	// The runs of a sort that sleep, the next ones first.
	p["sleeping"] = p.in(`(SELECT r.wake_at, r.workflow, r.ready, r.grp, r.slot, r.build FROM stet.runs r
		WHERE @ofSort AND @sleeps AND r.wake_at>(SELECT now FROM t) ORDER BY r.wake_at LIMIT @most) r`)
	p["callsIfFit"] = sqlstore.Calls("r", p["fits"])
	p["callsAnyNode"], p["callsWithoutCode"] = sqlstore.Calls("r", "true"), sqlstore.Calls("r", "false")
	for name, class := range map[string]int{
		"due": due, "called": called, "marked": marked, "hasItems": hasItems, "nextWake": nextWake, "theTime": theTime,
		"isUnservable": isUnservable, "isLate": isLate, "isResting": isResting,
	} {
		p[name] = strconv.Itoa(class)
	}
	return p
}()

// claimText is the query. Parameters: the two of nowExpr; node, boot and fence; groups, a
// bit for each slot of theirs that is held, and how many; workflows, build, limit, and
// whether runs that do not fit are asked for. For its shape see plan.go.
//
// It does not pass by runs that no node can load, or whose group has no node: waking and
// readies are the sorts of runs that wait, by workflow and group, and by build if they are
// marked ready. To find them takes one step in an index for each sort.
var claimText = claimParts.in(`WITH RECURSIVE t AS MATERIALIZED (SELECT @now AS now),
	new AS MATERIALIZED (
		SELECT r.*, i.kind FROM (
			SELECT i.run_no, i.kind FROM stet.inbox i WHERE i.state={new} AND NOT i.rests OFFSET 0) i, LATERAL (
			SELECT r.run_no, r.ready, r.grp, r.slot, r.status, r.marks, r.wake_at, r.workflow, r.build FROM stet.runs r
			WHERE r.run_no=i.run_no AND @here OFFSET 0) r),
	waking(workflow, grp) AS (
		(SELECT r.workflow, r.grp FROM stet.runs r WHERE @sleeps ORDER BY r.workflow, r.grp LIMIT 1)
		UNION ALL SELECT n.* FROM waking s, LATERAL (SELECT r.workflow, r.grp FROM stet.runs r
			WHERE @sleeps AND (r.workflow, r.grp)>(s.workflow, s.grp) ORDER BY r.workflow, r.grp LIMIT 1) n),
	readies(workflow, grp, build) AS (
		(SELECT r.workflow, r.grp, r.build FROM stet.runs r WHERE @isMarked ORDER BY r.workflow, r.grp, r.build LIMIT 1)
		UNION ALL SELECT n.* FROM readies s, LATERAL (SELECT r.workflow, r.grp, r.build FROM stet.runs r
			WHERE @isMarked AND (r.workflow, r.grp, r.build)>(s.workflow, s.grp, s.build)
			ORDER BY r.workflow, r.grp, r.build LIMIT 1) n),
	lined(q) AS (
		(SELECT r.q FROM stet.runs r WHERE @waits ORDER BY r.q LIMIT 1)
		UNION ALL SELECT n.* FROM lined s, LATERAL (SELECT r.q FROM stet.runs r
			WHERE @waits AND r.q>s.q ORDER BY r.q LIMIT 1) n),
	asleep AS MATERIALIZED (SELECT r.* FROM lined s, LATERAL (
		SELECT r.run_no, r.grp, r.slot, r.workflow, r.build FROM stet.runs r WHERE r.id=s.q AND r.ready+0={idle}
			AND r.status+0={suspended} AND r.marks & {paused} = 0 AND @isEntity AND @here OFFSET 0) r)
	(SELECT @due, r.run_no, r.wake_at@ofLine FROM waking s, LATERAL (SELECT r.run_no, r.wake_at FROM stet.runs r
			WHERE @ofSort AND @isDue AND r.ready+0={idle} AND @fitsBy AND @here ORDER BY r.wake_at, r.run_no LIMIT $11) r
		WHERE s.workflow=ANY($9::text[]) AND s.grp=ANY($6::text[])
		ORDER BY row_number() OVER (PARTITION BY s.workflow ORDER BY r.wake_at, r.run_no), r.wake_at, r.run_no LIMIT $11)
	UNION ALL (SELECT DISTINCT @called, r.run_no, 0::bigint@noMore FROM new r
		WHERE r.ready<>{claimed} AND NOT (@isDue AND @fits) AND @callsIfFit ORDER BY r.run_no LIMIT $11)
	UNION ALL (SELECT @marked, r.run_no, 0::bigint@ofLine FROM readies s, LATERAL (SELECT r.run_no FROM stet.runs r
			WHERE @ofSort AND r.build=s.build AND @isMarked AND @here
				AND r.run_no NOT IN (SELECT r.run_no FROM new r WHERE @callsIfFit) ORDER BY r.run_no LIMIT $11) r
		WHERE s.workflow=ANY($9::text[]) AND ($10::bytea='' OR s.build<=$10::bytea) AND s.grp=ANY($6::text[])
		ORDER BY row_number() OVER (PARTITION BY s.workflow ORDER BY r.run_no), r.run_no LIMIT $11)
	UNION ALL (SELECT @marked, r.run_no, 0::bigint, ''::text, r.workflow, ''::bytea FROM asleep r WHERE @fits
		ORDER BY r.run_no LIMIT $11)
	UNION ALL (SELECT @hasItems, 0::bigint, 0::bigint@noMore
		WHERE EXISTS (SELECT 1 FROM new r WHERE r.ready={claimed} OR r.status IN {ended}))
	UNION ALL (SELECT @isLate, 0::bigint, 0::bigint@noMore
		WHERE EXISTS (SELECT 1 FROM new r WHERE r.ready={idle} AND r.status IN {ended}))
	UNION ALL (SELECT @isResting, r.run_no, count(*)@noMore FROM new r
		WHERE r.ready<>{claimed} AND r.status NOT IN {ended} AND NOT (@callsAnyNode) GROUP BY r.run_no LIMIT @mostRest)
	UNION ALL (SELECT @nextWake, 0::bigint, coalesce(min(n.wake_at), 0)@noMore FROM waking s, LATERAL (SELECT coalesce(
		(SELECT r.wake_at FROM @sleeping WHERE r.ready={idle} AND @fitsBy AND @here ORDER BY r.wake_at LIMIT 1),
		(SELECT max(r.wake_at) FROM @sleeping HAVING count(*)=@most)) AS wake_at OFFSET 0) n
		WHERE s.workflow=ANY($9::text[]) AND s.grp=ANY($6::text[]))
	UNION ALL (SELECT @theTime,
		EXISTS (SELECT FROM stet.boots WHERE node=$3 AND boot=$4 AND fence=$5::uuid)::integer, now@noMore FROM t)
	UNION ALL (SELECT DISTINCT ON (r.grp, r.slot, r.workflow)
		@isUnservable, 0::bigint, r.slot::bigint, r.grp, r.workflow, r.build FROM (
			SELECT r.* FROM waking s, LATERAL (SELECT r.run_no, r.grp, r.slot, r.workflow, r.build FROM stet.runs r
				WHERE @ofSort AND @isDue AND r.ready+0={idle} ORDER BY r.wake_at LIMIT @mostBad) r
				WHERE @asked AND s.grp=ANY($6::text[])
			UNION ALL SELECT r.* FROM readies s, LATERAL (SELECT r.run_no, r.grp, r.slot, r.workflow, r.build FROM stet.runs r
				WHERE @ofSort AND r.build=s.build AND @isMarked ORDER BY r.run_no LIMIT @mostBad) r
				WHERE @asked AND s.grp=ANY($6::text[])
					AND NOT (s.workflow=ANY($9::text[]) AND ($10::bytea='' OR s.build<=$10::bytea))
			UNION ALL SELECT r.* FROM asleep r WHERE @asked
			UNION ALL SELECT r.run_no, r.grp, r.slot, r.workflow, r.build FROM new r
				WHERE r.ready<>{claimed} AND @asked AND @callsAnyNode) r
		WHERE NOT @fits AND @here AND r.run_no NOT IN (SELECT r.run_no FROM new r WHERE @callsWithoutCode)
		ORDER BY r.grp, r.slot, r.workflow, r.build DESC)`)

// run executes the query, and again after reading the leases if they are not those that
// this process knows.
func (q *claimQuery) run(t *tx, floor int64, test any) (err error) {
	if q.leases.conn == nil {
		q.leases = *t.s.claims.Load()
	}
	for {
		if !q.known(t.s.servers.timeline.Load()) {
			if q.leases, err = t.know(q.req.Node, q.req.Boot); err != nil {
				return err
			}
			if q.leases.fenced {
				seen := q.leases
				t.s.claims.Store(&seen)
			}
			if !q.leases.fenced || !q.leases.holds(q.req.Leases) {
				if q.leases, err = t.knowThese(q.req.Leases); err != nil {
					return err
				}
			}
		}
		same, err := q.execute(t, floor, test)
		if err != nil || same || !q.leases.fenced {
			return err
		}
		q.leases = known{} // its boot has another fence by now
	}
}

// known reports whether all leases of the request are known to be those of its boot, or
// were read within this act.
func (q *claimQuery) known(timeline int64) bool {
	k := &q.leases
	return k.conn != nil && (!k.fenced ||
		k.timeline == timeline && k.node == q.req.Node && k.boot == q.req.Boot && k.holds(q.req.Leases))
}

// shards returns the shards whose leases are held, as the parameters of here.
func (q *claimQuery) shards() (grps []string, held [][]byte, bits int64) {
	highest := 0
	for i := range q.req.Leases {
		highest = max(highest, q.req.Leases[i].Shard.Slot)
	}
	grps, bits = []string{}, int64(highest+1)
	place := map[string]int{}
	for i := range q.req.Leases {
		lease := &q.req.Leases[i]
		if !q.leases.held(lease) {
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

// execute executes the query once. It drops the result of an earlier time, and reports
// false if the boot has another fence than the known leases.
func (q *claimQuery) execute(t *tx, floor int64, test any) (same bool, err error) {
	q.claims, q.candidates, q.items, q.late = store.Claims{}, nil, false, false
	q.resting, q.restingItems = nil, 0
	for i := range q.req.Leases {
		if !q.leases.held(&q.req.Leases[i]) {
			q.claims.Fenced = append(q.claims.Fenced, q.req.Leases[i].Shard)
		}
	}
	grps, held, bits := q.shards()
	args := []any{
		floor, test, name(q.req.Node), name(q.req.Boot), pgtype.UUID{Bytes: q.leases.fence, Valid: true},
		grps, held, bits, q.workflows, []byte(q.req.Build), q.req.Limit + 1, q.req.Unservable,
	}
	err = t.eachSteady(claimText, args, func(scan func(...any) error) error {
		var class, no, order int64
		var group, workflow string
		var build []byte
		if err := scan(&class, &no, &order, &group, &workflow, &build); err != nil {
			return err
		}
		switch class {
		case due, called, marked:
			q.candidates = append(q.candidates, sqlstore.Candidate{Class: int(class), Order: order, Workflow: workflow,
				No: store.RunNo(no)})
		case hasItems:
			q.items = true
		case isLate:
			q.late = true
		case isResting:
			q.resting = append(q.resting, no)
			q.restingItems += order
		case nextWake:
			q.claims.NextWake = store.Time(order)
		case theTime:
			same, q.claims.Now = no == 1, store.Time(order)
		case isUnservable:
			q.claims.Unservable = append(q.claims.Unservable, store.Unservable{
				Shard: store.Shard{Group: group, Slot: int(order)}, Workflow: workflow, Build: string(build),
			})
		}
		return nil
	})
	q.candidates = sqlstore.SortCandidates(q.candidates)
	q.prefer()
	return same, err
}
