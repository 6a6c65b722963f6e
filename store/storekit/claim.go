package storekit

import "github.com/stet-run/stet/store"

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

// UnwatchableEnd returns the answer to a Watch of a run that does not exist (law 15).
func UnwatchableEnd(watch *store.Item) *store.Item {
	return &store.Item{
		Kind: store.ItemEnd, ID: watch.ID, Origin: watch.Origin, Name: watch.Name,
		Incarnation: watch.Incarnation, Loc: watch.Loc, Failed: true,
	}
}
