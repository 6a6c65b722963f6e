package storekit

import (
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// While the server's clock is ahead leases are given that end ahead. When the clock is set back
// a living holder renews them; those of a dead one would hold until the clock is there again. So
// a process that sees a lease end later than its length allows looks whether it is renewed: if
// not for that length, by the clock of this process, it has ended.

// unknownTTL is the length of leases whose holder has not said it: the longest that there is.
const unknownTTL = store.Delay(5 * time.Minute / time.Microsecond)

// AheadLeases are the leases that end later than their length allows, as this process sees
// them. The zero AheadLeases is ready for use; its methods are safe for concurrent use.
type AheadLeases struct {
	mu   sync.Mutex
	seen map[store.Shard]aheadLease
}

type aheadLease struct {
	lease store.Lease
	ends  time.Time // unless it is renewed
}

// Look notes a lease as it is at a time, and reports whether it has ended though it ends later.
func (a *AheadLeases) Look(l *store.Lease, now store.Time, ttl store.Delay) (ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ttl <= 0 {
		ttl = unknownTTL
	}
	if l.Until <= now+store.Time(ttl) {
		delete(a.seen, l.Shard)
		return false
	}
	is, ok := a.seen[l.Shard]
	if !ok || is.lease != *l {
		if a.seen == nil {
			a.seen = map[store.Shard]aheadLease{}
		}
		is = aheadLease{*l, time.Now().Add(time.Duration(ttl) * time.Microsecond)}
		a.seen[l.Shard] = is
	}
	return !time.Now().Before(is.ends)
}

// End notes that a lease as it is has ended, for another reason: its holder has died.
func (a *AheadLeases) End(l *store.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = map[store.Shard]aheadLease{}
	}
	a.seen[l.Shard] = aheadLease{*l, time.Now()}
}

// Ended reports whether a lease was found to have ended.
func (a *AheadLeases) Ended(l *store.Lease) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	is, ok := a.seen[l.Shard]
	return ok && is.lease == *l && !time.Now().Before(is.ends)
}

// Over returns the lease of a shard that was found to have ended, and whether there is one. It
// has ended if it is still as it was.
func (a *AheadLeases) Over(shard store.Shard) (store.Lease, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	is, ok := a.seen[shard]
	return is.lease, ok && !time.Now().Before(is.ends)
}
