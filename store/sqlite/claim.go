package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// Claim implements store.Store. It looks with a connection that reads, and
// writes only if there is something to claim.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	if err := req.Validate(); err != nil {
		return store.Claims{}, err
	}
	known, err := json.Marshal(append([]string{}, req.Workflows...)) // a list, even of none
	if err != nil {
		return store.Claims{}, err
	}
	shards := make([][2]any, len(req.Leases))
	for i := range req.Leases {
		shards[i] = [2]any{req.Leases[i].Shard.Group, req.Leases[i].Shard.Slot}
	}
	list, err := json.Marshal(shards)
	if err != nil {
		return store.Claims{}, err
	}
	q := &claimQuery{req: &req, known: string(known), shards: string(list)}
	now := s.clock.read() // before the transaction, which then sees all that came before now
	writes := false
	err = s.read.do(ctx, "look for ready runs", func(c *conn) error {
		if err := q.run(c, now); err != nil {
			return err
		}
		writes = len(q.candidates) > 0 && req.Limit > 0 || q.resting >= s.cfg.restAt
		if writes {
			return nil
		}
		q.claims.More = q.claims.More || len(q.candidates) > 0
		if !q.unread {
			return nil
		}
		return q.addItems(c)
	})
	switch {
	case err != nil:
		return store.Claims{}, err
	case !writes:
		return q.claims, nil
	}
	err = s.write.do(ctx, "claim runs", func(c *conn, now store.Time) error {
		if err := q.run(c, now); err != nil {
			return err
		}
		if q.resting >= s.cfg.restAt {
			if err := q.rest(c, now); err != nil {
				return err
			}
		}
		return q.claim(c, now)
	})
	return q.claims, err
}

// claimQuery looks for runs that are ready, and claims them.
type claimQuery struct {
	req        *store.ClaimRequest
	known      string // JSON array of the workflows
	shards     string // JSON array of the leases' shards, in their order
	states     []shardState
	claims     store.Claims
	candidates []sqlstore.Candidate // at most Limit+1 of each query, in order
	resting    int                  // items that were passed by, see rest; at most mostResting
	unread     bool                 // there are unexamined items
}

// Parameters of the queries below: group, slot, now, workflows, build; then those of the
// query, and the limit.
const (
	// fits is the condition that the node can load the run r.
	fits     = "(r.workflow IN (SELECT value FROM json_each(?4)) AND " + notLater + ")"
	notLater = "(?5='' OR r.build<=?5)"
	sleeping = "r.wake_at IS NOT NULL AND r.marks & {pausedOrHeld} = 0"
	due      = sleeping + " AND r.wake_at<=?3 AND r.ready={idle}"
	marked   = "r.ready={ready} AND r.marks & {pausedOrHeld} = 0"
	here     = "r.grp=?1 AND r.slot=?2"
	news     = "i.state={new} AND i.rests=0" // which the index asks for
)

// The classes of runs that may be claimed, in their order: those that are due, those with
// an item that makes them ready, those marked ready. No query passes by runs whose workflow
// the node lacks: those that wait are found by workflow, and by build if they are marked.
const (
	isDue = iota
	isCalled
	isMarked
)

const (
	dueRuns = "SELECT r.run_no, r.wake_at FROM stet_runs r INDEXED BY stet_runs_wake WHERE " + here +
		" AND r.workflow=?6 AND " + due + " AND " + notLater + " ORDER BY r.wake_at, r.run_no LIMIT ?7"
	markedRuns = markedBy + " ORDER BY r.run_no LIMIT ?8"
	markedBy   = "SELECT r.run_no, 0 FROM stet_runs r INDEXED BY stet_runs_ready WHERE " + here +
		" AND r.workflow=?6 AND r.build=?7 AND " + marked
	nextWake = "SELECT coalesce(min(r.wake_at), 0) FROM stet_runs r INDEXED BY stet_runs_wake WHERE " + here +
		" AND r.workflow=?6 AND " + sleeping + " AND r.wake_at>?3 AND r.ready={idle} AND " + notLater
)

// newsOf are the unexamined items that may make a run ready, with their runs.
const newsOf = "stet_inbox i INDEXED BY stet_inbox_new CROSS JOIN stet_runs r ON r.run_no=i.run_no"

