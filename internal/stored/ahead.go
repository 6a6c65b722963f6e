package stored

import (
	"time"

	"github.com/stet-run/stet/store"
)

// Ahead is how long before the time that it waits for a suspended run or entity is due in the store. A node then has
// claimed and loaded it when that time comes, and waits for the rest in memory. A claim and a replay of some
// hundred operations fit into it. It is far below the second from which on a sleep suspends its run.
const Ahead = store.Time(50 * time.Millisecond / time.Microsecond)

// WakeAt returns when a run that waits for a time is due in the store. 0: no time.
func WakeAt(waits store.Time) store.Time {
	if waits == 0 {
		return 0
	}
	return max(waits-Ahead, 1)
}

// Waits returns the time that a run in the store waits for: the inverse of WakeAt for a suspended run, the beginning of
// a delayed one. 0: no time.
func Waits(run *store.Run) store.Time {
	if run.WakeAt == 0 || run.Status != store.Suspended {
		return run.WakeAt
	}
	return run.WakeAt + Ahead
}
