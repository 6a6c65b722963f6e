package torture

import (
	"context"
	"errors"
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
	plantAhead    = "ahead"    // the store's clock is ahead of the machine's, by a moment
	plantRepeat   = "repeat"   // what a run shows is there twice
	plantStuck    = "stuck"    // messages of one run are not sent
	plantStale    = "stale"    // commits with a stale epoch are accepted
	plantHarmless = "harmless" // poison runs do not kill, so they do not stall

	plantUnlimited = "unlimited" // steps execute without the permit that they need
	plantInstant   = "instant"   // a run of a schedule is there that it did not start
	plantEvent     = "event"     // runs take an event that others have taken
	plantAccept    = "accept"    // an update is applied that was refused
	plantTwoFold   = "twofold"   // an update is applied twice
	plantDeaf      = "deaf"      // an update is answered and not applied
	plantAnswer    = "answer"    // a second asking is another request
	plantKept      = "kept"      // a saga that fails undoes nothing
	plantUnspent   = "unspent"   // what an attempt has spent is not said
	plantCheap     = "cheap"     // steps execute without the permit whose cost a rate counts
	plantMute      = "mute"      // an item that a body emits is lost
	plantBuilds    = "builds"    // processes of a build take up what a later one has worked on
)

// plants are the names of some of them.
type plants []string

var allPlants = plants{plantTwice, plantAgain, plantAck, plantSend, plantWrong, plantEarly, plantAhead, plantRepeat,
	plantStuck,
	plantStale, plantHarmless, plantUnlimited, plantInstant, plantEvent, plantAccept, plantTwoFold, plantDeaf, plantAnswer,
	plantKept, plantUnspent, plantCheap, plantMute, plantBuilds}

func (p plants) has(name string) bool { return slices.Contains(p, name) }

// oneOf reports a name that is none of those allowed.
func oneOf(what string, names, allowed []string) error {
	var problems []error
	for _, name := range names {
		if !slices.Contains(allowed, name) {
			problems = append(problems, fmt.Errorf("%w: %s %q: expected one of %s",
				ErrConfig, what, name, strings.Join(allowed, ", ")))
		}
	}
	return errors.Join(problems...)
}

// againAfter is how long after its end a body is repeated by plantAgain.
const againAfter = 500 * time.Millisecond

// lenient is a store with the defect plantStale: a commit passes with any lease. The harness gets it, for its own
// attempts. A worker's writes without its lease are guarded in too many places to be planted.
type lenient struct {
	store.Store
	store.Laned
}

func newLenient(s store.Store) lenient {
	return lenient{s, store.WrapLanes(s, func(lane store.Store) store.Store { return lenient{Store: lane} })}
}

func (l lenient) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	about, err := l.Describe(ctx)
	if err != nil {
		return store.BatchResult{}, err
	}
	for i := range b.Leases {
		for _, now := range about.Leases {
			if now.Shard == b.Leases[i].Shard {
				b.Leases[i] = now
			}
		}
	}
	return l.Store.Commit(ctx, b)
}

// ahead is a store with the defect plantAhead, for a worker's engine, which fires timers by what the store says.
type ahead struct {
	store.Store
	store.Laned
}

func newAhead(s store.Store) ahead {
	return ahead{s, store.WrapLanes(s, func(lane store.Store) store.Store { return ahead{Store: lane} })}
}

// aheadBy is more than passes between a timer and the line in the log that says so.
const aheadBy = 200 * time.Millisecond

func (a ahead) Register(ctx context.Context, n store.Node) (store.Time, error) {
	now, err := a.Store.Register(ctx, n)
	return now.Add(aheadBy), err
}

func (a ahead) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	acquired, now, err := a.Store.Acquire(ctx, n, shards, ttl)
	return acquired, now.Add(aheadBy), err
}

func (a ahead) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time, error) {
	acquired, now, err := a.Store.Renew(ctx, leases, ttl)
	return acquired, now.Add(aheadBy), err
}

func (a ahead) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	result, err := a.Store.Commit(ctx, b)
	result.Now = result.Now.Add(aheadBy)
	return result, err
}

func (a ahead) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	claims, err := a.Store.Claim(ctx, req)
	claims.Now = claims.Now.Add(aheadBy)
	return claims, err
}
