package channel

import (
	"context"

	"github.com/stet-run/stet"
)

func bad(ctx stet.Context, c chan int) {
	<-c      // want `channel: a receive`
	c <- 1   // want `channel: a send`
	close(c) // want `channel: close`
	select { // want `channel: select`
	case <-c:
	default:
	}
	for range c { // want `channel: range over a channel`
	}
	drain(c) // want `channel: drain → a receive`
}

func drain(c chan int) { <-c }

func good(ctx stet.Context, c chan int) error {
	if err := stet.Do(ctx, "c", func(context.Context) error { drain(c); return nil }); err != nil {
		return err
	}
	_, err := stet.Select(ctx, stet.AfterDelay("a", 1))
	return err
}
