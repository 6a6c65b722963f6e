package storekit

import (
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// Monotonic returns a clock for a store that reads the machine's time, wall. When the
// machine's clock is set back, the clock goes on from the latest time that it has read,
// as fast as elapsed grows, until wall has caught up: what is due in a second is due in
// a second, and leases end. elapsed is a time that nobody sets, such as the time since
// the process began. The clock is safe for concurrent use if wall and elapsed are.
//
// A goroutine may lose the processor at any place. So wall is read before elapsed: a pause
// in between makes the clock late until it is read the next time. In the other order it
// would be ahead of the machine's by the pause, for as long as the process lives.
func Monotonic(wall func() time.Time, elapsed func() time.Duration) func() store.Time {
	var mu sync.Mutex
	var last store.Time
	var at time.Duration
	return func() store.Time {
		mu.Lock()
		defer mu.Unlock()
		read := store.TimeOf(wall())
		since := elapsed()
		now := last.Add((since - at).Truncate(time.Microsecond)) // Add rounds up
		if read > now || last == 0 {
			now, last, at = read, read, since
		}
		return now
	}
}
