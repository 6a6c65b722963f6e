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
	group.Go(nil)            // want `goroutine: errgroup.Group.Go`
	(&loops{}).start(listen) // want `goroutine: loops.start → go`
}

type loops struct{}

func (*loops) start(f func()) { go f() }

var ticks = make(chan int)

func listen() { <-ticks } // not a finding of bad: it executes where start has it executed

func f() {}

func g() { go f() }

func good(ctx stet.Context) error {
	future := stet.Go(ctx, "f", func(stet.Context) (int, error) { f(); return 0, nil })
	if err := stet.Do(ctx, "g", func(context.Context) error { go f(); return nil }); err != nil {
		return err
	}
	return stet.Join(ctx, future)
}
