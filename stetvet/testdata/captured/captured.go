package captured

import (
	"context"

	"github.com/stet-run/stet"
)

func bad(ctx stet.Context, items []string) (int, error) {
	n, seen := 0, map[string]bool{}
	if err := stet.Do(ctx, "n", func(context.Context) error {
		n++              // want `captured: the body of a step assigns to n`
		seen["a"] = true // want `captured: the body of a step assigns to seen`
		items[0] = "b"   // want `captured: the body of a step assigns to items`
		return nil
	}); err != nil {
		return 0, err
	}
	return stet.Loop(ctx, "l", 0, func(ctx stet.Context, i int) (stet.Next[int, int], error) {
		n = i // want `captured: an iteration assigns to n`
		return stet.Next[int, int]{}.Break(i), nil
	})
}

type totals struct{ Sum int }

func field(ctx stet.Context) (int, error) {
	var t totals
	err := stet.Do(ctx, "n", func(context.Context) error {
		t.Sum++ // want `captured: the body of a step assigns to t`
		return nil
	})
	return t.Sum, err
}

// The receiver is the application's.
func (t *totals) count(ctx stet.Context) error {
	return stet.Do(ctx, "n", func(context.Context) error { t.Sum++; return nil })
}

func good(ctx stet.Context) (int, error) {
	n, err := stet.Step(ctx, "n", func(context.Context) (int, error) {
		inside := 0
		inside++
		return inside, nil
	})
	if err != nil {
		return 0, err
	}
	f := stet.Go(ctx, "f", func(ctx stet.Context) (int, error) { n++; return n, nil })
	return f.Await(ctx)
}
