package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// next is what the loops of these tests go on with.
type next = stet.Next[int, int]

// TestLoopErrors: a mistake in a loop is an error of Loop, and a replay sees the same.
func TestLoopErrors(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad")
	body := func(ctx stet.Context, i int) (next, error) { return next{}.Break(i), nil }
	type unsayable struct{ F func() }
	type tooLong = stet.Next[string, int]
	for name, c := range map[string]struct {
		loop func(stet.Context) (int, error)
		want error
		text string
	}{
		"of the body": {func(ctx stet.Context) (int, error) {
			return stet.Loop(ctx, "l", 0, func(stet.Context, int) (next, error) { return next{}.Continue(1), bad })
		}, bad, ""},
		"Every": {func(ctx stet.Context) (int, error) { return stet.Loop(ctx, "l", 0, body, stet.LoopOptions{Every: -1}) },
			stet.ErrInvalid, "found -1"},
		"Keep": {func(ctx stet.Context) (int, error) { return stet.Loop(ctx, "l", 0, body, stet.LoopOptions{Keep: -2}) },
			stet.ErrInvalid, "found 10 and -2"},
		"zero Next": {func(ctx stet.Context) (int, error) {
			return stet.Loop(ctx, "l", 0, func(stet.Context, int) (n next, err error) { return n, nil })
		}, stet.ErrInvalid, "expected Continue or Break"},
		"first state": {func(ctx stet.Context) (int, error) {
			return stet.Loop(ctx, "l", unsayable{},
				func(stet.Context, unsayable) (n stet.Next[unsayable, int], err error) { return n, bad })
		}, nil, "state of loop l: encode"},
		"next state": {func(ctx stet.Context) (int, error) {
			return stet.Loop(ctx, "l", any(1), func(stet.Context, any) (n stet.Next[any, int],
				err error) {
				return n.Continue(func() {}), nil
			})
		}, nil, "state of loop l: encode"},
		"large state": {func(ctx stet.Context) (int, error) {
			return stet.Loop(ctx, "l", "", func(_ stet.Context, s string) (tooLong, error) {
				return tooLong{}.Continue(s + strings.Repeat("s", 30)), nil
			})
		}, stet.ErrTooLarge, "the state of loop l has"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []error
			w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
				_, err := c.loop(ctx)
				got = append(got, err)
				_, err = word.Receive(ctx) // the process ends here; the next one replays
				return 0, err
			})
			ctx, s := testContext(t), memory.New()
			cfg := stet.Config{Workflows: []stet.Definition{w}, MaxValue: 100, OnBug: stet.FailOnBug}
			first := newProcess(t, s.Join(), cfg)
			first.start()
			r, err := w.Start(ctx, first.Engine, 0)
			if err != nil {
				t.Fatal(err)
			}
			waitStatus(t, first.Engine, r.ID(), store.Suspended)
			first.bury(t)
			cfg.Store = s
			e := serve(t, cfg)
			if err := word.Send(ctx, e, r.ID(), "go on"); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Handle(e, r.ID()).Wait(ctx); err != nil {
				t.Fatal(err)
			}
			for _, err := range got {
				if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("got %v; want %v with %q", err, c.want, c.text)
				}
			}
			if len(got) < 2 || got[0].Error() != got[1].Error() {
				t.Errorf("live and in the replay: %v", got)
			}
		})
	}
}

