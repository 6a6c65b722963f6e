package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// boot runs an engine as a process of its own. crash ends it as the end of the process
// does: the store sees that it is gone, and takes nothing from it.
func boot(
	t *testing.T, s *memory.Store, node string, options ...func(*engine.Config),
) (e *engine.Engine, crash func()) {
	t.Helper()
	handle := s.Join()
	e = newEngine(t, handle, node, options...)
	end := begin(t, e)
	synctest.Wait()
	return e, func() {
		t.Helper()
		handle.Close()
		if err := end(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	}
}

// bystanders registers a workflow for each name. Its runs wait in a step for their gate.
func bystanders(happened *trace, gates map[string]chan struct{}) func(*engine.Config) {
	return func(cfg *engine.Config) {
		for name, gate := range gates {
			with(name, does(func(ctx context.Context) string {
				happened.add(name)
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return name
			}))(cfg)
		}
	}
}

// Of runs that were there at two crashes half are executed, until a turn of theirs is
// committed. A run that was there at one of them goes on at once.
func TestSuspectsAreTriedByHalves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened trace
		gates := map[string]chan struct{}{"x": make(chan struct{}), "y": make(chan struct{}), "z": make(chan struct{})}
		code := bystanders(&happened, gates)
		patient := func(cfg *engine.Config) { cfg.AloneFor = time.Hour }
		s := memory.New()
		first, crash := boot(t, s, "first", code)
		start(t, first, "x", "x")
		synctest.Wait()
		start(t, first, "y", "y")
		synctest.Wait()
		happened.expect(t, "x", "y")
		crash()
		second, crash := boot(t, s, "second", code)
		start(t, second, "z", "z")
		synctest.Wait()
		happened.expectAll(t, "x", "y", "z")
		crash()
		third, crash := boot(t, s, "third", code, patient)
		time.Sleep(time.Minute)
		tried, other := "x", "y"
		if happened.has("y") {
			tried, other = other, tried
		}
		happened.expectAll(t, tried, "z")
		close(gates[tried])
		synctest.Wait()
		happened.expect(t, other)
		close(gates[other])
		close(gates["z"])
		for id := range gates {
			expectEnd(t, third, id, store.Succeeded, id)
		}
		crash()
	})
}

// A suspect that does not commit is on trial for a time only. One that was on trial at a
// crash is next executed alone, after a pause.
func TestTrialsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened trace
		code := bystanders(&happened, map[string]chan struct{}{"x": nil, "y": nil})
		s := memory.New()
		tried, other := "x", "y"
		for n, trial := range []struct{ pause, length time.Duration }{
			{}, {}, {0, time.Second / 4}, {time.Second / 2, time.Second},
		} {
			e, crash := boot(t, s, fmt.Sprint("boot", n), code)
			if n == 0 {
				start(t, e, "x", "x")
				synctest.Wait()
				start(t, e, "y", "y")
				synctest.Wait()
			}
			if n == 2 && happened.has("y") {
				tried, other = other, tried
			}
			if trial.length > 0 {
				time.Sleep(trial.pause + time.Millisecond)
				happened.expect(t, tried)
				time.Sleep(trial.length - 2*time.Millisecond)
				happened.expect(t)
				time.Sleep(2 * time.Millisecond)
				happened.expect(t, other)
			} else {
				happened.expectAll(t, "x", "y")
			}
			crash()
			tried, other = other, tried // on trial at the end
		}
	})
}

// A run that ends its process each time is stalled when it was alone for as often as the
// limit says. The run beside it goes on.
func TestRunThatKillsEveryProcessIsStalled(t *testing.T) {
	t.Run("at once", func(t *testing.T) { killsEach(t, false, false) })
	t.Run("after it has looked at what was sent to it", func(t *testing.T) { killsEach(t, true, false) })
	t.Run("after it has shown a value", func(t *testing.T) { killsEach(t, false, true) })
}

// killsEach lets a run end each process. written: after each something is sent to it, at which it
// looks before it ends the next one. shows: it sets a value before.
func killsEach(t *testing.T, written, shows bool) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		var killed atomic.Bool
		kill := func(ctx context.Context) string { killed.Store(true); <-ctx.Done(); return "" }
		kills := func(b *runner.Branch) ([]byte, error) {
			if shows {
				if err := b.Set(runner.Call{Name: "state"}, []byte("kills")); err != nil {
					return nil, err
				}
			}
			return does(kill)(b)
		}
		deaths := 0
		for ; deaths < 20; deaths++ {
			killed.Store(false)
			e, crash := boot(t, s, fmt.Sprint("boot", deaths), with("kills", kills), with("w", hears(1)))
			if deaths == 0 {
				start(t, e, "w", "b")
				start(t, e, "kills", "a")
			} else if written {
				send(t, e, "a", fmt.Sprint("word", deaths))
			}
			for range 100 { // ten seconds: longer than any pause
				if synctest.Wait(); killed.Load() {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if killed.Load() {
				crash()
				continue
			}
			expectStatus(t, e, "a", store.Stalled)
			send(t, e, "b", "word")
			expectEnd(t, e, "b", store.Succeeded, "word")
			crash()
			break
		}
		if deaths != 5 {
			t.Errorf("the run has ended %d processes; want 2 with others and 3 alone", deaths)
		}
	})
}

