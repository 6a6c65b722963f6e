package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// Each test of this file shows one promise about steps that use a queue.

// gatedUse is a workflow whose one step uses a queue, logs the input and waits for the
// gate.
func gatedUse(l *actLog, gate <-chan struct{}, opts ...stet.StepOption) *stet.Workflow[string, string] {
	return stet.Define("gated-use", func(ctx stet.Context, in string) (string, error) {
		return stet.Step(ctx, "body", func(c context.Context) (string, error) {
			l.begin(in)
			defer l.end()
			select {
			case <-gate:
				return in, nil
			case <-c.Done():
				return "", c.Err()
			}
		}, opts...)
	})
}

func TestStepsThatUseAQueueShareItsLimit(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			var l actLog
			gate := make(chan struct{})
			w := gatedUse(&l, gate, stet.OnStepQueue("model"))
			e := serve(t, stet.Config{Store: s.open(t)(), Workflows: []stet.Definition{w}})
			createQueue(t, e, "model", stet.QueueSettings{Concurrency: 2})
			runs := make([]*stet.Run[string], 5)
			for i := range runs {
				runs[i] = startOn(t, e, w, fmt.Sprint(i))
			}
			untilQueue(t, e, "model", stands(2, 3))
			for len(l.order()) < 2 {
				if err := takes(testContext(t), time.Millisecond); err != nil {
					t.Fatal(err)
				}
			}
			for i, r := range runs { // which two are first is not promised
				if !slices.Contains(l.order(), fmt.Sprint(i)) {
					untilWaitsFor(t, e, r.ID(), "model")
				}
			}
			close(gate)
			for i, r := range runs {
				if got := outcome(t, r); got != fmt.Sprint(i) {
					t.Errorf("run %d: %q", i, got)
				}
			}
			if info := untilQueue(t, e, "model", stands(0, 0)); info.Granted != 5 {
				t.Errorf("%+v", info)
			}
			if l.most > 2 {
				t.Errorf("%d bodies at once", l.most)
			}
		})
	}
}

// untilWaitsFor blocks until a run is suspended and says that it waits for a permit.
func untilWaitsFor(t testing.TB, e *stet.Engine, id, queue string) {
	t.Helper()
	untilRun(t, e, id, func(info *stet.RunInfo) bool {
		if info.Status.Terminal() {
			t.Fatalf("a run that should wait for a permit: %+v", info)
		}
		waits := func(w stet.WaitInfo) bool { return w.Queue == queue && w.Kind == "step" && w.Location == "body" }
		return info.Status == store.Suspended && slices.ContainsFunc(info.WaitsFor, waits)
	})
}

// TestEachAttemptHasAPermitOfItsOwn: attempts that fail give theirs back, and the next
// one waits like any other.
func TestEachAttemptHasAPermitOfItsOwn(t *testing.T) {
	t.Parallel()
	var l actLog
	var attempts atomic.Int32
	w := stet.Define("w", func(ctx stet.Context, in string) (string, error) {
		return stet.Step(ctx, "body", func(c context.Context) (string, error) {
			l.begin(in)
			defer l.end()
			if attempts.Add(1); stet.Attempt(c) < 3 {
				return "", errors.New("not yet")
			}
			return in, nil
		}, stet.OnStepQueue("q"), stet.Retry{First: stet.None})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
	var runs []*stet.Run[string]
	for i := range 3 {
		runs = append(runs, startOn(t, e, w, fmt.Sprint(i)))
	}
	for i, r := range runs {
		if got := outcome(t, r); got != fmt.Sprint(i) {
			t.Error(got)
		}
	}
	if info := untilQueue(t, e, "q", stands(0, 0)); info.Granted != 9 || attempts.Load() != 9 || l.most != 1 {
		t.Errorf("%+v; %d attempts, %d at once", info, attempts.Load(), l.most)
	}
}

// TestRateOfSteps: the permits of a rate come at its pace, retries included.
func TestRateOfSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, rateOfSteps)
}

