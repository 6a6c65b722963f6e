package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestPanics are failures with a stack, of a step and of the code.
func TestPanics(t *testing.T) {
	t.Parallel()
	inStep := stet.Define("in-step", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "s", func(context.Context) (int, error) { panic("step went wrong") }, stet.Retry{Attempts: 1})
	})
	inCode := stet.Define("in-code", func(stet.Context, int) (int, error) { panic("code went wrong") })
	inBranch := stet.Define("in-branch", func(ctx stet.Context, _ int) (int, error) {
		return stet.Go(ctx, "b", func(stet.Context) (int, error) { panic("branch went wrong") }).Await(ctx)
	})
	//stetvet:ignore goroutine the misuse is what is tested
	goexit := stet.Define("goexit", func(stet.Context, int) (int, error) { runtime.Goexit(); return 0, nil })
	goexitInStep := stet.Define("goexit-in-step", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "s", func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
			stet.Retry{Attempts: 2, First: 1})
	})
	e := serve(t, stet.Config{MaxSteps: 1, Workflows: []stet.Definition{inStep, inCode, inBranch, goexit, goexitInStep}})
	for w, text := range map[*stet.Workflow[int, int]]string{
		inStep: "step went wrong", inCode: "code went wrong", inBranch: "branch went wrong", goexit: "Goexit",
		goexitInStep: "Goexit",
	} {
		_, err := run(t, e, w, 0)
		var failure *stet.Failure
		if err == nil || !strings.Contains(err.Error(), text) || !errors.As(err, &failure) {
			t.Errorf("%s: got %v", w.Name(), err)
			continue
		}
		if w != goexit && w != goexitInStep && !strings.Contains(failure.Stack, "feature_test.go") {
			t.Errorf("%s: the stack does not name the place:\n%s", w.Name(), failure.Stack)
		}
	}
}

type limitError struct{ Limit int }

func (e *limitError) Error() string { return fmt.Sprintf("over the limit of %d", e.Limit) }

// TestErrorsAcrossTheJournal are found by errors.Is and errors.As, live, after a replay, and by a caller of Wait.
func TestErrorsAcrossTheJournal(t *testing.T) {
	t.Parallel()
	type seen struct{ Sentinel, Typed, Plain bool }
	w := stet.Define("errs", func(ctx stet.Context, _ int) (seen, error) {
		var s seen
		step := func(name string, err error) error {
			return stet.Do(ctx, name, func(context.Context) error { return fmt.Errorf("wrapped: %w", err) },
				stet.Retry{Attempts: 1})
		}
		s.Sentinel = errors.Is(step("a", errDeclined), errDeclined)
		var typed *limitError
		s.Typed = errors.As(step("b", &limitError{7}), &typed) && typed.Limit == 7
		var failure *stet.Failure
		s.Plain = errors.As(step("c", errors.New("plain")), &failure)
		if _, err := word.Receive(ctx); err != nil { // evicted here, replayed after
			return s, err
		}
		return s, fmt.Errorf("in the end: %w", &limitError{9})
	})
	e := serve(t, stet.Config{
		Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None,
		Errors: []stet.ErrorCode{stet.Sentinel("declined", errDeclined), stet.ErrorType[*limitError]("limit")},
	})
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, r.ID(), store.Suspended)
	if err := word.Send(ctx, e, r.ID(), "go"); err != nil {
		t.Fatal(err)
	}
	_, err = r.Wait(ctx)
	var typed *limitError
	if !errors.As(err, &typed) || typed.Limit != 9 {
		t.Errorf("got %v", err)
	}
	entries, err := e.Runs().History(ctx, r.ID(), stet.HistoryQuery{Values: true})
	if err != nil || len(entries) != 4 {
		t.Fatal(entries, err)
	}
	var step *stet.StepError
	if !errors.As(entries[0].Err(), &step) || !errors.Is(entries[0].Err(), errDeclined) || step.Attempts != 1 {
		t.Errorf("the history has %v", entries[0].Err())
	}
}

