package stettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// CrashOption is an option of CrashEverywhere.
type CrashOption interface{ applyCrash(*crash) }

// crash is the settings of a call of CrashEverywhere.
type crash struct {
	cfg    stet.Config
	open   func(testing.TB) func() store.Store
	start  []stet.StartOption
	faults []Fault
	drive  func(context.Context, *stet.Engine, string) error
	ready  func(*stet.Engine)
	check  func(context.Context, *stet.Engine, string) error
	queues map[string]stet.QueueSettings
}

type crashOption func(*crash)

func (o crashOption) applyCrash(c *crash) { o(c) }

// WithConfig makes the processes with a config: other workflows that the one under test
// needs, errors, codecs, Around. Its Store must be nil. Fields that it leaves at zero are
// set as in Run.
func WithConfig(cfg stet.Config) CrashOption { return crashOption(func(c *crash) { c.cfg = cfg }) }

// On makes the processes work on a store of another kind than the one in memory. open is
// called once for each run of the workflow, in its bubble. It returns a function that
// opens a handle on one and the same store, as another process would. open sees to it
// that the handles are closed, with Cleanup.
func On(open func(testing.TB) func() store.Store) CrashOption {
	return crashOption(func(c *crash) { c.open = open })
}

// Starting starts the run with options. An ID among them is ignored.
func Starting(opts ...stet.StartOption) CrashOption {
	return crashOption(func(c *crash) { c.start = append(c.start, opts...) })
}

// Faults replaces the faults that happen, which are DieBefore, DieAfter and DieUnheard.
func Faults(faults ...Fault) CrashOption { return crashOption(func(c *crash) { c.faults = faults }) }

// Driving calls drive beside each run, with an engine that outlives the crashes: it sends
// messages, resolves promises, cancels, and may sleep. It is called once for each crash,
// each time for a run on another store. An error fails the test, unless the run has
// ended.
func Driving(drive func(ctx context.Context, e *stet.Engine, runID string) error) CrashOption {
	return crashOption(func(c *crash) { c.drive = drive })
}

// Ready calls ready with an engine that outlives the crashes, before each start of the
// run. It is for steps that start runs or resolve promises.
func Ready(ready func(*stet.Engine)) CrashOption {
	return crashOption(func(c *crash) { c.ready = ready })
}

// Queues creates queues before each start of the run, for runs that are started on one
// and steps that need a permit of one.
func Queues(queues map[string]stet.QueueSettings) CrashOption {
	return crashOption(func(c *crash) { c.queues = queues })
}

// Checking calls check after each run has ended, to look at more than its result, such
// as the items of a stream. An error fails the test.
func Checking(check func(ctx context.Context, e *stet.Engine, runID string) error) CrashOption {
	return crashOption(func(c *crash) { c.check = check })
}

// crashRunID is the ID of the run under test.
const crashRunID = "crash"

// maxCommits bounds the commits of a workflow that CrashEverywhere takes.
const maxCommits = 10_000

// outcome is how a run has ended.
type outcome struct {
	info     *stet.RunInfo
	reached  bool     // the fault has happened
	again    []string // steps that were executed after their success was durable
	history  string
	problems []string
}

// CrashEverywhere runs a workflow once undisturbed, and then once for each of its commits
// and each way in which a process can die there: before the commit, after it, and after
// it without the answer. Another process recovers the run. It also runs the workflow once
// undisturbed with every suspension followed by a replay.
//
// The test fails if
//   - a run ends in another way, or with another result, than undisturbed;
//   - a step is executed again after its success was durable;
//   - a step's body ignores the end of its context.
//
// Each run has a bubble of testing/synctest and virtual time, as in Run. The effects of
// the workflow's steps on the outside, and those of Driving, must be repeatable. The
// result must not depend on when a process dies: a workflow that returns the time or the
// number of attempts is not for this test.
//
// CrashEverywhere returns the result of the undisturbed run, or its error, as Run.Wait
// does.
func CrashEverywhere[In, Out any](t *testing.T, w *stet.Workflow[In, Out], in In, opts ...CrashOption) (Out, error) {
	t.Helper()
	c := crash{
		faults: []Fault{DieBefore, DieAfter, DieUnheard},
		open: func(testing.TB) func() store.Store {
			first := memory.New()
			return func() store.Store { return first.Join() }
		},
	}
	for _, opt := range opts {
		opt.applyCrash(&c)
	}
	if c.cfg.Store != nil {
		t.Fatal("CrashEverywhere: expected a Config without a Store, found one: use On")
	}
	if !slices.ContainsFunc(c.cfg.Workflows, func(d stet.Definition) bool { return d.Name() == w.Name() }) {
		c.cfg.Workflows = append(slices.Clone(c.cfg.Workflows), w)
	}
	var out Out
	var outErr error
	once := func(cfg stet.Config, at int64, fault Fault, first bool) (got outcome) {
		synctest.Test(t, func(t *testing.T) {
			got = c.once(t, cfg, at, fault, func(ctx context.Context, e *stet.Engine) error {
				_, err := w.Start(ctx, e, in, append(slices.Clone(c.start), stet.ID(crashRunID))...)
				return err
			}, func(ctx context.Context, e *stet.Engine) {
				if first {
					out, outErr = w.Handle(e, crashRunID).Wait(ctx)
				}
			})
		})
		return got
	}
	calm := once(c.cfg, 0, 0, true)
	if calm.info.Status == store.Stalled {
		calm.problems = append(calm.problems, "the run has stalled: "+calm.info.Reason)
	}
	if !compare(t, "without a disturbance", &calm, &calm) {
		return out, outErr
	}
	evicting := c.cfg
	evicting.MaxParkedBytes = stet.None
	got := once(evicting, 0, 0, false)
	ok := compare(t, "with a replay after each suspension", &calm, &got)
	for _, fault := range c.faults {
		for at := int64(1); ok; at++ {
			if at > maxCommits {
				t.Fatalf("the run has more than %d commits; take a smaller input", maxCommits)
			}
			got := once(c.cfg, at, fault, false)
			if !got.reached {
				break
			}
			ok = compare(t, fmt.Sprintf("where %s commit %d", fault, at), &calm, &got)
		}
	}
	return out, outErr
}