func rateOfSteps(t *testing.T) {
	const per = 100 * time.Millisecond
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		return "", stet.Do(ctx, "body", func(c context.Context) error {
			if stet.Attempt(c) < 4 {
				return errors.New("again")
			}
			return nil
		}, stet.OnStepQueue("q"), stet.Retry{First: stet.None})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	createQueue(t, e, "q", stet.QueueSettings{Rate: 1, Per: per})
	begun := time.Now()
	outcome(t, startOn(t, e, w, ""))
	if d := time.Since(begun); d < 3*per {
		t.Errorf("four attempts took %s, at one in %s", d, per)
	}
}

func TestPriorityAndKeysOfSteps(t *testing.T) {
	t.Parallel()
	var l actLog
	gate := make(chan struct{})
	w := stet.Define("w", func(ctx stet.Context, in string) (string, error) {
		key, rest, _ := strings.Cut(in, "/")
		priority := 0
		if rest == "urgent" {
			priority = 5
		}
		return stet.Step(ctx, "body", func(context.Context) (string, error) {
			l.begin(in)
			defer l.end()
			<-gate
			return in, nil
		}, stet.Permit{Queue: "q", Key: key, Priority: priority})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
	var runs []*stet.Run[string]
	for i, in := range []string{"a/1", "a/2", "a/3", "b/1", "b/urgent"} {
		runs = append(runs, startOn(t, e, w, in))
		untilQueue(t, e, "q", func(info *stet.QueueInfo) bool { return info.Held+info.Waiting == i+1 })
	}
	close(gate)
	for _, r := range runs {
		outcome(t, r)
	}
	if got, want := l.order(), []string{"a/1", "b/urgent", "a/2", "b/1", "a/3"}; !slices.Equal(got, want) {
		t.Errorf("they began in the order %q; want %q", got, want)
	}
}

// TestStepWaitsForAQueueThatDoesNotExist: until it is created. The log says so once a
// minute.
func TestStepWaitsForAQueueThatDoesNotExist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l actLog
		var log lockedBuffer
		gate := make(chan struct{})
		close(gate)
		w := gatedUse(&l, gate, stet.OnStepQueue("early"))
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r := startOn(t, e, w, "in")
		untilWaitsFor(t, e, r.ID(), "early")
		time.Sleep(5*time.Minute + time.Second)
		if n := strings.Count(log.String(), "a queue does not exist, and runs or steps wait for it"); n != 6 {
			t.Errorf("in 5 minutes it is said %d times:\n%s", n, &log)
		}
		if _, err := e.Queues().Info(testContext(t), "early"); !errors.Is(err, stet.ErrNoQueue) {
			t.Errorf("the queue stands: %v", err)
		}
		createQueue(t, e, "early", stet.QueueSettings{Concurrency: 1})
		if got := outcome(t, r); got != "in" {
			t.Errorf("the result is %q", got)
		}
	})
}

// TestChildWaitsForAQueueThatDoesNotExist: it is queued there, its parent waits for it, the log says
// so once a minute, and it begins when the queue is made.
func TestChildWaitsForAQueueThatDoesNotExist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		child := stet.Define("child", func(_ stet.Context, in string) (string, error) { return in, nil })
		w := stet.Define("parent", func(ctx stet.Context, in string) (string, error) {
			return child.Call(ctx, in, stet.OnQueue{Name: "early"})
		})
		e := serve(t, stet.Config{Workflows: []stet.Definition{w, child}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r := startOn(t, e, w, "in")
		time.Sleep(5*time.Minute + time.Second)
		info, err := r.Info(testContext(t))
		if err != nil || len(info.WaitsFor) != 1 || info.WaitsFor[0].Kind != "child" {
			t.Fatalf("the parent waits for %+v, %v", info, err)
		}
		of, err := e.Runs().Info(testContext(t), info.WaitsFor[0].Run)
		if err != nil || of.Status != store.Queued || of.OnQueue == nil || of.OnQueue.Name != "early" {
			t.Errorf("the child is %+v, %v", of, err)
		}
		if n := strings.Count(log.String(), "a queue does not exist, and runs or steps wait for it"); n != 6 {
			t.Errorf("in 5 minutes it is said %d times:\n%s", n, &log)
		}
		createQueue(t, e, "early", stet.QueueSettings{Concurrency: 1})
		if got := outcome(t, r); got != "in" {
			t.Errorf("the result is %q", got)
		}
	})
}

