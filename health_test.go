package stet_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// ailing is a store that can be made to hang, to fail, to be of another schema, and to renew
// nothing.
type ailing struct {
	store.Store
	mu  sync.Mutex
	now illness
}

type illness struct {
	hangs, stale bool
	err          error
	schema       int
}

// has makes the store ill in this way from now on.
func (s *ailing) has(now illness) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

func (s *ailing) ill() illness {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *ailing) Describe(ctx context.Context) (store.Description, error) {
	ill := s.ill()
	if ill.hangs {
		<-ctx.Done()
		return store.Description{}, ctx.Err()
	}
	if ill.err != nil {
		return store.Description{}, ill.err
	}
	d, err := s.Store.Describe(ctx)
	d.Schema += ill.schema
	return d, err
}

func (s *ailing) Renew(ctx context.Context, l []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time, error) {
	if s.ill().stale {
		return nil, 0, store.ErrUnavailable
	}
	return s.Store.Renew(ctx, l, ttl)
}

func (s *ailing) Acquire(
	ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay,
) ([]store.Acquired, store.Time, error) {
	if s.ill().stale {
		return nil, 0, store.ErrUnavailable
	}
	return s.Store.Acquire(ctx, n, shards, ttl)
}

func (s *ailing) Release(ctx context.Context, l []store.Lease) error {
	if s.ill().stale {
		return store.ErrUnavailable
	}
	return s.Store.Release(ctx, l)
}

// TestReady: a process is ready that executes or stands by, with a store that answers in time.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code := stet.Define("order", func(stet.Context, int) (int, error) { return 0, nil })
		inner := memory.New()
		defer inner.Close()
		s := &ailing{Store: inner.Join()}
		e, stop := observed(t, s, stet.Config{Workflows: []stet.Definition{code}, LeaseTTL: 30 * time.Second})
		standby, stopStandby := observed(t, inner.Join(), stet.Config{Workflows: []stet.Definition{code}})
		defer stopStandby()
		reader, err := stet.New(t.Context(), stet.Config{Store: inner.Join()})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for name, e := range map[string]*stet.Engine{"owner": e, "standby": standby, "without workflows": reader} {
			if err := e.Ready(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		expectNot := func(name, want string) {
			t.Helper()
			begun := time.Now()
			err := e.Ready(t.Context())
			if !errors.Is(err, stet.ErrNotReady) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("%s: it took %s", name, took)
			}
		}
		s.has(illness{hangs: true})
		expectNot("a store that hangs", "read the store within 1s")
		s.has(illness{err: store.ErrUnavailable})
		expectNot("a store that is away", "store unavailable")
		s.has(illness{schema: 1})
		expectNot("another schema", "restart this process")
		s.has(illness{stale: true})
		time.Sleep(25 * time.Second)
		expectNot("leases that are not renewed", "renewed within 20s")
		s.has(illness{})
		stop()
		expectNot("after Run", "expected Run to be under way")
		if stats := e.Stats(); stats.Running != 0 || len(stats.Shards) != 0 {
			t.Errorf("after Run the engine has %+v", stats)
		}
	})
}
