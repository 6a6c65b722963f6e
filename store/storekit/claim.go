package storekit

import (
	"cmp"
	"slices"

	"github.com/stet-run/stet/store"
)

// Claimable reports whether a command with Claim set may claim r, which is neither claimed
// nor paused, in the same act. ready: the run is marked ready. item is the command's; nil
// for a start. now is the store's time.
func Claimable(r *store.Run, ready bool, item *store.Item, now store.Time) bool {
	switch {
	case r.Marks&store.Held != 0:
		return item != nil && item.Kind == store.ItemGrant && !r.Status.Terminal() && r.Status != store.Stalled
	case r.Status == store.Queued:
		return ready || r.WakeAt != 0 && r.WakeAt <= now
	}
	return r.Status == store.Suspended
}

// ByTurns puts what Claim may take, in the order of reasons, wake times and numbers, into the
// order of its turns: the first of each line, then the second of each. The order is kept within
// a turn. line returns what a line is known by.
func ByTurns[T any, L comparable](list []T, line func(T) L) {
	type placed struct {
		turn int
		one  T
	}
	turns, all := map[L]int{}, make([]placed, len(list))
	for i, one := range list {
		l := line(one)
		all[i] = placed{turns[l], one}
		turns[l]++
	}
	if len(turns) < 2 {
		return
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.turn, b.turn) })
	for i := range all {
		list[i] = all[i].one
	}
}

// UnwatchableEnd returns the answer to a Watch of a run that does not exist (law 15).
func UnwatchableEnd(watch *store.Item) *store.Item {
	return &store.Item{
		Kind: store.ItemEnd, ID: watch.ID, Origin: watch.Origin, Name: watch.Name,
		Incarnation: watch.Incarnation, Loc: watch.Loc, Failed: true,
	}
}
