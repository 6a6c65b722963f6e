package storetest

import "github.com/stet-run/stet/store"

func (g *generator) read() op {
	handle := g.handle()
	var nos []store.RunNo
	for _, r := range g.w.spec.now.Runs {
		nos = append(nos, r.No)
	}
	nos = append(nos, 77, -1)
	switch g.IntN(9) {
	case 5:
		return &deadOp{Handle: handle, Filter: g.deadFilter()}
	case 6:
		return &discardOp{Handle: handle, Items: g.dead()}
	case 7, 8:
		return g.sweep()
	case 0:
		return &loadOp{Handle: handle, Runs: some(g, nos, 2)}
	case 1:
		f := g.filter()
		f.ByEnded = g.chance(3)
		return &listOp{Handle: handle, Filter: f}
	case 2:
		f := g.filter()
		if f.Most = g.IntN(4); g.chance(3) { // stores count what they list by in a way of its own
			f = store.Filter{Most: f.Most, Workflows: f.Workflows, Statuses: f.Statuses}
		}
		return &countOp{Handle: handle, Filter: f}
	case 3:
		if g.chance(3) {
			q := store.PendingQuery{Run: pick(g, nos), Name: pick(g, []string{"", "", "m"})}
			if g.chance(2) {
				q.Kinds = some(g, []store.ItemKind{store.ItemMessage, store.ItemUpdate, store.ItemCancel, store.ItemGrant}, 2)
			}
			return &pendingOp{Handle: handle, Query: q}
		}
		return &inboxOp{Handle: handle, Run: pick(g, nos), IDs: some(g, genItems, 3)}
	}
	q := store.HistoryQuery{Run: pick(g, nos), Limit: g.IntN(4), Values: g.chance(2), Locs: some(g, genLocs, 2)}
	if g.chance(2) {
		q.Locs = nil
	}
	if g.chance(2) {
		q.After = pick(g, genLocs)
	}
	if g.chance(10) {
		q.Incarnation = 1
	}
	return &historyOp{Handle: handle, Query: q}
}

func (g *generator) filter() store.Filter {
	f := store.Filter{Values: g.chance(2), Limit: g.IntN(4), Longest: pick(g, []int{0, 0, -1, 2, 8})}
	if g.chance(5) { // with more it would seldom select anything
		f.Tags = g.wanted()
		return f
	}
	if g.chance(8) { // as a person begins to read
		f.Limit = 1 + g.IntN(2)
		return f
	}
	if g.chance(3) {
		f.IDs = some(g, genIDs, 2)
	}
	if g.chance(4) {
		f.IDPrefix = pick(g, []string{"a", "ä", "b@", "\xc3"})
	}
	if g.chance(3) {
		f.Workflows = some(g, []string{"w", "x", entityWorkflow, "none"}, 2)
	}
	if g.chance(3) {
		f.Statuses = some(g, store.AllStatuses(), 3)
	}
	if g.chance(3) {
		f.Tags = g.wanted()
	}
	if g.chance(5) {
		f.Marks = store.Marks(g.IntN(8))
	}
	if g.chance(5) {
		f.CreatedFrom = g.w.spec.now.Now - store.Time(g.IntN(20))*store.Time(second)
	}
	if g.chance(5) {
		f.CreatedBefore = g.w.spec.now.Now - store.Time(g.IntN(20))*store.Time(second)
	}
	if g.chance(6) {
		f.EndedFrom = g.w.spec.now.Now - store.Time(g.IntN(20))*store.Time(second)
	}
	if g.chance(6) {
		f.EndedBefore = g.w.spec.now.Now - store.Time(g.IntN(20))*store.Time(second)
	}
	if runs := g.w.spec.now.Runs; len(runs) > 0 && g.chance(6) {
		f.Claimed = []store.Shard{pick(g, runs).Shard, pick(g, runs).Shard}
	}
	if runs := g.w.spec.now.Runs; len(runs) > 0 && g.chance(6) {
		r := pick(g, runs)
		f.Nos, f.Parent = []store.RunNo{r.No, 55}, 0
		if g.chance(2) {
			f.Nos, f.Parent = nil, r.No
		}
	}
	if g.chance(8) {
		f.Cursor = "bad"
	}
	return f
}
