// Package e2e_test runs whole engines on real stores: what an application sees of
// workflows, runs, crashes, and several processes on one store.
package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

// mortal is a store handle whose process can be made to die.
type mortal struct {
	store.Store
	dead atomic.Bool
	died chan struct{}
}

func (m *mortal) die() {
	if m.dead.CompareAndSwap(false, true) {
		m.Store.Close()
		close(m.died)
	}
}

var errDead = fmt.Errorf("the process is dead: %w", store.ErrUnavailable)

func (m *mortal) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if m.dead.Load() {
		return store.BatchResult{}, errDead
	}
	return m.Store.Commit(ctx, b)
}

// process is an engine on a handle of its own that may die.
type process struct {
	*stet.Engine
	handle *mortal
	stop   context.CancelFunc
	ended  chan error
}

func startProcess(t testing.TB, handle store.Store, cfg stet.Config) *process {
	t.Helper()
	p := newProcess(t, handle, cfg)
	p.start()
	t.Cleanup(func() { p.bury(t) })
	return p
}

func newProcess(t testing.TB, handle store.Store, cfg stet.Config) *process {
	t.Helper()
	p := &process{handle: &mortal{Store: handle, died: make(chan struct{})}, ended: make(chan error, 1)}
	cfg.Store = p.handle
	cfg.Grace = stet.None
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	var err error
	if p.Engine, err = stet.New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.ended <- p.Run(ctx); close(p.ended) }()
}

// bury ends the goroutines of the process. It may be called again. A process that died
// may have found out that another has its lease, and that its store is closed.
func (p *process) bury(t testing.TB) {
	p.stop()
	err := <-p.ended
	if p.handle.dead.Load() && errors.Is(err, store.ErrClosed) {
		return
	}
	if err != nil {
		t.Errorf("Run: %v", err)
	}
}

var (
	word  = stet.Message[string]("word")
	never = stet.Message[string]("never")
)

func say(ctx stet.Context, name, value string, opts ...stet.StepOption) (string, error) {
	return stet.Step(ctx, name, func(context.Context) (string, error) { return value, nil }, opts...)
}

// testStores are the stores that the engine's tests run on. Each opens handles
// on one store, as several processes would.
var testStores = []struct {
	name string
	open func(testing.TB) func() store.Store
}{
	{"memory", func(testing.TB) func() store.Store {
		first := memory.New()
		return func() store.Store { return first.Join() }
	}},
	{"sqlite", func(t testing.TB) func() store.Store {
		path := filepath.Join(t.TempDir(), "stet.db")
		return func() store.Store {
			// A process dies here, and no machine: what it wrote is in the file without a sync.
			s, err := sqlite.Open(context.Background(), path, sqlite.AllowLoss())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		}
	}},
}

// serve runs an engine with the workflows until the test ends.
func serve(t testing.TB, cfg stet.Config) *stet.Engine {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = memory.New()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	if cfg.Grace == 0 {
		cfg.Grace = testLimit // bodies and code return as soon as a busy machine lets them
	}
	e, err := stet.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return e
}

// run starts a run and returns its result.
func run[In, Out any](t *testing.T, e *stet.Engine, w *stet.Workflow[In, Out], in In) (Out, error) {
	t.Helper()
	ctx := testContext(t)
	r, err := w.Start(ctx, e, in)
	if err != nil {
		t.Fatal(err)
	}
	return r.Wait(ctx)
}

// testLimit is how long a test waits for an immediate event: much longer than that takes on a busy machine.
const testLimit = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	return ctx
}

// waitStatus blocks until the run has the status.
func waitStatus(t testing.TB, e *stet.Engine, id string, want store.Status) {
	t.Helper()
	untilRun(t, e, id, func(info *stet.RunInfo) bool {
		if info.Status != want && info.Status.Terminal() {
			t.Fatalf("run %s is %s: %v", id, info.Status, info.Err)
		}
		return info.Status == want
	})
}

// untilRun blocks until the run is as wanted.
func untilRun(t testing.TB, e *stet.Engine, id string, wanted func(*stet.RunInfo) bool) {
	t.Helper()
	until(t, "run "+id, func(ctx context.Context) (*stet.RunInfo, error) { return e.Runs().Info(ctx, id) }, wanted)
}

// untilHistory blocks until the run has recorded an entry that is wanted.
func untilHistory(t testing.TB, e *stet.Engine, id string, wanted func(stet.HistoryEntry) bool) {
	t.Helper()
	until(t, "history of run "+id, func(ctx context.Context) ([]stet.HistoryEntry, error) {
		return e.Runs().History(ctx, id, stet.HistoryQuery{})
	}, func(entries []stet.HistoryEntry) bool { return slices.ContainsFunc(entries, wanted) })
}

// until looks again and again until it sees a wanted value, and returns that value. An error of look fails the test,
// and so does testLimit.
func until[T any](t testing.TB, name string, look func(context.Context) (T, error), wanted func(T) bool) T {
	t.Helper()
	seen, err := watch(testContext(t), look, wanted)
	if err != nil {
		t.Fatalf("%s: %v; it was last %+v", name, err, seen)
	}
	return seen
}

