package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// load is runs that are started one after another by several clients, each with a child in some other slot and a
// message from its client, and what became of them.
type load struct {
	t      *testing.T
	client *stet.Engine
	order  *stet.Workflow[string, int]
	pack   *stet.Workflow[string, int]
	ended  context.CancelFunc
	done   sync.WaitGroup
	starts atomic.Int64 // acknowledged

	mu       sync.Mutex
	executed map[string]int // bodies, by run and step
	runs     []string       // whose start was acknowledged
}

var told = stet.Message[int]("go")

// newLoad returns a load whose nodes and client are engines on stores that open opens.
func newLoad(t *testing.T, nodes int, open func() *redis.Store) *load {
	l := &load{t: t, executed: map[string]int{}}
	body := func(ctx stet.Context, step, run string) error {
		return stet.Do(ctx, step, func(context.Context) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.executed[run+" "+step]++
			return nil
		})
	}
	l.pack = stet.Define("pack", func(ctx stet.Context, run string) (int, error) { return 1, body(ctx, "pack", run) })
	l.order = stet.Define("order", func(ctx stet.Context, run string) (int, error) {
		if err := body(ctx, "begin", run); err != nil {
			return 0, err
		}
		n, err := l.pack.Call(ctx, run)
		if err != nil {
			return 0, err
		}
		m, err := told.Receive(ctx)
		if err != nil {
			return 0, err
		}
		return n + m, body(ctx, "end", run)
	})
	engine := func(name string, workflows ...stet.Definition) *stet.Engine {
		e, err := stet.New(t.Context(), stet.Config{Store: open(), Node: name, Workflows: workflows,
			LeaseTTL: time.Minute, // while a slot moves, none of its leases can be renewed: a busy machine takes long
			Poll:     100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for i := range nodes {
		e := engine(fmt.Sprint("node-", i), l.order, l.pack)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("node %d: %v", i, err)
			}
		})
	}
	l.client = engine("client")
	return l
}

// ahead is how many runs a client starts before the first of them has ended.
const ahead = 5

// begin starts runs with some clients, until end.
func (l *load) begin(clients int) {
	ctx, cancel := context.WithCancel(l.t.Context())
	l.ended = cancel
	for client := range clients {
		l.done.Go(func() {
			name := func(i int) string { return fmt.Sprintf("order-%d-%d", client, i) }
			for i := 0; ctx.Err() == nil; i++ {
				if i >= ahead && !l.finished(l.t.Context(), name(i-ahead)) {
					return
				}
				run := name(i)
				if err := l.again(ctx, func() error {
					_, err := l.order.Start(ctx, l.client, run, stet.ID(run))
					return err
				}); err != nil {
					return
				}
				l.mu.Lock()
				l.runs = append(l.runs, run)
				l.mu.Unlock()
				l.starts.Add(1)
				err := l.again(l.t.Context(), func() error {
					return told.Send(l.t.Context(), l.client, run, 1, stet.SendKey("go"))
				})
				if err != nil {
					l.t.Errorf("send to %s: %v", run, err)
					return
				}
			}
		})
	}
}

// again repeats an act while the store is away.
func (l *load) again(ctx context.Context, act func() error) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := act()
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) || ctx.Err() != nil {
			return err
		}
		<-again.C
	}
}

// finished waits until a run has ended, and reports whether it has ended well.
func (l *load) finished(ctx context.Context, run string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var out int
	err := l.again(ctx, func() (err error) {
		out, err = l.order.Handle(l.client, run).Wait(ctx)
		return err
	})
	if err != nil || out != 2 {
		l.t.Errorf("%s: %d, %v", run, out, err)
	}
	return err == nil && out == 2
}

// end ends the clients and checks that every run that was acknowledged ends well.
func (l *load) end() {
	l.t.Helper()
	l.ended()
	l.done.Wait()
	for _, run := range l.runs {
		if !l.finished(l.t.Context(), run) {
			break
		}
	}
	l.t.Logf("%d runs", len(l.runs))
}

// once checks that no body was executed twice.
func (l *load) once() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for what, n := range l.executed {
		if n != 1 {
			l.t.Errorf("%s was executed %d times", what, n)
		}
	}
}