var calledRuns = "SELECT DISTINCT r.run_no, 0 FROM " + newsOf + " WHERE " + news + " AND r.ready<>{claimed} AND " +
	here + " AND NOT (" + due + " AND " + fits + ") AND " + sqlstore.Calls("i", fits) + " ORDER BY r.run_no LIMIT ?6"

// markedUncalled is markedRuns for shards with unexamined items, without the runs that such an item calls: those are in
// the line of the items, and may have to wait for a later answer.
var markedUncalled = markedBy + " AND NOT EXISTS (SELECT 1 FROM stet_inbox i WHERE i.run_no=r.run_no AND " +
	news + " AND " + sqlstore.Calls("i", fits) + ") ORDER BY r.run_no LIMIT ?8"

// anything is the first query of a look, and the only one if nothing waits. Its rows are,
// of each shard,
//
//   - the epoch, and whether there are unexamined items;
//   - each workflow of runs that sleep or are due, with the first wake time;
//   - each workflow and build of runs that are marked ready.
//
// Its parameter is a JSON array of shards, each an array of group and slot. It takes one
// step in an index for each row, however many runs there are.
var anything = strings.NewReplacer("IN_SHARD", "r.grp=l.grp AND r.slot=l.slot",
	"WAKING", "stet_runs r INDEXED BY stet_runs_wake", "SLEEPING", sleeping,
	"READY", "stet_runs r INDEXED BY stet_runs_ready", "MARKED", marked, "NEWS", news,
	"WAITING", "stet_runs r INDEXED BY stet_runs_waiting WHERE "+sqlstore.Waits,
	"{isDue}", strconv.Itoa(isDue), "{isCalled}", strconv.Itoa(isCalled), "{isMarked}", strconv.Itoa(isMarked)).Replace(`WITH RECURSIVE
	shards(at, grp, slot) AS (SELECT key, value->>0, value->>1 FROM json_each(?1)),
	waking(at, grp, slot, workflow) AS (
		SELECT at, grp, slot, (SELECT min(r.workflow) FROM WAKING WHERE IN_SHARD AND SLEEPING) FROM shards l
		UNION ALL SELECT at, grp, slot, (SELECT min(r.workflow) FROM WAKING WHERE IN_SHARD AND SLEEPING
			AND r.workflow>l.workflow) FROM waking l WHERE l.workflow IS NOT NULL),
	named(at, grp, slot, workflow) AS (
		SELECT at, grp, slot, (SELECT min(r.workflow) FROM READY WHERE IN_SHARD AND MARKED) FROM shards l
		UNION ALL SELECT at, grp, slot, (SELECT min(r.workflow) FROM READY WHERE IN_SHARD AND MARKED
			AND r.workflow>l.workflow) FROM named l WHERE l.workflow IS NOT NULL),
	built(at, grp, slot, workflow, build) AS (
		SELECT at, grp, slot, workflow, (SELECT min(r.build) FROM READY WHERE IN_SHARD AND MARKED AND r.workflow=l.workflow)
			FROM named l WHERE l.workflow IS NOT NULL
		UNION ALL SELECT at, grp, slot, workflow, (SELECT min(r.build) FROM READY WHERE IN_SHARD AND MARKED
			AND r.workflow=l.workflow AND r.build>l.build) FROM built l WHERE l.build IS NOT NULL)
	SELECT at, {isCalled}, coalesce((SELECT epoch FROM stet_leases WHERE grp=l.grp AND slot=l.slot AND node<>''), 0),
		EXISTS (SELECT 1 FROM stet_inbox i WHERE NEWS), EXISTS (SELECT 1 FROM WAITING), '' FROM shards l
	UNION ALL SELECT at, {isDue},
		(SELECT min(r.wake_at) FROM WAKING WHERE IN_SHARD AND SLEEPING AND r.workflow=l.workflow),
		0, workflow, '' FROM waking l WHERE workflow IS NOT NULL
	UNION ALL SELECT at, {isMarked}, 0, 0, workflow, build FROM built WHERE build IS NOT NULL`)

// shardState is what a look finds in a shard.
type shardState struct {
	epoch  int64
	items  bool     // of whatever shard
	lines  bool     // a run waits in a line, of whatever shard
	due    []string // workflows
	asleep []string // workflows, those that are due too
	marked []ofBuild
}

