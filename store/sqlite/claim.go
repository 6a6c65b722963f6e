package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
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
	l := &look{req: &req, known: string(known), shards: string(list)}
	now := s.clock.read() // before the transaction: what it does not see came later
	err = s.read.do(ctx, "look for ready runs", func(c *conn) error { return l.at(c, now) })
	if err != nil {
		return store.Claims{}, err
	}
	if len(l.candidates) == 0 || req.Limit == 0 {
		l.claims.More = l.claims.More || len(l.candidates) > 0
		return l.claims, nil
	}
	err = s.write.do(ctx, "claim runs", func(c *conn, now store.Time) error {
		if err := l.at(c, now); err != nil {
			return err
		}
		return l.claim(c, now)
	})
	return l.claims, err
}

// look is a search for what is ready.
type look struct {
	req        *store.ClaimRequest
	known      string // JSON array of the workflows
	shards     string // JSON array of the leases' shards, in their order
	claims     store.Claims
	candidates []candidate // at most Limit+1 of each class, in order
}

type candidate struct {
	class int
	order int64
	no    store.RunNo
}

// Parameters of the queries below: group, slot, now, workflows, build; then the limit.
const (
	// fits says that the node can load the run r.
	fits = "(r.workflow IN (SELECT value FROM json_each(?4)) AND (?5='' OR r.build<=?5))"
	due  = "r.wake_at IS NOT NULL AND r.marks & 17 = 0 AND r.wake_at<=?3 AND r.ready=0"
	here = "r.grp=?1 AND r.slot=?2"
	news = "i.state=1 AND i.state<3" // the index says i.state<3
)

// calls says that the unexamined item i makes the run r ready, which is not due, for
// a node that can load it or not.
func calls(loads string) string {
	return `CASE
			WHEN i.kind IN (4,10) THEN true
			WHEN i.kind=3 THEN r.status NOT IN (2,3) OR r.marks & 1 OR r.marks & 16 = 0 AND ` + loads + `
			WHEN i.kind IN (5,7,11,12,13) THEN r.status>=4 OR r.marks & 1 OR r.marks & 16 = 0 AND (r.status<>1 OR r.wake_at IS NULL) AND ` + loads + `
			ELSE r.marks & 1 = 0 AND CASE WHEN r.marks & 16 THEN i.kind=31 ELSE r.status<>1 OR r.wake_at IS NULL END AND ` + loads + ` END`
}

// classes are the runs that may be claimed, each as run_no and order: those that
// are due, those with an item that makes them ready, those marked ready.
var classes = [...]string{
	"SELECT r.run_no, r.wake_at FROM stet_runs r WHERE " + here + " AND " + due + " AND " + fits + " ORDER BY r.wake_at, r.run_no LIMIT ?6",
	`SELECT DISTINCT r.run_no, 0 FROM stet_inbox i INDEXED BY stet_inbox_open CROSS JOIN stet_runs r ON r.run_no=i.run_no
		WHERE ` + news + " AND r.ready<>2 AND " + here + " AND NOT (" + due + " AND " + fits + ") AND " + calls(fits) + " ORDER BY r.run_no LIMIT ?6",
	"SELECT r.run_no, 0 FROM stet_runs r WHERE " + here + " AND r.ready=1 AND r.marks & 17 = 0 AND " + fits + " ORDER BY r.run_no LIMIT ?6",
}

// hears is the class of the runs with an item that makes them ready.
const hears = 1

const nextWake = "SELECT coalesce(min(r.wake_at), 0) FROM stet_runs r WHERE " + here + " AND r.wake_at IS NOT NULL AND r.marks & 17 = 0 AND r.wake_at>?3 AND r.ready=0 AND " + fits

// anything is the one query of a look that finds nothing. Parameters: JSON array
// of shards, each an array of group and slot; none; now; workflows.
var anything = strings.NewReplacer("?1", "l.value->>0", "?2", "l.value->>1").Replace(`SELECT l.key,
	coalesce((SELECT epoch FROM stet_leases WHERE grp=?1 AND slot=?2 AND node<>''), 0),
	EXISTS (SELECT 1 FROM stet_runs r WHERE `+here+" AND "+due+`),
	EXISTS (SELECT 1 FROM stet_inbox i WHERE `+news+`),
	EXISTS (SELECT 1 FROM stet_runs r WHERE `+here+` AND r.ready=1 AND r.marks & 17 = 0),
	(`+nextWake+`)`) + " FROM json_each(?1) l"