// TestInvalidPermits are errors of the step.
func TestInvalidPermits(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		for _, bad := range []stet.Permit{{}, {Queue: strings.Repeat("x", 65)}, {Queue: "q", Key: strings.Repeat("x", 201)},
			{Queue: "q", Priority: 1001}} {
			if err := stet.Do(ctx, "bad", func(context.Context) error { return nil }, bad); !errors.Is(err, stet.ErrInvalid) {
				return "", fmt.Errorf("%+v: %w", bad, err)
			}
		}
		return "", nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	outcome(t, startOn(t, e, w, ""))
}

// TestStepThatWaitsIsCancelled: its run ends at once, and what it has asked for is
// taken back; so is what a terminated one holds.
func TestStepThatWaitsIsCancelled(t *testing.T) {
	t.Parallel()
	for _, parked := range []int{stet.None, 0} {
		var l actLog
		gate := make(chan struct{})
		w := gatedUse(&l, gate, stet.OnStepQueue("q"))
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: parked})
		ctx := testContext(t)
		createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
		first := startOn(t, e, w, "first")
		untilQueue(t, e, "q", stands(1, 0))
		cancelled, terminated, last := startOn(t, e, w, "cancelled"), startOn(t, e, w, "terminated"), startOn(t, e, w, "last")
		untilQueue(t, e, "q", stands(1, 3))
		for _, r := range []*stet.Run[string]{cancelled, terminated, last} {
			untilWaitsFor(t, e, r.ID(), "q")
		}
		if ok, err := cancelled.Cancel(ctx, stet.Act{}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if ok, err := e.Runs().Terminate(ctx, terminated.ID(), stet.Act{}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		untilQueue(t, e, "q", stands(1, 1))
		if ok, err := e.Runs().Terminate(ctx, first.ID(), stet.Act{}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		untilQueue(t, e, "q", stands(1, 0))
		close(gate)
		outcome(t, last)
		untilQueue(t, e, "q", stands(0, 0))
		if got := l.order(); slices.Contains(got, "cancelled") || slices.Contains(got, "terminated") {
			t.Errorf("began: %q", got)
		}
	}
}

// TestOverallTimeCountsTheWaitForAPermit: the step fails then, and takes back what it
// has asked for.
func TestOverallTimeCountsTheWaitForAPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, overallTimeCountsTheWaitForAPermit)
}

