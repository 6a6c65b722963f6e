package stet_test

import (
	"context"
	"errors"
	"strings"
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
	hangs, stale bool
	err          error
	schema       int
}

func (s *ailing) Describe(ctx context.Context) (store.Description, error) {
	if s.hangs {
		<-ctx.Done()
		return store.Description{}, ctx.Err()
	}
	if s.err != nil {
		return store.Description{}, s.err
	}
	d, err := s.Store.Describe(ctx)
	d.Schema += s.schema
	return d, err
}

func (s *ailing) Renew(ctx context.Context, l []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time, error) {
	if s.stale {
		return nil, 0, store.ErrUnavailable
	}
	return s.Store.Renew(ctx, l, ttl)
}

func (s *ailing) Acquire(
	ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay,
) ([]store.Acquired, store.Time, error) {
	if s.stale {
		return nil, 0, store.ErrUnavailable
	}
	return s.Store.Acquire(ctx, n, shards, ttl)
}

func (s *ailing) Release(ctx context.Context, l []store.Lease) error {
	if s.stale {
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
		s.hangs = true
		expectNot("a store that hangs", "read the store within 1s")
		s.hangs, s.err = false, store.ErrUnavailable
		expectNot("a store that is away", "store unavailable")
		s.err, s.schema = nil, 1
		expectNot("another schema", "restart this process")
		s.schema, s.stale = 0, true
		time.Sleep(25 * time.Second)
		expectNot("leases that are not renewed", "renewed within 20s")
		s.stale = false
		stop()
		expectNot("after Run", "expected Run to be under way")
		if stats := e.Stats(); stats.Running != 0 || len(stats.Shards) != 0 {
			t.Errorf("after Run the engine has %+v", stats)
		}
	})
}
