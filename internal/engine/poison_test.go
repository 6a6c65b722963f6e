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

// Of runs that were there at two crashes one at a time is executed, until a turn of it is
// committed. A run that was there at one of them waits for the others.
func TestSuspectsAreExecutedOneAtATime(t *testing.T) {
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
		happened.expect(t, "x")
		close(gates["x"])
		synctest.Wait()
		happened.expect(t, "y")
		close(gates["y"])
		synctest.Wait()
		happened.expect(t, "z")
		close(gates["z"])
		for id := range gates {
			expectEnd(t, third, id, store.Succeeded, id)
		}
		crash()
	})
}

// A suspect that does not commit is alone for a time only: longer with each crash that it
// was there at.
func TestTimeAloneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened trace
		code := bystanders(&happened, map[string]chan struct{}{"x": nil, "y": nil})
		s := memory.New()
		for n, alone := range []time.Duration{0, 0, time.Second, 2 * time.Second} {
			e, crash := boot(t, s, fmt.Sprint("boot", n), code)
			if n == 0 {
				start(t, e, "x", "x")
				synctest.Wait()
				start(t, e, "y", "y")
				synctest.Wait()
			}
			if alone > 0 {
				time.Sleep(alone - time.Millisecond)
				happened.expect(t, "x")
				time.Sleep(2 * time.Millisecond)
				happened.expect(t, "y")
			} else {
				happened.expectAll(t, "x", "y")
			}
			crash()
		}
	})
}

// A run that ends its process each time is stalled when it was alone for as often as the
// limit says. The run beside it goes on.
func TestRunThatKillsEveryProcessIsStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		var killed atomic.Bool
		kill := func(ctx context.Context) string { killed.Store(true); <-ctx.Done(); return "" }
		deaths := 0
		for ; deaths < 20; deaths++ {
			killed.Store(false)
			e, crash := boot(t, s, fmt.Sprint("boot", deaths), with("kills", does(kill)), with("w", hears(1)))
			if deaths == 0 {
				start(t, e, "w", "b")
				start(t, e, "kills", "a")
				synctest.Wait()
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
