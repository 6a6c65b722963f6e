package e2e_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// A step's new result is what a replay of it would give, also where that is not what the
// body has returned.
func TestANewResultIsWhatAReplayGives(t *testing.T) {
	t.Parallel()
	type pair struct {
		A string
		b int
	}
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		number, err := stet.Step(ctx, "number", func(context.Context) (any, error) { return 3, nil })
		if err != nil {
			return "", err
		}
		text, err := stet.Step(ctx, "text", func(context.Context) (string, error) { return "a\xff", nil })
		if err != nil {
			return "", err
		}
		hidden, err := stet.Step(ctx, "hidden", func(context.Context) (pair, error) { return pair{"a", 1}, nil })
		if err != nil {
			return "", err
		}
		kept := []int{1}
		list, err := stet.Step(ctx, "list", func(context.Context) ([]int, error) { return kept, nil })
		kept[0] = 2
		return fmt.Sprintf("%T %v %q %v %v", number, number, text, hidden, list), err
	})
	const want = `float64 3 "a�" {a 0} [1]`
	s := memory.New()
	e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r, err := w.Start(ctx, e, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(ctx); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if _, err := e.Runs().Rewind(ctx, r.ID(), "list", stet.Act{}); err != nil { // the steps before it are replayed
		t.Fatal(err)
	}
	if got, err := r.Wait(ctx); err != nil || got != want {
		t.Errorf("after a replay got %s, %v; want %s", got, err, want)
	}
}
