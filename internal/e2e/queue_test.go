package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// Each test of this file shows one promise about queues.

func createQueue(t testing.TB, e *stet.Engine, name string, s stet.QueueSettings) {
	t.Helper()
	if err := e.Queues().Create(testContext(t), name, s); err != nil {
		t.Fatal(err)
	}
}

// untilQueue blocks until the queue stands as wanted.
func untilQueue(t testing.TB, e *stet.Engine, name string, wanted func(*stet.QueueInfo) bool) *stet.QueueInfo {
	t.Helper()
	return until(t, "queue "+name, func(ctx context.Context) (*stet.QueueInfo, error) {
		return e.Queues().Info(ctx, name)
	}, wanted)
}

func stands(held, waiting int) func(*stet.QueueInfo) bool {
	return func(i *stet.QueueInfo) bool { return i.Held == held && i.Waiting == waiting }
}

// log of what bodies do, in their order.
type actLog struct {
	mu   sync.Mutex
	acts []string
	now  int
	most int
}

func (l *actLog) begin(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acts = append(l.acts, name)
	l.now++
	l.most = max(l.most, l.now)
}

func (l *actLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now--
}

func (l *actLog) order() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.acts)
}

// gatedStep is a workflow whose one step logs the input and waits for the gate.
func gatedStep(l *actLog, gate <-chan struct{}, opts ...stet.DefineOption) *stet.Workflow[string, string] {
	return stet.Define("gated", func(ctx stet.Context, in string) (string, error) {
		return stet.Step(ctx, "body", func(c context.Context) (string, error) {
			l.begin(in)
			defer l.end()
			select {
			case <-gate:
				return in, nil
			case <-c.Done():
				return "", c.Err()
			}
		})
	}, opts...)
}

func startOn(t testing.TB, e *stet.Engine, w *stet.Workflow[string, string], input string,
	opts ...stet.StartOption) *stet.Run[string] {
	t.Helper()
	r, err := w.Start(testContext(t), e, input, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestConcurrencyOfAQueueCountsRunsUntilTheirEnd(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			var l actLog
			gate := make(chan struct{})
			w := gatedStep(&l, gate)
			e := serve(t, stet.Config{Store: s.open(t)(), Workflows: []stet.Definition{w}})
			createQueue(t, e, "mail", stet.QueueSettings{Concurrency: 2})
			runs := make([]*stet.Run[string], 5)
			for i := range runs {
				runs[i] = startOn(t, e, w, fmt.Sprint(i), stet.OnQueue{Name: "mail"})
			}
			untilQueue(t, e, "mail", stands(2, 3))
			info, err := runs[4].Info(testContext(t))
			if err != nil || info.Status != store.Queued || info.OnQueue == nil || !info.OnQueue.Waits ||
				info.OnQueue.Name != "mail" {
				t.Errorf("a run that waits for a permit: %+v, %v", info, err)
			}
			close(gate)
			for i, r := range runs {
				if got := outcome(t, r); got != fmt.Sprint(i) {
					t.Errorf("run %d: %q", i, got)
				}
			}
			info2 := untilQueue(t, e, "mail", stands(0, 0))
			if info2.Granted != 5 {
				t.Errorf("%+v", info2)
			}
			if l.most > 2 {
				t.Errorf("%d bodies at once", l.most)
			}
		})
	}
}

func TestPriorityAndOrderOfAQueue(t *testing.T) {
	t.Parallel()
	var l actLog
	gate := make(chan struct{})
	w := gatedStep(&l, gate)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
	first := startOn(t, e, w, "first", stet.OnQueue{Name: "q"})
	untilQueue(t, e, "q", stands(1, 0))
	runs := []*stet.Run[string]{first}
	for i, q := range []stet.OnQueue{
		{Name: "q", Priority: -1}, {Name: "q"}, {Name: "q", Priority: 5}, {Name: "q"}, {Name: "q", Priority: 5},
	} {
		runs = append(runs, startOn(t, e, w, fmt.Sprint(i, " of ", q.Priority), q))
	}
	untilQueue(t, e, "q", stands(1, 5))
	close(gate)
	for _, r := range runs {
		outcome(t, r)
	}
	want := []string{"first", "2 of 5", "4 of 5", "1 of 0", "3 of 0", "0 of -1"}
	if got := l.order(); !slices.Equal(got, want) {
		t.Errorf("they began in the order %q; want %q", got, want)
	}
}

