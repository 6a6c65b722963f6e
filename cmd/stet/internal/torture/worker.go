package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// orders are the configuration of a worker process.
type orders struct {
	Name        string `json:"name"` // of the process, new for each start
	Seed        uint64 `json:"seed"` // of the harness
	Effects     string `json:"effects"`
	Acks        string `json:"acks"`
	PoisonLimit int    `json:"poison_limit"`
	Starts      bool   `json:"starts"` // it also starts runs, and sends to them
	LeaseMS     int64  `json:"lease_ms"`
	Defaults    bool   `json:"defaults,omitempty"` // times are those of an engine
	Build       string `json:"build"`
	Plants      plants `json:"plants,omitempty"`
}

// build is what the process says to be its build.
func (o *orders) build() string {
	if o.Plants.has(plantBuilds) {
		return lastBuild
	}
	return o.Build
}

// Times of a worker's engine. They are short, so that much happens in a second.
const (
	leaseTTL = 1500 * time.Millisecond
	poll     = 200 * time.Millisecond
	grace    = 300 * time.Millisecond
	aloneFor = 500 * time.Millisecond
	parkFor  = 400 * time.Millisecond
	sweep    = 700 * time.Millisecond

	usualLease = 10 * time.Second // of an engine by default
)

// worker is a process that executes the runs of the harness, if it owns the
// store, and starts some of its own.
type worker struct {
	name    string
	seed    uint64
	plants  plants
	effects *journal
	acks    *journal
	bodies  atomic.Int64 // executions of bodies so far
}

// Work is the whole life of a worker process: it executes runs until in ends or has a line. Then the process that
// started it stops it, or has died. command is the argument of Config.Worker.
func Work(ctx context.Context, open func(context.Context) (store.Store, error), command string, in io.Reader,
	log *slog.Logger) (err error) {
	var o orders
	if err := json.Unmarshal([]byte(command), &o); err != nil {
		return fmt.Errorf("%w: the orders of a worker: %w", ErrConfig, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in) // its end, in whichever way, is the order to stop
		stop()
	}()
	db, err := patiently(ctx, func() (store.Store, error) { return open(ctx) })
	if err != nil && ctx.Err() != nil && indefinite(err) {
		return nil // it was stopped before it could begin
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if o.Plants.has(plantAhead) {
		db = newAhead(db)
	}
	leases := newWitness(db)
	w := &worker{name: o.Name, seed: o.Seed, plants: o.Plants}
	if w.effects, err = openJournal(o.Effects); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.effects.close()) }()
	if w.acks, err = openJournal(o.Acks); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.acks.close()) }()
	values, err := payloads(filepath.Dir(o.Effects), o.Seed, o.Name)
	if err != nil {
		return err
	}
	var unlogged atomic.Pointer[error]
	note := func(l line) {
		if err := w.effects.append(l); err != nil {
			unlogged.Store(&err)
		}
	}
	cfg := stet.Config{
		Store: leases, Payloads: values, Sweep: sweep,
		Workflows: []stet.Definition{w.tree(), w.child(), w.brief(), w.limited(), w.tick(), w.listener(), w.account(),
			w.trip(), w.reader(), w.poison()}, Node: o.Name, Build: o.build(), Logger: log,
		Around: w.around, MaxParkedBytes: 400_000, ParkFor: parkFor,
		LeaseTTL: time.Duration(o.LeaseMS) * time.Millisecond, Poll: poll,
		Grace:       grace,
		PoisonLimit: o.PoisonLimit, AloneFor: aloneFor,
		OnRecover: func(found stet.Recovery) {
			l := line{Kind: lineOwn, Process: w.name}
			for _, shard := range found.Shards {
				l.Shards, l.Epochs = append(l.Shards, shard.String()), append(l.Epochs, leases.epoch(shard))
			}
			note(l)
		},
	}
	cfg.Observer = &stet.Observer{Lease: func(l stet.LeaseInfo) {
		if l.Event != stet.LeaseLost && l.Event != stet.LeaseFenced {
			return
		}
		left := line{Kind: lineLeft, Process: w.name}
		for _, shard := range l.Shards {
			left.Shards = append(left.Shards, shard.String())
		}
		note(left)
	}}
	if o.Defaults {
		cfg.LeaseTTL, cfg.Poll, cfg.Grace, cfg.AloneFor, cfg.ParkFor = 0, 0, 0, 0, 0
	}
	engine, err := patiently(ctx, func() (*stet.Engine, error) { return stet.New(ctx, cfg) })
	if err != nil && ctx.Err() != nil && indefinite(err) {
		return nil
	}
	if err != nil {
		return err
	}
	clients := make(chan error, 1)
	go func() {
		if !o.Starts {
			clients <- nil
			return
		}
		c := &client{name: w.name, seed: w.seed, plants: w.plants, engine: engine, acks: w.acks}
		paid := make(chan error, 1)
		go func() { paid <- w.keepPaying(ctx, c) }()
		clients <- errors.Join(w.startRuns(ctx, c), <-paid)
	}()
	err = engine.Run(ctx)
	asked := ctx.Err() != nil
	stop()
	clientErr := <-clients
	if err := unlogged.Load(); err != nil {
		clientErr = errors.Join(clientErr, *err)
	}
	if asked || clientErr != nil || err == nil || !strings.Contains(err.Error(), "have not returned") {
		return errors.Join(err, clientErr)
	}
	// Its leases have ended because it had no processor for too long, and then code of its runs had none to return. Run
	// ends the process then, as it says: nothing that the code still does is recorded.
	return errors.Join(w.effects.append(line{Kind: lineLost, Process: w.name, Text: err.Error()}))
}

