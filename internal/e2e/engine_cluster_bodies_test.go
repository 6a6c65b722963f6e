package e2e_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
)

// bodies are the runs of a test with long bodies, and others that answer a message with a step.
type bodies struct {
	long         *stet.Workflow[int, int]
	short        *stet.Workflow[int, int]
	begun, ended atomic.Int32 // long bodies
}

func newBodies(length time.Duration) *bodies {
	b := &bodies{}
	b.long = stet.Define("long", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "body", func(ctx context.Context) (int, error) {
			b.begun.Add(1)
			select {
			case <-time.After(length):
				b.ended.Add(1)
				return n, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
	})
	b.short = stet.Define("short", func(ctx stet.Context, n int) (int, error) {
		if _, err := fleetWord.Receive(ctx); err != nil {
			return 0, err
		}
		return stet.Step(ctx, "answer", func(context.Context) (int, error) { return n, nil })
	})
	return b
}

// use makes the workflows those of a fleet.
func (b *bodies) use(f *fleet) {
	f.cfg.Workflows = []stet.Definition{b.long, b.short}
	f.cfg.MaxSteps, f.faults = 1000, 1
}

// begin starts so many long bodies, and as many runs that wait for a message.
func (b *bodies) begin(f *fleet, n int) {
	f.t.Helper()
	for i := range n {
		if _, err := b.long.Start(f.t.Context(), f.outer, i, stet.ID(fmt.Sprint("long-", i))); err != nil {
			f.t.Fatal(err)
		}
		if _, err := b.short.Start(f.t.Context(), f.outer, i, stet.ID(fmt.Sprint("short-", i))); err != nil {
			f.t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second)
	if got := b.begun.Load(); int(got) != n {
		f.t.Fatalf("%d of %d bodies have begun", got, n)
	}
}

// slowest sends to runs at different times, and returns how long the slowest took to end.
func (b *bodies) slowest(f *fleet, n int, every time.Duration) time.Duration {
	f.t.Helper()
	slowest := make(chan time.Duration, n)
	for i := range n {
		go func() {
			time.Sleep(time.Duration(i) * every)
			id, began := fmt.Sprint("short-", i), time.Now()
			if err := fleetWord.Send(f.t.Context(), f.outer, id, "go"); err != nil {
				f.t.Error(err)
			}
			if _, err := b.short.Handle(f.outer, id).Wait(f.t.Context()); err != nil {
				f.t.Error(err)
			}
			slowest <- time.Since(began)
		}()
	}
	most := time.Duration(0)
	for range n {
		most = max(most, <-slowest)
	}
	return most
}

// TestANodeThatLeavesKeepsNobodyWaiting: 600 long bodies are at work when their node stops. The other runs
// in the same shards go on at once, on either node, and the bodies have the whole grace period.
func TestANodeThatLeavesKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{8 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			f, b := newFleet(t, 32), newBodies(length)
			b.use(f)
			old := f.join()
			f.settle(5*time.Second, old)
			b.begin(f, 600)
			young := f.join()
			time.Sleep(100 * time.Millisecond)
			began := time.Now()
			old.stop()
			if took := b.slowest(f, 600, 20*time.Millisecond); took > time.Second {
				t.Errorf("beside bodies of %s the slowest run took %s; want 1s at most", length, took)
			}
			if err := <-old.ended; err != nil {
				t.Error(err)
			}
			delete(f.nodes, old.name)
			if length < f.cfg.Grace && b.begun.Load() != 600 {
				t.Errorf("%d bodies of %s have begun; want each once", b.begun.Load(), length)
			}
			if took := time.Since(began); length > f.cfg.Grace && b.ended.Load() > 0 {
				t.Errorf("bodies of %s have ended after %s", length, took)
			}
			f.settle(5*time.Second, young)
			f.done()
		})
	}
}

// TestANodeThatJoinsEndsNoBody: the bodies that are at work end where they are, and only then do their shards go. The
// other runs in these go on at once meanwhile.
func TestANodeThatJoinsEndsNoBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, b := newFleet(t, 32), newBodies(25*time.Second)
		b.use(f)
		old := f.join()
		f.settle(5*time.Second, old)
		b.begin(f, 100)
		young := f.join()
		if took := b.slowest(f, 100, 150*time.Millisecond); took > time.Second {
			t.Errorf("the slowest run took %s; want 1s at most", took)
		}
		time.Sleep(15 * time.Second)
		if b.begun.Load() != 100 || b.ended.Load() != 100 {
			t.Errorf("%d bodies have begun, and %d have ended; want each once", b.begun.Load(), b.ended.Load())
		}
		f.settle(5*time.Second, old, young)
		f.done()
	})
}
