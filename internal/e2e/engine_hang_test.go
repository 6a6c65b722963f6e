package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// hanging is a store whose commits, and the claims behind them, do not end before
// their callers give up, once it hangs.
type hanging struct {
	store.Store
	from chan struct{} // closed when it hangs
}

func (h *hanging) hang(ctx context.Context) error {
	select {
	case <-h.from:
		<-ctx.Done()
		return ctx.Err()
	default:
		return nil
	}
}

func (h *hanging) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := h.hang(ctx); err != nil {
		return store.BatchResult{}, err
	}
	return h.Store.Commit(ctx, b)
}

func (h *hanging) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	if err := h.hang(ctx); err != nil {
		return store.Claims{}, err
	}
	return h.Store.Claim(ctx, r)
}

// TestStopWhileACommitHangs: a node of several whose store hangs in a commit ends within
// its grace and a lease when it is stopped.
func TestStopWhileACommitHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{memory.New(memory.Slots(4)), make(chan struct{})}
		begun := make(chan struct{})
		flow := stet.Define("flow", func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "step", func(context.Context) (int, error) {
				close(h.from)
				close(begun)
				return 1, nil
			})
		})
		const grace, lease = 2 * time.Second, 3 * time.Second
		e, err := stet.New(t.Context(), stet.Config{Store: h, Workflows: []stet.Definition{flow}, Grace: grace,
			LeaseTTL: lease, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = e.Run(ctx) }() // its error names what has not ended
		if _, err := flow.Start(t.Context(), e, 1); err != nil {
			t.Fatal(err)
		}
		<-begun
		time.Sleep(2 * lease) // the commit and the next claim hang
		cancel()
		stopped := time.Now()
		<-ended
		if took := time.Since(stopped); took > grace+lease+grace+time.Second {
			t.Errorf("Run went on for %s", took)
		}
	})
}

// silent is a store that does not answer one call, before or after it has carried it
// out, until its caller gives up.
type silent struct {
	store.Store
	claims bool // a claim that finds items; otherwise a commit of turns
	after  bool
	done   atomic.Bool
}

func (s *silent) silence(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", store.ErrUnknown, ctx.Err())
}

func (s *silent) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if s.claims || len(b.Turns) == 0 || !s.done.CompareAndSwap(false, true) {
		return s.Store.Commit(ctx, b)
	}
	if s.after {
		if _, err := s.Store.Commit(ctx, b); err != nil {
			return store.BatchResult{}, err
		}
	}
	return store.BatchResult{}, s.silence(ctx)
}

func (s *silent) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	if !s.claims || s.done.Load() {
		return s.Store.Claim(ctx, r)
	}
	before, err := s.Store.Claim(ctx, store.ClaimRequest{Node: r.Node, Boot: r.Boot, Leases: r.Leases,
		Workflows: r.Workflows})
	if err != nil || !before.More {
		return before, err // there is nothing to find
	}
	s.done.Store(true)
	if s.after {
		if _, err := s.Store.Claim(ctx, r); err != nil {
			return store.Claims{}, err
		}
	}
	return store.Claims{}, s.silence(ctx)
}

// TestACallThatIsNeverAnswered, a commit or a claim whether it was carried out or not,
// holds a run up for the length of a lease and no longer, and is not carried out twice.
func TestACallThatIsNeverAnswered(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	for _, slots := range []int{1, 4} {
		for _, claims := range []bool{false, true} {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("slots=%d/claims=%t/after=%t", slots, claims, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := &silent{Store: memory.New(memory.Slots(slots)), claims: claims, after: after}
						bodies := 0
						w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
							if err := stet.Sleep(ctx, "nap", 2*time.Second); err != nil { // it is claimed again
								return 0, err
							}
							return stet.Step(ctx, "count", func(context.Context) (int, error) {
								bodies++
								return bodies, nil
							})
						})
						e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{w}, LeaseTTL: lease, ParkFor: time.Millisecond})
						run, err := w.Start(t.Context(), e, 1)
						if err != nil {
							t.Fatal(err)
						}
						ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
						defer cancel()
						begun := time.Now()
						if got, err := run.Wait(ctx); err != nil || got != 1 {
							t.Errorf("got %d, %v", got, err)
						}
						if took := time.Since(begun); !s.done.Load() || took < lease || took > 2*time.Second+lease+1500*time.Millisecond {
							t.Errorf("the run took %v; a call was silent: %t", took, s.done.Load())
						}
					})
				})
			}
		}
	}
}

// mute is a store that answers nothing that a node of several asks while it is mute.
type mute struct {
	hanging
	waited chan time.Duration // how long a commit was waited for; capacity 1
}

func (m *mute) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	begun := time.Now()
	result, err := m.hanging.Commit(ctx, b)
	if err != nil {
		select {
		case m.waited <- time.Since(begun):
		default:
		}
	}
	return result, err
}

func (m *mute) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time, error) {
	if err := m.hang(ctx); err != nil {
		return nil, 0, err
	}
	return m.Store.Renew(ctx, leases, ttl)
}

func (m *mute) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	if err := m.hang(ctx); err != nil {
		return nil, 0, err
	}
	return m.Store.Acquire(ctx, n, shards, ttl)
}

// TestACommitIsGivenUpWithItsLeases: a node whose store falls silent waits for its commit
// no longer than for the end of its leases by its own clock; another goes on.
func TestACommitIsGivenUpWithItsLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 3 * time.Second
		db := memory.New(memory.Slots(4))
		m := &mute{hanging{db, make(chan struct{})}, make(chan time.Duration, 1)}
		var once sync.Once
		flow := stet.Define("flow", func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "step", func(context.Context) (int, error) {
				once.Do(func() { close(m.from) })
				return 1, nil
			})
		})
		cfg := stet.Config{Store: m, Workflows: []stet.Definition{flow}, Grace: time.Second, LeaseTTL: lease,
			Logger: slog.New(slog.DiscardHandler)}
		e, err := stet.New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = e.Run(ctx) }() // its error names what has not ended
		time.Sleep(lease / 3)
		run, err := flow.Start(t.Context(), e, 1)
		if err != nil {
			t.Fatal(err)
		}
		if waited := <-m.waited; waited >= lease {
			t.Errorf("a commit was waited for for %v, and its leases ended before", waited)
		}
		cfg.Store = db.Join()
		other := serve(t, cfg)
		if got, err := flow.Handle(other, run.ID()).Wait(t.Context()); err != nil || got != 1 {
			t.Errorf("elsewhere: %d, %v", got, err)
		}
		cancel()
		<-ended
	})
}