// TestWhatIsShownOfASuspectKeepsItSuspect: a body that executes for long is recorded, and that is no progress.
func TestWhatIsShownOfASuspectKeepsItSuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		for deaths := range 3 {
			e, crash := boot(t, s, fmt.Sprint("boot", deaths), with("w", does(func(ctx context.Context) string {
				<-ctx.Done()
				return ""
			})))
			if deaths == 0 {
				start(t, e, "w", "a")
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			run, _, err := e.Get(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			entries, err := s.History(t.Context(), store.HistoryQuery{Run: run.No, Values: true})
			if err != nil || len(entries) != 1 || run.Suspect != deaths {
				t.Fatalf("after %d deaths the suspicion is %d, and the history %+v, %v", deaths, run.Suspect, entries, err)
			}
			crash()
		}
	})
}

// large gives an engine room for a thousand long bodies, and the time alone of an
// application.
func large(cfg *engine.Config) {
	cfg.MaxSteps, cfg.MaxRuns, cfg.AloneFor = 2000, 2000, 10*time.Second
}

// fleet registers a workflow whose runs take a time for their one step, and counts those
// whose body is executed.
func fleet(took time.Duration, executing *atomic.Int64) func(*engine.Config) {
	return with("long", does(func(ctx context.Context) string {
		executing.Add(1)
		defer executing.Add(-1)
		select {
		case <-time.After(took):
			return "done"
		case <-ctx.Done():
			return ""
		}
	}))
}

// After two hard kills with a thousand long bodies under way all are executed again within
// seconds, and end.
func TestTwoKillsHoldUpNoRunForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 1000
		var executing atomic.Int64
		s := memory.New()
		for life := range 3 {
			e, crash := boot(t, s, fmt.Sprint("boot", life), large, fleet(20*time.Second, &executing))
			if life == 0 {
				for i := range runs {
					start(t, e, "long", fmt.Sprint("long ", i))
				}
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if n := executing.Load(); n != runs {
				t.Errorf("life %d: after 5 s %d bodies are executed; want all", life, n)
			}
			if life == 2 {
				for i := range runs {
					expectEnd(t, e, fmt.Sprint("long ", i), store.Succeeded, "done")
				}
			}
			crash()
		}
	})
}

// A process that is killed about once a second for another reason stalls no run, and when it
// lives again all end.
func TestCrashLoopStallsNoInnocentRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := []string{"a", "b", "c", "d", "e"}
		var executing atomic.Int64
		s := memory.New()
		for life := range 41 {
			e, crash := boot(t, s, fmt.Sprint("boot", life), large, fleet(8*time.Second, &executing))
			switch life {
			case 0:
				start(t, e, "long", ids...)
				time.Sleep(time.Second)
			case 40:
				for _, id := range ids {
					expectEnd(t, e, id, store.Succeeded, "done")
				}
			default:
				time.Sleep(time.Duration(700+life*83%600) * time.Millisecond)
			}
			crash()
		}
	})
}

// Out of many runs with long bodies the one that kills its process is stalled, and no other.
func TestPoisonAmongManyIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 30
		var executing atomic.Int64
		var killed atomic.Bool
		kill := func(ctx context.Context) string { killed.Store(true); <-ctx.Done(); return "" }
		s := memory.New()
		deaths := 0
		var stalled trace
		hook := func(cfg *engine.Config) {
			cfg.Hooks.OnStall = func(run *store.Run) { stalled.add(run.ID + " " + run.Reason[:7]) }
		}
		for ; deaths < 40; deaths++ {
			killed.Store(false)
			e, crash := boot(t, s, fmt.Sprint("boot", deaths), large, fleet(5*time.Minute, &executing),
				with("kills", does(kill)), hook)
			if deaths == 0 {
				for i := range runs {
					start(t, e, "long", fmt.Sprint("long ", i))
				}
				start(t, e, "kills", "poison")
			}
			for range 600 {
				if synctest.Wait(); killed.Load() {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if !killed.Load() {
				expectStatus(t, e, "poison", store.Stalled)
				for i := range runs {
					expectEnd(t, e, fmt.Sprint("long ", i), store.Succeeded, "done")
				}
				stalled.expect(t, "poison poison:")
				crash()
				break
			}
			crash()
		}
		if deaths < 5 || deaths > 2+5+3 {
			t.Errorf("the run has ended %d processes; want 2, then 5 halves, then 3", deaths)
		}
	})
}
