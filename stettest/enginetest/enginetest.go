// Package enginetest tests the features of the engine on a store. It is the second level
// of testing a store, after storetest, which knows no engine.
//
// Run works in real time. Its processes are engines, each with a handle of its own on the
// store. They die at commits, lose answers, come and go. If several processes work on the
// store at the same time, because it has many slots, Run also tests joins, leaves and
// deaths.
//
// A third of the usual number of faults is tried, or with the environment variable STET_SOAK=n that number n times.
package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// Open makes an empty store and returns a function that opens handles on it, each as
// another process would. They are closed when the test ends.
type Open = func(testing.TB) func() store.Store

// part is one of the parts of the suite. Each has stores of its own.
type part struct {
	name string
	run  func(*testing.T, Open)
}

var parts = []part{
	{"Features", features}, {"Races", races}, {"Crashes", crashes}, {"Kills", killed}, {"Nodes", nodes},
	{"Recovery", recovery}, {"Once", once}, {"Bugs", stalls}, {"LostWakes", lostWakes},
	{"Stopped", stopped},
}

// Run checks the engine on the store that open makes. Its parts run in parallel; most of their time they wait for a
// lease.
func Run(t *testing.T, open Open) { RunShare(t, open, 0, 1) }

// RunShare is Run with one of so many shares of the parts, counted from 0. It is for further settings of a store that
// passes Run with one. All shares together are Run.
func RunShare(t *testing.T, open Open, share, of int) {
	for i, p := range parts {
		if i%of == share {
			t.Run(p.name, func(t *testing.T) {
				if p.name != "Nodes" { // its short leases are not to be lost beside the others
					t.Parallel()
				}
				p.run(t, open)
			})
		}
	}
}

// Times of the engines. The lease is short in tests in which processes die, because each
// death costs one; in the others it is long, so that a slow machine loses none.
const (
	shortLease = 5 * time.Second // a busy machine is not to lose it again and again, with no turn in between
	nodesLease = 5 * time.Second
	longLease  = time.Minute
	poll       = 100 * time.Millisecond
	patience   = 3 * time.Minute // of a machine that has ten times as much to do as it can
)

// payloads compresses and encrypts all values.
var payloads = stet.Payloads{
	Compress: 200, Keys: []stet.PayloadKey{{ID: "test", Secret: bytes.Repeat([]byte{7}, 32)}},
}

// world is a store, a client that outlives all processes, and a count of executions.
type world struct {
	t       testing.TB
	open    func() store.Store
	outside *stet.Engine
	slots   int
	lanes   store.Laned
	started atomic.Int64 // processes

	mu         sync.Mutex
	executions map[string]int // of bodies, by run and location
}

func newWorld(t testing.TB, open Open) *world {
	t.Helper()
	w := &world{t: t, open: open(t), executions: map[string]int{}}
	s := w.open()
	w.lanes = store.LanesOf(s)
	cfg := stet.Config{
		Store: s, Payloads: payloads, Node: "outside", Poll: poll, Logger: slog.New(slog.DiscardHandler),
	}
	var err error
	if w.outside, err = stet.New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	d, err := w.outside.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.slots = d.Slots
	w.addOther()
	return w
}

// workflows returns all definitions.
func (w *world) workflows() []stet.Definition {
	var all []stet.Definition
	for i := range scenarios {
		all = append(all, scenarios[i].workflows(w.outside)...)
	}
	return all
}

// process is an engine that may die.
type process struct {
	*stet.Engine
	name  string
	fault *faulty
	stop  context.CancelFunc
	ended chan error
}

