package redis

import (
	"context"
	"slices"
	"time"

	"github.com/stet-run/stet/store"
)

// partBits is where in the number of a pass's place its part stands. Numbers of runs
// and items are far below it.
const partBits = 48

// Sweep implements store.Store. A pass takes part after part.
func (s *Store) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	return sweepIn(ctx, s, nil, req)
}

// sweepIn is Sweep, in one lane or in all.
func sweepIn(ctx context.Context, s *Store, of *lane, req store.SweepRequest) (store.Swept, error) {
	if err := req.Validate(); err != nil {
		return store.Swept{}, err
	}
	w := sweep{s: s, of: of, req: &req, asked: map[store.RunNo]bool{}}
	if len(req.Runs) > 0 {
		return w.named(ctx)
	}
	w.Next = req.From
	if err := w.fenced(ctx); err != nil {
		return store.Swept{}, err
	}
	for w.Rows < req.Bound() {
		part, more := w.part(int(w.Next.No >> partBits))
		if !more {
			w.Done = true
			return w.result(), nil
		}
		if part != int(w.Next.No>>partBits) {
			w.Next = store.SweepPlace{No: int64(part) << partBits}
		}
		over, err := w.act(ctx, part)
		switch {
		case err != nil && w.Rows > 0:
			return w.Swept, nil // reports the deletions; the next part of the pass meets the error
		case err != nil:
			return store.Swept{}, err
		case !over:
			if len(w.ask) == 0 {
				return w.result(), nil
			}
			if err := w.parents(ctx); err != nil {
				return store.Swept{}, err
			}
		default:
			if _, more := w.part(part + 1); !more {
				w.Done = true
				return w.result(), nil
			}
			w.Next = store.SweepPlace{No: int64(part+1) << partBits}
		}
	}
	return w.result(), nil
}

// sweep is one Sweep.
type sweep struct {
	s      *Store
	of     *lane // nil: all
	req    *store.SweepRequest
	asked  map[store.RunNo]bool // runs whose parents in other parts were asked: whether they keep them
	ask    []child
	silent map[int]bool // lanes that have not answered
	store.Swept
}

// part returns the first part from a number on, and whether there is one.
func (w *sweep) part(from int) (int, bool) {
	if w.of == nil {
		return from, from < w.s.parts
	}
	i, _ := slices.BinarySearch(w.of.parts, from)
	if i == len(w.of.parts) {
		return 0, false
	}
	return w.of.parts[i], true
}

// child is a run whose parent has to be asked.
type child struct {
	no, parent store.RunNo
	loc        string
	created    store.Time
}

// result notifies other processes of deletions, and returns the result.
func (w *sweep) result() store.Swept {
	if w.Rows > 0 {
		w.s.hints.tell(store.Change{Answered: true})
	}
	return w.Swept
}

// fenced finds out which leases are not current.
func (w *sweep) fenced(ctx context.Context) error {
	leases := w.req.Leases
	parts, places := byPart(w.s, leases, slotOfLease)
	var calls []call
	for _, part := range parts {
		var a args
		each(&a, places[part], func(i int) {
			a.shard(leases[i].Shard)
			a.int(leases[i].Epoch)
		})
		calls = append(calls, call{part, a.list})
	}
	replies, err := w.s.run(ctx, currentScript, "look at leases", calls...)
	if err != nil {
		return err
	}
	var r reader
	not := map[int]bool{}
	for k, m := range replies {
		for _, at := range r.list(m) {
			if i := int(r.int(at)) - 1; i >= 0 && i < len(places[parts[k]]) {
				not[places[parts[k]][i]] = true
			}
		}
	}
	for i := range leases {
		if not[i] {
			w.Fenced = append(w.Fenced, leases[i].Shard)
		}
	}
	return r.err
}

// act deletes in one part. It reports whether that is over.
func (w *sweep) act(ctx context.Context, part int) (over bool, err error) {
	var a args
	var which []int
	for i := range w.req.Leases {
		if w.s.partOf(w.req.Leases[i].Shard.Slot) == part {
			which = append(which, i)
		}
	}
	each(&a, which, func(i int) {
		a.shard(w.req.Leases[i].Shard)
		a.int(w.req.Leases[i].Epoch)
	})
	each(&a, w.req.Rules, func(rule store.Retention) {
		a.text(rule.Workflow)
		a.int(int64(rule.Status))
		a.int(int64(rule.Keep))
	})
	a.bool(w.req.Items)
	a.count(w.Next.Stage)
	a.count(w.Next.Rule)
	a.int(int64(w.Next.Ended))
	a.int(w.Next.No & (1<<partBits - 1))
	w.limits(&a, part)
	m, err := w.s.one(ctx, sweepScript, "sweep", part, a.list...)
	if err != nil {
		return false, err
	}
	var r reader
	f := r.tuple(m, 9)
	w.s.observe(r.time(f[0]))
	w.Rows += int(r.int(f[2]))
	w.Runs += int(r.int(f[3]))
	w.Next = store.SweepPlace{Stage: int(r.int(f[4])), Rule: int(r.int(f[5])), Ended: r.time(f[6]),
		No: r.int(f[7]) | int64(part)<<partBits}
	w.toAsk(&r, f[8])
	return r.text(f[1]) == "1", r.err
}