// TestLoopStateIsACopy: what an iteration does to the state that it was given is
// not seen outside.
func TestLoopStateIsACopy(t *testing.T) {
	t.Parallel()
	type state = map[string]int
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		first := state{"a": 1}
		last, err := stet.Loop(ctx, "l", first, func(_ stet.Context, s state) (n stet.Next[state, state], err error) {
			s["a"]++
			if s["a"] == 4 {
				return n.Break(s), nil
			}
			return n.Continue(s), nil
		})
		return fmt.Sprint(first, last), err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	if got, err := run(t, e, w, 0); err != nil || got != "map[a:1] map[a:4]" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestLoopWithAKey stands where the key says.
func TestLoopWithAKey(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		return stet.Loop(ctx, "l", 0, func(ctx stet.Context, i int) (n next, err error) {
			return n.Break(i), stet.Do(ctx, "s", func(context.Context) error { return nil })
		}, stet.Key("k"))
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	history, err := e.Runs().History(ctx, r.ID(), stet.HistoryQuery{})
	if err != nil || len(history) != 1 || history[0].Location != "l/[k]/~0/s" {
		t.Errorf("the history is %+v, %v", history, err)
	}
}

// TestPromiseOfAPrunedIteration counts as ended for the holder of its token.
func TestPromiseOfAPrunedIteration(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 10)
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		return stet.Loop(ctx, "l", 0, func(ctx stet.Context, i int) (n next, err error) {
			p, err := stet.NewPromise[int](ctx, "p")
			if err != nil {
				return n, err
			}
			if err := stet.Do(ctx, "hand out", func(context.Context) error { tokens <- p.Token(); return nil }); err != nil {
				return n, err
			}
			if i == 4 {
				v, err := p.Await(ctx, stet.Within(time.Hour))
				return n.Break(v), err
			}
			return n.Continue(i + 1), nil
		}, stet.LoopOptions{Every: 1, Keep: 1})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, r.ID(), store.Suspended)
	if err := e.Resolve(ctx, <-tokens, 1); !errors.Is(err, stet.ErrTerminal) {
		t.Errorf("the promise of the first iteration: %v", err)
	}
	<-tokens
	<-tokens
	if err := e.Resolve(ctx, <-tokens, 1); err != nil {
		t.Errorf("the promise of the iteration that is kept: %v", err)
	}
	if err := e.Resolve(ctx, <-tokens, 7); err != nil {
		t.Errorf("the promise that is awaited: %v", err)
	}
	if v, err := r.Wait(ctx); err != nil || v != 7 {
		t.Errorf("the run gives %d, %v", v, err)
	}
}

// TestLocalOfAnIteration is closed with it.
func TestLocalOfAnIteration(t *testing.T) {
	t.Parallel()
	var trace []string
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		return stet.Loop(ctx, "l", 0, func(ctx stet.Context, i int) (n next, err error) {
			l := stet.NewLocal(ctx, func(context.Context) (int, error) { return i, nil }, func(i int) error {
				trace = append(trace, fmt.Sprint("close ", i))
				return nil
			})
			err = stet.Do(ctx, "use", func(c context.Context) error { _, err := l.Get(c); return err })
			trace = append(trace, fmt.Sprint("end ", i))
			if i == 2 {
				return n.Break(i), err
			}
			return n.Continue(i + 1), err
		})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	if _, err := run(t, e, w, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(trace), "[end 0 close 0 end 1 close 1 end 2 close 2]"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

// TestCancelledLoop ends although its body takes no notice.
func TestCancelledLoop(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1000)
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		return stet.Loop(ctx, "l", 0, func(ctx stet.Context, i int) (n next, err error) {
			//stetvet:ignore error only the start of it matters here
			_ = stet.Do(ctx, "s", func(context.Context) error { began <- struct{}{}; return nil })
			//stetvet:ignore error only the start of it matters here
			_ = stet.Sleep(ctx, "nap", time.Millisecond)
			return n.Continue(i + 1), nil
		})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 25 {
		<-began
	}
	if ok, err := e.Runs().Cancel(ctx, r.ID(), stet.Act{Why: "enough"}); !ok || err != nil {
		t.Fatalf("cancel: %t, %v", ok, err)
	}
	if _, err := r.Wait(ctx); !errors.Is(err, stet.ErrCancelled) {
		t.Errorf("the run gives %v", err)
	}
}

// TestLoopInBoundedSpace: once a loop has pruned, neither the heap nor the file
// grows with its iterations. STET_LOOP is how many there are.
func TestLoopInBoundedSpace(t *testing.T) {
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			iterations := map[string]int{"memory": 20_000, "sqlite": 3_000}[s.name]
			if n, err := strconv.Atoi(os.Getenv("STET_LOOP")); err == nil {
				iterations = n
			}
			var heaps []uint64
			var files []int64
			path := ""
			w := loopOf(func(i int) {
				if i == 1000 || i > 1000 && i%(iterations/4) == 0 {
					heaps = append(heaps, heapInUse())
					files = append(files, fileSize(t, path))
				}
			})
			handle := s.open(t)()
			if named, ok := handle.(interface{ Path() string }); ok {
				path = named.Path()
			}
			e := serve(t, stet.Config{Store: handle, Workflows: []stet.Definition{w}})
			begun := time.Now()
			r, err := w.Start(t.Context(), e, iterations)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := r.Wait(t.Context()); err != nil || got != iterations {
				t.Fatalf("got %d, %v", got, err)
			}
			t.Logf("%.0f iterations/s; heap %d, file with log %d bytes",
				float64(iterations)/time.Since(begun).Seconds(), heaps, files)
			for i := range heaps {
				if heaps[i] > heaps[0]+heaps[0]/10+64<<10 {
					t.Errorf("the heap has grown from %d to %d bytes", heaps[0], heaps[i])
				}
				if files[i] > 16<<20 { // the log is written over from some MiB on
					t.Errorf("the file has grown to %d bytes", files[i])
				}
			}
		})
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers have let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// fileSize returns the size of a database with its log; 0 if there is no path.
func fileSize(t *testing.T, path string) (size int64) {
	if path == "" {
		return 0
	}
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			size += info.Size()
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	return size
}

