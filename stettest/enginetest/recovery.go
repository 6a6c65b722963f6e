package enginetest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// recovered sums the lines of a log that say what was found at a takeover. A process may take
// its shards in several parts.
type recovered struct {
	slog.Handler
	mu       sync.Mutex
	unclean  bool
	due      int
	suspects int
}

// Enabled implements slog.Handler.
func (*recovered) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h *recovered) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "recovered" {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "clean":
			h.unclean = h.unclean || !a.Value.Bool()
		case "suspects":
			h.suspects += int(a.Value.Int64())
		case "due":
			h.due += int(a.Value.Any().(int64))
		}
		return true
	})
	return nil
}

func (h *recovered) sums() (unclean bool, due, suspects int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unclean, h.due, h.suspects
}

// recovery lets a process die among runs in each state. The next one reports what it has found.
func recovery(t *testing.T, open Open) {
	w := newWorld(t, open)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	busy := make(chan struct{})
	hang := func(ctx context.Context) error {
		select {
		case busy <- struct{}{}:
		case <-ctx.Done():
		}
		<-ctx.Done()
		return ctx.Err()
	}
	const executing, waiting, long, stalled = 3, 2, 4, 1
	word := stet.Message[string]("word")
	workflows := []stet.Definition{
		stet.Define("executing", func(ctx stet.Context, _ string) (string, error) { return "", stet.Do(ctx, "hang", hang) }),
		stet.Define("waiting", func(ctx stet.Context, _ string) (string, error) {
			if _, err := word.Receive(ctx); err != nil {
				return "", err
			}
			return "", stet.Do(ctx, "hang", hang)
		}),
		stet.Define("long", func(ctx stet.Context, _ string) (string, error) {
			return "", stet.Sleep(ctx, "night", 10*time.Hour)
		}),
		stet.Define("stalled", func(stet.Context, string) (string, error) { panic("a bug") }),
	}
	first := w.calm(shortLease, workflows...)
	for _, of := range []struct {
		name string
		runs int
	}{{"executing", executing}, {"long", long}, {"stalled", stalled}, {"waiting", waiting}} {
		ref := stet.Ref[string, string](of.name)
		for i := range of.runs {
			err := insist(ctx, func() error {
				_, err := ref.Start(ctx, w.outside, "", stet.ID(fmt.Sprint(of.name, i)))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range executing {
		<-busy
	}
	// count waits until so many runs have the status.
	count := func(status store.Status, want int64) {
		t.Helper()
		for {
			var n int64
			tallies, err := w.outside.Runs().Count(ctx, store.Filter{Statuses: []store.Status{status}})
			if err != nil {
				t.Fatalf("count %s: %v", status, err)
			}
			for _, tally := range tallies {
				n += tally.Runs
			}
			if n == want {
				return
			}
			rest(ctx, 10*time.Millisecond)
		}
	}
	count(store.Stalled, stalled)
	count(store.Suspended, waiting+long)
	first.fault.die()
	_ = first.end()
	for i := range waiting {
		if err := word.Send(ctx, w.outside, fmt.Sprint("waiting", i), "go on"); err != nil {
			t.Fatal(err)
		}
	}

	log := &recovered{Handler: slog.DiscardHandler}
	e, err := stet.New(ctx, stet.Config{
		Store: w.open(), Payloads: payloads, Workflows: workflows, Node: "second", Build: "1", Logger: slog.New(log),
		LeaseTTL: shortLease, Poll: poll, Grace: 50 * time.Millisecond, AloneFor: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if e.Stats().Recovered != nil {
		t.Error("there is a report before Run")
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(working) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	const due = executing + waiting
	for {
		unclean, found, suspects := log.sums()
		if found == due && suspects == executing && unclean {
			break
		}
		if ctx.Err() != nil || found > due || suspects > executing {
			t.Fatalf("the log says that %d were due and %d suspect, unclean %t; expected %d, %d, true",
				found, suspects, unclean, due, executing)
		}
		rest(ctx, 10*time.Millisecond)
	}
	report := e.Stats().Recovered
	if report == nil || report.At.IsZero() || len(report.Shards) == 0 || report.Due > due {
		t.Fatalf("the report is %+v", report)
	}
	total := int64(0)
	for _, n := range report.Live {
		total += n
	}
	if total != executing+waiting+long+stalled || report.Live[store.Stalled] != stalled ||
		report.Live[store.Suspended] < long {
		t.Errorf("of %d runs the report counts %v", executing+waiting+long+stalled, report.Live)
	}
}
