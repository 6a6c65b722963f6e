package error

import (
	"context"

	"github.com/stet-run/stet"
)

var approved = stet.Message[string]("approved")

func bad(ctx stet.Context) {
	stet.Sleep(ctx, "s", 1)                                             // want `error: the error of stet.Sleep is dropped`
	_ = stet.Sleep(ctx, "t", 1)                                         // want `error: the error of stet.Sleep is dropped`
	s, _ := approved.Receive(ctx)                                       // want `error: the error of stet.Message.Receive`
	defer stet.Do(ctx, "d", func(context.Context) error { return nil }) // want `error: the error of stet.Do`
	_ = s
}

func good(ctx stet.Context) error {
	clean := stet.WithoutCancel(ctx)
	_ = stet.Sleep(clean, "t", 1)
	defer stet.Do(stet.WithoutCancel(ctx), "d", func(context.Context) error { return nil })
	return stet.Sleep(ctx, "s", 1)
}
