package redis

import (
	"cmp"
	"context"
	"slices"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// claimChunk bounds the runs that one claim takes at a time, so that a script keeps the
// server busy for some milliseconds.
const claimChunk = 1000

// Claim implements store.Store. With one part each claimChunk runs are one act. Otherwise a
// query of all parts finds candidates, of which the first are then claimed where they are.
// They are still there, because only the owner of their shards claims them.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	return s.claim(ctx, 0, req)
}

func (s *Store) claim(ctx context.Context, home int, req store.ClaimRequest) (store.Claims, error) {
	if err := req.Validate(); err != nil {
		return store.Claims{}, err
	}
	q := &claimQuery{s: s, req: &req, items: map[store.RunNo][]store.Item{}, wakes: map[int]store.Time{}}
	q.parts, q.places = byPart(s, req.Leases, slotOfLease)
	if len(q.parts) == 0 {
		q.parts = []int{home}
	}
	for {
		before := len(q.claims.Runs)
		err := q.chunk(ctx)
		if err != nil && before == 0 {
			return store.Claims{}, err
		}
		if err != nil { // the runs that were claimed are reported; the next claim meets the error
			q.claims.More, q.claims.MoreItems = true, true
			return q.answer(), nil
		}
		if !q.claims.More || len(q.claims.Runs)-before < claimChunk || len(q.claims.Runs) == req.Limit {
			return q.answer(), nil
		}
	}
}

// chunk claims the first runs that are ready.
func (q *claimQuery) chunk(ctx context.Context) error {
	q.limit = min(q.req.Limit-len(q.claims.Runs), claimChunk)
	q.candidates, q.claims.Fenced, q.claims.Unservable = nil, nil, nil
	q.claims.Now, q.claims.More, q.claims.MoreItems = 0, false, false
	if q.s.parts == 1 {
		return q.run(ctx, lookAndClaim, q.parts, nil)
	}
	if err := q.run(ctx, onlyLook, q.parts, nil); err != nil {
		return err
	}
	return q.choose(ctx)
}

// claimQuery is a query for runs that are ready.
type claimQuery struct {
	s          *Store
	req        *store.ClaimRequest
	parts      []int
	places     map[int][]int // of the leases, by part
	limit      int           // of this chunk
	candidates []candidate
	claims     store.Claims
	items      map[store.RunNo][]store.Item
	wakes      map[int]store.Time // by part; 0: none
}

type candidate struct {
	class    int64
	order    int64
	no       store.RunNo
	workflow string // of its line; "": all of the class are one line
}

// run executes claim.lua on parts, for one of the purposes that it lists.
func (q *claimQuery) run(ctx context.Context, purpose string, parts []int, chosen map[int][]store.RunNo) error {
	fence, places := "", []string(nil)
	if q.fenced() {
		fence, places = q.s.fences.knowAll(q.req.Node, q.req.Boot, q.req.Leases)
	}
	calls := make([]call, len(parts))
	for i, part := range parts {
		var a args
		a.text(purpose, q.req.Node+"\n"+q.req.Boot, fence)
		switch {
		case fence != "":
			a.text("", "0")
			a.count(len(places) / 2)
			a.text(places...)
		case q.fenced():
			a.text(random())
			a.leases(q.req.Leases, q.places[part])
		default:
			a.text("")
			a.leases(q.req.Leases, q.places[part])
		}
		a.count(q.limit)
		a.text(q.req.Build)
		a.bool(q.req.Unservable)
		each(&a, q.req.Workflows, func(w string) { a.text(w) })
		each(&a, chosen[part], func(no store.RunNo) { a.int(int64(no)) })
		calls[i] = call{part, a.list}
	}
	replies, err := q.s.run(ctx, claimScript, "claim runs", calls...)
	if err != nil {
		return err
	}
	var r reader
	if fence != "" && len(r.list(replies[0])) == 1 {
		q.s.fences.forget(q.req.Node, q.req.Boot)
		return q.run(ctx, purpose, parts, chosen) // with all leases
	}
	for i, m := range replies {
		f := r.tuple(m, 10)
		q.read(&r, parts[i], purpose, f)
		if fence == "" {
			q.s.fences.learn(q.req.Node, q.req.Boot, r.text(f[9]), q.req.Leases, q.places[parts[i]])
		}
	}
	return r.err
}

// fenced reports whether a fence may stand for the leases, because all are of one part.
func (q *claimQuery) fenced() bool { return q.s.parts == 1 && len(q.req.Leases) > 0 }