// ofBuild are the runs of a workflow and a build.
type ofBuild struct{ workflow, build string }

// look looks at all shards at once.
func (q *claimQuery) look(c *conn, now store.Time) ([]shardState, error) {
	states := make([]shardState, len(q.req.Leases))
	err := c.each(anything, []any{q.shards}, func(r *sqlite3.Stmt) error {
		st, no, workflow := &states[r.ColumnInt64(0)], r.ColumnInt64(2), r.ColumnText(4)
		switch r.ColumnInt64(1) {
		case isCalled:
			st.epoch, st.items, st.lines = no, r.ColumnBool(3), r.ColumnBool(4)
		case isDue:
			st.asleep = append(st.asleep, workflow)
			if store.Time(no) <= now {
				st.due = append(st.due, workflow)
			}
		case isMarked:
			st.marked = append(st.marked, ofBuild{workflow, r.ColumnText(5)})
		}
		return nil
	})
	return states, err
}

// lookShard is the part of a look that is for one shard.
type lookShard struct {
	*claimQuery
	c *conn
	shardState
	shard store.Shard
	args  []any // those that all queries have
}

// run looks for candidates as of a time. It drops those of an earlier look.
func (q *claimQuery) run(c *conn, now store.Time) error {
	q.claims, q.candidates, q.resting, q.unread = store.Claims{Now: now}, nil, 0, false
	var err error
	if q.states, err = q.look(c, now); err != nil {
		return err
	}
	for i := range q.req.Leases {
		lease := &q.req.Leases[i]
		if epoch := q.states[i].epoch; epoch == 0 || epoch != lease.Epoch {
			q.claims.Fenced = append(q.claims.Fenced, lease.Shard)
			continue
		}
		l := lookShard{q, c, q.states[i], lease.Shard, q.args(lease.Shard, now)}
		if err := l.run(); err != nil {
			return err
		}
		q.unread = q.unread || l.items
	}
	slices.SortFunc(q.claims.Unservable, func(a, b store.Unservable) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Shard.Slot, b.Shard.Slot),
			cmp.Compare(a.Workflow, b.Workflow))
	})
	q.candidates = sqlstore.SortCandidates(q.candidates)
	return nil
}

func (q *claimQuery) args(shard store.Shard, now store.Time) []any {
	return []any{shard.Group, shard.Slot, now, q.known, q.req.Build}
}

// knows reports whether the node has a workflow.
func (q *claimQuery) knows(workflow string) bool { return slices.Contains(q.req.Workflows, workflow) }

// loads reports whether the node can load runs.
func (q *claimQuery) loads(runs ofBuild) bool {
	return q.knows(runs.workflow) && (q.req.Build == "" || runs.build <= q.req.Build)
}

func (l *lookShard) run() error {
	if l.req.Unservable {
		if err := l.unservable(); err != nil {
			return err
		}
	}
	for _, workflow := range l.due {
		if l.knows(workflow) {
			if err := l.find(isDue, workflow, dueRuns, workflow, l.req.Limit+1); err != nil {
				return err
			}
		}
	}
	if l.items {
		if err := l.find(isCalled, "", calledRuns, l.req.Limit+1); err != nil {
			return err
		}
		var n int64
		if _, err := l.c.row(restingItems, append(l.args, mostResting), &n); err != nil {
			return err
		}
		l.resting += int(n)
	}
	query := markedRuns
	if l.items {
		query = markedUncalled
	}
	for _, runs := range l.marked {
		if l.loads(runs) {
			if err := l.find(isMarked, runs.workflow, query, runs.workflow, runs.build, l.req.Limit+1); err != nil {
				return err
			}
		}
	}
	if l.lines {
		if err := l.findLined(); err != nil {
			return err
		}
	}
	return l.wake(l.c, l.args, l.asleep)
}

// find adds candidates of a class and the line of a workflow.
func (l *lookShard) find(class int, workflow, query string, more ...any) error {
	return l.c.each(query, slices.Concat(l.args, more), func(s *sqlite3.Stmt) error {
		l.candidates = append(l.candidates, sqlstore.Candidate{Class: class, Order: s.ColumnInt64(1), Workflow: workflow,
			No: store.RunNo(s.ColumnInt64(0))})
		return nil
	})
}

