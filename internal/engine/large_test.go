package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// A large value is logged once for each workflow and place, however many runs have one.
func TestLargeValueIsLoggedOncePerPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logs
		e := newEngine(t, memory.New(), "n", logging(&l), func(cfg *engine.Config) { cfg.WarnValue = 100 },
			with("w", func(b *runner.Branch) ([]byte, error) {
				for name, size := range map[string]int{"small": 99, "large": 100} {
					if _, err := do(b, name, func(context.Context) string { return strings.Repeat("x", size) }); err != nil {
						return nil, err
					}
				}
				return nil, nil
			}))
		defer serve(t, e)()
		synctest.Wait()
		for _, id := range []string{"a", "b"} {
			start(t, e, "w", id)
			expectEnd(t, e, id, store.Succeeded, "")
		}
		e.Large("w", "input", 99)
		e.Large("w", "input", 100)
		e.Large("other", "input", 100)
		e.Large("other", "input", 100)
		lines := l.lines("a value is large")
		if len(lines) != 3 || !strings.Contains(lines[0], "location=large") {
			t.Errorf("logged were %q; want the step and two inputs", lines)
		}
	})
}

// Workflow code that does not come to an operation is logged.
func TestSlowCodeIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logs
		e := newEngine(t, memory.New(), "n", logging(&l), with("w", func(*runner.Branch) ([]byte, error) {
			time.Sleep(15 * time.Second)
			return nil, nil
		}))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a")
		expectEnd(t, e, "a", store.Succeeded, "")
		lines := l.lines("workflow code has reached no operation")
		if len(lines) != 1 || !strings.Contains(lines[0], "TestSlowCodeIsLogged") {
			t.Errorf("logged were %q; want one line with the stack of the code", lines)
		}
	})
}