// limits adds what a script needs that deletes runs of a part.
func (w *sweep) limits(a *args, part int) {
	a.count(w.req.Bound() - w.Rows)
	a.count(part)
	a.count(w.s.parts)
	a.count(len(w.asked))
	for no, keeps := range w.asked {
		a.int(int64(no))
		a.bool(keeps)
	}
}

// toAsk reads the runs whose parents are to be asked.
func (w *sweep) toAsk(r *reader, list reply) {
	w.ask = nil
	for _, c := range r.list(list) {
		f := r.tuple(c, 4)
		w.ask = append(w.ask, child{store.RunNo(r.int(f[0])), store.RunNo(r.int(f[1])), r.text(f[2]), r.time(f[3])})
	}
}

// named deletes the runs that the request names, part after part.
func (w *sweep) named(ctx context.Context) (store.Swept, error) {
	parts, places := byPart(w.s, w.req.Runs, func(no *store.RunNo) int { return int(int64(*no) % int64(w.s.slots)) })
	kept := map[store.RunNo]bool{}
	for _, part := range parts {
		over, err := false, error(nil)
		for !over && w.Rows < store.SweepRows {
			over, err = w.remove(ctx, part, places[part], kept)
			if err == nil && len(w.ask) > 0 {
				err = w.parents(ctx)
			}
			if err != nil {
				return store.Swept{}, err
			}
		}
		if !over {
			return w.result(), nil
		}
	}
	w.Done = true
	for _, no := range w.req.Runs {
		if kept[no] {
			w.Kept = append(w.Kept, no)
		}
	}
	return w.result(), nil
}

// remove deletes runs of one part. It reports whether that is done, and then which are kept.
func (w *sweep) remove(ctx context.Context, part int, which []int, kept map[store.RunNo]bool) (bool, error) {
	var a args
	w.limits(&a, part)
	each(&a, which, func(i int) { a.int(int64(w.req.Runs[i])) })
	m, err := w.s.one(ctx, removeScript, "remove runs", part, a.list...)
	if err != nil {
		return false, err
	}
	var r reader
	f := r.tuple(m, 6)
	w.s.observe(r.time(f[0]))
	w.Rows += int(r.int(f[2]))
	w.Runs += int(r.int(f[3]))
	over := r.text(f[1]) == "1"
	for _, no := range r.list(f[4]) {
		if over {
			kept[store.RunNo(r.int(no))] = true
		}
	}
	w.toAsk(&r, f[5])
	return over, r.err
}

// otherLanes is how long a sweep of a lane waits for parents in another one.
const otherLanes = 2 * time.Second

// parents asks the parents of runs whether they keep them. A sweep of a lane does not wait for
// others: the children of parents that do not answer soon are kept.
func (w *sweep) parents(ctx context.Context) error {
	if w.of == nil {
		return w.askParents(ctx, w.ask)
	}
	byLane := map[int][]child{}
	for _, c := range w.ask {
		lane := w.s.LaneOf(w.s.SlotOf(c.parent))
		byLane[lane] = append(byLane[lane], c)
	}
	for lane, list := range byLane {
		if lane == w.of.index {
			if err := w.askParents(ctx, list); err != nil {
				return err
			}
			continue
		}
		limited, cancel := context.WithTimeout(ctx, otherLanes)
		if w.silent[lane] || w.askParents(limited, list) != nil {
			for _, c := range list {
				w.asked[c.no] = true
			}
			if w.silent == nil {
				w.silent = map[int]bool{}
			}
			w.silent[lane] = true
		}
		cancel()
	}
	return ctx.Err()
}

func (w *sweep) askParents(ctx context.Context, list []child) error {
	parts, places := byPart(w.s, list, func(c *child) int { return w.s.SlotOf(c.parent) })
	var calls []call
	for _, part := range parts {
		var a args
		each(&a, places[part], func(i int) {
			a.int(int64(list[i].parent))
			a.text(list[i].loc)
			a.int(int64(list[i].created))
		})
		calls = append(calls, call{part, a.list})
	}
	replies, err := w.s.run(ctx, parentsScript, "look at parents", calls...)
	if err != nil {
		return err
	}
	var r reader
	for k, m := range replies {
		f := r.tuple(m, len(places[parts[k]]))
		for j, i := range places[parts[k]] {
			w.asked[list[i].no] = r.text(f[j]) == "1"
		}
	}
	return r.err
}