// state is what a look finds in a shard.
type state struct {
	epoch, wake int64
	found       [len(classes)]bool
}

// states looks at all shards at once.
func (l *look) states(c *conn, now store.Time) ([]state, error) {
	states := make([]state, len(l.req.Leases))
	err := c.each(anything, []any{l.shards, nil, now, l.known, l.req.Build}, func(r *sqlite3.Stmt) error {
		st := &states[r.ColumnInt64(0)]
		st.epoch, st.wake = r.ColumnInt64(1), r.ColumnInt64(5)
		for class := range classes {
			st.found[class] = r.ColumnBool(2 + class)
		}
		return nil
	})
	return states, err
}

// unservable are the workflows, and the latest build of each, of the runs of a shard that
// would be in a class for a node that can load all, and are in none.
var unservable = `SELECT r.workflow, max(r.build) FROM (
	SELECT r.run_no FROM stet_runs r WHERE ` + here + " AND " + due + `
	UNION SELECT r.run_no FROM stet_runs r WHERE ` + here + ` AND r.ready=1 AND r.marks & 17 = 0
	UNION SELECT r.run_no FROM stet_inbox i INDEXED BY stet_inbox_open CROSS JOIN stet_runs r ON r.run_no=i.run_no
		WHERE ` + news + " AND r.ready<>2 AND " + here + " AND " + calls("true") + `
	) c CROSS JOIN stet_runs r ON r.run_no=c.run_no WHERE NOT ` + fits + `
	AND NOT EXISTS (SELECT 1 FROM stet_inbox i WHERE i.run_no=r.run_no AND ` + news + " AND " + calls("false") + `)
	GROUP BY r.workflow ORDER BY r.workflow`

// at looks at a moment. What an earlier look has found is dropped.
func (l *look) at(c *conn, now store.Time) error {
	l.claims, l.candidates = store.Claims{Now: now}, nil
	states, err := l.states(c, now)
	if err != nil {
		return err
	}
	items := false
	for i := range l.req.Leases {
		lease, st := &l.req.Leases[i], &states[i]
		shard := []any{lease.Shard.Group, lease.Shard.Slot, now, l.known, l.req.Build}
		if st.epoch == 0 || st.epoch != lease.Epoch {
			l.claims.Fenced = append(l.claims.Fenced, lease.Shard)
			continue
		}
		l.wakes(store.Time(st.wake))
		items = items || st.found[hears]
		if l.req.Unservable && st.found != [len(classes)]bool{} {
			if err := l.unservable(c, lease.Shard, shard); err != nil {
				return err
			}
		}
		for class, query := range classes {
			if !st.found[class] {
				continue
			}
			err := c.each(query, append(shard, l.req.Limit+1), func(s *sqlite3.Stmt) error {
				l.candidates = append(l.candidates, candidate{class, s.ColumnInt64(1), store.RunNo(s.ColumnInt64(0))})
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	slices.SortFunc(l.claims.Unservable, func(a, b store.Unservable) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Shard.Slot, b.Shard.Slot), cmp.Compare(a.Workflow, b.Workflow))
	})
	l.order()
	if !items {
		return nil
	}
	return l.addItems(c)
}

// unservable adds what the node cannot load of a shard.
func (l *look) unservable(c *conn, shard store.Shard, args []any) error {
	return c.each(unservable, args, func(s *sqlite3.Stmt) error {
		l.claims.Unservable = append(l.claims.Unservable, store.Unservable{Shard: shard, Workflow: s.ColumnText(0), Build: s.ColumnText(1)})
		return nil
	})
}

// order sorts the candidates and drops those that are in two classes.
func (l *look) order() {
	slices.SortFunc(l.candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.order, b.order), cmp.Compare(a.no, b.no))
	})
	seen := make(map[store.RunNo]bool, len(l.candidates))
	l.candidates = slices.DeleteFunc(l.candidates, func(c candidate) bool {
		twice := seen[c.no]
		seen[c.no] = true
		return twice
	})
}