// witness is the store of a worker, and knows the epochs of the leases that it was given.
type witness struct {
	store.Store
	store.Laned
	*epochs
}

// epochs are those of all lanes.
type epochs struct {
	mu sync.Mutex
	of map[store.Shard]int64
}

func newWitness(s store.Store) *witness {
	e := &epochs{of: map[store.Shard]int64{}}
	wrap := func(lane store.Store) store.Store { return &witness{Store: lane, epochs: e} }
	return &witness{s, store.WrapLanes(s, wrap), e}
}

func (w *witness) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	acquired, now, err := w.Store.Acquire(ctx, n, shards, ttl)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range acquired {
		if a := &acquired[i]; a.Held {
			w.of[a.Lease.Shard] = a.Lease.Epoch
		}
	}
	return acquired, now, err
}

func (e *epochs) epoch(shard store.Shard) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of[shard]
}

// patiently repeats an act while the store is away, until ctx ends.
func patiently[T any](ctx context.Context, act func() (T, error)) (T, error) {
	for {
		v, err := act()
		if err == nil || !indefinite(err) || ctx.Err() != nil {
			return v, err
		}
		_ = pause(ctx, 20*time.Millisecond) // its end is seen above
	}
}

type executionKey struct{}

// executionOf returns the number of the execution that a body's context belongs to.
func executionOf(ctx context.Context) int64 {
	no, _ := ctx.Value(executionKey{}).(int64)
	return no
}

// around logs the begin and the end of every execution of a body.
func (w *worker) around(ctx context.Context, step stet.StepInfo, next func(context.Context) error) error {
	l := line{
		Kind: lineStart, Process: w.name, Run: step.RunID, Loc: step.Location, Attempt: step.Attempt,
		No: w.bodies.Add(1), Key: stet.IdempotencyKey(ctx),
	}
	if err := w.effects.append(l); err != nil {
		return err
	}
	if w.plants.has(plantTwice) {
		if err := w.effects.append(l); err != nil {
			return err
		}
	}
	if ctx.Err() != nil { // the processor was elsewhere since it was decided on, as the lease may be by now
		stale := l
		stale.Kind = lineStale
		if err := w.effects.append(stale); err != nil {
			return err
		}
	}
	err := next(context.WithValue(ctx, executionKey{}, l.No))
	if w.plants.has(plantAgain) && err == nil {
		time.AfterFunc(againAfter, func() { _ = w.effects.append(l) }) // a planted defect may fail
	}
	end := l
	end.Kind, end.Key = lineEnd, ""
	return errors.Join(err, w.effects.append(end))
}

// linger takes as long as a body may: mostly next to nothing. Some bodies ignore the request to stop.
func (w *worker) linger(ctx context.Context) {
	d := time.Duration(rand.IntN(5)) * time.Millisecond
	if rand.IntN(10) == 0 {
		d = time.Duration(rand.IntN(200)) * time.Millisecond
	}
	done := ctx.Done()
	if rand.IntN(4) == 0 {
		done = nil
	}
	select {
	case <-time.After(d):
	case <-done:
	}
}

// startRuns starts runs and sends the messages that they wait for, like a process that only may own the store. The
// harness sends the same again, so a kill leaves no run without its messages.
func (w *worker) startRuns(ctx context.Context, c *client) error {
	for i := 0; ; i++ {
		if err := pause(ctx, time.Duration(200+rand.IntN(800))*time.Millisecond); err != nil {
			return nil
		}
		p, err := c.start(ctx, fmt.Sprintf("%s%016x-%s-%d", prefix, w.seed, w.name, i))
		if err == nil && p != nil {
			err = c.sendAll(ctx, p, 0)
		}
		if err != nil && ctx.Err() == nil {
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
