package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// Planted defects, which the harness's own test uses to see that it notices.
const (
	plantTwice    = "twice"    // a step's body is executed twice in a row
	plantAgain    = "again"    // a completed step is executed again, much later
	plantAck      = "ack"      // a start is acknowledged that never was
	plantSend     = "send"     // a message is delivered twice
	plantWrong    = "wrong"    // a result is not what it should be
	plantEarly    = "early"    // timers fire at half their time
	plantStuck    = "stuck"    // messages of one run are not sent
	plantStale    = "stale"    // commits with a stale epoch are accepted
	plantHarmless = "harmless" // poison runs do not kill, so they do not stall
)

var plants = []string{plantTwice, plantAgain, plantAck, plantSend, plantWrong, plantEarly, plantStuck, plantStale, plantHarmless}

func checkPlant(name string) error {
	if name != "" && !slices.Contains(plants, name) {
		return fmt.Errorf("%w: plant %q: expected one of %s", ErrConfig, name, strings.Join(plants, ", "))
	}
	return nil
}

// againAfter is how long after its end a body is repeated by plantAgain.
const againAfter = 1500 * time.Millisecond

// lenient is a store with the defect plantStale: a node whose lease was taken by
// another is told that it still holds it, and its commits pass as the other's.
type lenient struct{ store.Store }

func (l lenient) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time, error) {
	renewed, now, err := l.Store.Renew(ctx, leases, ttl)
	for i := range renewed {
		if !renewed[i].Held {
			renewed[i] = store.Acquired{Held: true, Lease: leases[i], Clean: true}
			renewed[i].Lease.Until = now + store.Time(ttl)
		}
	}
	return renewed, now, err
}

func (l lenient) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	leases, err := l.current(ctx, req.Leases)
	if err != nil {
		return store.Claims{}, err
	}
	req.Leases = leases
	return l.Store.Claim(ctx, req)
}

func (l lenient) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	leases, err := l.current(ctx, b.Leases)
	if err != nil {
		return store.BatchResult{}, err
	}
	b.Leases = leases
	return l.Store.Commit(ctx, b)
}

// current returns the leases with the epochs and holders of now.
func (l lenient) current(ctx context.Context, leases []store.Lease) ([]store.Lease, error) {
	about, err := l.Describe(ctx)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(leases)
	for i := range out {
		for _, now := range about.Leases {
			if now.Shard == out[i].Shard {
				out[i] = now
			}
		}
	}
	return out, nil
}
