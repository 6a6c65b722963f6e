package e2e_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// Each test of this file shows one promise about the settings of queues.

// declaring returns an engine of a build, which does not execute.
func declaring(t *testing.T, s store.Store, build string, log *bytes.Buffer, w ...stet.Definition) *stet.Engine {
	t.Helper()
	e, err := stet.New(t.Context(), stet.Config{Store: s, Node: "node " + build, Build: build, Workflows: w,
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	ok(t, err)
	return e
}

// TestQueueIsCreatedBeforeRun: Create returns when the queue is durable, though no engine
// executes. Starts can be put on it, by another process too.
func TestQueueIsCreatedBeforeRun(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			var l actLog
			var log bytes.Buffer
			gate := make(chan struct{})
			close(gate)
			w := gatedStep(&l, gate, stet.OnQueue{Name: "q"})
			open := s.open(t)
			e := declaring(t, open(), "v1", &log, w)
			for range 3 {
				createQueue(t, e, "q", stet.QueueSettings{Concurrency: 2})
			}
			if info, err := e.Queues().Info(testContext(t), "q"); err != nil || info.Settings.Concurrency != 2 {
				t.Fatalf("it stands as %+v, %v", info, err)
			}
			if list, err := e.Queues().List(testContext(t)); err != nil || len(list) != 1 || list[0].Name != "q" {
				t.Fatalf("the queues are %+v, %v", list, err)
			}
			other := declaring(t, open(), "v1", &log, w)
			r := startOn(t, other, w, "in")
			serve(t, stet.Config{Store: open(), Workflows: []stet.Definition{w}})
			if got := outcome(t, r); got != "in" {
				t.Errorf("the result is %q", got)
			}
			untilQueue(t, e, "q", stands(0, 0))
		})
	}
}

// TestSettingsOfTwoBuilds: the last declaration counts. What a person sets counts in its
// place, over restarts and deploys, until it is reset.
func TestSettingsOfTwoBuilds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := testContext(t)
		var log bytes.Buffer
		first := memory.New()
		v1, v2 := declaring(t, first.Join(), "v1", &log), declaring(t, first.Join(), "v2", &log)
		expect := func(limit, declared int, build, by string) {
			t.Helper()
			synctest.Wait()
			info, err := v1.Queues().Info(ctx, "q")
			ok(t, err)
			if info.Settings.Concurrency != limit || info.Declared.Concurrency != declared || info.Source.Build != build ||
				info.Source.By != "node "+build || (info.Override != nil) != (by != "") {
				t.Errorf("it stands as %+v", info)
			}
			if o := info.Override; o != nil && (o.By != by || o.Why != "too many" || o.At.IsZero()) {
				t.Errorf("it is overridden by %+v", o)
			}
		}
		serve(t, stet.Config{Store: first})
		createQueue(t, v1, "q", stet.QueueSettings{Concurrency: 5})
		expect(5, 5, "v1", "")
		createQueue(t, v2, "q", stet.QueueSettings{Concurrency: 9})
		expect(9, 9, "v2", "")
		createQueue(t, v1, "q", stet.QueueSettings{Concurrency: 5}) // rolled back
		expect(5, 5, "v1", "")
		if !strings.Contains(log.String(), "a queue is declared with other settings") {
			t.Errorf("the log does not say that a deploy has changed it:\n%s", &log)
		}
		ok(t, v1.Queues().Set(ctx, "q", stet.QueueSettings{Concurrency: 1}, stet.Act{By: "ada", Why: "too many"}))
		expect(1, 5, "v1", "ada")
		log.Reset()
		createQueue(t, v1, "q", stet.QueueSettings{Concurrency: 5}) // it restarts
		expect(1, 5, "v1", "ada")
		createQueue(t, v2, "q", stet.QueueSettings{Concurrency: 9})
		expect(1, 9, "v2", "ada")
		if n := strings.Count(log.String(), "by=ada"); n != 2 {
			t.Errorf("the log says %d times that what is declared does not count:\n%s", n, &log)
		}
		ok(t, v1.Queues().Reset(ctx, "q", stet.Act{}))
		expect(9, 9, "v2", "")
		ok(t, v1.Queues().Reset(ctx, "q", stet.Act{}))
		elsewhere := stet.QueueSettings{Group: "other"}
		if err := v1.Queues().Set(ctx, "q", elsewhere, stet.Act{}); !errors.Is(err, stet.ErrRefused) {
			t.Errorf("another group: %v", err)
		}
		if err := v1.Queues().Reset(ctx, "nothing", stet.Act{}); !errors.Is(err, stet.ErrNoQueue) {
			t.Errorf("a queue that does not exist: %v", err)
		}
		ok(t, v1.Queues().Set(ctx, "q", stet.QueueSettings{Concurrency: 1}, stet.Act{}))
		ok(t, v1.Queues().Delete(ctx, "q", stet.Act{}))
		createQueue(t, v1, "q", stet.QueueSettings{Concurrency: 2, Group: "other"})
		expect(2, 2, "v1", "")
	})
}

// TestLimitIsLoweredUnderLoad: permits that are held stay, and no other is granted until
// there are fewer than the new limit.
func TestLimitIsLoweredUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l actLog
		gate := make(chan struct{})
		w := gatedUse(&l, gate, stet.OnStepQueue("q"))
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		createQueue(t, e, "q", stet.QueueSettings{Concurrency: 3})
		var runs []*stet.Run[string]
		for _, in := range []string{"a", "b", "c", "d", "e", "f"} {
			runs = append(runs, startOn(t, e, w, in))
		}
		untilQueue(t, e, "q", stands(3, 3))
		createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
		for range 2 { // two of three end
			gate <- struct{}{}
		}
		untilQueue(t, e, "q", stands(1, 3))
		time.Sleep(time.Minute)
		untilQueue(t, e, "q", stands(1, 3))
		l.most = 0
		close(gate)
		for _, r := range runs {
			outcome(t, r)
		}
		if l.most > 1 {
			t.Errorf("%d bodies at once", l.most)
		}
	})
}

// TestExecutingStepWaitsForNothing: a run says that a step waits for its permit, and not
// that it does when it has it.
func TestExecutingStepWaitsForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l actLog
		gate := make(chan struct{})
		w := gatedUse(&l, gate, stet.OnStepQueue("q"))
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
		ok(t, e.Queues().Pause(testContext(t), "q", stet.Act{}))
		r := startOn(t, e, w, "in")
		untilWaitsFor(t, e, r.ID(), "q")
		ok(t, e.Queues().Resume(testContext(t), "q", stet.Act{}))
		synctest.Wait()
		if info, err := r.Info(testContext(t)); err != nil || info.Status != store.Running || len(info.WaitsFor) != 0 {
			t.Errorf("while its step executes it is %s, waits for %+v, %v", info.Status, info.WaitsFor, err)
		}
		close(gate)
		outcome(t, r)
	})
}