// watch is until for goroutines that must not end the test: it returns the error.
func watch[T any](ctx context.Context, look func(context.Context) (T, error), wanted func(T) bool) (T, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 8*time.Millisecond) {
		seen, err := look(ctx)
		if err != nil || wanted(seen) {
			return seen, err
		}
		if err := takes(ctx, pause); err != nil {
			return seen, err
		}
	}
}

// outcome waits for the result of a run, or its error.
func outcome[Out any](t *testing.T, r *stet.Run[Out]) string {
	t.Helper()
	out, err := r.Wait(testContext(t))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(out)
}

func begin[In, Out any](t *testing.T, e *stet.Engine, w *stet.Workflow[In, Out], in In,
	opts ...stet.StartOption) *stet.Run[Out] {
	t.Helper()
	r, err := w.Start(testContext(t), e, in, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// takes is a body that takes some time, or a rest between two looks at a condition.
func takes(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gated is a store handle at whose calls a test can put itself in between. The
// functions may be nil; they are set before the engine runs.
type gated struct {
	store.Store
	beforeCommit func(*store.Batch)
	afterCommit  func(*store.Batch)
	beforeLoad   func([]store.RunNo)
	beforeClaim  func()
	afterClaim   func(*store.Claims)
	deaf         atomic.Bool // Changed reports nothing
	frozen       atomic.Pointer[chan struct{}]
}

func (g *gated) thaw() {
	if c := g.frozen.Load(); c != nil {
		<-*c
	}
}

func (g *gated) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	g.thaw()
	if g.beforeCommit != nil {
		g.beforeCommit(&b)
	}
	result, err := g.Store.Commit(ctx, b)
	if g.afterCommit != nil {
		g.afterCommit(&b)
	}
	return result, err
}

func (g *gated) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	g.thaw()
	if g.beforeLoad != nil {
		g.beforeLoad(runs)
	}
	return g.Store.Load(ctx, runs)
}

func (g *gated) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	g.thaw()
	if g.beforeClaim != nil {
		g.beforeClaim()
	}
	claims, err := g.Store.Claim(ctx, req)
	if g.afterClaim != nil {
		g.afterClaim(&claims)
	}
	return claims, err
}

func (g *gated) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time,
	error) {
	g.thaw()
	return g.Store.Renew(ctx, leases, ttl)
}

func (g *gated) Changed(ctx context.Context) (store.Change, error) {
	for {
		if change, err := g.Store.Changed(ctx); err != nil || !g.deaf.Load() {
			return change, err
		}
	}
}

// commits reports whether the batch has a turn that sets the status.
func commits(b *store.Batch, status store.Status) bool {
	for _, t := range b.Turns {
		if t.Update != nil && t.Update.Status == status {
			return true
		}
	}
	return false
}

// forEachStore runs the test on every store, with parked and unparked runs, and
// gives it a gated owner's config and a client in another process. The poll
// interval is long: a lost wake shows as a run that does not end.
// A quick run has SQLite with one of the two, with the other one the next day.
func forEachStore(t *testing.T, test func(t *testing.T, cfg stet.Config, g *gated, client store.Store)) {
	eachStore(t, func(t *testing.T, do func(*testing.T)) { do(t) }, test)
}

// forEachStoreInABubble is forEachStore with virtual time, for tests in which something
// has to be done in time.
func forEachStoreInABubble(t *testing.T, test func(t *testing.T, cfg stet.Config, g *gated, client store.Store)) {
	eachStore(t, synctest.Test, test)
}

func eachStore(t *testing.T, in func(*testing.T, func(*testing.T)),
	test func(t *testing.T, cfg stet.Config, g *gated, client store.Store)) {
	both := []int{stet.None, 0}
	for _, s := range testStores {
		kinds := both
		if s.name == "sqlite" && !soak.Usual(t) {
			part := soak.Part(t, len(t.Name()), len(both)) // about half of the tests have the one today, half the other
			kinds = both[part : part+1]
		}
		for _, parked := range kinds {
			name := s.name + "/parked"
			if parked == stet.None {
				name = s.name + "/evicted"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T) {
					open := s.open(t)
					g := &gated{Store: open()}
					test(t, stet.Config{Store: g, MaxParkedBytes: parked, Poll: time.Minute}, g, open())
				})
			})
		}
	}
}

func client(t *testing.T, s store.Store, defs ...stet.Definition) *stet.Engine {
	e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: defs, Logger: slog.New(slog.DiscardHandler),
		Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var errDeclined = errors.New("card declined")

// export returns the file that an exported run is.
func export(t testing.TB, e *stet.Engine, id string) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := e.Runs().Export(testContext(t), id, &file); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// replays fails the test unless the code fits what the run has recorded.
func replays(t testing.TB, e *stet.Engine, id string) {
	t.Helper()
	if err := e.Replay(testContext(t), bytes.NewReader(export(t, e, id))); err != nil {
		t.Error(err)
	}
}
