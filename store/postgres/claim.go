package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/stet-run/stet/store"
)

// Claim implements store.Store. It looks with one statement, and writes only if
// there is something to claim. What it then writes is what it has seen, if the leases
// are still held and this process has changed nothing meanwhile, because nobody else
// makes a run that is ready another one; else it looks again.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	if err := req.Validate(); err != nil {
		return store.Claims{}, err
	}
	l := &looking{req: &req, known: possible(req.Workflows)}
	floor, test := s.times()
	acts := s.acts.Load()
	idle := len(s.writing) == 0
	err := s.look(ctx, "look for ready runs", func(t *tx) error { return l.at(t.eachAlone, floor, test) })
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
	// Only the leases are locked of what was seen to be ready: to lock hundreds of
	// rows takes longer than all the rest.
	leases, late := l.needed(), l.late
	locked := make(map[store.Shard]bool, len(leases))
	for i := range leases {
		locked[leases[i].Shard] = true
	}
	same := idle && s.acts.Load() == acts+1 && !late && len(l.claims.Fenced) == 0
	err = s.write(ctx, "claim runs", lockLimit, func(t *tx, now store.Time) error {
		current, err := t.share(leases)
		if err != nil {
			return err
		}
		if same && len(current) == len(locked) {
			same = false // if it has to be done again
			return l.claim(t, locked)
		}
		if late {
			if err := t.buryLate(shardsOf(leases)); err != nil {
				return err
			}
		}
		if err := l.at(t.each, int64(now), int64(now)); err != nil {
			return err
		}
		return l.claim(t, locked)
	})
	return l.claims, err
}

// needed returns the leases of the shards in which something was found: all, if there
// are items of runs that have no candidate.
func (l *looking) needed() []store.Lease {
	if l.items {
		return l.req.Leases
	}
	ready := make(map[store.Shard]bool, len(l.candidates))
	for i := range l.candidates {
		ready[l.candidates[i].shard] = true
	}
	var leases []store.Lease
	for _, lease := range l.req.Leases {
		if ready[lease.Shard] {
			leases = append(leases, lease)
		}
	}
	return leases
}

// looking is a search for what is ready.
type looking struct {
	req        *store.ClaimRequest
	known      []string
	claims     store.Claims
	candidates []candidate // in order, Limit+1 of each class at most
	items      bool        // claimed runs, or some that have ended, have unexamined items
	late       bool        // those that have ended
}

type candidate struct {
	class int
	order int64
	no    store.RunNo
	shard store.Shard
}

// The classes of runs that may be claimed, in their order, and what else a look
// finds.
const (
	due = iota
	called
	marked
	hasItems
	nextWake
	isFenced
	theTime
	isUnfit
	isLate
)

// wakeLook is how many sleeping runs a look for the next wake time passes by that
// are of others.
const wakeLook = 10_000

// fits says that the node can load the run r.
const fits = "(r.workflow=ANY($6::text[]) AND ($7::bytea='' OR r.build<=$7::bytea))"

// calls says that an unexamined item, of the kind that the row of new has, makes
// the run r ready, which is not due, for a node that can load it or not.
func calls(loads string) string {
	return `CASE
			WHEN r.kind IN (4,10) THEN true
			WHEN r.kind=3 THEN r.status NOT IN (2,3) OR r.marks & 1 = 1 OR r.marks & 16 = 0 AND ` + loads + `
			WHEN r.kind IN (5,7,11,12,13) THEN r.status>=4 OR r.marks & 1 = 1 OR r.marks & 16 = 0 AND (r.status<>1 OR r.wake_at IS NULL) AND ` + loads + `
			ELSE r.marks & 1 = 0 AND CASE WHEN r.marks & 16 <> 0 THEN r.kind=31 ELSE r.status<>1 OR r.wake_at IS NULL END AND ` + loads + ` END`
}

const (
	here       = "(r.grp, r.slot) IN (SELECT grp, slot FROM own)"
	isDue      = "r.wake_at IS NOT NULL AND r.marks & 17 = 0 AND r.wake_at<=t.now"
	isMarked   = "r.ready=1 AND r.marks & 17 = 0"
	noMore     = ", ''::text, ''::text, ''::bytea"
	itsShard   = ", r.grp, r.slot::text, ''::bytea"
	runsAndNow = " FROM stet.runs r, t WHERE "
)