func overallTimeCountsTheWaitForAPermit(t *testing.T) {
	for _, overall := range []time.Duration{50 * time.Millisecond,
		1100 * time.Millisecond} { // the run stays; it is suspended
		var l actLog
		gate := make(chan struct{})
		held := gatedUse(&l, gate, stet.OnStepQueue("q"))
		w := stet.Define("late", func(ctx stet.Context, in string) (string, error) {
			return in, stet.Do(ctx, "body", func(context.Context) error {
				l.begin(in)
				return nil
			}, stet.OnStepQueue("q"), stet.Retry{Overall: overall})
		})
		e := serve(t, stet.Config{Workflows: []stet.Definition{held, w}, MaxParkedBytes: stet.None})
		createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
		first := startOn(t, e, held, "first")
		untilQueue(t, e, "q", stands(1, 0))
		begun := time.Now()
		if _, err := startOn(t, e, w, "late").Wait(testContext(t)); !errors.Is(err, stet.ErrTimeout) ||
			!strings.Contains(err.Error(), `queue "q"`) || time.Since(begun) < overall {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		untilQueue(t, e, "q", stands(1, 0))
		close(gate)
		outcome(t, first)
		if got := l.order(); !slices.Equal(got, []string{"first"}) {
			t.Errorf("began: %q", got)
		}
	}
}

// TestVerbsOnARunWhoseStepWaits: a rewind withdraws the ask for a permit, an edit too, and a fork asks for its own.
func TestVerbsOnARunWhoseStepWaits(t *testing.T) {
	t.Parallel()
	var l actLog
	gate := make(chan struct{})
	w := gatedUse(&l, gate, stet.OnStepQueue("q"))
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
	first := startOn(t, e, w, "first")
	untilQueue(t, e, "q", stands(1, 0))
	rewound, edited := startOn(t, e, w, "rewound"), startOn(t, e, w, "edited")
	for _, r := range []*stet.Run[string]{rewound, edited} {
		untilWaitsFor(t, e, r.ID(), "q")
		if ok, err := e.Runs().Pause(ctx, r.ID(), stet.Act{}); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	untilQueue(t, e, "q", stands(1, 2))
	if ok, err := e.Runs().EditResult(ctx, edited.ID(), "body", "another", stet.Act{}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	untilQueue(t, e, "q", stands(1, 1))
	if ok, err := e.Runs().Rewind(ctx, rewound.ID(), "body", stet.Act{}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	untilQueue(t, e, "q", stands(1, 0))
	fork, err := e.Runs().Fork(ctx, rewound.ID(), "/", stet.Act{})
	if err != nil {
		t.Fatal(err)
	}
	untilQueue(t, e, "q", stands(1, 1))
	if ok, err := e.Runs().Resume(ctx, edited.ID(), stet.Act{}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got := outcome(t, edited); got != "another" {
		t.Error(got)
	}
	if ok, err := e.Runs().Resume(ctx, rewound.ID(), stet.Act{}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	untilQueue(t, e, "q", stands(1, 2))
	close(gate)
	outcome(t, first)
	outcome(t, rewound)
	if got := outcome(t, w.Handle(e, fork)); got != "rewound" {
		t.Error(got)
	}
	untilQueue(t, e, "q", stands(0, 0))
}

// TestRunAndStepOnOneQueue: a permit is a permit; and a run that holds none while it
// is suspended gets the grant of its step all the same.
func TestRunAndStepOnOneQueue(t *testing.T) {
	t.Parallel()
	for _, parked := range []int{stet.None, 0} {
		var l actLog
		gate := make(chan struct{})
		w := gatedUse(&l, gate, stet.OnStepQueue("steps"))
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: parked})
		createQueue(t, e, "runs", stet.QueueSettings{Concurrency: 2, ReleaseWhileSuspended: true})
		createQueue(t, e, "steps", stet.QueueSettings{Concurrency: 1})
		var runs []*stet.Run[string]
		for i := range 5 {
			runs = append(runs, startOn(t, e, w, fmt.Sprint(i), stet.OnQueue{Name: "runs"}))
		}
		untilQueue(t, e, "steps", stands(1, 4)) // though only two execute at a time
		close(gate)
		for i, r := range runs {
			if got := outcome(t, r); got != fmt.Sprint(i) {
				t.Error(got)
			}
		}
		untilQueue(t, e, "steps", stands(0, 0))
		untilQueue(t, e, "runs", stands(0, 0))
		if l.most != 1 {
			t.Errorf("%d bodies at once", l.most)
		}
	}
}

// TestStepLimitIsExactAcrossNodes: three nodes share the shards; the limit counts the
// bodies of all of them.
func TestStepLimitIsExactAcrossNodes(t *testing.T) {
	t.Parallel()
	const limit, runs = 3, 30
	first := memory.New(memory.Slots(16))
	var all actLog
	var engines []*stet.Engine
	var w *stet.Workflow[string, string]
	for i := range 3 {
		w = stet.Define("w", func(ctx stet.Context, in string) (string, error) {
			for n := range 2 {
				if err := stet.Do(ctx, fmt.Sprint("body-", n), func(c context.Context) error {
					all.begin(in)
					defer all.end()
					return takes(c, 2*time.Millisecond)
				}, stet.OnStepQueue("q")); err != nil {
					return "", err
				}
			}
			return in, nil
		})
		s := &auditor{Store: first.Join(), t: t, queue: "q", limit: limit}
		engines = append(engines, serve(t, stet.Config{Store: s, Workflows: []stet.Definition{w}, Node: fmt.Sprint("n", i),
			Poll: 5 * time.Millisecond}))
	}
	spreadRuns(t, first, engines, w, limit, runs)
	if all.most > limit || len(all.order()) != 2*runs {
		t.Errorf("%d bodies at once, %d in all", all.most, len(all.order()))
	}
}