// compare fails the test if a run has problems, or has ended in another way than it
// should. It reports whether all is well.
func compare(t *testing.T, where string, want, got *outcome) bool {
	t.Helper()
	problems := got.problems
	if len(got.again) > 0 {
		problems = append(problems, "executed again after their success was durable: "+strings.Join(got.again, ", "))
	}
	if len(problems) == 0 && (got.info.Status != want.info.Status || !sameEnd(want.info, got.info)) {
		text := fmt.Sprintf("the run ends %s; undisturbed it ends %s", endText(got.info), endText(want.info))
		problems = append(problems, text)
	}
	if len(problems) > 0 {
		t.Errorf("%s: %s\nthe history:\n%s", where, strings.Join(problems, "; "), got.history)
	}
	return len(problems) == 0
}

func sameEnd(a, b *stet.RunInfo) bool {
	if a.Status == store.Succeeded {
		return bytes.Equal(a.Output.Bytes(), b.Output.Bytes())
	}
	return endText(a) == endText(b)
}

func endText(info *stet.RunInfo) string {
	switch {
	case info.Status == store.Succeeded && len(info.Output.Bytes()) > 0:
		return fmt.Sprintf("%s with %.500q", info.Status, info.Output.Bytes()[1:])
	case info.Err != nil && info.Status == store.Failed:
		return info.Err.Error()
	}
	return info.Status.String() + " " + info.Reason
}

// once executes the run, with a fault at one commit, in the test's bubble.
//
// A client starts the run and outlives all processes. The first process executes it, and
// after its death a second one does. Meanwhile the client drives the run and waits for
// its end. Then the client looks at the run, the processes are stopped, and their
// goroutines waited for, before the bubble ends.
func (c *crash) once(
	t *testing.T, cfg stet.Config, at int64, fault Fault,
	start func(context.Context, *stet.Engine) error, look func(context.Context, *stet.Engine),
) (got outcome) {
	late := fmt.Errorf("%v of virtual time have passed without an end of the run", Horizon)
	ctx, cancel := context.WithTimeoutCause(t.Context(), Horizon, late)
	defer cancel()
	world := newWorld()
	openStore := c.open(t)
	open := func() store.Store { return world.join(openStore()) }
	client := open()
	again := &repeats{store: client}
	bodies := newBodies(cfg.Around)
	bodies.began = again.began
	cfg.Grace = stet.None // a process that dies waits for nothing
	virtual(&cfg, maxCrashInterval)
	cfg.Around = bodies.around
	var ordered sync.WaitGroup
	ordering, stopOrdering := context.WithCancel(ctx)
	ordered.Go(func() { bodies.order.run(ordering) })
	defer func() {
		stopOrdering()
		ordered.Wait()
		bodies.running.Wait() // for ever, if one ignores the end of its context
	}()

	cfg.Store, cfg.Node = client, "client"
	outside, err := stet.New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if c.ready != nil {
		c.ready(outside)
	}
	if err := c.makeQueues(ctx, cfg, outside, open); err != nil {
		t.Fatal(err)
	}
	if err := start(ctx, outside); err != nil {
		t.Fatal(err)
	}
	first, err := startProcess(cfg, open(), at, fault)
	if err != nil {
		t.Fatal(err)
	}
	lineage := succeed(first, cfg, open)
	ended := make(chan error, 1)
	go func() {
		var err error
		got.info, err = outside.Runs().Wait(ctx, crashRunID)
		ended <- err
	}()
	driving, stopDriving := context.WithCancel(ctx)
	driven := make(chan error, 1)
	go func() {
		if c.drive == nil {
			driven <- nil
			return
		}
		driven <- c.drive(driving, outside, crashRunID)
	}()
	bad := func(format string, args ...any) { got.problems = append(got.problems, fmt.Sprintf(format, args...)) }
	waited := <-ended
	stopDriving()
	if err := <-driven; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, stet.ErrTerminal) {
		bad("driving the run: %v", err)
	}
	if waited != nil {
		bad("the run does not end: %v", waited)
		got.info = new(stet.RunInfo)
	} else {
		look(ctx, outside)
		if c.check != nil {
			if err := c.check(ctx, outside, crashRunID); err != nil {
				bad("checking the run: %v", err)
			}
		}
	}
	if text := bodies.failsEndlessly(); text != "" {
		bad("%s", text)
	}
	got.again, got.history = again.list(), historyText(outside)
	if err := lineage.end(); err != nil {
		bad("%v", err)
	}
	got.reached = at > 0 && first.handle.count.Load() >= at
	return got
}

