package storetest

import (
	"fmt"
	"slices"

	"github.com/stet-run/stet/store"
)

// turnsOf returns the turns of an operation.
func turnsOf(o op) []store.Turn {
	if c, ok := o.(*commitOp); ok {
		return c.Turns
	}
	return nil
}

// prunes reports whether a turn of an operation deletes the entry at a location of some run.
func prunes(o op, loc string) bool {
	return slices.ContainsFunc(turnsOf(o), func(t store.Turn) bool {
		return slices.ContainsFunc(t.Prune, func(s store.Span) bool { return s.Contains(loc) })
	})
}

// rewrites reports whether a turn of an operation rewrites the entry at a location of some run.
func rewrites(o op, loc string) bool {
	return slices.ContainsFunc(turnsOf(o), func(t store.Turn) bool {
		return slices.ContainsFunc(t.Rewrites, func(e store.Entry) bool { return e.Loc == loc })
	})
}

// returns reports whether a turn of an operation gives back an item of some run.
func returns(o op, id string) bool {
	return slices.ContainsFunc(turnsOf(o), func(t store.Turn) bool {
		return slices.ContainsFunc(t.Returned, func(it store.Item) bool { return it.ID == id })
	})
}

// rested checks that a run is claimed at rest only as law 18 says, and the acts and the generation that a turn adds.
func (c *checker) rested(old, r *store.Run, now *state) error {
	isNewPause := func(it store.Item) bool { return it.Kind == store.ItemPause && it.State == store.New }
	isGrant := func(it store.Item) bool { return it.Kind == store.ItemGrant }
	atRest := r.Status == store.Queued || r.Status == store.Suspended
	switch {
	case r.Claimed && !old.Claimed && atRest && r.Marks&(store.Paused|store.Held) == 0 &&
		!slices.ContainsFunc(now.Items[r.No], isNewPause):
		return fmt.Errorf("it was claimed %s, though it is not paused and has no Pause item", r.Status)
	case r.Claimed && !old.Claimed && old.Marks&store.Paused != 0 && (old.Status != r.Status || old.WakeAt != r.WakeAt):
		return fmt.Errorf("it is paused, was claimed, and went from %s to %s, its wake time from %s to %s",
			old.Status, r.Status, old.WakeAt, r.WakeAt)
	case r.Claimed && !old.Claimed && r.Marks&store.Held != 0 && old.Status != r.Status:
		return fmt.Errorf("it is held, was claimed, and went from %s to %s", old.Status, r.Status)
	case old.Marks&store.Held != 0 && r.Marks&(store.Held|store.Admitted) == 0 && !old.Claimed &&
		!slices.ContainsFunc(now.Items[r.No], isGrant):
		return fmt.Errorf("it is held no more, though nothing was granted")
	case r.Generation < old.Generation:
		return fmt.Errorf("its generation went back from %d to %d", old.Generation, r.Generation)
	}
	before, after := c.former.Audits[r.No], now.Audits[r.No]
	if len(after) < len(before) || !slices.Equal(before, after[:len(before)]) {
		return fmt.Errorf("what operators did became %+v", after)
	}
	for i := range after {
		if after[i].No != i+1 {
			return fmt.Errorf("act %d has the number %d", i+1, after[i].No)
		}
	}
	return nil
}
