package e2e_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
)

// TestAParentThatHoldsWhatItsChildWaitsFor is in the log every minute, with what to do: neither goes on by itself. If
// runs give their permits back while they wait, both go on.
func TestAParentThatHoldsWhatItsChildWaitsFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settings stet.QueueSettings
		key      string
		waits    bool
	}{
		{stet.QueueSettings{Concurrency: 1}, "", true},
		{stet.QueueSettings{Concurrency: 5, PerKey: 1}, "k", true},
		{stet.QueueSettings{Concurrency: 1, ReleaseWhileSuspended: true}, "", false},
		{stet.QueueSettings{Concurrency: 2}, "", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			place := stet.OnQueue{Name: "q", Key: c.key}
			child := stet.Define("child", func(stet.Context, int) (int, error) { return 1, nil })
			parent := stet.Define("parent", func(ctx stet.Context, n int) (int, error) { return child.Call(ctx, n, place) })
			var log lockedText
			e := serve(t, stet.Config{Workflows: []stet.Definition{child, parent},
				Logger: slog.New(slog.NewTextHandler(&log, nil))})
			createQueue(t, e, "q", c.settings)
			r, err := parent.Start(t.Context(), e, 0, stet.ID("above"), place)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5*time.Minute + time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err = r.Wait(ctx); (err == nil) == c.waits {
				t.Errorf("%+v: %v; want that it waits: %t", c.settings, err, c.waits)
			}
			said := strings.Count(log.String(), "holders=[above]")
			if c.waits && (said < 3 || said > 6) || !c.waits && said > 0 {
				t.Errorf("%+v: %d lines in five minutes; it waits: %t", c.settings, said, c.waits)
			}
			if c.waits {
				if _, err := e.Runs().Terminate(t.Context(), r.ID(), stet.Act{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// lockedText is a text that several goroutines write.
type lockedText struct {
	mu sync.Mutex
	strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}