// TestLogIsSilentInReplay evicts a run between its lines.
func TestLogIsSilentInReplay(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	var mu sync.Mutex
	w := stet.Define("logs", func(ctx stet.Context, _ int) (int, error) {
		for i := range 3 {
			stet.Log(ctx).Info("line", "i", i)
			if _, err := word.Receive(ctx); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	log := slog.New(slog.NewTextHandler(&lockedWriter{&mu, &buf}, nil))
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None, Logger: log})
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0, stet.ID("quiet"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		waitStatus(t, e, r.ID(), store.Suspended)
		if err := word.Send(ctx, e, r.ID(), "go"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	text := buf.String()
	for i := range 3 {
		if n := strings.Count(text, fmt.Sprintf("msg=line run_id=quiet workflow=logs i=%d", i)); n != 1 {
			t.Errorf("line %d was logged %d times:\n%s", i, n, text)
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// TestLocalResources are opened once per activation and closed on every way out.
func TestLocalResources(t *testing.T) {
	t.Parallel()
	var opened, closed atomic.Int32
	w := stet.Define("local", func(ctx stet.Context, how string) (int, error) {
		conn := stet.NewLocal(ctx, func(context.Context) (int, error) { return int(opened.Add(1)), nil },
			func(int) error { closed.Add(1); return nil })
		for i := range 2 {
			if err := stet.Do(ctx, "use", func(c context.Context) error { _, err := conn.Get(c); return err },
				stet.Key(fmt.Sprint(i))); err != nil {
				return 0, err
			}
		}
		switch how {
		case "panic":
			panic("on purpose")
		case "wait":
			_, err := word.Receive(ctx)
			return 0, err
		}
		return 0, nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None})
	for i, how := range []string{"return", "panic", "wait"} {
		r, err := w.Start(testContext(t), e, how)
		if err != nil {
			t.Fatal(err)
		}
		if how == "wait" { // evicted
			waitStatus(t, e, r.ID(), store.Suspended)
		} else if _, err := r.Wait(testContext(t)); (err != nil) != (how == "panic") {
			t.Fatal(err)
		}
		for ctx := testContext(t); closed.Load() != int32(i+1); {
			if ctx.Err() != nil {
				t.Fatalf("%s: %d opened, %d closed", how, opened.Load(), closed.Load())
			}
		}
		if opened.Load() != int32(i+1) {
			t.Errorf("%s: opened %d times", how, opened.Load())
		}
	}
}

// TestPolicies cancel runs that take too long, and say why.
func TestPolicies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, policies)
}

func policies(t *testing.T) {
	long := stet.Define("long", func(ctx stet.Context, _ int) (int, error) { return 0, stet.Sleep(ctx, "s", time.Hour) },
		stet.MaxRunTime(50*time.Millisecond))
	idle := stet.Define("idle", func(ctx stet.Context, _ int) (string, error) { return word.Receive(ctx) },
		stet.MaxSuspension(50*time.Millisecond))
	e := serve(t, stet.Config{Workflows: []stet.Definition{long, idle}, MaxParkedBytes: stet.None})
	_, err := run(t, e, long, 0)
	var failed *stet.RunError
	if !errors.As(err, &failed) || failed.Status != store.Cancelled ||
		!strings.Contains(failed.Reason, "ran longer than 50ms") {
		t.Errorf("got %v", err)
	}
	_, err = run(t, e, idle, 0)
	if !errors.As(err, &failed) || failed.Status != store.Cancelled ||
		!strings.Contains(failed.Reason, "suspended longer than 50ms") {
		t.Errorf("got %v", err)
	}
}

// TestTimeoutsAndHeartbeats end attempts that are silent, and hand what the last
// one has said to the next.
func TestTimeoutsAndHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, timeoutsAndHeartbeats)
}

func timeoutsAndHeartbeats(t *testing.T) {
	w := stet.Define("beats", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "s", func(c context.Context) (int, error) {
			if stet.Attempt(c) == 1 {
				if err := stet.Heartbeat(c, 41); err != nil {
					return 0, err
				}
				<-c.Done()
				if !errors.Is(context.Cause(c), stet.ErrStepTimeout) {
					return 0, stet.Permanent(fmt.Errorf("ended by %v", context.Cause(c)))
				}
				return 0, c.Err()
			}
			last, ok, err := stet.LastDetail[int](c)
			if err != nil || !ok {
				return 0, stet.Permanent(fmt.Errorf("no detail: %v", err))
			}
			return last + 1, nil
		}, stet.Retry{Timeout: 30 * time.Millisecond, First: time.Millisecond})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	if got, err := run(t, e, w, 0); err != nil || got != 42 {
		t.Errorf("got %d, %v", got, err)
	}
}

// TestOverall bounds all attempts together.
func TestOverall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, overall)
}