// claim claims the candidates, up to the limit.
func (l *look) claim(c *conn, now store.Time) error {
	chosen := l.candidates
	l.claims.More = l.claims.More || len(chosen) > l.req.Limit
	chosen = chosen[:min(len(chosen), l.req.Limit)]
	index := make(map[store.RunNo]int, len(chosen))
	fresh := make([]store.Claimed, len(chosen))
	called, err := c.callers()
	if err != nil {
		return err
	}
	for i, cand := range chosen {
		if err := c.claim(cand.no, now, called[cand.no]); err != nil {
			return err
		}
		run, err := c.runByNo(cand.no)
		if err != nil {
			return err
		}
		fresh[i], index[cand.no] = store.Claimed{New: true, Run: run}, i
	}
	l.claims.Runs = nil
	if err := l.addItems(c); err != nil {
		return err
	}
	others := l.claims.Runs
	l.claims.Runs = fresh
	for _, claimed := range others {
		if i, ok := index[claimed.Run.No]; ok {
			l.claims.Runs[i].Items = claimed.Items
		} else {
			l.claims.Runs = append(l.claims.Runs, claimed)
		}
	}
	if !slices.ContainsFunc(chosen, func(c candidate) bool { return c.class == hears }) {
		return nil
	}
	return l.wakeAgain(c, now)
}

// wakeAgain reads the next wake time anew: of the runs that were claimed for an
// item some had one.
func (l *look) wakeAgain(c *conn, now store.Time) error {
	l.claims.NextWake = 0
	for i := range l.req.Leases {
		shard := l.req.Leases[i].Shard
		if slices.Contains(l.claims.Fenced, shard) {
			continue
		}
		var wake int64
		if _, err := c.row(nextWake, []any{shard.Group, shard.Slot, now, l.known, l.req.Build}, &wake); err != nil {
			return err
		}
		l.wakes(store.Time(wake))
	}
	return nil
}

// wakes notes the wake time of a shard; 0 is none.
func (l *look) wakes(at store.Time) {
	if at != 0 && (l.claims.NextWake == 0 || at < l.claims.NextWake) {
		l.claims.NextWake = at
	}
}

// caller says which items that decide how a run is claimed are unexamined.
type caller struct{ pause, grant bool }

// callers returns the runs with an unexamined Pause or Grant (laws 18 and 28). It is
// asked once for a claim, not for every run.
func (c *conn) callers() (map[store.RunNo]caller, error) {
	runs := map[store.RunNo]caller{}
	err := c.each("SELECT run_no, kind FROM stet_inbox WHERE state=1 AND state<3 AND kind IN (10,31)", nil, func(s *sqlite3.Stmt) error {
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

// claim claims a run: at rest, which leaves all else as it is, if it is paused
// or to be paused, or held without a grant.
func (c *conn) claim(no store.RunNo, now store.Time, by caller) error {
	const rest = "(?3 OR marks & 1 OR marks & 16 AND NOT ?4)"
	_, err := c.exec(`UPDATE stet_runs SET ready=2, wake_at=CASE WHEN `+rest+` THEN wake_at END, marks=CASE WHEN `+rest+` THEN marks ELSE marks & ~16 END,
		status=CASE WHEN NOT `+rest+` AND status IN (1,3) THEN 2 ELSE status END,
		started=CASE WHEN NOT `+rest+` AND started=0 AND status IN (1,2,3) THEN ?2 ELSE started END WHERE run_no=?1`, int64(no), now, by.pause, by.grant)
	return err
}

// addItems adds the unexamined items of all claimed runs of the leases' shards,
// by run.
func (l *look) addItems(c *conn) error {
	shards := make(map[store.Shard]bool, len(l.req.Leases))
	for i := range l.req.Leases {
		if shard := l.req.Leases[i].Shard; !slices.Contains(l.claims.Fenced, shard) {
			shards[shard] = true
		}
	}
	count := 0
	return c.each(`SELECT `+itemColumns+`, r.grp, r.slot, i.run_no FROM stet_inbox i INDEXED BY stet_inbox_open CROSS JOIN stet_runs r ON r.run_no=i.run_no
		WHERE i.state=1 AND i.state<3 AND r.ready=2 ORDER BY i.run_no, i.item_no`, nil, func(s *sqlite3.Stmt) error {
		if !shards[store.Shard{Group: s.ColumnText(itemWidth), Slot: s.ColumnInt(itemWidth + 1)}] {
			return nil
		}
		if count++; count > store.MaxClaim {
			l.claims.More = true
			return nil
		}
		no := store.RunNo(s.ColumnInt64(itemWidth + 2))
		if n := len(l.claims.Runs); n == 0 || l.claims.Runs[n-1].Run.No != no {
			l.claims.Runs = append(l.claims.Runs, store.Claimed{Run: store.Run{No: no}})
		}
		last := &l.claims.Runs[len(l.claims.Runs)-1]
		last.Items = append(last.Items, scanItem(s))
		return nil
	})
}
