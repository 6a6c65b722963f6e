package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// unwilling is a store that takes no lease back, the first times.
type unwilling struct {
	store.Store
	refusals, tries atomic.Int32
}

func (s *unwilling) Release(ctx context.Context, held []store.Lease) error {
	s.tries.Add(1)
	if s.refusals.Add(-1) >= 0 {
		return store.ErrUnavailable
	}
	return s.Store.Release(ctx, held)
}

// done is work that ends at once.
type done struct{ idle }

func (done) Drain(shards []store.Shard, _ bool, released func([]store.Shard)) { go released(shards) }
func (done) Lose([]store.Shard)                                               {}
func (done) Executing() []store.Unservable                                    { return nil }
func (done) Unservable() []store.Unservable                                   { return nil }

// member returns the only node of a store with four slots.
func member(t *testing.T, s store.Store) *Member {
	m := &Member{
		Store: s, Node: store.Node{ID: "a", Boot: "a1", Groups: []string{store.DefaultGroup}}, Slots: 4,
		TTL: 30 * time.Second, Renew: 10 * time.Second, Poll: time.Second,
		Log:     slog.New(slog.NewTextHandler(t.Output(), nil)),
		Observe: func(time.Time, store.Time) {}, Now: func() store.Time { return store.TimeOf(time.Now()) },
		Hints: func() <-chan struct{} { return nil }, Work: done{}, Last: func() int64 { return 0 },
	}
	m.Init()
	return m
}

// TestAStopTriesAgainToGiveLeasesBack, as long as between two renewals: nobody has to wait for the
// end of the leases because one request was lost. Then it gives up.
func TestAStopTriesAgainToGiveLeasesBack(t *testing.T) {
	for what, c := range map[string]struct {
		refusals      int32
		takes, within time.Duration
		back          bool
	}{
		"a request is lost":  {1, time.Second, 2 * time.Second, true},
		"five are lost":      {5, 5 * time.Second, 6 * time.Second, true},
		"the store is away":  {1 << 20, 10 * time.Second, 12 * time.Second, false},
		"nothing goes wrong": {0, 0, time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &unwilling{Store: memory.New(memory.Slots(4))}
			m := member(t, s)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- m.Run(ctx) }()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if held := len(m.held); held == 0 {
				t.Fatal("expected that the node holds shards")
			}
			s.refusals.Store(c.refusals)
			asked := time.Now()
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if took := time.Since(asked); took < c.takes || took > c.within {
				t.Errorf("%s: the stop took %s, expected %s to %s, in %d tries", what, took, c.takes, c.within, s.tries.Load())
			}
			d, err := s.Describe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held := 0
			for _, l := range d.Leases {
				if l.Node == "a" && l.Until > d.Now {
					held++
				}
			}
			if (held == 0) != c.back {
				t.Errorf("%s: %d leases are still held, expected that they were given back: %t", what, held, c.back)
			}
		})
	}
}

// TestALaterMemberWhoseClockIsBehind waits for the leases of the former process, whose boot sorts behind its own, and
// ends when another one has begun after it.
func TestALaterMemberWhoseClockIsBehind(t *testing.T) {
	for _, boot := range []string{"", "a3"} { // of a third process
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(memory.Slots(4))
			take := func(boot string) {
				n := store.Node{ID: "a", Boot: boot, Groups: []string{store.DefaultGroup}, Replaces: true}
				shards := []store.Shard{{Group: store.DefaultGroup}}
				if _, err := s.Register(t.Context(), n); err != nil {
					t.Fatal(err)
				}
				if got, _, err := s.Acquire(t.Context(), n, shards, delay(30*time.Second)); err != nil || !got[0].Held {
					t.Fatalf("%s got %+v, %v", boot, got, err)
				}
			}
			take("a2")
			m := member(t, s)
			m.Node.Replaces = true
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- m.Run(ctx) }()
			time.Sleep(15 * time.Second) // in the bubble: the member looks at the leases
			if boot != "" {
				take(boot)
				time.Sleep(15 * time.Second)
			}
			stop()
			if err := <-ended; errors.Is(err, ErrReplaced) != (boot != "") {
				t.Errorf("third process %q: ended with %v", boot, err)
			}
		})
	}
}