func TestLimitPerKeyAndTurnsOfKeys(t *testing.T) {
	t.Parallel()
	var l actLog
	gate := make(chan struct{})
	w := gatedStep(&l, gate)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	createQueue(t, e, "q", stet.QueueSettings{Concurrency: 3, PerKey: 1})
	var runs []*stet.Run[string]
	for _, in := range []string{"a1", "a2", "a3", "b1", "b2", "c1", "d1"} {
		runs = append(runs, startOn(t, e, w, in, stet.OnQueue{Name: "q", Key: in[:1]}))
	}
	untilQueue(t, e, "q", stands(3, 4))
	if got := l.order(); len(got) > 3 || slices.Contains(got, "a2") || slices.Contains(got, "b2") {
		t.Errorf("began: %q", got)
	}
	if err := e.Queues().Set(testContext(t), "q", stet.QueueSettings{Concurrency: 1}, stet.Act{}); err != nil {
		t.Fatal(err)
	}
	close(gate)
	for _, r := range runs {
		outcome(t, r)
	}
	got := l.order()
	slices.Sort(got[:3])
	// d was never served; then the keys take turns in the order in which they were served.
	if want := []string{"a1", "b1", "c1", "d1", "a2", "b2", "a3"}; !slices.Equal(got, want) {
		t.Errorf("they began in the order %q; want %q", got, want)
	}
}

