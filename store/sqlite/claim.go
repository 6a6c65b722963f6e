package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
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
	err = s.read.do(ctx, "look for ready runs", func(c *conn) error { return q.run(c, now) })
	if err != nil {
		return store.Claims{}, err
	}
	if len(q.candidates) == 0 || req.Limit == 0 {
		q.claims.More = q.claims.More || len(q.candidates) > 0
		return q.claims, nil
	}
	err = s.write.do(ctx, "claim runs", func(c *conn, now store.Time) error {
		if err := q.run(c, now); err != nil {
			return err
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
	claims     store.Claims
	candidates []sqlstore.Candidate // at most Limit+1 of each class, in order
}

// Parameters of the queries below: group, slot, now, workflows, build; then the limit.
const (
	// fits is the condition that the node can load the run r.
	fits = "(r.workflow IN (SELECT value FROM json_each(?4)) AND (?5='' OR r.build<=?5))"
	due  = "r.wake_at IS NOT NULL AND r.marks & {pausedOrHeld} = 0 AND r.wake_at<=?3 AND r.ready={idle}"
	here = "r.grp=?1 AND r.slot=?2"
	news = "i.state={new} AND i.state<{consumed}" // which the index asks for
)

// classes are the queries for runs that may be claimed, each with its order: those that
// are due, those with an item that makes them ready, those marked ready.
var classes = [...]string{
	"SELECT r.run_no, r.wake_at FROM stet_runs r WHERE " + here + " AND " + due + " AND " + fits + " ORDER BY r.wake_at, r.run_no LIMIT ?6",
	`SELECT DISTINCT r.run_no, 0 FROM stet_inbox i INDEXED BY stet_inbox_open CROSS JOIN stet_runs r ON r.run_no=i.run_no
		WHERE ` + news + " AND r.ready<>{claimed} AND " + here + " AND NOT (" + due + " AND " + fits + ") AND " +
		sqlstore.Calls("i", fits) + " ORDER BY r.run_no LIMIT ?6",
	"SELECT r.run_no, 0 FROM stet_runs r WHERE " + here + " AND r.ready={ready} AND r.marks & {pausedOrHeld} = 0 AND " +
		fits + " ORDER BY r.run_no LIMIT ?6",
}

// hears is the class of the runs that an item makes ready.
const hears = 1

const nextWake = "SELECT coalesce(min(r.wake_at), 0) FROM stet_runs r WHERE " + here +
	" AND r.wake_at IS NOT NULL AND r.marks & {pausedOrHeld} = 0 AND r.wake_at>?3 AND r.ready={idle} AND " + fits

// anything is the one query of a look that finds nothing. Parameters: JSON array
// of shards, each an array of group and slot; none; now; workflows.
var anything = strings.NewReplacer("?1", "l.value->>0", "?2", "l.value->>1").Replace(`SELECT l.key,
	coalesce((SELECT epoch FROM stet_leases WHERE grp=?1 AND slot=?2 AND node<>''), 0),
	EXISTS (SELECT 1 FROM stet_runs r WHERE `+here+" AND "+due+`),
	EXISTS (SELECT 1 FROM stet_inbox i WHERE `+news+`),
	EXISTS (SELECT 1 FROM stet_runs r WHERE `+here+` AND r.ready={ready} AND r.marks & {pausedOrHeld} = 0),
	(`+nextWake+`)`) + " FROM json_each(?1) l"

// shardState is what a look finds in a shard.
type shardState struct {
	epoch, wake int64
	found       [len(classes)]bool
}

// look looks at all shards at once.
func (q *claimQuery) look(c *conn, now store.Time) ([]shardState, error) {
	states := make([]shardState, len(q.req.Leases))
	err := c.each(anything, []any{q.shards, nil, now, q.known, q.req.Build}, func(r *sqlite3.Stmt) error {
		st := &states[r.ColumnInt64(0)]
		st.epoch, st.wake = r.ColumnInt64(1), r.ColumnInt64(5)
		for class := range classes {
			st.found[class] = r.ColumnBool(2 + class)
		}
		return nil
	})
	return states, err
}

// unservable lists, for the runs of a shard that only another node can load, each workflow
// with its latest build.
var unservable = `SELECT r.workflow, max(r.build) FROM (
	SELECT r.run_no FROM stet_runs r WHERE ` + here + " AND " + due + `
	UNION SELECT r.run_no FROM stet_runs r WHERE ` + here + ` AND r.ready={ready} AND r.marks & {pausedOrHeld} = 0
	UNION SELECT r.run_no FROM stet_inbox i INDEXED BY stet_inbox_open CROSS JOIN stet_runs r ON r.run_no=i.run_no
		WHERE ` + news + " AND r.ready<>{claimed} AND " + here + " AND " + sqlstore.Calls("i", "true") + `
	) c CROSS JOIN stet_runs r ON r.run_no=c.run_no WHERE NOT ` + fits + `
	AND NOT EXISTS (SELECT 1 FROM stet_inbox i WHERE i.run_no=r.run_no AND ` + news + " AND " +
	sqlstore.Calls("i", "false") + `)
	GROUP BY r.workflow ORDER BY r.workflow`

// run looks for candidates as of a time. It drops those of an earlier look.
func (q *claimQuery) run(c *conn, now store.Time) error {
	q.claims, q.candidates = store.Claims{Now: now}, nil
	states, err := q.look(c, now)
	if err != nil {
		return err
	}
	items := false
	for i := range q.req.Leases {
		lease, st := &q.req.Leases[i], &states[i]
		shard := []any{lease.Shard.Group, lease.Shard.Slot, now, q.known, q.req.Build}
		if st.epoch == 0 || st.epoch != lease.Epoch {
			q.claims.Fenced = append(q.claims.Fenced, lease.Shard)
			continue
		}
		q.wakes(store.Time(st.wake))
		items = items || st.found[hears]
		if q.req.Unservable && st.found != [len(classes)]bool{} {
			if err := q.unservable(c, lease.Shard, shard); err != nil {
				return err
			}
		}
		for class, query := range classes {
			if !st.found[class] {
				continue
			}
			err := c.each(query, append(shard, q.req.Limit+1), func(s *sqlite3.Stmt) error {
				q.candidates = append(q.candidates, sqlstore.Candidate{Class: class, Order: s.ColumnInt64(1),
					No: store.RunNo(s.ColumnInt64(0))})
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	slices.SortFunc(q.claims.Unservable, func(a, b store.Unservable) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Shard.Slot, b.Shard.Slot),
			cmp.Compare(a.Workflow, b.Workflow))
	})
	q.candidates = sqlstore.SortCandidates(q.candidates)
	if !items {
		return nil
	}
	return q.addItems(c)
}

// unservable adds the workflows and builds of a shard that the node cannot load.
func (q *claimQuery) unservable(c *conn, shard store.Shard, args []any) error {
	return c.each(unservable, args, func(s *sqlite3.Stmt) error {
		q.claims.Unservable = append(q.claims.Unservable, store.Unservable{Shard: shard, Workflow: s.ColumnText(0),
			Build: s.ColumnText(1)})
		return nil
	})
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
	q.claims.Runs = nil
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
	if !slices.ContainsFunc(chosen, func(c sqlstore.Candidate) bool { return c.Class == hears }) {
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
		var wake int64
		if _, err := c.row(nextWake, []any{shard.Group, shard.Slot, now, q.known, q.req.Build}, &wake); err != nil {
			return err
		}
		q.wakes(store.Time(wake))
	}
	return nil
}

// wakes notes the wake time of a shard; 0 is none.
func (q *claimQuery) wakes(at store.Time) {
	if at != 0 && (q.claims.NextWake == 0 || at < q.claims.NextWake) {
		q.claims.NextWake = at
	}
}

// caller says which of the items that decide how a run is claimed are unexamined.
type caller struct{ pause, grant bool }

// callers returns the runs with an unexamined Pause or Grant (laws 18 and 28): one query
// for a claim, not one for each run.
func (c *conn) callers() (map[store.RunNo]caller, error) {
	runs := map[store.RunNo]caller{}
	err := c.each(`SELECT run_no, kind FROM stet_inbox
		WHERE state={new} AND state<{consumed} AND kind IN ({pause},{grant})`, nil, func(s *sqlite3.Stmt) error {
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
	return err
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
	return c.each(`SELECT `+itemColumns+`, r.grp, r.slot, i.run_no
		FROM stet_inbox i INDEXED BY stet_inbox_open CROSS JOIN stet_runs r ON r.run_no=i.run_no
		WHERE i.state={new} AND i.state<{consumed} AND r.ready={claimed} ORDER BY i.run_no, i.item_no`, nil,
		func(s *sqlite3.Stmt) error {
			if !shards[store.Shard{Group: s.ColumnText(itemWidth), Slot: s.ColumnInt(itemWidth + 1)}] {
				return nil
			}
			if count++; count > store.MaxClaim {
				q.claims.More = true
				return nil
			}
			no := store.RunNo(s.ColumnInt64(itemWidth + 2))
			if n := len(q.claims.Runs); n == 0 || q.claims.Runs[n-1].Run.No != no {
				q.claims.Runs = append(q.claims.Runs, store.Claimed{Run: store.Run{No: no}})
			}
			last := &q.claims.Runs[len(q.claims.Runs)-1]
			last.Items = append(last.Items, scanItem(s))
			return nil
		})
}
