package storetest

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// defect is a way in which a store may be wrong. Methods that it does not name are the specification's.
type defect struct {
	name     string
	found    string // the case that notices it, with its group; "": any, or random operations
	describe func(*broken, context.Context) (store.Description, error)
	register func(*broken, context.Context, store.Node) (store.Time, error)
	acquire  func(*broken, context.Context, store.Node, []store.Shard, store.Delay) ([]store.Acquired, store.Time, error)
	renew    func(*broken, context.Context, []store.Lease, store.Delay) ([]store.Acquired, store.Time, error)
	release  func(*broken, context.Context, []store.Lease) error
	apply    func(*broken, context.Context, []store.Command) ([]store.Answer, store.Time, error)
	commit   func(*broken, context.Context, store.Batch) (store.BatchResult, error)
	claim    func(*broken, context.Context, store.ClaimRequest) (store.Claims, error)
	load     func(*broken, context.Context, []store.RunNo) ([]store.Snapshot, []store.RunNo, error)
	list     func(*broken, context.Context, store.Filter) (store.Page, error)
	count    func(*broken, context.Context, store.Filter) ([]store.Tally, error)
	history  func(*broken, context.Context, store.HistoryQuery) ([]store.Entry, error)
	inbox    func(*broken, context.Context, store.RunNo, ...string) ([]store.Item, error)
	pending  func(*store.PendingQuery)
	waiting  func(*store.WaitingQuery, []store.Waiter)
	changed  func(*broken, context.Context) (store.Change, error)
	letters  func(*broken, context.Context, store.DeadFilter) (store.DeadPage, error)
	discard  func(*broken, context.Context, []store.ItemNo) ([]bool, error)
	sweep    func(*broken, context.Context, store.SweepRequest) (store.Swept, error)
}

// open returns the harness of a new store with the defect.
func (d *defect) open(clock func() time.Time) Harness {
	h := &brokenHarness{specification: newSpecification(clock), defect: d, clock: clock,
		numbers: map[string]int64{}, lost: map[store.RunNo]bool{}, kept: map[string][]byte{},
		entries: map[store.RunNo]map[string]store.Entry{}}
	h.broken = &broken{h.specification.First(), h}
	return h
}

type brokenHarness struct {
	specification
	defect *defect
	clock  func() time.Time
	broken *broken // the first handle

	mu sync.Mutex // held in what a defect does, except changed
	// The state of defects.
	numbers map[string]int64
	lost    map[store.RunNo]bool
	kept    map[string][]byte
	entries map[store.RunNo]map[string]store.Entry
}

func (h *brokenHarness) First() store.Store { return h.broken }

func (h *brokenHarness) Join(t testing.TB) store.Store { return &broken{h.specification.Join(t), h} }

func (h *brokenHarness) Kill(t testing.TB, s store.Store) bool {
	return h.specification.Kill(t, s.(*broken).Store)
}

// broken is a handle on a store with a defect.
type broken struct {
	store.Store
	*brokenHarness
}

// passes lets a call last a moment of the bubble's time. A case that asks a defective store again and again, for a
// page or a message that never comes, then reaches its limit.
func (b *broken) passes() { time.Sleep(100 * time.Microsecond) }

func (b *broken) Describe(ctx context.Context) (store.Description, error) {
	if f := b.defect.describe; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx)
	}
	return b.Store.Describe(ctx)
}

func (b *broken) Register(ctx context.Context, n store.Node) (store.Time, error) {
	if f := b.defect.register; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, n)
	}
	return b.Store.Register(ctx, n)
}

func (b *broken) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	if f := b.defect.acquire; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, n, shards, ttl)
	}
	return b.Store.Acquire(ctx, n, shards, ttl)
}

func (b *broken) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time,
	error) {
	if f := b.defect.renew; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, leases, ttl)
	}
	return b.Store.Renew(ctx, leases, ttl)
}

func (b *broken) Release(ctx context.Context, leases []store.Lease) error {
	if f := b.defect.release; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, leases)
	}
	return b.Store.Release(ctx, leases)
}

func (b *broken) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	b.passes()
	if f := b.defect.apply; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, commands)
	}
	return b.Store.Apply(ctx, commands)
}

