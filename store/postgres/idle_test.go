package postgres_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
)

// TestIdleCost: a process of default settings with nothing to do, and runs that sleep,
// asks the server at most four times in a second.
func TestIdleCost(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	var statements atomic.Int64
	count := relay{asks: func(kind byte, _ []byte) []byte {
		if kind == 'E' || kind == 'Q' {
			statements.Add(1)
		}
		return nil
	}}
	s := open(t, server.TCP(count.between(t, server.Addr())))
	nap := stet.Define("nap", func(ctx stet.Context, _ int) (int, error) { return 1, stet.Sleep(ctx, "s", time.Hour) })
	quick := stet.Define("quick", func(ctx stet.Context, n int) (int, error) { return n, nil })
	e := serveWith(t, stet.Config{Store: s, Workflows: []stet.Definition{nap, quick}, ParkFor: 10 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler)})
	for i := range 20 {
		if _, err := nap.Start(t.Context(), e, i); err != nil {
			t.Fatal(err)
		}
	}
	run, err := quick.Start(t.Context(), e, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	const window = 6 * time.Second
	for tries := 5; ; tries-- { // on a busy machine it takes a while until what has begun has ended
		<-time.After(time.Second)
		before := statements.Load()
		<-time.After(window)
		asked := statements.Load() - before
		t.Logf("%d statements in %s", asked, window)
		if float64(asked) <= 4*window.Seconds() {
			break
		}
		if tries == 1 {
			t.Fatalf("asked %d times in %s", asked, window)
		}
	}
}
