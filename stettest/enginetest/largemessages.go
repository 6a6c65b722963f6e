package enginetest

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
)

// SmallBehindLarge receives one small message behind 1,200 of 200 KiB, each time in less than 8 MiB: by a run that
// is evicted, and by a process that has never seen the run. The others are not read. It counts all that this process
// allocates: no other test may execute meanwhile.
func SmallBehindLarge(t *testing.T, open Open) {
	const many, size, bound = 1200, 200 << 10, 8 << 20
	word, bulk := stet.Message[string]("word"), stet.Message[string]("bulk")
	received := make(chan string, 100) // by replays again
	w := stet.Define("behind", func(ctx stet.Context, _ int) (string, error) {
		first, err := word.Receive(ctx)
		if err != nil {
			return "", err
		}
		received <- first //stetvet:ignore channel the test hears of each replay
		second, err := word.Receive(ctx, stet.Named("second"))
		if err != nil {
			return "", err
		}
		received <- second //stetvet:ignore channel the test hears of each replay
		last, err := bulk.Receive(ctx)
		return first + second + last[:3], err
	})
	nothing := stet.Define("nothing", func(stet.Context, int) (int, error) { return 0, nil })
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	handle := open(t)
	begin := func(node string) (e *stet.Engine, end func()) {
		e, err := stet.New(ctx, stet.Config{Store: handle(), Workflows: []stet.Definition{w, nothing}, Node: node,
			Build: "1", MaxParkedBytes: stet.None, Poll: time.Minute, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- e.Run(running) }()
		run, err := nothing.Start(ctx, e, 0)
		if err == nil {
			_, err = run.Wait(ctx) // it works on the store then
		}
		if err != nil {
			t.Fatal(err)
		}
		return e, func() {
			t.Helper()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	receives := func(what string, e *stet.Engine, value string) {
		t.Helper()
		before := allocated()
		if err := word.Send(ctx, e, "r", value); err != nil {
			t.Fatal(err)
		}
		for got := ""; got != value; {
			select {
			case got = <-received:
			case <-ctx.Done():
				t.Fatalf("%s: the message is not received", what)
			}
		}
		if n := allocated() - before; n > bound {
			t.Errorf("%s: a message of %d bytes has taken %d bytes, more than %d", what, len(value), n, bound)
		} else {
			t.Logf("%s: %d KiB", what, n>>10)
		}
	}

	first, end := begin("first")
	if _, err := w.Start(ctx, first, 0, stet.ID("r")); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", size)
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for range many / 8 {
				if err := bulk.Send(ctx, first, "r", large); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	receives("on a run that is evicted", first, "a")
	end()

	before := allocated()
	second, end := begin("second")
	defer end()
	receives("in another process", second, "b")
	if n := allocated() - before; n > 2*bound {
		t.Errorf("a process that takes the run over has allocated %d bytes", n)
	}
	if got, err := w.Handle(second, "r").Wait(ctx); err != nil || got != "abxxx" {
		t.Errorf("got %q, %v", got, err)
	}
}