func (b *broken) Commit(ctx context.Context, batch store.Batch) (store.BatchResult, error) {
	b.passes()
	if f := b.defect.commit; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, batch)
	}
	return b.Store.Commit(ctx, batch)
}

func (b *broken) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	b.passes()
	if f := b.defect.claim; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, req)
	}
	return b.Store.Claim(ctx, req)
}

func (b *broken) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	b.passes()
	if f := b.defect.load; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, runs)
	}
	return b.Store.Load(ctx, runs)
}

func (b *broken) List(ctx context.Context, f store.Filter) (store.Page, error) {
	b.passes()
	if list := b.defect.list; list != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return list(b, ctx, f)
	}
	return b.Store.List(ctx, f)
}

func (b *broken) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	b.passes()
	if count := b.defect.count; count != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return count(b, ctx, f)
	}
	return b.Store.Count(ctx, f)
}

func (b *broken) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	b.passes()
	if f := b.defect.history; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, q)
	}
	return b.Store.History(ctx, q)
}

func (b *broken) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	b.passes()
	if f := b.defect.inbox; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, run, ids...)
	}
	return b.Store.Inbox(ctx, run, ids...)
}

func (b *broken) Waiting(ctx context.Context, q store.WaitingQuery) ([]store.Waiter, error) {
	b.passes()
	found, err := b.Store.Waiting(ctx, q)
	if f := b.defect.waiting; f != nil {
		f(&q, found)
	}
	return found, err
}

func (b *broken) Pending(ctx context.Context, q store.PendingQuery) (store.Pending, error) {
	b.passes()
	if f := b.defect.pending; f != nil {
		f(&q)
	}
	return b.Store.Pending(ctx, q)
}

func (b *broken) Changed(ctx context.Context) (store.Change, error) {
	if f := b.defect.changed; f != nil {
		return f(b, ctx)
	}
	return b.Store.Changed(ctx)
}

// current puts the epochs that hold now into leases.
func (b *broken) current(ctx context.Context, leases []store.Lease) []store.Lease {
	d, err := b.Store.Describe(ctx)
	if err != nil {
		return leases
	}
	leases = slices.Clone(leases)
	for i := range leases {
		for _, l := range d.Leases {
			if l.Shard == leases[i].Shard {
				leases[i].Epoch = l.Epoch
			}
		}
	}
	return leases
}

// unexamined returns the items that are new to a turn's run and not named by it.
func (b *broken) unexamined(ctx context.Context, t *store.Turn, kinds ...store.ItemKind) []store.ItemNo {
	var nos []store.ItemNo
	items, _ := b.Store.Inbox(ctx, t.Run) // without an answer there is nothing to break
	for _, it := range items {
		named := slices.Contains(t.Seen, it.No) ||
			slices.ContainsFunc(t.ConsumedBy(store.Committed), func(c store.Consumption) bool { return c.Item == it.No })
		if it.State == store.New && !named && (kinds == nil || slices.Contains(kinds, it.Kind)) {
			nos = append(nos, it.No)
		}
	}
	return nos
}

// turns returns a defect of Commit that changes turns first.
func turns(change func(*broken, context.Context, *store.Turn)) func(*broken, context.Context,
	store.Batch) (store.BatchResult, error) {
	return func(b *broken, ctx context.Context, batch store.Batch) (store.BatchResult, error) {
		batch.Turns = slices.Clone(batch.Turns)
		for i, t := range batch.Turns {
			if t == nil {
				continue
			}
			changed := *t
			change(b, ctx, &changed)
			batch.Turns[i] = &changed
		}
		return b.Store.Commit(ctx, batch)
	}
}

// commands returns a defect of Apply that changes commands first.
func commands(change func(*broken, context.Context, *store.Command)) func(*broken, context.Context,
	[]store.Command) ([]store.Answer, store.Time, error) {
	return func(b *broken, ctx context.Context, list []store.Command) ([]store.Answer, store.Time, error) {
		list = slices.Clone(list)
		for i := range list {
			if start := list[i].Start; start != nil {
				changed := *start
				list[i].Start = &changed
			}
			if item := list[i].Item; item != nil {
				changed := *item
				list[i].Item = &changed
			}
			change(b, ctx, &list[i])
		}
		return b.Store.Apply(ctx, list)
	}
}

