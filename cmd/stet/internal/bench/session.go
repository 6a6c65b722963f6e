package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// prefix begins the names of all workflows of this package.
const prefix = "bench-"

// payload is the input, step result and output of the workloads, about 100 bytes
// of JSON.
type payload struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
}

func newPayload(number int) payload { return payload{number, strings.Repeat("x", 76)} }

// counted is a store that counts the calls that reach it, those that only wait
// for a change not counted.
type counted struct {
	store.Store
	calls atomic.Int64
}

func (c *counted) Register(ctx context.Context, n store.Node) (store.Time, error) {
	c.calls.Add(1)
	return c.Store.Register(ctx, n)
}

func (c *counted) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired, store.Time, error) {
	c.calls.Add(1)
	return c.Store.Acquire(ctx, n, shards, ttl)
}

func (c *counted) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time, error) {
	c.calls.Add(1)
	return c.Store.Renew(ctx, leases, ttl)
}

func (c *counted) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	c.calls.Add(1)
	return c.Store.Commit(ctx, b)
}

func (c *counted) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	c.calls.Add(1)
	return c.Store.Claim(ctx, req)
}

func (c *counted) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, error) {
	c.calls.Add(1)
	return c.Store.Load(ctx, runs)
}

func (c *counted) List(ctx context.Context, f store.Filter) (store.Page, error) {
	c.calls.Add(1)
	return c.Store.List(ctx, f)
}

func (c *counted) Describe(ctx context.Context) (store.Description, error) {
	c.calls.Add(1)
	return c.Store.Describe(ctx)
}

// session is an engine that owns the store.
type session struct {
	*stet.Engine
	db    *counted
	stop  context.CancelFunc
	ended chan error
}

// serve opens the store and returns once this process owns it. The workloads
// change settings by tune, which may be nil.
func (cfg *Config) serve(ctx context.Context, tune func(*stet.Config), workflows ...stet.Definition) (*session, error) {
	db, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{db: &counted{Store: db}, ended: make(chan error, 1)}
	owned := make(chan struct{})
	settings := stet.Config{
		Store: s.db, Workflows: workflows, Logger: cfg.Log, Exclusive: true,
		OnRecover: sync.OnceFunc(func() { close(owned) }).asRecover(),
	}
	if tune != nil {
		tune(&settings)
	}
	if s.Engine, err = stet.NewContext(ctx, settings); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	work, stop := context.WithCancel(ctx)
	s.stop = stop
	go func() { s.ended <- s.Run(work) }()
	select {
	case <-owned:
		return s, nil
	case err := <-s.ended:
		stop()
		return nil, errors.Join(fmt.Errorf("take the store over: %w", err), db.Close())
	}
}