// makeQueues creates the queues, with a process of its own that has no fault.
func (c *crash) makeQueues(ctx context.Context, cfg stet.Config, outside *stet.Engine, open func() store.Store) error {
	if len(c.queues) == 0 {
		return nil
	}
	p, err := startProcess(cfg, open(), 0, 0)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.queues)) {
		err := outside.Queues().Create(ctx, name, c.queues[name])
		if err == nil {
			err = outside.Queues().Resume(ctx, name, stet.Act{}) // returns when the queue has been made
		}
		if err != nil {
			return errors.Join(err, p.end())
		}
	}
	return p.end()
}

// maxCrashInterval bounds how long a lost hint delays a process, in virtual time.
const maxCrashInterval = 30 * 24 * time.Hour

// process is an engine on a handle of its own that may die.
type process struct {
	engine *stet.Engine
	handle *mortal
	stop   context.CancelFunc
	ended  chan error
}

func startProcess(cfg stet.Config, s store.Store, at int64, fault Fault) (*process, error) {
	p := &process{handle: newMortal(s, at, fault), ended: make(chan error, 1)}
	cfg.Store, cfg.Node = p.handle, fmt.Sprintf("process-%d", time.Now().UnixNano())
	var err error
	if p.engine, err = stet.New(context.Background(), cfg); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.ended <- p.engine.Run(ctx) }()
	return p, nil
}

// lineage is a process and the one that takes over when it dies. The process may die at
// any commit, also after the end of the run under test, such as one of an entity.
type lineage struct {
	over     chan struct{}
	problems chan error // two at most
}

func succeed(first *process, cfg stet.Config, open func() store.Store) *lineage {
	l := &lineage{over: make(chan struct{}), problems: make(chan error, 2)}
	go func() {
		defer close(l.problems)
		last := first
		select {
		case <-first.handle.died:
			if err := first.end(); err != nil && !errors.Is(err, store.ErrClosed) {
				l.problems <- fmt.Errorf("the process that has died: %w", err)
			}
			var err error
			if last, err = startProcess(cfg, open(), 0, 0); err != nil {
				l.problems <- fmt.Errorf("the next process: %w", err)
				return
			}
			<-l.over
		case <-l.over:
		}
		if err := last.end(); err != nil && !last.handle.dead.Load() {
			l.problems <- fmt.Errorf("the engine: %w", err)
		}
	}()
	return l
}

// end ends the process that is alive and returns what went wrong.
func (l *lineage) end() error {
	close(l.over)
	return errors.Join(<-l.problems, <-l.problems)
}

// end stops the process, dead or not, and waits for its goroutines.
func (p *process) end() error {
	p.stop()
	return <-p.ended
}

// repeats finds step bodies that begin although their success is durable.
type repeats struct {
	store store.Store
	mu    sync.Mutex
	found []string
}

func (r *repeats) began(ctx context.Context, step stet.StepInfo) error {
	page, err := r.store.List(ctx, store.Filter{IDs: []string{step.RunID}, Limit: 1})
	if err != nil || len(page.Runs) == 0 {
		return err
	}
	run := &page.Runs[0]
	entries, err := r.store.History(ctx, store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation, Values: true})
	if err != nil {
		return err
	}
	loc, err := location.Parse(step.Location)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(x store.Entry) bool { return done(&x, loc) }) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.found = append(r.found, fmt.Sprintf("%s of run %s", step.Location, step.RunID))
	}
	return nil
}

// done reports whether an entry says that the step at a location has succeeded:
// its own, or that of a loop which has pruned the step's iteration.
func done(x *store.Entry, step location.Loc) bool {
	if x.Loc == string(step) {
		return x.State == store.Done
	}
	if x.Kind != store.KindLoop {
		return false
	}
	loop, err := stored.DecodeLoop(x.Value)
	if err != nil {
		return false // of an iteration
	}
	for l, n := range step.Loops() {
		if string(l) == x.Loc && n < loop.Oldest {
			return true
		}
	}
	return false
}

func (r *repeats) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.found)
}

// historyText returns the history of the run under test, a line for each entry.
func historyText(e *stet.Engine) string {
	entries, err := e.Runs().History(context.Background(), crashRunID, stet.HistoryQuery{})
	if err != nil {
		return err.Error()
	}
	slices.SortStableFunc(entries, func(a, b stet.HistoryEntry) int { return int(a.Number - b.Number) })
	var text strings.Builder
	for i := range entries {
		x := &entries[i]
		fmt.Fprintf(&text, "%4d %-8s %-9s %s\n", x.Number, x.Kind, x.State, x.Location)
	}
	return text.String()
}