func overall(t *testing.T) {
	var attempts atomic.Int32
	w := stet.Define("overall", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "s", func(context.Context) (int, error) { attempts.Add(1); return 0, errors.New("no") },
			stet.Retry{Attempts: stet.None, First: 10 * time.Millisecond, Factor: 1, Overall: 60 * time.Millisecond})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	_, err := run(t, e, w, 0)
	var step *stet.StepError
	if !errors.As(err, &step) || step.Attempts < 2 || len(step.Causes) != step.Attempts {
		t.Errorf("got %v after %d attempts", err, attempts.Load())
	}
}

// TestIDFrom gives concurrent equal starts one run; StartAll starts many at once.
func TestIDFrom(t *testing.T) {
	t.Parallel()
	var executed atomic.Int32
	w := stet.Define("once", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "s", func(context.Context) (int, error) { executed.Add(1); return n, nil })
	}, stet.IDFrom(func(n int) string { return fmt.Sprint("order-", n) }))
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			runs, err := w.StartAll(ctx, e, []int{1, 2, 3}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for i, r := range runs {
				if got, err := r.Wait(ctx); err != nil || got != i+1 || r.ID() != fmt.Sprint(w.Name(), "/order-", i+1) {
					t.Errorf("run %s: %d, %v", r.ID(), got, err)
				}
			}
		})
	}
	wg.Wait()
	if executed.Load() != 3 {
		t.Errorf("%d steps were executed; want 3", executed.Load())
	}
}

