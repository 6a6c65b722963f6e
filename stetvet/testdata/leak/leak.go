package leak

import (
	"context"

	"github.com/stet-run/stet"
)

type holder struct{ ctx stet.Context }

var kept stet.Context // want `leak: a package variable keeps`

func bad(ctx stet.Context, c chan stet.Context, h *holder) error {
	h.ctx = ctx          // want `leak: a field keeps`
	_ = holder{ctx: ctx} // want `leak: a field keeps`
	kept = ctx           // want `leak: a package variable keeps` `global: a write of kept`
	c <- ctx             // want `leak: a channel keeps` `channel: a send`
	go use(ctx)          // want `leak: a goroutine keeps` `goroutine: go`
	go func() {          // want `goroutine: go`
		use(ctx) // want `leak: a goroutine uses ctx`
	}()
	var inner context.Context
	err := stet.Do(ctx, "d", func(ctx context.Context) error {
		inner = ctx // want `leak: inner keeps the context of a step`
		return nil
	})
	_ = inner
	return err
}

func use(ctx stet.Context) {}

func good(ctx stet.Context) error {
	use(ctx)
	clean := stet.WithoutCancel(ctx)
	use(clean)
	return stet.Do(ctx, "d", func(ctx context.Context) error {
		inner := ctx
		return inner.Err()
	})
}
