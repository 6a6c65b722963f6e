package e2e_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestASmallMessageBehindLargeOnes: to receive one small message behind 1,200 of 200 KiB
// takes less than 8 MiB, also for a process that has never seen the run: the others are not
// read. Not parallel: it counts all that the process allocates.
func TestASmallMessageBehindLargeOnes(t *testing.T) {
	const many, size, bound = 1200, 200 << 10, 8 << 20
	bulk := stet.Message[string]("bulk")
	w := stet.Define("behind", func(ctx stet.Context, _ int) (string, error) {
		first, err := word.Receive(ctx)
		if err != nil {
			return "", err
		}
		second, err := word.Receive(ctx, stet.Named("second"))
		if err != nil {
			return "", err
		}
		last, err := bulk.Receive(ctx)
		return first + second + last[:3], err
	})
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			open := s.open(t)
			cfg := stet.Config{MaxParked: stet.None, Poll: time.Minute, Workflows: []stet.Definition{w}}
			ctx := testContext(t)
			first := startProcess(t, open(), cfg)
			r := begin(t, first.Engine, w, 0, stet.ID("r"))
			large := strings.Repeat("x", size)
			for range many {
				if err := bulk.Send(ctx, first.Engine, r.ID(), large); err != nil {
					t.Fatal(err)
				}
			}
			receives := func(what string, p *process, value string) {
				t.Helper()
				before := allocated()
				if err := word.Send(ctx, p.Engine, "r", value); err != nil {
					t.Fatal(err)
				}
				for ctx.Err() == nil { // until it is received: its entry is there
					entries, err := p.Runs().History(ctx, "r", stet.HistoryQuery{})
					if err != nil {
						t.Fatal(err)
					}
					done := 0
					for i := range entries {
						if entries[i].State == store.Done {
							done++
						}
					}
					if done > 0 && value == "a" || done > 1 {
						break
					}
					if err := takes(ctx, time.Millisecond); err != nil {
						t.Fatal(err)
					}
				}
				if n := allocated() - before; n > bound {
					t.Errorf("%s: a message of %d bytes has taken %d bytes, more than %d", what, len(value), n, bound)
				} else {
					t.Logf("%s: %d KiB", what, n>>10)
				}
			}
			receives("on a run that is evicted", first, "a")
			first.bury(t)
			before := allocated()
			second := startProcess(t, open(), cfg)
			receives("in another process", second, "b")
			if n := allocated() - before; n > 2*bound {
				t.Errorf("a process that takes the run over has allocated %d bytes", n)
			}
			if got, err := w.Handle(second.Engine, "r").Wait(ctx); err != nil || got != "abxxx" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
