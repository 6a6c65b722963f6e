package contin

import (
	"context"

	"github.com/stet-run/stet"
)

func bad(ctx stet.Context) error {
	f := stet.Go(ctx, "f", func(ctx stet.Context) (int, error) {
		return 0, stet.ContinueAsNew(1) // want `continue: only the workflow's function`
	})
	g := stet.Go(ctx, "g", branch)
	if err := stet.Do(ctx, "d", func(context.Context) error {
		return stet.ContinueAsNew(1) // want `continue: only the workflow's function`
	}); err != nil {
		return err
	}
	return stet.Join(ctx, f, g)
}

func branch(stet.Context) (int, error) {
	return 0, stet.ContinueAsNew(1) // want `continue: only the workflow's function`
}

func good(ctx stet.Context) error { return stet.ContinueAsNew(1) }

var W = stet.Define("w", func(ctx stet.Context, n int) (int, error) { return 0, stet.ContinueAsNew(n) })