func TestRateOfAQueue(t *testing.T) {
	t.Parallel()
	var l actLog
	gate := make(chan struct{})
	close(gate)
	w := gatedStep(&l, gate)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	const per = 200 * time.Millisecond
	createQueue(t, e, "q", stet.QueueSettings{Rate: 2, Per: per})
	var starts []time.Time
	var runs []*stet.Run[string]
	for i := range 5 {
		runs = append(runs, startOn(t, e, w, fmt.Sprint(i), stet.OnQueue{Name: "q"}))
	}
	for _, r := range runs {
		outcome(t, r)
		info, err := r.Info(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		starts = append(starts, info.Started)
	}
	for i := 2; i < len(starts); i++ {
		// A run begins some time after its permit, the first ones perhaps later.
		if d := starts[i].Sub(starts[i-2]); d < per/2 {
			t.Errorf("run %d began %s after the one before the last", i, d)
		}
	}
	if d := starts[4].Sub(starts[0]); d < 3*per/2 {
		t.Errorf("the fifth run began %s after the first one", d)
	}
}

func TestWaitingRunIsCancelledAndTerminated(t *testing.T) {
	t.Parallel()
	var l actLog
	gate := make(chan struct{})
	w := gatedStep(&l, gate)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
	first := startOn(t, e, w, "first", stet.OnQueue{Name: "q"})
	cancelled := startOn(t, e, w, "cancelled", stet.OnQueue{Name: "q"})
	terminated := startOn(t, e, w, "terminated", stet.OnQueue{Name: "q"})
	last := startOn(t, e, w, "last", stet.OnQueue{Name: "q"})
	untilQueue(t, e, "q", stands(1, 3))
	if ok, err := cancelled.Cancel(ctx, stet.Act{}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if ok, err := e.Runs().Terminate(ctx, terminated.ID(), stet.Act{}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	untilQueue(t, e, "q", stands(1, 1))
	for _, r := range []*stet.Run[string]{cancelled, terminated} {
		if info, err := r.Info(ctx); err != nil || info.Status != store.Cancelled {
			t.Errorf("%+v, %v", info, err)
		}
	}
	close(gate)
	outcome(t, first)
	outcome(t, last)
	untilQueue(t, e, "q", stands(0, 0))
	if got := l.order(); !slices.Equal(got, []string{"first", "last"}) {
		t.Errorf("began: %q", got)
	}
}

func TestPausedQueueGrantsNothing(t *testing.T) {
	t.Parallel()
	var l actLog
	gate := make(chan struct{})
	close(gate)
	w := gatedStep(&l, gate, stet.OnQueue{Name: "q"}) // an annotation of the definition
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	if _, err := w.Start(ctx, e, "none"); !errors.Is(err, stet.ErrNoQueue) {
		t.Errorf("a start on a queue that does not exist: %v", err)
	}
	createQueue(t, e, "q", stet.QueueSettings{})
	if err := e.Queues().Pause(ctx, "q", stet.Act{}); err != nil {
		t.Fatal(err)
	}
	r := startOn(t, e, w, "r")
	if info := untilQueue(t, e, "q", stands(0, 1)); !info.Paused {
		t.Errorf("%+v", info)
	}
	if got := outcome(t, startOn(t, e, w, "beside", stet.OnQueue{})); got != "beside" {
		t.Error(got)
	}
	if err := e.Queues().Delete(ctx, "q", stet.Act{}); !errors.Is(err, stet.ErrRefused) ||
		!strings.Contains(err.Error(), "1 wait in it") {
		t.Errorf("deleting a queue in which a run waits: %v", err)
	}
	if err := e.Queues().Resume(ctx, "q", stet.Act{}); err != nil {
		t.Fatal(err)
	}
	outcome(t, r)
	untilQueue(t, e, "q", stands(0, 0))
	if err := e.Queues().Create(ctx, "q", stet.QueueSettings{}); err != nil {
		t.Errorf("creating it as it is: %v", err)
	}
	if err := e.Queues().Create(ctx, "q", stet.QueueSettings{Group: "other"}); !errors.Is(err, stet.ErrRefused) {
		t.Errorf("creating it in another group: %v", err)
	}
	queues, err := e.Queues().List(ctx)
	if err != nil || len(queues) != 1 || queues[0].Name != "q" || queues[0].Granted != 1 {
		t.Errorf("%+v, %v", queues, err)
	}
	if err := e.Queues().Delete(ctx, "q", stet.Act{}); err != nil {
		t.Fatal(err)
	}
	if queues, err := e.Queues().List(ctx); err != nil || len(queues) != 0 {
		t.Errorf("%+v, %v", queues, err)
	}
	for what, verb := range map[string]func(context.Context, string, stet.Act) error{"pause": e.Queues().Pause,
		"resume": e.Queues().Resume, "delete": e.Queues().Delete} {
		if err := verb(ctx, "q", stet.Act{}); !errors.Is(err, stet.ErrNoQueue) {
			t.Errorf("%s a queue that does not exist: %v", what, err)
		}
	}
}

func TestDelayedRunOnAQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, delayedRunOnAQueue)
}

func delayedRunOnAQueue(t *testing.T) {
	var l actLog
	gate := make(chan struct{})
	close(gate)
	w := gatedStep(&l, gate)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
	begun := time.Now()
	late := startOn(t, e, w, "late", stet.OnQueue{Name: "q"}, stet.StartAfter(300*time.Millisecond))
	untilQueue(t, e, "q", func(i *stet.QueueInfo) bool { return i.Delayed == 1 && i.Held == 0 })
	outcome(t, startOn(t, e, w, "now", stet.OnQueue{Name: "q"}))
	outcome(t, late)
	if d := time.Since(begun); d < 300*time.Millisecond {
		t.Errorf("the delayed run has ended after %s", d)
	}
}

func TestChildrenOnAQueue(t *testing.T) {
	t.Parallel()
	var l actLog
	gate := make(chan struct{})
	child := gatedStep(&l, gate)
	parent := stet.Define("parent", func(ctx stet.Context, _ string) (string, error) {
		var others []*stet.RunFuture[string]
		for _, in := range []string{"a", "b", "c"} {
			o, err := child.Go(ctx, in, stet.Key(in), stet.OnQueue{Name: "q"})
			if err != nil {
				return "", err
			}
			others = append(others, o)
		}
		var all []string
		for i, o := range others {
			got, err := o.Await(ctx, stet.Named(fmt.Sprint("await-", i)))
			if err != nil {
				return "", err
			}
			all = append(all, got)
		}
		last, err := child.Call(ctx, "d", stet.Named("early"), stet.OnQueue{Name: "early"})
		return strings.Join(append(all, last), " "), err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{parent, child}})
	createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
	r := startOn(t, e, parent, "")
	untilQueue(t, e, "q", stands(1, 2))
	close(gate)
	for { // the last child waits for a queue that does not exist
		counts, err := e.Runs().Count(testContext(t), store.Filter{Statuses: []store.Status{store.Queued}})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := r.Info(testContext(t)); err != nil || info.Status.Terminal() {
			t.Fatalf("%+v, %v", info, err)
		}
		if len(counts) == 1 && len(l.order()) == 3 {
			break
		}
		ok(t, takes(testContext(t), time.Millisecond))
	}
	createQueue(t, e, "early", stet.QueueSettings{Concurrency: 1})
	if got := outcome(t, r); got != "a b c d" {
		t.Errorf("the result is %q", got)
	}
	if got := l.order(); !slices.Equal(got, []string{"a", "b", "c", "d"}) || l.most != 1 {
		t.Errorf("began: %q, %d at once", got, l.most)
	}
}

func TestEndedRunThatGoesOnAsksAgain(t *testing.T) {
	t.Parallel()
	var l actLog
	gate := make(chan struct{})
	fail := true
	w := stet.Define("w", func(ctx stet.Context, in string) (string, error) {
		return stet.Step(ctx, "body", func(context.Context) (string, error) {
			l.begin(in)
			defer l.end()
			if in == "fails" && fail {
				return "", stet.Permanent(errors.New("no"))
			}
			<-gate
			return in, nil
		})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
	r := startOn(t, e, w, "fails", stet.OnQueue{Name: "q"})
	if _, err := r.Wait(ctx); err == nil {
		t.Fatal("it has not failed")
	}
	first := startOn(t, e, w, "first", stet.OnQueue{Name: "q"})
	untilQueue(t, e, "q", stands(1, 0))
	fail = false
	if ok, err := e.Runs().Retry(ctx, r.ID(), stet.Act{Why: "fixed"}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	untilQueue(t, e, "q", stands(1, 1))
	if info, err := r.Info(ctx); err != nil || info.Status.Terminal() || !info.OnQueue.Waits {
		t.Errorf("%+v, %v", info, err)
	}
	close(gate)
	outcome(t, first)
	if got := outcome(t, r); got != "fails" {
		t.Error(got)
	}
	untilQueue(t, e, "q", stands(0, 0))
	if l.most != 1 {
		t.Errorf("%d bodies at once", l.most)
	}
}

func TestReleaseWhileSuspended(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, in string) (string, error) { return word.Receive(ctx) })
	for _, release := range []bool{true, false} {
		for _, parked := range []int{stet.None, 0} {
			e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: parked})
			ctx := testContext(t)
			createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1, ReleaseWhileSuspended: release})
			var runs []*stet.Run[string]
			for i := range 3 {
				runs = append(runs, startOn(t, e, w, fmt.Sprint(i), stet.OnQueue{Name: "q"}))
			}
			if !release {
				untilQueue(t, e, "q", stands(1, 2)) // and stays so
			} else {
				untilQueue(t, e, "q", func(i *stet.QueueInfo) bool { return i.Held == 0 && i.Waiting == 0 && i.Granted == 3 })
			}
			for _, r := range runs {
				if err := word.Send(ctx, e, r.ID(), "hello "+r.ID()); err != nil {
					t.Fatal(err)
				}
				if got := outcome(t, r); got != "hello "+r.ID() {
					t.Error(got)
				}
			}
			info := untilQueue(t, e, "q", stands(0, 0))
			if want := map[bool]int64{true: 6, false: 3}[release]; info.Granted != want {
				t.Errorf("release %t: %+v; want %d granted", release, info, want)
			}
		}
	}
}

