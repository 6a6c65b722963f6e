package goroutine

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/stet-run/stet"
)

func bad(ctx stet.Context) {
	go f() // want `goroutine: go`
	g()    // want `goroutine: g → go`
	var group errgroup.Group
	group.Go(nil) // want `goroutine: errgroup.Group.Go`
}

func f() {}

func g() { go f() }

func good(ctx stet.Context) error {
	future := stet.Go(ctx, "f", func(stet.Context) (int, error) { f(); return 0, nil })
	if err := stet.Do(ctx, "g", func(context.Context) error { go f(); return nil }); err != nil {
		return err
	}
	return stet.Join(ctx, future)
}
