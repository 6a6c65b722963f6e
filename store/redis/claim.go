package redis

import (
	"cmp"
	"context"
	"slices"

	"github.com/stet-run/stet/store"
)

// Claim implements store.Store. With one part it is one act. Else a look at all parts
// finds candidates, of which the first are then claimed where they are; only the owner
// of their shards claims them, so they are still there.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	if err := req.Validate(); err != nil {
		return store.Claims{}, err
	}
	l := &look{s: s, req: &req, items: map[store.RunNo][]store.Item{}, wakes: map[int]store.Time{}}
	l.parts, l.places = byPart(s, req.Leases, slotOfLease)
	if len(l.parts) == 0 {
		l.parts = []int{0}
	}
	var err error
	if s.parts == 1 {
		err = l.ask(ctx, lookAndClaim, l.parts, nil)
	} else if err = l.ask(ctx, onlyLook, l.parts, nil); err == nil {
		err = l.choose(ctx)
	}
	if err != nil {
		return store.Claims{}, err
	}
	return l.answer(), nil
}

// look is a search for what is ready.
type look struct {
	s          *Store
	req        *store.ClaimRequest
	parts      []int
	places     map[int][]int // of the leases, by part
	candidates []candidate
	claims     store.Claims
	items      map[store.RunNo][]store.Item
	wakes      map[int]store.Time // by part; 0: none
}

type candidate struct {
	class int64
	order int64
	no    store.RunNo
}

// ask executes claim.lua on parts: see there for the ways.
func (l *look) ask(ctx context.Context, way string, parts []int, chosen map[int][]store.RunNo) error {
	fence, places := "", []string(nil)
	if l.fenced() {
		fence, places = l.s.fences.knowAll(l.req.Node, l.req.Boot, l.req.Leases)
	}
	calls := make([]call, len(parts))
	for i, part := range parts {
		var a args
		a.text(way, l.req.Node+"\n"+l.req.Boot, fence)
		switch {
		case fence != "":
			a.text("", "0")
			a.count(len(places) / 2)
			a.text(places...)
		case l.fenced():
			a.text(random())
			a.leases(l.req.Leases, l.places[part])
		default:
			a.text("")
			a.leases(l.req.Leases, l.places[part])
		}
		a.count(l.req.Limit)
		a.text(l.req.Build)
		a.bool(l.req.Unservable)
		each(&a, l.req.Workflows, func(w string) { a.text(w) })
		each(&a, chosen[part], func(no store.RunNo) { a.int(int64(no)) })
		calls[i] = call{part, a.list}
	}
	replies, err := l.s.run(ctx, claimScript, "claim runs", calls...)
	if err != nil {
		return err
	}
	var r reader
	if fence != "" && len(r.list(replies[0])) == 1 {
		l.s.fences.forget(l.req.Node, l.req.Boot)
		return l.ask(ctx, way, parts, chosen) // with all leases
	}
	for i, m := range replies {
		f := r.tuple(m, 9)
		l.read(&r, parts[i], way, f)
		if fence == "" {
			l.s.fences.learn(l.req.Node, l.req.Boot, r.text(f[8]), l.req.Leases, l.places[parts[i]])
		}
	}
	return r.err
}

// fenced reports whether a fence may stand for the leases: all are of one part.
func (l *look) fenced() bool { return l.s.parts == 1 && len(l.req.Leases) > 0 }

// read reads the answer of one part.
func (l *look) read(r *reader, part int, way string, f []reply) {
	l.claims.Now = l.s.observe(r.time(f[0]))
	if way != claimGiven {
		for _, shard := range r.list(f[1]) {
			l.claims.Fenced = append(l.claims.Fenced, parseShard(r.text(shard)))
		}
	}
	for _, c := range r.list(f[2]) {
		f := r.tuple(c, 3)
		l.candidates = append(l.candidates, candidate{r.int(f[0]), r.int(f[1]), store.RunNo(r.int(f[2]))})
	}
	for _, row := range r.list(f[3]) {
		l.claims.Runs = append(l.claims.Runs, store.Claimed{New: true, Run: r.run(row, l.s.slots)})
	}
	for _, of := range r.list(f[4]) {
		f := r.tuple(of, 2)
		var items []store.Item
		for _, it := range r.list(f[1]) {
			items = append(items, r.item(it))
		}
		l.items[store.RunNo(r.int(f[0]))] = items
	}
	l.wakes[part] = r.time(f[5])
	l.claims.More = l.claims.More || r.text(f[6]) == "1"
	for _, u := range r.list(f[7]) {
		f := r.tuple(u, 4)
		l.claims.Unservable = append(l.claims.Unservable, store.Unservable{
			Shard: store.Shard{Group: r.text(f[1]), Slot: int(r.int(f[0]))}, Workflow: r.text(f[2]), Build: r.text(f[3]),
		})
	}
}

// choose claims the first of the candidates.
func (l *look) choose(ctx context.Context) error {
	slices.SortFunc(l.candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.order, b.order), cmp.Compare(a.no, b.no))
	})
	first := l.candidates[:min(len(l.candidates), l.req.Limit)]
	l.claims.More = l.claims.More || len(l.candidates) > len(first)
	if len(first) == 0 {
		return nil
	}
	var parts []int
	chosen := map[int][]store.RunNo{}
	place := make(map[store.RunNo]int, len(first))
	for i, c := range first {
		part := l.s.partOfRun(c.no)
		if chosen[part] == nil {
			parts = append(parts, part)
		}
		chosen[part] = append(chosen[part], c.no)
		place[c.no] = i
	}
	if err := l.ask(ctx, claimGiven, parts, chosen); err != nil {
		return err
	}
	slices.SortFunc(l.claims.Runs, func(a, b store.Claimed) int { return cmp.Compare(place[a.Run.No], place[b.Run.No]) })
	return nil
}

// answer puts the items to the runs.
func (l *look) answer() store.Claims {
	nos := make([]store.RunNo, 0, len(l.items))
	for no := range l.items {
		nos = append(nos, no)
	}
	slices.Sort(nos)
	place := make(map[store.RunNo]int, len(l.claims.Runs))
	for i := range l.claims.Runs {
		place[l.claims.Runs[i].Run.No] = i
	}
	room := store.MaxClaim
	for _, no := range nos {
		items := l.items[no]
		if len(items) > room {
			items, l.claims.More = items[:room], true
		}
		if room -= len(items); len(items) == 0 {
			continue
		}
		if i, ok := place[no]; ok {
			l.claims.Runs[i].Items = items
		} else {
			l.claims.Runs = append(l.claims.Runs, store.Claimed{Run: store.Run{No: no}, Items: items})
		}
	}
	for _, wake := range l.wakes {
		if wake != 0 && (l.claims.NextWake == 0 || wake < l.claims.NextWake) {
			l.claims.NextWake = wake
		}
	}
	l.fencedInOrder()
	slices.SortFunc(l.claims.Unservable, func(a, b store.Unservable) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Shard.Slot, b.Shard.Slot), cmp.Compare(a.Workflow, b.Workflow))
	})
	return l.claims
}

// fencedInOrder puts the fenced shards into the order of the leases.
func (l *look) fencedInOrder() {
	if len(l.claims.Fenced) < 2 {
		return
	}
	order := make(map[store.Shard]int, len(l.req.Leases))
	for i := range l.req.Leases {
		order[l.req.Leases[i].Shard] = i
	}
	slices.SortFunc(l.claims.Fenced, func(a, b store.Shard) int { return cmp.Compare(order[a], order[b]) })
}
