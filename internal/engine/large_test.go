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

// sleepBelow sleeps with so many calls on the stack.
//
//go:noinline
func sleepBelow(calls int, d time.Duration) int {
	if calls == 0 {
		time.Sleep(d)
		return 0
	}
	return sleepBelow(calls-1, d) + 1
}

// Workflow code that does not come to an operation is logged, with the stacks of all runs that do not.
func TestSlowCodeIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logs
		e := newEngine(t, memory.New(), "n", logging(&l), with("w", func(*runner.Branch) ([]byte, error) {
			sleepBelow(200, 15*time.Second)
			return nil, nil
		}))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a")
		start(t, e, "w", "b")
		expectEnd(t, e, "a", store.Succeeded, "")
		expectEnd(t, e, "b", store.Succeeded, "")
		lines := l.lines("workflow code has reached no operation")
		stacks := strings.Count(strings.Join(lines, ""), "stacks=")
		if len(lines) != 2 || stacks != 1 || !strings.Contains(strings.Join(lines, ""), "sleepBelow") {
			t.Errorf("logged were %q; want two lines, one of them with the stacks of the code", lines)
		}
	})
}