// TestReplaceFailed starts another run under the ID of a failed one, which is kept.
func TestReplaceFailed(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	w := stet.Define("again", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "s", func(context.Context) (int, error) {
			if fail.Load() {
				return 0, stet.Permanent(errors.New("no"))
			}
			return n, nil
		})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	fail.Store(true)
	r, err := w.Start(ctx, e, 1, stet.ID("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx); err == nil {
		t.Fatal("it has not failed")
	}
	fail.Store(false)
	r, err = w.Start(ctx, e, 2, stet.ID("x"), stet.ReplaceFailed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(ctx); err != nil || got != 2 {
		t.Fatal(got, err)
	}
	page, err := e.Store().List(ctx, store.Filter{IDPrefix: "x@"})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].Status != store.Failed {
		t.Errorf("the failed run is %+v, %v", page.Runs, err)
	}
}

// TestDelayedStart begins no earlier, and can be cancelled before.
func TestDelayedStart(t *testing.T) {
	t.Parallel()
	w := stet.Define("later", func(ctx stet.Context, _ int) (time.Time, error) { return stet.Now(ctx), nil })
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	before := time.Now()
	r, err := w.Start(ctx, e, 0, stet.StartAfter(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(ctx); err != nil || got.Sub(before) < 50*time.Millisecond {
		t.Errorf("began after %s, %v", got.Sub(before), err)
	}
	r, err = w.Start(ctx, e, 0, stet.StartAt(time.Now().Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := r.Cancel(ctx, stet.Act{Why: "changed my mind"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := r.Wait(ctx); !errors.Is(err, stet.ErrCancelled) {
		t.Error(err)
	}
}

// TestTerminate ends a run at once, in memory and out of it, without its code.
func TestTerminate(t *testing.T) {
	t.Parallel()
	var cleaned atomic.Bool
	w := stet.Define("t", func(ctx stet.Context, _ int) (int, error) {
		err := stet.Sleep(ctx, "s", time.Hour)
		if errors.Is(err, stet.ErrCancelled) {
			cleaned.Store(true)
		}
		return 0, err
	})
	for _, parked := range []int{stet.None, 0} {
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: parked})
		ctx := testContext(t)
		r, err := w.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		waitStatus(t, e, r.ID(), store.Suspended)
		if ok, err := e.Runs().Terminate(ctx, r.ID(), stet.Act{Why: "gone"}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		_, err = r.Wait(ctx)
		var failed *stet.RunError
		if !errors.As(err, &failed) || failed.Reason != "terminated: gone" || cleaned.Load() {
			t.Errorf("got %v, cleaned %v", err, cleaned.Load())
		}
	}
}

// TestStallAndResume changes the code under a run, and back.
func TestStallAndResume(t *testing.T) {
	t.Parallel()
	define := func(name string) *stet.Workflow[int, string] {
		return stet.Define("changing", func(ctx stet.Context, _ int) (string, error) {
			a, err := stet.Step(ctx, name, func(context.Context) (string, error) { return name, nil })
			if err != nil {
				return "", err
			}
			b, err := word.Receive(ctx)
			return a + b, err
		})
	}
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			open := s.open(t)
			ctx := testContext(t)
			old, changed := define("old"), define("changed")
			outside := client(t, open(), old)
			r, err := old.Start(ctx, outside, 0, stet.ID("r"))
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range []*stet.Workflow[int, string]{old, changed, old} {
				p := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}, Poll: 20 * time.Millisecond})
				switch i {
				case 0:
					waitStatus(t, outside, "r", store.Suspended)
				case 1:
					if err := word.Send(ctx, outside, "r", "!"); err != nil {
						t.Fatal(err)
					}
					_, err := r.Wait(ctx)
					if !errors.Is(err, stet.ErrStalled) || !strings.Contains(err.Error(), "step old") ||
						!strings.Contains(err.Error(), "step changed") {
						t.Fatalf("got %v; want a stall that names both sides", err)
					}
				case 2:
					if ok, err := outside.Runs().Resume(ctx, "r", stet.Act{}); !ok || err != nil {
						t.Fatal(ok, err)
					}
					if got, err := r.Wait(ctx); err != nil || got != "old!" {
						t.Fatalf("got %q, %v", got, err)
					}
				}
				p.bury(t)
			}
		})
	}
}

// TestBackPressure bounds the bodies and the runs in memory, and all runs end.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	w := stet.Define("busy", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "s", func(context.Context) (int, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			runtime.Gosched()
			return 1, nil
		})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxSteps: 3, MaxRuns: 5, MaxParkedBytes: 20_000,
		Poll: 50 * time.Millisecond})
	ctx := testContext(t)
	runs, err := w.StartAll(ctx, e, make([]int, 200), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if _, err := r.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if most.Load() > 3 {
		t.Errorf("%d bodies ran at once; the limit is 3", most.Load())
	}
}