// claims returns a defect of Claim that changes the answer.
func claims(change func(*broken, store.ClaimRequest, *store.Claims)) func(*broken, context.Context,
	store.ClaimRequest) (store.Claims, error) {
	return func(b *broken, ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
		c, err := b.Store.Claim(ctx, req)
		change(b, req, &c)
		return c, err
	}
}

var defects = []*defect{
	{name: "a commit does not look at the epoch", commit: func(b *broken, ctx context.Context, batch store.Batch) (store.BatchResult, error) {
		batch.Leases = b.current(ctx, batch.Leases)
		return b.Store.Commit(ctx, batch)
	}},
	{name: "a claim does not look at the epoch", claim: func(b *broken, ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
		req.Leases = b.current(ctx, req.Leases)
		return b.Store.Claim(ctx, req)
	}},
	{name: "a renewal does not look at the epoch",
		renew: func(b *broken, ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time,
			error) {
			return b.Store.Renew(ctx, b.current(ctx, leases), ttl)
		}},
	{name: "a release does not look at the epoch", release: func(b *broken, ctx context.Context, leases []store.Lease) error {
		return b.Store.Release(ctx, b.current(ctx, leases))
	}},
	{name: "a turn suspends without examining the inbox", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		if t.Update != nil && t.Update.Status == store.Suspended {
			t.Seen = append(slices.Clone(t.Seen), b.unexamined(ctx, t)...)
		}
	})},
	{name: "a turn ends a run without looking for a cancel", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		if t.Update != nil && t.Update.Status.Terminal() {
			t.Seen = append(slices.Clone(t.Seen), b.unexamined(ctx, t, store.ItemCancel, store.ItemTerminate)...)
		}
	})},
	{name: "a turn that is held back loses its entries", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		if t.Update != nil && t.Update.Status == store.Suspended && len(b.unexamined(ctx, t)) > 0 {
			t.Entries = nil
		}
	})},
	{name: "a final entry is written over", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		t.Entries = slices.DeleteFunc(slices.Clone(t.Entries), func(e store.Entry) bool {
			// without an answer nothing stands
			old, _ := b.Store.History(ctx, store.HistoryQuery{Run: t.Run, Locs: []string{e.Loc}})
			if len(old) == 0 || old[0].State != store.Done {
				return false
			}
			if b.entries[t.Run] == nil {
				b.entries[t.Run] = map[string]store.Entry{}
			}
			e.Size = len(e.Value)
			b.entries[t.Run][e.Loc] = e
			return true
		})
	}), history: func(b *broken, ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
		entries, err := b.Store.History(ctx, q)
		for i := range entries {
			if e, ok := b.entries[q.Run][entries[i].Loc]; ok {
				entries[i] = e
			}
		}
		return entries, err
	}},
	{name: "a different final entry is ignored", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		t.Entries = slices.DeleteFunc(slices.Clone(t.Entries), func(e store.Entry) bool {
			// without an answer nothing stands
			old, _ := b.Store.History(ctx, store.HistoryQuery{Run: t.Run, Locs: []string{e.Loc}, Values: true})
			return len(old) > 0 && old[0].State == store.Done && !bytes.Equal(old[0].Value, e.Value)
		})
	})},
	{name: "a continuation keeps the input", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		if t.Update == nil || t.Update.Continue == nil {
			return
		}
		if runs, _, err := b.Store.Load(ctx, []store.RunNo{t.Run}); err == nil && len(runs) == 1 {
			update, next := *t.Update, *t.Update.Continue
			next.Input, update.Continue, t.Update = runs[0].Run.Input, &next, &update
		}
	})},
	{name: "the end of a span is deleted too", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		t.Prune = slices.Clone(t.Prune)
		for i := range t.Prune {
			t.Prune[i].To += "\x00"
		}
	})},
	{name: "a span deletes nothing", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) { t.Prune = nil })},
	{name: "nothing is rewritten", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) { t.Rewrites = nil })},
	{name: "nothing returns to the inbox", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) { t.Returned = nil })},
	{name: "no act is noted", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) { t.Audit = nil })},
	{name: "an end that is held back answers verbs", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		if t.Update != nil {
			u := *t.Update
			t.Consumed, u.Consumed, t.Update = t.ConsumedBy(store.Committed), nil, &u
		}
	})},
	{name: "an end that is held back is noted", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		if t.Update != nil {
			u := *t.Update
			t.Audit, u.Audit, t.Update = slices.Concat(t.Audit, u.Audit), nil, &u
		}
	})},
	{name: "an update answers no verb", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		if t.Update != nil && len(t.Update.Consumed) > 0 {
			u := *t.Update
			for _, c := range u.Consumed {
				t.Seen = append(slices.Clip(t.Seen), c.Item)
			}
			u.Consumed, t.Update = nil, &u
		}
	})},
	{name: "no run is paused", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		if t.Update != nil {
			u := *t.Update
			u.Marks &^= store.Paused
			t.Update = &u
		}
	})},
	{name: "the generation stays", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		if t.Update != nil {
			u := *t.Update
			u.Generation = 0
			t.Update = &u
		}
	})},
	{name: "a refused turn still sends", commit: func(b *broken, ctx context.Context, batch store.Batch) (store.BatchResult, error) {
		result, err := b.Store.Commit(ctx, batch)
		for i := range result.Turns {
			if result.Turns[i].Verdict == store.Refused && i < len(batch.Turns) {
				_, _, _ = b.Store.Apply(ctx, batch.Turns[i].Sends) // no caller gets their answers
			}
		}
		return result, err
	}},
	{name: "an end that is held back sends nevertheless",
		commit: func(b *broken, ctx context.Context, batch store.Batch) (store.BatchResult, error) {
			result, err := b.Store.Commit(ctx, batch)
			for i := range result.Turns {
				if result.Turns[i].Verdict == store.StillReady && i < len(batch.Turns) && batch.Turns[i].Update != nil {
					_, _, _ = b.Store.Apply(ctx, batch.Turns[i].Update.Sends) // no caller gets their answers
				}
			}
			return result, err
		}},
	{name: "a watch of nobody is dropped", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
		t.Sends = slices.DeleteFunc(slices.Clone(t.Sends),
			func(c store.Command) bool { return c.RunID == "nobody" && c.Item.Kind == store.ItemWatch })
	})},
	{name: "a repeated batch is applied again", commit: func(b *broken, ctx context.Context, batch store.Batch) (store.BatchResult, error) {
		if batch.No > 0 {
			b.numbers[batch.Node+batch.Boot]++
			batch.No = b.numbers[batch.Node+batch.Boot]
		}
		return b.Store.Commit(ctx, batch)
	}},
	{name: "another boot forgets a node's batch", commit: func(b *broken, ctx context.Context, batch store.Batch) (store.BatchResult, error) {
		if batch.No > 0 && batch.Boot != "" {
			if last := b.kept[batch.Node]; last != nil && string(last) != batch.Boot {
				b.numbers[batch.Node]++
			}
			b.kept[batch.Node] = []byte(batch.Boot)
			batch.No += 1000 * b.numbers[batch.Node]
		}
		return b.Store.Commit(ctx, batch)
	}},
	{name: "an item with a known ID is accepted", apply: commands(func(b *broken, ctx context.Context, c *store.Command) {
		if c.Item == nil || c.Item.ID == "" {
			return
		}
		if page, err := b.Store.List(ctx, store.Filter{IDs: []string{c.RunID}}); err == nil && len(page.Runs) == 1 {
			if items, err := b.Store.Inbox(ctx, page.Runs[0].No, c.Item.ID); err == nil && len(items) > 0 {
				c.Item.ID += "+"
			}
		}
	})},
	{name: "a consumed item keeps its value", apply: commands(func(b *broken, _ context.Context, c *store.Command) {
		if c.Item != nil {
			b.kept[c.RunID+" "+c.Item.ID] = c.Item.Value
		}
	}), inbox: func(b *broken, ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
		items, err := b.Store.Inbox(ctx, run, ids...)
		page, _ := b.Store.List(ctx, store.Filter{Nos: []store.RunNo{run}}) // without a run there is nothing to break
		for i := range items {
			if len(page.Runs) == 1 && items[i].State == store.Consumed {
				items[i].Value = b.kept[page.Runs[0].ID+" "+items[i].ID]
			}
		}
		return items, err
	}},
	{name: "a consumed item is forgotten", inbox: func(b *broken, ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
		items, err := b.Store.Inbox(ctx, run, ids...)
		return slices.DeleteFunc(items, func(it store.Item) bool { return it.State == store.Consumed }), err
	}},
	{name: "those that wait are in the order of their numbers", waiting: func(q *store.WaitingQuery, found []store.Waiter) {
		slices.SortFunc(found, func(a, b store.Waiter) int { return cmp.Compare(a.No, b.No) })
	}},
	{name: "those that wait have no key", waiting: func(_ *store.WaitingQuery, found []store.Waiter) {
		for i := range found {
			found[i].Key = ""
		}
	}},
	{name: "a count of an inbox knows no names", pending: func(q *store.PendingQuery) { q.Name = "" }},
	{name: "a count of an inbox knows no kinds", pending: func(q *store.PendingQuery) { q.Kinds = nil }},
	{name: "a claim forgets an item", claim: claims(func(_ *broken, _ store.ClaimRequest, c *store.Claims) {
		for i := range c.Runs {
			if n := len(c.Runs[i].Items); n > 1 {
				c.Runs[i].Items = c.Runs[i].Items[:n-1]
			}
		}
	})},
	{name: "a claim forgets the items of claimed runs", claim: claims(func(_ *broken, _ store.ClaimRequest, c *store.Claims) {
		c.Runs = slices.DeleteFunc(c.Runs, func(r store.Claimed) bool { return !r.New })
	})},
	{name: "a claim names no wake time", claim: claims(func(_ *broken, _ store.ClaimRequest, c *store.Claims) { c.NextWake = 0 })},
	{name: "a claim that was cut short does not say so",
		claim: claims(func(_ *broken, _ store.ClaimRequest, c *store.Claims) { c.More = false })},
	{name: "a claim without all items does not say so",
		claim: claims(func(_ *broken, _ store.ClaimRequest, c *store.Claims) { c.MoreItems = false })},
	{name: "a claim does not name the shards that are lost",
		claim: claims(func(_ *broken, _ store.ClaimRequest, c *store.Claims) { c.Fenced = nil })},
	{name: "a claim takes runs whose code the node lacks",
		claim: func(b *broken, ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			req.Workflows = append(slices.Clone(req.Workflows), "w", "x")
			return b.Store.Claim(ctx, req)
		}},
	{name: "a claim takes the latest first", claim: claims(func(_ *broken, _ store.ClaimRequest, c *store.Claims) { slices.Reverse(c.Runs) })},
	{name: "a claim takes the runs of one workflow after those of another", found: "Claims/NoWorkflowWaitsForTheBacklogOfAnother",
		claim: func(b *broken, ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			if len(req.Workflows) < 2 {
				return b.Store.Claim(ctx, req)
			}
			var all store.Claims
			for _, workflow := range slices.Sorted(slices.Values(req.Workflows)) {
				one := req
				one.Workflows, one.Limit = []string{workflow}, max(req.Limit-len(claimedIDs(all)), 0)
				claims, err := b.Store.Claim(ctx, one)
				if err != nil {
					return claims, err
				}
				claims.Runs = append(all.Runs, claims.Runs...)
				all = claims
			}
			return all, nil
		}},
	{name: "a claim takes all that is due before what is fresh", found: "Claims/NoWorkflowWaitsForTheBacklogOfAnother",
		claim: func(b *broken, ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			due := map[store.RunNo]store.Time{}
			page, err := b.Store.List(ctx, store.Filter{})
			if err != nil {
				return store.Claims{}, err
			}
			for _, r := range page.Runs {
				due[r.No] = r.WakeAt
			}
			claims, err := b.Store.Claim(ctx, req)
			slices.SortStableFunc(claims.Runs, func(x, y store.Claimed) int {
				rank := func(c store.Claimed) int {
					if c.New && due[c.Run.No] > 0 && due[c.Run.No] <= claims.Now {
						return 0
					}
					return 1
				}
				return rank(x) - rank(y)
			})
			return claims, err
		}},
	{name: "a delayed start begins at once", apply: commands(func(_ *broken, _ context.Context, c *store.Command) {
		if c.Start != nil && c.Start.After > 0 && c.Start.After <= store.MaxDelay {
			c.Start.After = 0
		}
	})},
	{name: "giving a shard back does not make its runs ready", release: func(b *broken, ctx context.Context, leases []store.Lease) error {
		page, err := b.Store.List(ctx, store.Filter{})
		for _, r := range page.Runs {
			if r.Claimed {
				b.lost[r.No] = true
			}
		}
		if err != nil {
			return err
		}
		return b.Store.Release(ctx, leases)
	}, claim: claims(func(b *broken, _ store.ClaimRequest, c *store.Claims) {
		c.Runs = slices.DeleteFunc(c.Runs, func(r store.Claimed) bool { return r.New && b.lost[r.Run.No] })
	})},
	{name: "giving a shard back does nothing",
		release: func(b *broken, ctx context.Context, _ []store.Lease) error { return b.Store.Release(ctx, nil) }},
	{name: "a live owner is robbed", acquire: func(b *broken, ctx context.Context, n store.Node, shards []store.Shard,
		ttl store.Delay) ([]store.Acquired, store.Time, error) {
		if d, err := b.Store.Describe(ctx); err == nil && n.Validate() == nil && storekit.ValidateShards(shards, ttl) == nil {
			// no matter
			_ = b.Store.Release(ctx, slices.DeleteFunc(d.Leases,
				func(l store.Lease) bool { return !slices.Contains(shards, l.Shard) }))
		}
		return b.Store.Acquire(ctx, n, shards, ttl)
	}},
	{name: "nobody is replaced", acquire: func(b *broken, ctx context.Context, n store.Node, shards []store.Shard,
		ttl store.Delay) ([]store.Acquired, store.Time, error) {
		n.Replaces = false
		return b.Store.Acquire(ctx, n, shards, ttl)
	}},
	{name: "a process that does not say so replaces others", acquire: func(b *broken, ctx context.Context, n store.Node,
		shards []store.Shard, ttl store.Delay) ([]store.Acquired, store.Time, error) {
		n.Replaces = true
		return b.Store.Acquire(ctx, n, shards, ttl)
	}},
	{name: "another lease of the same boot keeps its epoch",
		acquire: func(b *broken, ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay,
		) ([]store.Acquired, store.Time, error) {
			d, err := b.Store.Describe(ctx)
			var own []store.Lease
			for _, shard := range shards {
				for _, l := range d.Leases {
					if l.Shard == shard && l.Node == n.ID && l.Boot == n.Boot {
						own = append(own, l)
					}
				}
			}
			if err == nil && len(own) == len(shards) && len(own) > 0 {
				return b.Store.Renew(ctx, own, ttl)
			}
			return b.Store.Acquire(ctx, n, shards, ttl)
		}},
	{name: "suspects are not reported", acquire: func(b *broken, ctx context.Context, n store.Node, shards []store.Shard,
		ttl store.Delay) ([]store.Acquired, store.Time, error) {
		got, now, err := b.Store.Acquire(ctx, n, shards, ttl)
		for i := range got {
			got[i].Suspects = 0
		}
		return got, now, err
	}},
	{name: "being alone does not end", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
		if t.Update != nil && t.Update.EndIsolation {
			changed := *t.Update
			changed.EndIsolation, changed.Isolate = false, true
			t.Update = &changed
		}
	})},
	{name: "suspicion does not end", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
		if t.Update != nil && !t.Update.Isolate {
			changed := *t.Update
			changed.EndIsolation = true
			t.Update = &changed
		}
	})},
	{name: "an answer describes no run", apply: func(b *broken, ctx context.Context, list []store.Command,
	) ([]store.Answer, store.Time, error) {
		answers, now, err := b.Store.Apply(ctx, list)
		for i := range answers {
			answers[i].Run.Input = nil
		}
		return answers, now, err
	}},
	{name: "a load says nothing of what it leaves",
		load: func(b *broken, ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
			snaps, _, err := b.Store.Load(ctx, runs)
			return snaps, nil, err
		}},
	{name: "a load has no bound",
		load: func(b *broken, ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
			snaps, err := loadAll(ctx, b.Store, runs)
			return snaps, nil, err
		}},
	{name: "an empty value becomes none",
		load: func(b *broken, ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
			snaps, left, err := b.Store.Load(ctx, runs)
			for i := range snaps {
				for k := range snaps[i].Entries {
					if e := &snaps[i].Entries[k]; len(e.Value) == 0 {
						e.Value = nil
					}
				}
			}
			return snaps, left, err
		}},
	{name: "a large value is cut", history: func(b *broken, ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
		entries, err := b.Store.History(ctx, q)
		for i := range entries {
			entries[i].Value = entries[i].Value[:min(len(entries[i].Value), store.LargeValue-1)]
		}
		return entries, err
	}},
	{name: "a history is in no order", history: func(b *broken, ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
		entries, err := b.Store.History(ctx, q)
		slices.Reverse(entries)
		return entries, err
	}},
	{name: "pages leave out a run", list: func(b *broken, ctx context.Context, f store.Filter) (store.Page, error) {
		page, err := b.Store.List(ctx, f)
		if page.Next != "" {
			if below, err := store.DecodeCursor(page.Next); err == nil && below > 1 {
				page.Next = store.EncodeCursor(below - 1)
			}
		}
		return page, err
	}},
	{name: "a prefix ignores case", list: func(b *broken, ctx context.Context, f store.Filter) (store.Page, error) {
		prefix := strings.ToLower(f.IDPrefix)
		f.IDPrefix = ""
		page, err := b.Store.List(ctx, f)
		page.Runs = slices.DeleteFunc(page.Runs,
			func(r store.Run) bool { return !strings.HasPrefix(strings.ToLower(r.ID), prefix) })
		return page, err
	}},
	{name: "a listing shows entities", list: func(b *broken, ctx context.Context, f store.Filter) (store.Page, error) {
		if f.HidesEntities() {
			f.Workflows = []string{"w", "x", entityWorkflow}
		}
		return b.Store.List(ctx, f)
	}},
	{name: "a listing leaves large outputs of all runs out",
		list: func(b *broken, ctx context.Context, f store.Filter) (store.Page, error) {
			longest := f.Longest
			f.Longest = 0
			page, err := b.Store.List(ctx, f)
			for i := range page.Runs {
				if r := &page.Runs[i]; longest != 0 && r.OutputSize > longest {
					r.Output = nil
				}
			}
			return page, err
		}},
	{name: "a listing leaves no value out",
		list: func(b *broken, ctx context.Context, f store.Filter) (store.Page, error) {
			f.Longest = 0
			return b.Store.List(ctx, f)
		}},
	{name: "a listing knows no time before which runs have ended",
		list: func(b *broken, ctx context.Context, f store.Filter) (store.Page, error) {
			f.EndedBefore = 0
			return b.Store.List(ctx, f)
		}},
	{name: "a count knows no time after which runs have ended",
		count: func(b *broken, ctx context.Context, f store.Filter) ([]store.Tally, error) {
			f.EndedFrom = 0
			return b.Store.Count(ctx, f)
		}},
	{name: "a listing of claimed runs has those of other shards",
		list: func(b *broken, ctx context.Context, f store.Filter) (store.Page, error) {
			for i := range f.Claimed {
				f.Claimed[i].Slot = 0
				f.Claimed = append(f.Claimed, store.Shard{Group: f.Claimed[i].Group, Slot: 1})
			}
			return b.Store.List(ctx, f)
		}},
	{name: "a count of claimed runs has all",
		count: func(b *broken, ctx context.Context, f store.Filter) ([]store.Tally, error) {
			f.Claimed = nil
			return b.Store.Count(ctx, f)
		}},
	{name: "a count shows entities", count: func(b *broken, ctx context.Context, f store.Filter) ([]store.Tally, error) {
		if f.HidesEntities() {
			f.Workflows = []string{"w", "x", entityWorkflow}
		}
		return b.Store.Count(ctx, f)
	}},
	{name: "a list by ends is by numbers", list: func(b *broken, ctx context.Context, f store.Filter) (store.Page, error) {
		if f.ByEnded && f.Cursor == "" {
			f.ByEnded, f.EndedFrom = false, max(f.EndedFrom, 1)
		}
		return b.Store.List(ctx, f)
	}},
	{name: "a count ends one run early", count: func(b *broken, ctx context.Context, f store.Filter) ([]store.Tally, error) {
		f.Most = max(f.Most-1, 0)
		return b.Store.Count(ctx, f)
	}},
	{name: "a count has no bound", count: func(b *broken, ctx context.Context, f store.Filter) ([]store.Tally, error) {
		f.Most = 0
		return b.Store.Count(ctx, f)
	}},
	{name: "a count knows no marks", count: func(b *broken, ctx context.Context, f store.Filter) ([]store.Tally, error) {
		f.Marks = 0
		return b.Store.Count(ctx, f)
	}},
	{name: "input is kept", apply: func(b *broken, ctx context.Context, list []store.Command) ([]store.Answer, store.Time, error) {
		answers, now, err := b.Store.Apply(ctx, list)
		for i := range answers {
			if c := list[i]; c.Start != nil && answers[i].Outcome == store.Applied {
				b.kept[c.Start.ID] = c.Start.Input
				answers[i].Run.Input = c.Start.Input
			}
		}
		return answers, now, err
	}, commit: func(b *broken, ctx context.Context, batch store.Batch) (store.BatchResult, error) {
		result, err := b.Store.Commit(ctx, batch)
		for i := range result.Commands {
			if c := batch.Commands[i]; c.Start != nil && result.Commands[i].Outcome == store.Applied {
				b.kept[c.Start.ID] = c.Start.Input
			}
		}
		return result, err
	}, list: func(b *broken, ctx context.Context, f store.Filter) (store.Page, error) {
		page, err := b.Store.List(ctx, f)
		for i := range page.Runs {
			if input, ok := b.kept[page.Runs[i].ID]; ok && f.Values {
				page.Runs[i].Input = input
			}
		}
		return page, err
	}},
	{name: "a stopped node is listed", register: func(b *broken, ctx context.Context, n store.Node) (store.Time, error) {
		n.Stopped = false
		return b.Store.Register(ctx, n)
	}},
	{name: "workflows of former nodes are forgotten", describe: func(b *broken, ctx context.Context) (store.Description, error) {
		d, err := b.Store.Describe(ctx)
		known := map[string]bool{}
		for _, n := range d.Nodes {
			for _, w := range n.Workflows {
				known[w] = true
			}
		}
		d.Workflows = slices.Sorted(maps.Keys(known))
		return d, err
	}},
	{name: "the time goes back", describe: func(b *broken, ctx context.Context) (store.Description, error) {
		d, err := b.Store.Describe(ctx)
		d.Now = store.TimeOf(b.clock())
		return d, err
	}},
	{name: "changes wake nobody", changed: func(b *broken, ctx context.Context) (store.Change, error) {
		for {
			if _, err := b.Store.Changed(ctx); err != nil {
				return store.Change{}, err
			}
		}
	}},
	{name: "changes are of no shard", changed: func(b *broken, ctx context.Context) (store.Change, error) {
		c, err := b.Store.Changed(ctx)
		c.Ready = store.ShardSet{}
		return c, err
	}},
	{name: "changes tell of no node", changed: func(b *broken, ctx context.Context) (store.Change, error) {
		c, err := b.Store.Changed(ctx)
		c.Nodes = false
		return c, err
	}},
	{name: "changes wake for ever", changed: func(b *broken, ctx context.Context) (store.Change, error) {
		_, err := b.Store.Describe(ctx)
		return store.Anything(), err
	}},
	{name: "a bad limit is none", claim: func(b *broken, ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
		req.Limit = max(req.Limit, 0)
		return b.Store.Claim(ctx, req)
	}},
	{name: "a bad cursor is the first page", list: func(b *broken, ctx context.Context, f store.Filter) (store.Page, error) {
		if _, err := store.DecodeCursor(f.Cursor); err != nil {
			f.Cursor = ""
		}
		return b.Store.List(ctx, f)
	}},
}