// TestQueueIsExactAcrossNodes: three nodes share the shards; the limit counts the runs
// of all of them, and each executes some.
func TestQueueIsExactAcrossNodes(t *testing.T) {
	t.Parallel()
	const limit, runs = 4, 60
	first := memory.New(memory.Slots(16))
	logs := make([]actLog, 3)
	var all actLog // of the three together
	var engines []*stet.Engine
	var w *stet.Workflow[string, string]
	for i := range logs {
		w = stet.Define("w", func(ctx stet.Context, in string) (string, error) {
			return in, stet.Do(ctx, "body", func(c context.Context) error {
				all.begin(in)
				defer all.end()
				logs[i].begin(in)
				defer logs[i].end()
				return takes(c, 2*time.Millisecond)
			})
		}, stet.OnQueue{Name: "q"})
		s := &auditor{Store: first.Join(), t: t, queue: "q", limit: limit}
		engines = append(engines, serve(t, stet.Config{Store: s, Workflows: []stet.Definition{w}, Node: fmt.Sprint("n", i),
			Poll: 5 * time.Millisecond}))
	}
	spreadRuns(t, first, engines, w, limit, runs)
	if all.most > limit || len(all.order()) != runs {
		t.Errorf("%d bodies at once, %d in all", all.most, len(all.order()))
	}
	for i := range logs {
		if len(logs[i].order()) == 0 {
			t.Errorf("node %d has executed no run of the queue", i)
		}
	}
}