// TestRecoveryReport goes to a new owner, with its findings.
func TestRecoveryReport(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			open := s.open(t)
			entered := make(chan struct{}, 10)
			w := stet.Define("hang", func(ctx stet.Context, _ int) (int, error) {
				return stet.Step(ctx, "s", func(c context.Context) (int, error) {
					entered <- struct{}{}
					<-c.Done()
					return 0,
						c.Err()
				})
			})
			outside := client(t, open(), w)
			if _, err := w.StartAll(testContext(t), outside, make([]int, 3), nil); err != nil {
				t.Fatal(err)
			}
			reports := make(chan stet.Recovery, 2)
			cfg := stet.Config{Workflows: []stet.Definition{w}, OnRecover: func(r stet.Recovery) { reports <- r }}
			first := startProcess(t, open(), cfg)
			if got := <-reports; !got.Clean || got.Suspects != 0 || len(got.Shards) == 0 {
				t.Errorf("a new store: %+v", got)
			}
			for range 3 {
				<-entered
			}
			first.handle.die()
			first.bury(t)
			second := startProcess(t, open(), cfg)
			if got := <-reports; got.Clean || got.Suspects != 3 {
				t.Errorf("after a death: %+v", got)
			}
			second.bury(t)
		})
	}
}

// TestShutdownListsWhatDoesNotReturn stops an engine whose step ignores its
// context.
func TestShutdownListsWhatDoesNotReturn(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	w := stet.Define("deaf", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "s", func(context.Context) (int, error) { close(entered); <-release; return 0, nil })
	})
	e, err := stet.New(t.Context(), stet.Config{Store: memory.New(), Workflows: []stet.Definition{w}, Grace: stet.None,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	if _, err := w.Start(ctx, e, 0, stet.ID("deaf-run")); err != nil {
		t.Fatal(err)
	}
	<-entered
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "run deaf-run step s") {
		t.Errorf("got %v", err)
	}
}

// TestTwoProcessesClaim has three engines begin at once on runs that are ready:
// one owns, and each step is executed once.
func TestTwoProcessesClaim(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			open := s.open(t)
			var mu sync.Mutex
			executed := map[int]int{}
			w := stet.Define("claimed", func(ctx stet.Context, n int) (int, error) {
				return stet.Step(ctx, "s", func(context.Context) (int, error) {
					mu.Lock()
					defer mu.Unlock()
					executed[n]++
					return n, nil
				})
			})
			outside := client(t, open(), w)
			inputs := make([]int, 100)
			for i := range inputs {
				inputs[i] = i
			}
			ctx := testContext(t)
			runs, err := w.StartAll(ctx, outside, inputs, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				serve(t, stet.Config{Store: open(), Workflows: []stet.Definition{w}})
			}
			for _, r := range runs {
				if _, err := r.Wait(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for n, times := range executed {
				if times != 1 {
					t.Errorf("step of run %d was executed %d times", n, times)
				}
			}
		})
	}
}

