package context

import (
	"context"

	"github.com/stet-run/stet"
)

func bad(ctx stet.Context) error {
	f := stet.Go(ctx, "f", func(inner stet.Context) (int, error) {
		return 0, stet.Sleep(ctx, "s", 1) // want `context: this function has a stet.Context of its own and uses the outer ctx`
	})
	if err := stet.Do(ctx, "d", func(context.Context) error {
		return stet.Sleep(ctx, "s", 1) // want `context: the body of a step uses ctx`
	}); err != nil {
		return err
	}
	return stet.Join(ctx, f)
}

func good(ctx stet.Context) error {
	f := stet.Go(ctx, "f", func(ctx stet.Context) (int, error) {
		return 0, stet.Sleep(ctx, "s", 1)
	})
	if err := stet.Do(ctx, "d", func(context.Context) error {
		_ = stet.RunID(ctx) + stet.Header(ctx, "h")
		return nil
	}); err != nil {
		return err
	}
	defer func() { _ = stet.Now(ctx) }()
	return stet.Join(ctx, f)
}