// spreadRuns has runs of a workflow that is limited by the queue q started by several
// nodes, and waits for their ends.
func spreadRuns(t *testing.T, s store.Store, engines []*stet.Engine, w *stet.Workflow[string, string], limit,
	runs int) {
	t.Helper()
	createQueue(t, engines[0], "q", stet.QueueSettings{Concurrency: limit})
	untilShared(t, s, len(engines))
	var list []*stet.Run[string]
	for i := range runs {
		list = append(list, startOn(t, engines[i%len(engines)], w, fmt.Sprint(i)))
	}
	for i, r := range list {
		if got := outcome(t, r); got != fmt.Sprint(i) {
			t.Errorf("run %d: %q", i, got)
		}
	}
	untilQueue(t, engines[1], "q", stands(0, 0))
}

// untilShared blocks until so many nodes hold leases.
func untilShared(t testing.TB, s store.Store, nodes int) {
	t.Helper()
	until(t, "holders of leases", func(ctx context.Context) (map[string]bool, error) {
		d, err := s.Describe(ctx)
		if err != nil {
			return nil, err
		}
		holders := map[string]bool{}
		for _, l := range d.Leases {
			if l.Shard.Group == store.DefaultGroup {
				holders[l.Node] = true
			}
		}
		return holders, nil
	}, func(holders map[string]bool) bool { return len(holders) == nodes })
}

// TestALonelyJobDoesNotWaitForThePoll starts one run on a queue that has nothing else to do, by a process that also
// executes. It begins at once, on stores with lines, and on one without, where it asks its queue.
func TestALonelyJobDoesNotWaitForThePoll(t *testing.T) {
	t.Parallel()
	for _, lines := range []bool{true, false} {
		forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, g *gated, _ store.Store) {
			g.deaf.Store(true) // the store tells nobody of what is new
			if !lines {
				cfg.Store = withoutLines{g}
			}
			w := stet.Define("job", func(stet.Context, int) (string, error) { return "done", nil })
			cfg.Workflows = []stet.Definition{w}
			e := serve(t, cfg)
			if err := e.Queues().Create(t.Context(), "q", stet.QueueSettings{Concurrency: 100}); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				time.Sleep(10 * time.Second) // the queue rests
				begun := time.Now()
				r, err := w.Start(t.Context(), e, 0, stet.OnQueue{Name: "q"})
				if err != nil {
					t.Fatal(err)
				}
				if got, err := r.Wait(t.Context()); err != nil || got != "done" {
					t.Fatalf("got %q, %v", got, err)
				}
				if took := time.Since(begun); took > time.Second {
					t.Errorf("lines %t: the run took %s; want it at once, with a poll of %s", lines, took, cfg.Poll)
				}
			}
		})
	}
}

// withoutLines is a store in which no run waits in a line.
type withoutLines struct{ *gated }

func (s withoutLines) Describe(ctx context.Context) (store.Description, error) {
	d, err := s.gated.Describe(ctx)
	d.Lines = false
	return d, err
}