// TestRewindIntoEveryKeptIteration rewinds a run that has failed in its 24th iteration. Operations that stand keep
// their values, repeated ones have other keys, and the loop goes on as if it had never been further. Pruned history
// refuses.
func TestRewindIntoEveryKeptIteration(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var failing bool
	var executed []int
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		if err := stet.Do(ctx, "before", func(context.Context) error { return nil }); err != nil {
			return 0, err
		}
		return stet.Loop(ctx, "l", 0, func(ctx stet.Context, i int) (n next, err error) {
			err = stet.Do(ctx, "s", func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				if failing && i == 23 {
					return stet.Permanent(errors.New("on purpose"))
				}
				executed = append(executed, i)
				return nil
			})
			if err != nil || i == 30 {
				return n.Break(i), err
			}
			return n.Continue(i + 1), nil
		}, stet.LoopOptions{Every: 5, Keep: 7})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	start := func(id string) *stet.Run[int] {
		t.Helper()
		mu.Lock()
		failing, executed = true, nil
		mu.Unlock()
		r, err := w.Start(ctx, e, 0, stet.ID(id))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(ctx); err == nil {
			t.Fatal("the run does not fail")
		}
		mu.Lock()
		failing, executed = false, nil
		mu.Unlock()
		return r
	}
	for n := 13; n <= 23; n++ {
		for _, place := range []string{fmt.Sprintf("l/~%d", n), fmt.Sprintf("l/~%d/s", n)} {
			r := start(place)
			if ok, err := e.Runs().Rewind(ctx, r.ID(), place, stet.Act{Why: "again"}); !ok || err != nil {
				t.Fatalf("%s: %t, %v", place, ok, err)
			}
			if got, err := r.Wait(ctx); got != 30 || err != nil {
				t.Fatalf("%s: the run gives %d, %v", place, got, err)
			}
			var want []int
			for i := n; i <= 30; i++ {
				want = append(want, i)
			}
			mu.Lock()
			if fmt.Sprint(executed) != fmt.Sprint(want) {
				t.Errorf("%s: %v are executed, want %v", place, executed, want)
			}
			mu.Unlock()
			history, err := e.Runs().History(ctx, r.ID(), stet.HistoryQuery{})
			if err != nil {
				t.Fatal(err)
			}
			var places []string
			for _, x := range history {
				places = append(places, x.Location)
			}
			if got, want := strings.Join(places[:4], " "),
				"before l l/~23 l/~23/s"; got != want { // 30 were completed, 7 are kept
				t.Errorf("%s: the history is %s", place, places)
			}
		}
	}
	r := start("refused")
	for _, place := range []string{"l/~12", "l/~0/s"} {
		if ok, err := e.Runs().Rewind(ctx, r.ID(), place, stet.Act{Why: "again"}); ok || !errors.Is(err, stet.ErrRefused) ||
			!strings.Contains(err.Error(), "pruned") {
			t.Errorf("%s: %t, %v", place, ok, err)
		}
	}
	if ok, err := e.Runs().Rewind(ctx, r.ID(), "before", stet.Act{Why: "again"}); !ok || err != nil { // the whole loop
		t.Errorf("before: %t, %v", ok, err)
	}
	if got, err := r.Wait(ctx); got != 30 || err != nil || len(executed) != 31 {
		t.Errorf("before: the run gives %d, %v after %d iterations", got, err, len(executed))
	}
}

