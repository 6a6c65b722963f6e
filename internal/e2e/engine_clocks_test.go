package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
	"github.com/stet-run/stet/store/storekit"
)

// wallClock is the clock of a machine that somebody sets.
type wallClock struct{ ahead atomic.Int64 }

func (c *wallClock) now() time.Time            { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *wallClock) set(ahead time.Duration)   { c.ahead.Store(int64(ahead)) }
func (c *wallClock) jumps() (by time.Duration) { return time.Duration(c.ahead.Load()) }

// monotonic makes of a machine's clock the one that a store makes of its machine's.
func monotonic(wall func() time.Time) func() time.Time {
	begun := time.Now()
	now := storekit.Monotonic(wall, func() time.Duration { return time.Since(begun) })
	return func() time.Time { return now().Time() }
}

// naps are how long the runs sleep, and for what they wait in vain.
var naps = []time.Duration{100 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second}

// lateness is how much later than it is due a timer may fire: a poll, a takeover, and
// what a busy moment takes.
const lateness = 2500 * time.Millisecond

// timed are runs that sleep, wait in vain and wait for a message, and say by how much
// time went on, by the clock that nobody sets.
type timed struct {
	t  *testing.T
	mu sync.Mutex
	// The measurements, by run and step: the begin of the step, and its planned distance from the step before.
	late  time.Duration
	naps  int
	begun map[string]time.Time
}

func (w *timed) step(ctx stet.Context, name string, after time.Duration) error {
	id := stet.RunID(ctx)
	return stet.Do(ctx, name, func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		now := time.Now()
		if before, ok := w.begun[id]; ok && after > 0 {
			late := now.Sub(before) - after
			w.naps++
			w.late = max(w.late, late)
			if late > lateness {
				w.t.Errorf("%s: %s begins %v after the step before, and should %v after it", id, name, now.Sub(before), after)
			}
		}
		w.begun[id] = now
		return nil
	})
}

func (w *timed) workflow() *stet.Workflow[int, string] {
	return stet.Define("timed", func(ctx stet.Context, n int) (string, error) {
		var out []byte
		for i := range 4 {
			nap := naps[(n+i)%len(naps)]
			if err := w.step(ctx, fmt.Sprint("before-", i), 0); err != nil {
				return "", err
			}
			due := stet.Now(ctx).Add(nap)
			if i%2 == 0 {
				if err := stet.Sleep(ctx, fmt.Sprint("nap-", i), nap); err != nil {
					return "", err
				}
				out = append(out, 's')
			} else if _, err := word.Receive(ctx, stet.Named(fmt.Sprint("vain-", i)),
				stet.Within(nap)); !errors.Is(err, stet.ErrTimeout) {
				return "", fmt.Errorf("waiting in vain: %w", err)
			} else {
				out = append(out, 't')
			}
			if now := stet.Now(ctx); now.Before(due) {
				return "", fmt.Errorf("nap %d was over %v before its end", i, due.Sub(now))
			}
			if err := w.step(ctx, fmt.Sprint("after-", i), nap); err != nil {
				return "", err
			}
		}
		got, err := never.Receive(ctx, stet.Within(1000*time.Hour))
		return string(out) + got, err
	})
}

// TestTheMachinesClockIsSet: three nodes on a file, of which one after the other has
// the lease, give the same results, in the same order, at the same times as if nobody
// had set the clock of their machine, forward by hours and back by hours.
func TestTheMachinesClockIsSet(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		jumps []time.Duration // how far ahead the clock stands, one after the other
	}{
		{"never", []time.Duration{0, 0, 0, 0, 0, 0}},
		{"back", []time.Duration{-2 * time.Hour, -5 * time.Hour, -5*time.Hour - time.Second, -9 * time.Hour, -4 * time.Hour, -12 * time.Hour}},
		{"forth and back", []time.Duration{3 * time.Hour, -2 * time.Hour, 4 * time.Hour, 30 * time.Minute, -7 * time.Hour, 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "clock.db")
			synctest.Test(t, func(t *testing.T) { theClockIsSet(t, path, row.jumps) })
		})
	}
}