// read reads the answer of one part.
func (q *claimQuery) read(r *reader, part int, purpose string, f []reply) {
	// Not the latest time known: inboxes were read when this script was executed.
	now := r.time(f[0])
	q.s.observe(now)
	if q.claims.Now == 0 || now < q.claims.Now {
		q.claims.Now = now
	}
	if purpose != claimGiven {
		for _, shard := range r.list(f[1]) {
			q.claims.Fenced = append(q.claims.Fenced, parseShard(r.text(shard)))
		}
	}
	for _, c := range r.list(f[2]) {
		f := r.tuple(c, 4)
		q.candidates = append(q.candidates, candidate{r.int(f[0]), r.int(f[1]), store.RunNo(r.int(f[2])), r.text(f[3])})
	}
	for _, row := range r.list(f[3]) {
		q.claims.Runs = append(q.claims.Runs, store.Claimed{New: true, Run: r.run(row, q.s.slots)})
	}
	for _, of := range r.list(f[4]) {
		f := r.tuple(of, 2)
		var items []store.Item
		for _, it := range r.list(f[1]) {
			items = append(items, r.item(it))
		}
		q.items[store.RunNo(r.int(f[0]))] = items
	}
	q.wakes[part] = r.time(f[5])
	q.claims.More = q.claims.More || r.text(f[6]) == "1"
	q.claims.MoreItems = q.claims.MoreItems || r.text(f[7]) == "1"
	for _, u := range r.list(f[8]) {
		f := r.tuple(u, 4)
		q.claims.Unservable = append(q.claims.Unservable, store.Unservable{
			Shard: store.Shard{Group: r.text(f[1]), Slot: int(r.int(f[0]))}, Workflow: r.text(f[2]), Build: r.text(f[3]),
		})
	}
}

// choose claims the first of the candidates.
func (q *claimQuery) choose(ctx context.Context) error {
	slices.SortFunc(q.candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.order, b.order), cmp.Compare(a.no, b.no))
	})
	type line struct {
		class    int64
		workflow string
	}
	storekit.ByTurns(q.candidates, func(c candidate) line { return line{c.class, c.workflow} })
	first := q.candidates[:min(len(q.candidates), q.limit)]
	q.claims.More = q.claims.More || len(q.candidates) > len(first)
	if len(first) == 0 {
		return nil
	}
	var parts []int
	chosen := map[int][]store.RunNo{}
	place := make(map[store.RunNo]int, len(first))
	for i, c := range first {
		part := q.s.partOfRun(c.no)
		if chosen[part] == nil {
			parts = append(parts, part)
		}
		chosen[part] = append(chosen[part], c.no)
		place[c.no] = i
	}
	before := len(q.claims.Runs)
	if err := q.run(ctx, claimGiven, parts, chosen); err != nil {
		return err
	}
	slices.SortFunc(q.claims.Runs[before:], func(a, b store.Claimed) int {
		return cmp.Compare(place[a.Run.No], place[b.Run.No])
	})
	return nil
}

// answer returns the claims, with the items of each run.
func (q *claimQuery) answer() store.Claims {
	nos := make([]store.RunNo, 0, len(q.items))
	for no := range q.items {
		nos = append(nos, no)
	}
	slices.Sort(nos)
	place := make(map[store.RunNo]int, len(q.claims.Runs))
	for i := range q.claims.Runs {
		place[q.claims.Runs[i].Run.No] = i
	}
	room := store.MaxClaim
	for _, no := range nos {
		items := q.items[no]
		if len(items) > room {
			items, q.claims.MoreItems = items[:room], true
		}
		if room -= len(items); len(items) == 0 {
			continue
		}
		if i, ok := place[no]; ok {
			q.claims.Runs[i].Items = items
		} else {
			q.claims.Runs = append(q.claims.Runs, store.Claimed{Run: store.Run{No: no}, Items: items})
		}
	}
	for _, wake := range q.wakes {
		if wake != 0 && (q.claims.NextWake == 0 || wake < q.claims.NextWake) {
			q.claims.NextWake = wake
		}
	}
	q.fencedInOrder()
	slices.SortFunc(q.claims.Unservable, func(a, b store.Unservable) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Shard.Slot, b.Shard.Slot),
			cmp.Compare(a.Workflow, b.Workflow))
	})
	return q.claims
}

// fencedInOrder puts the fenced shards into the order of the leases.
func (q *claimQuery) fencedInOrder() {
	if len(q.claims.Fenced) < 2 {
		return
	}
	order := make(map[store.Shard]int, len(q.req.Leases))
	for i := range q.req.Leases {
		order[q.req.Leases[i].Shard] = i
	}
	slices.SortFunc(q.claims.Fenced, func(a, b store.Shard) int { return cmp.Compare(order[a], order[b]) })
}
