package memory

import (
	"cmp"
	"slices"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// claimable returns the runs that may be claimed, by turns: those whose wake time
// has passed, by that time; those that an item makes ready; those marked ready; each by
// number. fits reports whether the node can load a run.
func (d *data) claimable(shards map[store.Shard]bool, fits func(*run) bool, now store.Time) []*run {
	var due, called, marked []*run
	for _, r := range d.runs {
		if !shards[r.Shard] || r.condition == claimed {
			continue
		}
		takes := fits(r) && r.Marks&(store.Paused|store.Held) == 0
		switch {
		case r.WakeAt != 0 && r.WakeAt <= now && takes:
			due = append(due, r)
		case d.dirty[r] && d.called(r, fits(r), now):
			called = append(called, r)
		case r.condition == ready && takes, takes && r.isCalledByLine(d):
			marked = append(marked, r)
		}
	}
	slices.SortFunc(due, func(a, b *run) int { return cmp.Or(cmp.Compare(a.WakeAt, b.WakeAt), cmp.Compare(a.No, b.No)) })
	byNo := func(a, b *run) int { return cmp.Compare(a.No, b.No) }
	slices.SortFunc(called, byNo)
	slices.SortFunc(marked, byNo)
	type line struct {
		why      int
		workflow string
	}
	lines := make(map[*run]line, len(due)+len(called)+len(marked))
	for why, list := range [][]*run{due, called, marked} {
		for _, r := range list {
			l := line{why, r.Workflow}
			if why == 1 {
				l.workflow = ""
			}
			lines[r] = l
		}
	}
	all := slices.Concat(due, called, marked)
	storekit.ByTurns(all, func(r *run) line { return lines[r] })
	return all
}

// unservable lists, for the runs that only another node can load, each workflow with its
// latest build.
func (d *data) unservable(shards map[store.Shard]bool, claimable []*run, now store.Time) []store.Unservable {
	latest := map[store.Unservable]string{} // build, by a value without one
	for _, r := range d.claimable(shards, func(*run) bool { return true }, now) {
		if !slices.Contains(claimable, r) {
			of := store.Unservable{Shard: r.Shard, Workflow: r.Workflow}
			latest[of] = max(latest[of], r.Build)
		}
	}
	var unservable []store.Unservable
	for of, build := range latest {
		of.Build = build
		unservable = append(unservable, of)
	}
	slices.SortFunc(unservable, func(a, b store.Unservable) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Shard.Slot, b.Shard.Slot),
			cmp.Compare(a.Workflow, b.Workflow))
	})
	return unservable
}

// called reports whether an unexamined item makes the run ready for a node that knows its
// code, or for one that does not.
func (d *data) called(r *run, known bool, now store.Time) bool {
	paused := r.Marks&store.Paused != 0
	held := r.Marks&store.Held != 0
	delayed := held || r.Status == store.Queued && r.WakeAt > now
	codeless := r.Status == store.Stalled || r.Status.Terminal() || paused
	for _, it := range r.items {
		if it.State != store.New {
			continue
		}
		switch it.Kind {
		case store.ItemTerminate, store.ItemPause:
			return true
		case store.ItemCancel:
			if known && !held || codeless || r.Status == store.Queued {
				return true
			}
		case store.ItemResume, store.ItemWatch, store.ItemRetry, store.ItemRewind, store.ItemEdit, store.ItemNudge:
			if codeless || known && !delayed {
				return true
			}
		default:
			if known && (!delayed || held && it.Kind == store.ItemGrant) && !paused {
				return true
			}
		}
	}
	return false
}

// rests reports whether the run is claimed at rest (laws 18 and 28).
func (r *run) rests() bool {
	return r.Marks&store.Paused != 0 || r.hears(store.ItemPause) || r.Marks&store.Held != 0 && !r.hears(store.ItemGrant)
}

// hears reports whether an item of the kind is unexamined.
func (r *run) hears(kind store.ItemKind) bool {
	return slices.ContainsFunc(r.items, func(it *store.Item) bool { return it.Kind == kind && it.State == store.New })
}

func (d *data) sorted(set map[*run]bool) []*run {
	runs := make([]*run, 0, len(set))
	for r := range set {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.No, b.No) })
	return runs
}