// lookText is one look. Parameters: the two of nowExpr, groups, slots and epochs
// of the leases, workflows, build, limit, whether it is told what does not fit.
var lookText = `WITH t AS MATERIALIZED (SELECT ` + nowExpr + ` AS now),
	asked AS MATERIALIZED (SELECT q.grp, q.slot, q.place, EXISTS (SELECT 1 FROM stet.leases l WHERE l.grp=q.grp AND l.slot=q.slot AND l.epoch=q.epoch AND l.node<>'') AS held
		FROM unnest($3::text[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS q(grp, slot, epoch, place)),
	own AS MATERIALIZED (SELECT grp, slot FROM asked WHERE held),
	new AS MATERIALIZED (SELECT r.run_no, r.ready, r.grp, r.slot, r.status, r.marks, r.wake_at, r.workflow, r.build, i.kind
		FROM stet.inbox i JOIN stet.runs r ON r.run_no=i.run_no WHERE i.state=1)
	(SELECT 0, r.run_no, r.wake_at` + itsShard + runsAndNow + isDue + " AND r.ready=0 AND " + fits + " AND " + here + ` ORDER BY r.wake_at, r.run_no LIMIT $8)
	UNION ALL (SELECT DISTINCT 1, r.run_no, 0::bigint` + itsShard + ` FROM new r, t WHERE r.ready<>2 AND ` + here + `
		AND NOT (` + isDue + " AND " + fits + ") AND " + calls(fits) + ` ORDER BY r.run_no LIMIT $8)
	UNION ALL (SELECT 2, r.run_no, 0::bigint` + itsShard + ` FROM stet.runs r WHERE ` + isMarked + " AND " + fits + " AND " + here + ` ORDER BY r.run_no LIMIT $8)
	UNION ALL (SELECT 3, 0::bigint, 0::bigint` + noMore + ` WHERE EXISTS (SELECT 1 FROM new r WHERE (r.ready=2 OR r.status IN (4,5,6)) AND ` + here + `))
	UNION ALL (SELECT 8, 0::bigint, 0::bigint` + noMore + ` WHERE EXISTS (SELECT 1 FROM new r WHERE r.ready=0 AND r.status IN (4,5,6) AND ` + here + `))
	UNION ALL (SELECT 4, 0::bigint, coalesce(min(r.wake_at) FILTER (WHERE r.ready=0 AND ` + fits + " AND " + here + `),
			CASE WHEN count(*)=` + fmt.Sprint(wakeLook) + ` THEN max(r.wake_at) ELSE 0 END)` + noMore + ` FROM
		(SELECT r.wake_at, r.workflow, r.ready, r.grp, r.slot, r.build` + runsAndNow + `r.wake_at IS NOT NULL AND r.marks & 17 = 0 AND r.wake_at>t.now
			ORDER BY r.wake_at LIMIT ` + fmt.Sprint(wakeLook) + `) r)
	UNION ALL (SELECT 5, place, 0::bigint` + noMore + ` FROM asked WHERE NOT held)
	UNION ALL (SELECT 6, 0::bigint, now` + noMore + ` FROM t)
	UNION ALL (SELECT DISTINCT ON (r.grp, r.slot, r.workflow) 7, 0::bigint, r.slot::bigint, r.grp, r.workflow, r.build FROM (
			SELECT r.run_no` + runsAndNow + isDue + ` AND r.ready=0 AND $9::boolean
			UNION SELECT r.run_no FROM stet.runs r WHERE ` + isMarked + ` AND $9::boolean
			UNION SELECT r.run_no FROM new r WHERE r.ready<>2 AND $9::boolean AND ` + calls("true") + `) c JOIN stet.runs r ON r.run_no=c.run_no
		WHERE ` + here + " AND NOT " + fits + ` AND NOT EXISTS (SELECT 1 FROM new r WHERE r.run_no=c.run_no AND ` + calls("false") + `)
		ORDER BY r.grp, r.slot, r.workflow, r.build DESC)`

// at looks at a moment. What an earlier look has found is dropped.
func (l *looking) at(each func(sql string, args []any, fn func(scan func(...any) error) error) error, floor int64, test any) error {
	l.claims, l.candidates, l.items, l.late = store.Claims{}, nil, false, false
	grps, slots, epochs := leaseArrays(l.req.Leases)
	var fenced []int
	err := each(lookText, []any{floor, test, grps, slots, epochs, l.known, []byte(l.req.Build), l.req.Limit + 1, l.req.Unfit}, func(scan func(...any) error) error {
		var class, no, order int64
		var group, workflow string
		var build []byte
		if err := scan(&class, &no, &order, &group, &workflow, &build); err != nil {
			return err
		}
		switch class {
		case due, called, marked:
			slot, err := strconv.Atoi(workflow) // its place in such a row
			if err != nil {
				return err
			}
			l.candidates = append(l.candidates, candidate{int(class), order, store.RunNo(no), store.Shard{Group: group, Slot: slot}})
		case hasItems:
			l.items = true
		case isLate:
			l.late = true
		case nextWake:
			l.claims.NextWake = store.Time(order)
		case isFenced:
			fenced = append(fenced, int(no)-1)
		case theTime:
			l.claims.Now = store.Time(order)
		case isUnfit:
			l.claims.Unfit = append(l.claims.Unfit, store.Unfit{Shard: store.Shard{Group: group, Slot: int(order)}, Workflow: workflow, Build: string(build)})
		}
		return nil
	})
	slices.Sort(fenced)
	for _, i := range fenced {
		l.claims.Fenced = append(l.claims.Fenced, l.req.Leases[i].Shard)
	}
	l.order()
	return err
}