// wake notes the next wake time of those workflows of a shard that the node has.
func (q *claimQuery) wake(c *conn, args []any, workflows []string) error {
	for _, workflow := range workflows {
		if !q.knows(workflow) {
			continue
		}
		var at int64
		if _, err := c.row(nextWake, append(args, workflow), &at); err != nil {
			return err
		}
		if t := store.Time(at); t != 0 && (q.claims.NextWake == 0 || t < q.claims.NextWake) {
			q.claims.NextWake = t
		}
	}
	return nil
}

// Of runs that only another node can load, the latest build that there is, or none: of those
// that are due, with a workflow, among the first ones; of those marked ready, with a workflow
// and a build; of those with an item, by workflow.
var (
	withoutCode = " AND NOT EXISTS (SELECT 1 FROM stet_inbox i WHERE i.run_no=r.run_no AND " + news + " AND " +
		sqlstore.Calls("i", "false") + ")"
	unfitDue = "SELECT ?6, r.build FROM stet_runs r WHERE r.run_no IN (" +
		"SELECT r.run_no FROM stet_runs r INDEXED BY stet_runs_wake WHERE " + here + " AND r.workflow=?6 AND " +
		due + " ORDER BY r.wake_at LIMIT ?7) AND NOT " + fits + withoutCode
	unfitMarked = "SELECT ?6, r.build FROM stet_runs r INDEXED BY stet_runs_ready WHERE " + here +
		" AND r.workflow=?6 AND r.build=?7 AND " + marked + withoutCode + " LIMIT 1"
	unfitCalled = "SELECT r.workflow, max(r.build) FROM " + newsOf + " WHERE " + news + " AND r.ready<>{claimed} AND " +
		here + " AND " + sqlstore.Calls("i", "true") + " AND NOT " + fits + withoutCode +
		" GROUP BY r.workflow"
)

// unfitLook is how many due runs of a workflow are looked at for builds that are too late.
const unfitLook = 100

