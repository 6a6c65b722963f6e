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

// valueSize is the size of a value in bytes of JSON, about, unless Config.ValueSize says another one.
const valueSize = 100

// payload is the input, step result and output of the workloads.
type payload struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
}

func newPayload(number int) payload { return sizedPayload(number, valueSize) }

// sizedPayload makes a value of about so many bytes of JSON.
func sizedPayload(number, size int) payload {
	const around = len(`{"number":1234,"text":""}`) - 1
	return payload{number, strings.Repeat("x", max(0, size-around))}
}

// counted is a store that counts the calls that an engine makes by itself. Changed is not counted: while it waits it
// costs no query.
type counted struct {
	store.Store
	store.Laned
	calls *atomic.Int64 // of all lanes
}

func newCounted(s store.Store) *counted {
	calls := &atomic.Int64{}
	return &counted{s, store.WrapLanes(s, func(lane store.Store) store.Store {
		return &counted{Store: lane, calls: calls}
	}), calls}
}

func (c *counted) Register(ctx context.Context, n store.Node) (store.Time, error) {
	c.calls.Add(1)
	return c.Store.Register(ctx, n)
}

func (c *counted) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	c.calls.Add(1)
	return c.Store.Acquire(ctx, n, shards, ttl)
}

func (c *counted) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time,
	error) {
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

func (c *counted) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
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
	since store.Time // by the store's clock
	stop  context.CancelFunc
	over  chan struct{} // closed when Run has returned
	err   error         // of Run, then
}

// serve opens the store and returns once this process owns it. The workloads
// change settings by tune, which may be nil.
func (cfg *Config) serve(ctx context.Context, tune func(*stet.Config), workflows ...stet.Definition) (*session, error) {
	db, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{db: newCounted(db), over: make(chan struct{})}
	owned := make(chan struct{})
	var once sync.Once
	settings := stet.Config{
		Store: s.db, Workflows: workflows, Logger: cfg.Log, Exclusive: true, LeaseTTL: cfg.LeaseTTL,
		OnRecover: func(stet.Recovery) { once.Do(func() { close(owned) }) },
	}
	if tune != nil {
		tune(&settings)
	}
	if s.Engine, err = stet.New(ctx, settings); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	work, stop := context.WithCancel(ctx)
	s.stop = stop
	go func() {
		s.err = s.Run(work)
		close(s.over)
	}()
	select {
	case <-owned:
		about, err := s.Describe(ctx)
		if err != nil {
			return nil, s.closing(ctx, func(context.Context) error { return err })
		}
		s.since = about.Now
		return s, nil
	case <-s.over:
		stop()
		return nil, errors.Join(fmt.Errorf("take the store over: %w", s.err), db.Close())
	}
}

// starting calls do with an engine that executes nothing, on a store that it opens and closes.
func (cfg *Config) starting(ctx context.Context, do func(*stet.Engine) error) error {
	db, err := cfg.Open(ctx)
	if err != nil {
		return err
	}
	e, err := stet.New(ctx, stet.Config{Store: db, Logger: cfg.Log})
	if err == nil {
		err = do(e)
	}
	return errors.Join(err, db.Close())
}

// errEngineEnded says that the engine has ended while it was measured: it has lost its leases, say.
var errEngineEnded = errors.New("the engine has ended while it was measured")

// closing calls do, stops the engine and closes the store. The context of do ends when the
// engine does: nothing that is waited for would come then.
func (s *session) closing(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-s.over:
			cancel(errEngineEnded)
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	ended := errors.Is(context.Cause(ctx), errEngineEnded)
	cancel(nil)
	<-watched
	s.stop()
	<-s.over
	if ended || err != nil && s.err != nil { // do may have seen the reason before the engine's end
		err = errors.Join(errEngineEnded, err)
	}
	return errors.Join(err, s.err, s.db.Close())
}

// reached blocks until so many runs of the workflow that were started in this
// session have the status.
func (s *session) reached(ctx context.Context, workflow string, status store.Status, runs int) error {
	for {
		tallies, err := s.Runs().Count(ctx, store.Filter{Workflows: []string{workflow}, Statuses: []store.Status{status},
			CreatedFrom: s.since})
		if err != nil {
			return err
		}
		for _, t := range tallies {
			if t.Runs >= int64(runs) {
				return nil
			}
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// ended blocks until no run of the workflow is left that has not ended.
func (s *session) ended(ctx context.Context, workflow string) error {
	for {
		left, err := s.Runs().Count(ctx, store.Filter{Workflows: []string{workflow},
			Statuses: []store.Status{store.Queued, store.Running, store.Suspended}, Most: 1})
		if err != nil || len(left) == 0 {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// inParallel calls do for 0 to n-1, so many at a time, until one fails.
func inParallel(ctx context.Context, n, atATime int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, atATime) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}