// order sorts the candidates and drops those that are in two classes.
func (l *looking) order() {
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

// claim takes the candidates in hand of shards whose leases are locked, up to the
// limit, and adds the unexamined items of all runs in hand.
func (l *looking) claim(t *tx, locked map[store.Shard]bool) error {
	chosen := slices.DeleteFunc(slices.Clone(l.candidates), func(c candidate) bool { return !locked[c.shard] })
	l.claims.More = len(l.candidates) > min(len(chosen), l.req.Limit)
	chosen = chosen[:min(len(chosen), l.req.Limit)]
	nos := make([]int64, len(chosen))
	index := make(map[store.RunNo]int, len(chosen))
	for i, c := range chosen {
		nos[i], index[c.no] = int64(c.no), i
	}
	l.claims.Runs = make([]store.Claimed, len(chosen))
	if len(nos) > 0 {
		// At rest, if it is paused or to be paused, or held without a grant (laws 18 and 28).
		err := t.each(`WITH c AS (SELECT c.run_no, c.marks & 1 = 1 OR EXISTS (SELECT 1 FROM stet.inbox i WHERE i.run_no=c.run_no AND i.state=1 AND i.kind=10)
				OR c.marks & 16 <> 0 AND NOT EXISTS (SELECT 1 FROM stet.inbox i WHERE i.run_no=c.run_no AND i.state=1 AND i.kind=31) AS rest
				FROM stet.runs c WHERE c.run_no=ANY($1::bigint[]) AND c.ready<>2 ORDER BY c.run_no FOR UPDATE)
			UPDATE stet.runs r SET ready=2, wake_at=CASE WHEN c.rest THEN r.wake_at END, marks=CASE WHEN c.rest THEN r.marks ELSE r.marks & ~16 END,
				status=CASE WHEN NOT c.rest AND r.status IN (1,3) THEN 2 ELSE r.status END,
				started=CASE WHEN NOT c.rest AND r.started=0 AND r.status IN (1,2,3) THEN $2 ELSE r.started END
			FROM c WHERE r.run_no=c.run_no RETURNING `+runValues, []any{nos, l.claims.Now}, func(scan func(...any) error) error {
			run, err := scanRun(scan)
			if err == nil {
				l.claims.Runs[index[run.No]] = store.Claimed{Fresh: true, Run: run}
			}
			return err
		})
		if err != nil {
			return err
		}
		// Whoever else claims for this boot may have been faster.
		l.claims.Runs = slices.DeleteFunc(l.claims.Runs, func(c store.Claimed) bool { return c.Run.No == 0 })
		clear(index)
		for i := range l.claims.Runs {
			index[l.claims.Runs[i].Run.No] = i
		}
	}
	if err := l.addItems(t, index); err != nil {
		return err
	}
	if l.claims.NextWake != 0 && slices.ContainsFunc(chosen, func(c candidate) bool { return c.class == called }) {
		// What was called before its time sleeps no more.
		return l.wakeAgain(t)
	}
	return nil
}

// wakeAgain looks for the next wake time once more.
func (l *looking) wakeAgain(t *tx) error {
	again := &looking{req: &store.ClaimRequest{Leases: l.req.Leases, Build: l.req.Build}, known: l.known}
	err := again.at(t.each, int64(l.claims.Now), int64(l.claims.Now))
	l.claims.NextWake = again.claims.NextWake
	return err
}

// addItems adds the unexamined items of all claimed runs of the leases' shards,
// by run.
func (l *looking) addItems(t *tx, index map[store.RunNo]int) error {
	grps, slots, epochs := leaseArrays(l.req.Leases)
	count := 0
	return t.each(`SELECT `+itemColumns+`, i.run_no FROM stet.inbox i JOIN stet.runs r ON r.run_no=i.run_no
		WHERE i.state=1 AND r.ready=2 AND (r.grp, r.slot) IN (SELECT q.grp, q.slot FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS q(grp, slot, epoch)
			JOIN stet.leases l ON l.grp=q.grp AND l.slot=q.slot AND l.epoch=q.epoch AND l.node<>'')
		ORDER BY i.run_no, i.item_no LIMIT $4`, []any{grps, slots, epochs, int64(store.MaxClaim + 1)}, func(scan func(...any) error) error {
		var no int64
		it, err := scanItem(scan, &no)
		if err != nil {
			return err
		}
		if count++; count > store.MaxClaim {
			l.claims.More = true
			return nil
		}
		i, ok := index[store.RunNo(no)]
		if !ok {
			i = len(l.claims.Runs)
			index[store.RunNo(no)] = i
			l.claims.Runs = append(l.claims.Runs, store.Claimed{Run: store.Run{No: store.RunNo(no)}})
		}
		l.claims.Runs[i].Items = append(l.claims.Runs[i].Items, it)
		return nil
	})
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
