package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// childInput is the input of a child. Its value follows from the seed.
type childInput struct {
	Seed uint64        `json:"seed"`
	Wait time.Duration `json:"wait_ns"`
}

var childRef = stet.Ref[childInput, uint64](prefix + "child")

// child is the workflow of the children that trees start.
func (w *worker) child() *stet.Workflow[childInput, uint64] {
	return stet.Define(childRef.Name(), func(ctx stet.Context, in childInput) (uint64, error) {
		e := &execution{worker: w, program: &program{runID: stet.RunID(ctx)}}
		first, err := e.step(ctx, "first", 0, in.Seed, nil)
		if err != nil {
			return 0, err
		}
		if err := stet.Sleep(ctx, "sleep", in.Wait); err != nil {
			return 0, err
		}
		second, err := e.step(ctx, "second", int(in.Seed%2), mix(in.Seed, 2), nil)
		return mix(first, second), err
	}, stet.Retry{Attempts: 8, First: 5 * time.Millisecond, Max: 50 * time.Millisecond})
}

// childValue is the result of the child with a seed.
func childValue(seed uint64) uint64 { return mix(seed, mix(seed, 2)) }

// family starts children, all at once, and awaits them: the last one as any run,
// by its ID.
func (e *execution) family(ctx stet.Context, n *node) (uint64, error) {
	value := e.seedOf(n, 0)
	var others []*stet.RunFuture[uint64]
	for i := range n.count {
		in := childInput{Seed: e.seedOf(n, i), Wait: n.wait}
		if i == n.count-1 && n.failures > 0 {
			id, err := childRef.Detach(ctx, in, stet.Named(n.name()+"-detached"))
			if err != nil {
				return 0, err
			}
			other, err := stet.Watch[uint64](ctx, n.name()+"-watch", id)
			if err != nil {
				return 0, err
			}
			others = append(others, other)
			continue
		}
		other, err := childRef.Go(ctx, in, stet.Named(n.name()), stet.Key(fmt.Sprint(i)))
		if err != nil {
			return 0, err
		}
		others = append(others, other)
	}
	for _, other := range others {
		v, err := other.Await(ctx)
		if err != nil {
			return 0, err
		}
		value = mix(value, v)
	}
	return value, nil
}

// liveChildren counts the children, and the runs that are not kept, that have not
// ended.
func (h *harness) liveChildren(ctx context.Context) (n int64, err error) {
	tallies, err := h.db.Count(ctx, store.Filter{
		Workflows: append(limitedLive, childRef.Name(), briefRef.Name()),
		Statuses:  []store.Status{store.Queued, store.Running, store.Suspended},
	})
	for _, t := range tallies {
		n += t.Runs
	}
	return n, err
}

// checkChildren checks the children of a run that has ended: each place has
// started one, and each has ended as its seed says, or was cancelled with the
// place that waited for it.
func (a *audit) checkChildren(ctx context.Context, parent *store.Run) error {
	page, err := a.db.List(ctx, store.Filter{Parent: parent.No, Limit: store.MaxPage, Values: true})
	if err != nil {
		return err
	}
	entries, err := a.db.History(ctx, store.HistoryQuery{Run: parent.No, Incarnation: parent.Incarnation})
	if err != nil {
		return err
	}
	started := map[string]store.EntryState{}
	for i := range entries {
		if entries[i].Kind == store.KindChild {
			started[entries[i].Loc] = entries[i].State
		}
	}
	places := map[string]bool{}
	for i := range page.Runs {
		child := &page.Runs[i]
		a.report.count("children: "+child.Status.String(), 1)
		state, known := started[child.ParentLoc]
		switch {
		case a.runs[parent.ID].taken: // children of reverted operations are kept
		case child.ParentLoc == "": // detached
		case places[child.ParentLoc]:
			a.report.violated(duplicated, "run %s has two children at one place; %s is one of them", parent.ID, child.ID)
		case !known && parent.Incarnation > 0: // of an incarnation before the last
		case !known:
			a.report.violated(duplicated, "run %s has the child %s at a place that has recorded none", parent.ID, child.ID)
		case state == store.Done && child.Status != store.Succeeded:
			a.report.violated(wrongResults, "run %s was notified that its child %s has succeeded; it is %s",
				parent.ID, child.ID, child.Status)
		}
		places[child.ParentLoc] = child.ParentLoc != ""
		if err := a.checkChild(ctx, parent, child); err != nil {
			return err
		}
	}
	if len(page.Runs) > len(started) && parent.Incarnation == 0 && !a.runs[parent.ID].taken {
		a.report.violated(duplicated, "run %s has %d children and has recorded %d", parent.ID, len(page.Runs), len(started))
	}
	return nil
}

func (a *audit) checkChild(ctx context.Context, parent, child *store.Run) error {
	switch child.Status {
	case store.Succeeded:
		var in childInput
		if err := stet.JSON.Unmarshal(child.Input[1:], &in); err != nil { // the first byte says that it is JSON
			return fmt.Errorf("input of child %s: %w", child.ID, err)
		}
		got, err := childRef.Handle(a.client.engine, child.ID).Wait(ctx)
		if err != nil {
			return err
		}
		if got != childValue(in.Seed) {
			a.report.violated(wrongResults, "child %s of run %s: expected %d, found %d",
				child.ID, parent.ID, childValue(in.Seed), got)
		}
	case store.Cancelled:
	case store.Stalled:
		a.stalled(child, "child %s of run %s", child.ID, parent.ID)
	case store.Failed:
		a.report.violated(wrongResults, "child %s of run %s has failed: %s", child.ID, parent.ID, child.Output)
	default:
		a.report.violated(stuck, "child %s of run %s, which is %s, is %s", child.ID, parent.ID, parent.Status, child.Status)
	}
	return a.checkSteps(ctx, child)
}