func theClockIsSet(t *testing.T, path string, jumps []time.Duration) {
	ctx := t.Context()
	w := &timed{t: t, begun: map[string]time.Time{}}
	sleeper := w.workflow()
	beat := stet.Define("beat", func(stet.Context, int) (int, error) { return 0, nil })
	paced := stet.Define("paced", func(stet.Context, int) (int, error) { return 0, nil }, stet.OnQueue{Name: "paced"})
	clock := new(wallClock)
	type node struct {
		*stet.Engine
		stop  context.CancelFunc
		ended chan error
	}
	begin := func(db store.Store, name string) *node {
		e, err := stet.New(ctx, stet.Config{
			Store: db, Workflows: []stet.Definition{sleeper, beat, paced}, Node: name, Build: "1", LeaseTTL: 3 * time.Second,
			Poll:    time.Second,
			ParkFor: 300 * time.Millisecond,
			Logger:  slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
		})
		if err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(context.Background())
		n := &node{e, stop, make(chan error, 1)}
		go func() { n.ended <- e.Run(running) }()
		return n
	}
	end := func(n *node) {
		n.stop()
		if err := <-n.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	var stores []*sqlite.Store
	var nodes []*node
	for i := range 3 {
		db, err := sqlite.Open(context.Background(), path, sqlite.Clock(monotonic(clock.now)))
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, db)
		nodes = append(nodes, begin(db, fmt.Sprint("n", i)))
	}
	client := nodes[0].Engine
	ok(t, client.Queues().Create(ctx, "paced", stet.QueueSettings{Rate: 2, Per: time.Second}))
	ok(t, beat.Schedule(ctx, client, "beat", 0,
		stet.Schedule{Every: time.Second, Overlap: stet.AllowOverlap, CatchUp: 5 * time.Second}))
	start := time.Now()
	var runs []string
	for round, ahead := range jumps {
		for i := range 4 {
			id := fmt.Sprintf("r%d-%d", round, i)
			_, err := sleeper.Start(ctx, client, round+i, stet.ID(id))
			ok(t, err)
			runs = append(runs, id)
			_, err = paced.Start(ctx, client, i)
			ok(t, err)
		}
		time.Sleep(1300 * time.Millisecond)
		clock.set(ahead)
		time.Sleep(1300 * time.Millisecond)
		old := round % 3 // the owner, more often than not; it comes back on the handle that it had
		end(nodes[old])
		nodes[old] = begin(stores[old], fmt.Sprint("n", old, ".", round))
		client = nodes[(old+1)%3].Engine
	}
	for _, id := range runs {
		ok(t, never.Send(ctx, client, id, "!"))
	}
	for _, id := range runs {
		if got, err := stet.Ref[int, string]("timed").Handle(client, id).Wait(ctx); err != nil || got != "stst!" {
			t.Errorf("%s: got %q, %v", id, got, err)
		}
	}
	if took := time.Since(start); took > 45*time.Second {
		t.Errorf("all of it took %v", took)
	}
	info, err := client.Schedules().Info(ctx, "beat")
	ok(t, err)
	if beats := time.Since(start) / time.Second; info.Started < int64(beats)-4 {
		t.Errorf("of a schedule of every second %d runs were started in %d s", info.Started, beats)
	}
	checkPace(t, client)
	w.mu.Lock()
	t.Logf("%d naps, the latest %v late; clock %v ahead", w.naps, w.late, clock.jumps())
	if w.naps != 4*len(runs) {
		t.Errorf("expected %d naps, found %d", 4*len(runs), w.naps)
	}
	w.mu.Unlock()
	for i, n := range nodes {
		end(n)
		ok(t, stores[i].Close())
	}
}

// checkPace checks that the runs of the queue began at its pace, by the store's time.
func checkPace(t *testing.T, e *stet.Engine) {
	t.Helper()
	page, err := e.Store().List(t.Context(), store.Filter{Workflows: []string{"paced"}, Limit: store.MaxPage})
	ok(t, err)
	var begun []store.Time
	for i := range page.Runs {
		if page.Runs[i].Status != store.Succeeded {
			t.Errorf("run %s of the queue is %s", page.Runs[i].ID, page.Runs[i].Status)
		}
		begun = append(begun, page.Runs[i].Started)
	}
	slices.Sort(begun)
	for i := 4; i < len(begun); i++ { // a permit may be used a while after it was granted
		if between := begun[i].Sub(begun[i-4]); between < 500*time.Millisecond {
			t.Errorf("5 runs of a queue that lets 2 begin in a second began within %v", between)
		}
	}
}