// unservable adds the workflows and builds of a shard that the node cannot load.
func (l *lookShard) unservable() error {
	latest := map[string]string{}
	find := func(query string, more ...any) error {
		return l.c.each(query, slices.Concat(l.args, more), func(s *sqlite3.Stmt) error {
			workflow, build := s.ColumnText(0), s.ColumnText(1)
			if known, ok := latest[workflow]; !ok || known < build {
				latest[workflow] = build
			}
			return nil
		})
	}
	for _, workflow := range l.due {
		if err := find(unfitDue, workflow, unfitLook); err != nil {
			return err
		}
	}
	for _, runs := range l.marked {
		if !l.loads(runs) {
			if err := find(unfitMarked, runs.workflow, runs.build); err != nil {
				return err
			}
		}
	}
	if l.items {
		if err := find(unfitCalled); err != nil {
			return err
		}
	}
	if l.lines {
		err := l.c.each(unfitLined, l.args, func(s *sqlite3.Stmt) error {
			workflow, build := s.ColumnText(1), s.ColumnText(2)
			latest[workflow] = max(latest[workflow], build)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for workflow, build := range latest {
		l.claims.Unservable = append(l.claims.Unservable, store.Unservable{Shard: l.shard, Workflow: workflow, Build: build})
	}
	return nil
}

// claim claims the candidates, up to the limit.
func (q *claimQuery) claim(c *conn, now store.Time) error {
	chosen := q.candidates
	q.claims.More = q.claims.More || len(chosen) > q.req.Limit
	chosen = chosen[:min(len(chosen), q.req.Limit)]
	index := make(map[store.RunNo]int, len(chosen))
	fresh := make([]store.Claimed, len(chosen))
	called, err := c.callers()
	if err != nil {
		return err
	}
	for i, cand := range chosen {
		if err := c.claim(cand.No, now, called[cand.No]); err != nil {
			return err
		}
		run, err := c.runByNo(cand.No)
		if err != nil {
			return err
		}
		fresh[i], index[cand.No] = store.Claimed{New: true, Run: run}, i
	}
	if err := q.addItems(c); err != nil {
		return err
	}
	others := q.claims.Runs
	q.claims.Runs = fresh
	for _, claimed := range others {
		if i, ok := index[claimed.Run.No]; ok {
			q.claims.Runs[i].Items = claimed.Items
		} else {
			q.claims.Runs = append(q.claims.Runs, claimed)
		}
	}
	if !slices.ContainsFunc(chosen, func(c sqlstore.Candidate) bool { return c.Class == isCalled }) {
		return nil
	}
	return q.wakeAgain(c, now)
}

// wakeAgain reads the next wake time again: some of the runs that were claimed for an
// item had one.
func (q *claimQuery) wakeAgain(c *conn, now store.Time) error {
	q.claims.NextWake = 0
	for i := range q.req.Leases {
		shard := q.req.Leases[i].Shard
		if slices.Contains(q.claims.Fenced, shard) {
			continue
		}
		if err := q.wake(c, q.args(shard, now), q.states[i].asleep); err != nil {
			return err
		}
	}
	return nil
}

// caller says which of the items that decide how a run is claimed are unexamined.
type caller struct{ pause, grant bool }

// callers returns the runs with an unexamined Pause or Grant (laws 18 and 28): one query
// for a claim, not one for each run.
func (c *conn) callers() (map[store.RunNo]caller, error) {
	runs := map[store.RunNo]caller{}
	err := c.each(`SELECT run_no, kind FROM stet_inbox INDEXED BY stet_inbox_new
		WHERE state={new} AND rests=0 AND kind IN ({pause},{grant})`, nil, func(s *sqlite3.Stmt) error {
		no := store.RunNo(s.ColumnInt64(0))
		by := runs[no]
		if store.ItemKind(s.ColumnInt64(1)) == store.ItemPause {
			by.pause = true
		} else {
			by.grant = true
		}
		runs[no] = by
		return nil
	})
	return runs, err
}

// claim claims a run. One that is paused or to be paused, or held without a grant, is
// claimed at rest: nothing else of it changes.
func (c *conn) claim(no store.RunNo, now store.Time, by caller) error {
	const rest = "(?3 OR marks & {paused} OR marks & {held} AND NOT ?4)"
	_, err := c.exec(`UPDATE stet_runs SET ready={claimed}, wake_at=CASE WHEN `+rest+` THEN wake_at END,
		marks=CASE WHEN `+rest+` THEN marks ELSE marks & ~{held} END,
		status=CASE WHEN NOT `+rest+` AND status IN ({queued},{suspended}) THEN {running} ELSE status END,
		started=CASE WHEN NOT `+rest+` AND started=0 AND status IN ({queued},{running},{suspended}) THEN ?2 ELSE started END
		WHERE run_no=?1`, int64(no), now, by.pause, by.grant)
	if err != nil {
		return err
	}
	return sqlstore.Stir(&rows{querier: c}, no)
}

// addItems adds the unexamined items of all claimed runs of the leases' shards,
// by run.
func (q *claimQuery) addItems(c *conn) error {
	shards := make(map[store.Shard]bool, len(q.req.Leases))
	for i := range q.req.Leases {
		if shard := q.req.Leases[i].Shard; !slices.Contains(q.claims.Fenced, shard) {
			shards[shard] = true
		}
	}
	count := 0
	return c.each(`SELECT `+itemHeads+`, r.grp, r.slot, i.run_no
		FROM `+newsOf+`
		WHERE `+news+` AND r.ready={claimed} ORDER BY i.run_no, i.item_no`, nil,
		func(s *sqlite3.Stmt) error {
			if !shards[store.Shard{Group: s.ColumnText(itemWidth + 1), Slot: s.ColumnInt(itemWidth + 2)}] {
				return nil
			}
			if count++; count > store.MaxClaim {
				q.claims.MoreItems = true
				return nil
			}
			no := store.RunNo(s.ColumnInt64(itemWidth + 3))
			if n := len(q.claims.Runs); n == 0 || q.claims.Runs[n-1].Run.No != no {
				q.claims.Runs = append(q.claims.Runs, store.Claimed{Run: store.Run{No: no}})
			}
			last := &q.claims.Runs[len(q.claims.Runs)-1]
			last.Items = append(last.Items, scanHead(s))
			return nil
		})
}