// TestMisuse of a context fails the run with a text that says how.
func TestMisuse(t *testing.T) {
	t.Parallel()
	var leaked stet.Context
	w := stet.Define("misuse", func(ctx stet.Context, how string) (int, error) {
		switch how {
		case "inside a step":
			return stet.Step(ctx, "s", func(context.Context) (int, error) {
				//stetvet:ignore context the misuse is what is tested
				return 0, stet.Do(ctx, "inner", func(context.Context) error { return nil })
			},
				stet.Retry{Attempts: 1})
		case "another branch's":
			//stetvet:ignore context the misuse is what is tested
			leaked = ctx
			//stetvet:ignore context the misuse is what is tested
			return stet.Go(ctx, "b", func(stet.Context) (int, error) { return 0, stet.Sleep(leaked, "s", 0) }).Await(ctx)
		case "one name at two places":
			if err := stet.Do(ctx, "same", func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
			//stetvet:ignore names what equal names do is tested
			return 0, stet.Do(ctx, "same", func(context.Context) error { return nil })
		case "a deadlock":
			var second *stet.Future[int]
			first := stet.Go(ctx, "first", func(ctx stet.Context) (int, error) { return second.Await(ctx) })
			second = stet.Go(ctx, "second", func(ctx stet.Context) (int, error) { return first.Await(ctx) })
			return first.Await(ctx)
		}
		return 0, nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	for how, text := range map[string]string{
		"inside a step": "none inside a step", "another branch's": "use the context that the branch's own function was given",
		"one name at two places": "two places in the code use the name", "a deadlock": "every branch waits for another one",
	} {
		if _, err := run(t, e, w, how); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v; want %q", how, err, text)
		}
	}
}

// TestBatchReceive takes several messages in one operation.
func TestBatchReceive(t *testing.T) {
	t.Parallel()
	w := stet.Define("batch", func(ctx stet.Context, _ int) ([][]int, error) {
		var got [][]int
		for range 3 {
			b, err := counter.ReceiveBatch(ctx, 3, stet.Within(50*time.Millisecond))
			if errors.Is(err, stet.ErrTimeout) {
				b, err = nil, nil
			}
			if err != nil {
				return got, err
			}
			got = append(got, b)
		}
		return got, nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	var first []stet.StartOption
	for i := range 5 {
		first = append(first, stet.FirstMessage(counter, i))
	}
	r, err := w.Start(ctx, e, 0, first...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Wait(ctx)
	if err != nil || len(got) != 3 || !slices.Equal(got[0], []int{0, 1, 2}) || !slices.Equal(got[1], []int{3, 4}) ||
		got[2] != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestLongNames resolves a promise of a run with the longest ID, and sends with
// the longest key, twice.
func TestLongNames(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 1)
	w := stet.Define("long-names", func(ctx stet.Context, _ int) (string, error) {
		p, err := stet.NewPromise[string](ctx, strings.Repeat("p", 64))
		if err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "tell", func(context.Context) error { tokens <- p.Token(); return nil }); err != nil {
			return "", err
		}
		a, err := p.Await(ctx)
		if err != nil {
			return "", err
		}
		b, err := word.Receive(ctx)
		if err != nil {
			return "", err
		}
		c, err := word.Receive(ctx, stet.Named("again"), stet.Within(10*time.Millisecond))
		if errors.Is(err, stet.ErrTimeout) {
			err = nil
		}
		return a + b + c, err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0, stet.ID(strings.Repeat("r", 255)))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Resolve(ctx, <-tokens, "a"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := word.Send(ctx, e, r.ID(), "b", stet.SendKey(strings.Repeat("\x00", 255))); err != nil &&
			!errors.Is(err, stet.ErrTerminal) {
			t.Fatal(err)
		}
	}
	if got, err := r.Wait(ctx); err != nil || got != "ab" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestAStopIsNoAttempt: a body that is cancelled because its process stops has not failed.
// It is executed again like one whose process has died, also if it may fail only once.
func TestAStopIsNoAttempt(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			open := s.open(t)
			entered, ended := make(chan struct{}), make(chan struct{}, 2)
			stopped := false
			w := stet.Define("stopped", func(ctx stet.Context, holds bool) (int, error) {
				return stet.Step(ctx, "s", func(ctx context.Context) (int, error) {
					if stopped {
						return 7, nil
					}
					entered <- struct{}{}
					<-ctx.Done()
					if holds { // the process up, so that it could record the end of the other body
						select {
						case <-ended:
						case <-time.After(200 * time.Millisecond):
						}
					}
					return 0, fmt.Errorf("call the bank: %w", context.Cause(ctx))
				}, stet.Retry{Attempts: 1})
			})
			cfg := with(stet.Config{OnEnd: func(*stet.RunInfo) { ended <- struct{}{} }}, w)
			first := startProcess(t, open(), cfg)
			runs := []*stet.Run[int]{begin(t, first.Engine, w, false), begin(t, first.Engine, w, true)}
			<-entered
			<-entered
			first.bury(t)
			stopped = true
			next := startProcess(t, open(), cfg)
			for _, r := range runs {
				if got, err := w.Handle(next.Engine, r.ID()).Wait(testContext(t)); err != nil || got != 7 {
					t.Errorf("got %d, %v", got, err)
				}
			}
		})
	}
}