// start starts a process.
func (w *world) start(store *faulty, lease, grace time.Duration, workflows ...stet.Definition) *process {
	w.t.Helper()
	p := &process{name: fmt.Sprintf("process-%d", w.started.Add(1)), fault: store, ended: make(chan error, 1)}
	var err error
	p.Engine, err = stet.New(context.Background(), stet.Config{
		Store: p.fault, Payloads: payloads, Workflows: workflows, Library: lists{}, Around: w.around,
		Node: p.name, Build: "1", Logger: slog.New(slog.DiscardHandler),
		LeaseTTL: lease, Poll: poll, Grace: grace, MaxParkedBytes: 80_000,
		ParkFor: 20 * time.Millisecond, PoisonLimit: stet.None,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.ended <- p.Run(ctx); close(p.ended) }()
	w.t.Cleanup(func() { _ = p.end() }) // an error that counts was returned before
	return p
}

// calm starts a process whose store has no fault.
func (w *world) calm(lease time.Duration, workflows ...stet.Definition) *process {
	return w.start(newFaulty(w.open(), 0, 0), lease, 10*time.Second, workflows...)
}

// end stops a process, dead or not, and waits for it. It may be called again. The process closes its handle, so that
// the many processes of a test need few connections at a time.
func (p *process) end() error {
	p.stop()
	err := <-p.ended
	_ = p.fault.whole.Close() // closed already, if it is dead or this is not the first call
	return err
}

func (w *world) around(ctx context.Context, step stet.StepInfo, next func(context.Context) error) error {
	w.mu.Lock()
	w.executions[step.RunID+" "+step.Location]++
	w.mu.Unlock()
	return next(ctx)
}

// begin starts a run of each scenario and drives it. wait returns when all have ended.
func (w *world) begin(ctx context.Context, prefix string) (wait func() []error) {
	w.t.Helper()
	problems := make([]error, len(scenarios))
	var driving sync.WaitGroup
	for i := range scenarios {
		driving.Go(func() {
			s, id := &scenarios[i], prefix+scenarios[i].name
			if err := w.run(ctx, s, id); err != nil {
				problems[i] = fmt.Errorf("%s: %w", id, err)
			}
		})
	}
	return func() []error { driving.Wait(); return problems }
}

// run brings a run of a scenario to its end.
func (w *world) run(ctx context.Context, s *scenario, id string) error {
	ref := stet.Ref[string, string](s.name)
	if s.prepare != nil {
		if err := insist(ctx, func() error { return s.prepare(ctx, w.outside) }); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	options := append([]stet.StartOption{stet.ID(id)}, s.start...)
	err := insist(ctx, func() error {
		_, err := ref.Start(ctx, w.outside, "", options...)
		return err
	})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if s.drive != nil {
		if err := insist(ctx, func() error { return s.drive(ctx, w.outside, id) }); err != nil {
			return fmt.Errorf("drive: %w", err)
		}
	}
	out, err := ref.Handle(w.outside, id).Wait(ctx)
	if ctx.Err() != nil {
		err = errors.Join(err, w.stands(id))
	}
	want, fails := strings.CutPrefix(s.want, "error ")
	switch {
	case fails && (err == nil || !strings.Contains(err.Error(), want)):
		return fmt.Errorf("expected an error with %q, found %q, %w", want, out, err)
	case !fails && (err != nil || out != want):
		return fmt.Errorf("expected %q, found %q, %w", want, out, err)
	case s.check != nil:
		return s.check(ctx, w.outside, id)
	}
	return nil
}

// stands says how a run stands that does not end.
func (w *world) stands(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info, err := w.outside.Runs().Info(ctx, id)
	if err != nil {
		return err
	}
	return fmt.Errorf("the run is %s %s, waits for %+v, wakes at %s", info.Status, info.Marks, info.WaitsFor, info.Wake)
}

// insist calls do until it succeeds, or fails for another reason than a store that is away
// or a workflow that no process has registered yet.
func insist(ctx context.Context, do func() error) error {
	for {
		err := do()
		away := errors.Is(err, store.ErrUnavailable) || errors.Is(err, stet.ErrUnknownWorkflow)
		if !away || ctx.Err() != nil {
			return err
		}
		rest(ctx, 10*time.Millisecond)
	}
}

// rest waits for d, or the end of ctx: between two looks at a condition, or before an act
// that races with another.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// done returns how often each step whose success is durable was executed.
func (w *world) done(ctx context.Context, prefix string) (map[string]int, error) {
	counts := map[string]int{}
	page, err := w.outside.Store().List(ctx, store.Filter{IDPrefix: prefix, Limit: store.MaxPage})
	if err != nil {
		return nil, err
	}
	for _, r := range page.Runs {
		var entries []stet.HistoryEntry
		if err := insist(ctx, func() (err error) {
			entries, err = w.outside.Runs().History(ctx, r.ID, stet.HistoryQuery{})
			return err
		}); err != nil {
			return nil, err
		}
		w.mu.Lock()
		for _, x := range entries {
			if x.Kind == store.KindStep && x.State == store.Done && r.Incarnation == 0 {
				key := r.ID + " " + x.Location
				counts[key] = w.executions[key]
			}
		}
		w.mu.Unlock()
	}
	return counts, nil
}

// repeated are the steps of the scenarios that are executed several times undisturbed: they
// are retried, or their run continues as new.
var repeated = []string{"-steps b", "-emits ask", "-continued part", "-promise resolve", "-scripted bound",
	"-audited pause", "-audited schedule", "-audited look", "-asked to wait busy",
	"-told by code answer"}

// features runs each scenario undisturbed, six times each, all at once.
func features(t *testing.T, open Open) {
	w := newWorld(t, open)
	p := w.calm(longLease, w.workflows()...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var waits []func() []error
	for i := range 6 {
		waits = append(waits, w.begin(ctx, fmt.Sprint(i, "-")))
	}
	for _, wait := range waits {
		for _, err := range wait() {
			if err != nil {
				t.Error(err)
			}
		}
	}
	w.mu.Lock()
	for key, n := range w.executions {
		if n > 1 && !slices.ContainsFunc(repeated, func(step string) bool { return strings.HasSuffix(key, step) }) {
			t.Errorf("%s was executed %d times", key, n)
		}
	}
	w.mu.Unlock()
	if err := p.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// maxCuts bounds the commits at which a fault happens, where the usual number of cases is tried. If there are more
// commits, they are chosen evenly, from another one each time.
const maxCuts = 25

// crashLanes is how many stores the faults are spread over: they mostly wait for the ends of leases. Each store has
// every fault.
const crashLanes = 4

// crashes lets a process die, or its store fail, at its commits. On each store that is one after the other. On a
// further store every second answer is lost.
func crashes(t *testing.T, open Open) {
	faults := []stettest.Fault{
		stettest.DieBefore, stettest.DieAfter, stettest.DieUnheard, stettest.LoseAnswer, stettest.FailOnce,
	}
	commits := newWorld(t, open).crash("calm-", 0, 0)
	cuts := min(commits, soak.Cases(t, maxCuts))
	if testing.Short() {
		cuts = min(commits, maxCuts/4)
	}
	from := rand.IntN(max(1, commits/max(1, cuts)))
	t.Logf("something happens at %d of about %d commits, first at %d", cuts, commits, 1+from)
	t.Run("answers", func(t *testing.T) {
		t.Parallel()
		newWorld(t, open).crash("answers-", -2, stettest.LoseAnswer)
	})
	for lane := range crashLanes {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, open)
			for i := lane; i < cuts && !t.Failed(); i += crashLanes {
				at := 1 + from + i*commits/cuts
				w.crash(fmt.Sprintf("%d-", at), int64(at), faults[i%len(faults)])
			}
		})
	}
}

// crash runs all scenarios once, with a fault at commit number at; 0: there is none; -n: at each n-th. It returns how
// many commits there were.
func (w *world) crash(prefix string, at int64, fault stettest.Fault) int {
	t := w.t
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first := w.start(newFaulty(w.open(), at, fault), shortLease, 50*time.Millisecond, w.workflows()...)
	wait := w.begin(ctx, prefix)
	ended := make(chan []error, 1)
	go func() { ended <- wait() }()
	var problems []error
	var done map[string]int
	for p := first; problems == nil; {
		select {
		case problems = <-ended:
		case <-p.fault.died:
		case err := <-p.ended: // it was slow, and has lost its lease: the next one goes on
			t.Logf("%s has ended: %v", p.name, err)
		}
		_ = p.end() // a dead process reports nothing of use
		if problems != nil {
			break
		}
		if done == nil {
			var err error
			if done, err = w.done(ctx, prefix); err != nil {
				t.Fatal(err)
			}
		}
		p = w.calm(shortLease, w.workflows()...)
	}
	for _, err := range problems {
		if err != nil {
			t.Errorf("%s commit %d: %v", fault, at, err)
		}
	}
	w.mu.Lock()
	for key, n := range done {
		if now := w.executions[key]; now != n {
			t.Errorf("%s commit %d: %s was done, and is executed again", fault, at, key)
		}
	}
	w.mu.Unlock()
	return int(first.fault.count.Load())
}