// TestLoopForgetsUndo: pruned steps are not undone, kept ones are. Without ForgetUndo all are, because none is pruned.
func TestLoopForgetsUndo(t *testing.T) {
	t.Parallel()
	for _, forget := range []bool{false, true} {
		t.Run(fmt.Sprint("forget-", forget), func(t *testing.T) {
			var mu sync.Mutex
			var undone []int
			opts := stet.LoopOptions{Every: 5, Keep: 3, ForgetUndo: forget}
			w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
				return stet.Loop(ctx, "l", 0, func(ctx stet.Context, i int) (n next, err error) {
					if i == 12 {
						return n, errors.New("enough")
					}
					err = stet.Do(ctx, "s", func(context.Context) error { return nil }, stet.UndoDo(func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						undone = append(undone, i)
						return nil
					}))
					return n.Continue(i + 1), err
				}, opts)
			}, stet.UndoOnFailure)
			for _, parked := range []int{stet.None, 0} {
				undone = nil
				e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: parked})
				if _, err := run(t, e, w, 0); err == nil {
					t.Fatal("the run does not fail")
				}
				want := "[11 10 9 8 7]" // 10 were completed at the last commit of state
				if !forget {
					want = "[11 10 9 8 7 6 5 4 3 2 1 0]"
				}
				mu.Lock()
				if got := fmt.Sprint(undone); got != want {
					t.Errorf("undone are %s, want %s", got, want)
				}
				mu.Unlock()
			}
		})
	}
}

// TestVersionInALoop is decided once per iteration: those that were begun before the
// change keep the former code, in every replay, and later ones have the new one.
func TestVersionInALoop(t *testing.T) {
	t.Parallel()
	s := memory.New()
	workflow := func(changed bool) *stet.Workflow[int, string] {
		type state struct {
			N    int
			Text string
		}
		return stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
			return stet.Loop(ctx, "l", state{}, func(ctx stet.Context, s state) (n stet.Next[state, string], err error) {
				text := "old "
				if changed && stet.Version(ctx, "change", 1) == 1 {
					if text, err = stet.Step(ctx, "new", func(context.Context) (string, error) { return "new ", nil }); err != nil {
						return n, err
					}
				}
				if _, err := word.Receive(ctx); err != nil {
					return n, err
				}
				if s.N, s.Text = s.N+1, s.Text+text; s.N == 12 {
					return n.Break(s.Text), nil
				}
				return n.Continue(s), nil
			}, stet.LoopOptions{Every: 2, Keep: 3})
		})
	}
	ctx := testContext(t)
	work := func(changed bool, letters int) (end func()) {
		w := workflow(changed)
		p := startProcess(t, s.Join(), stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None,
			Build: fmt.Sprint("b", changed)})
		if !changed {
			if _, err := w.Start(ctx, p.Engine, 0, stet.ID("r")); err != nil {
				t.Fatal(err)
			}
		}
		for range letters {
			waitStatus(t, p.Engine, "r", store.Suspended)
			if err := word.Send(ctx, p.Engine, "r", "go on"); err != nil {
				t.Fatal(err)
			}
		}
		return func() { p.bury(t) }
	}
	end := work(false, 5)
	client := client(t, s.Join(), workflow(true))
	waitStatus(t, client, "r", store.Suspended)
	end()
	end = work(true, 7)
	defer end()
	got, err := workflow(true).Handle(client, "r").Wait(ctx)
	if want := strings.Repeat("old ", 6) + strings.Repeat("new ", 6); got != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}
