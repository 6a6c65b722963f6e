package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// nodes lets several processes share the store, come, go and die.
func nodes(t *testing.T, open Open) {
	w := newWorld(t, open)
	if w.slots == 1 {
		t.Skip("one process at a time works on this store")
	}
	nap := stet.Define("nap", func(ctx stet.Context, n int) (int, error) {
		for i := range 4 {
			err := stet.Do(ctx, fmt.Sprint("s", i), func(ctx context.Context) error {
				select {
				case <-time.After(time.Duration(n%5) * 10 * time.Millisecond):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if err == nil {
				err = stet.Sleep(ctx, fmt.Sprint("z", i), time.Duration(n%7)*20*time.Millisecond)
			}
			if err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	begin := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			err := insist(ctx, func() error {
				_, err := nap.Start(ctx, w.outside, i, stet.ID(fmt.Sprint("nap-", i)))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	finish := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if got, err := nap.Handle(w.outside, fmt.Sprint("nap-", i)).Wait(ctx); err != nil || got != i {
				t.Fatalf("run %d: %d, %v", i, got, err)
			}
		}
	}
	a := w.calm(nodesLease, nap)
	w.settle(ctx, 20*time.Second, a)
	begin(0, 60)
	b := w.calm(nodesLease, nap)
	w.settle(ctx, 20*time.Second, a, b)
	c := w.calm(nodesLease, nap)
	begin(60, 120)
	w.settle(ctx, 20*time.Second, a, b, c)
	begin(120, 180)
	if err := b.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
	t.Logf("after a graceful stop the others have all shards in %s", w.settle(ctx, 10*time.Second, a, c))
	finish(0, 180)
	w.mu.Lock()
	for key, n := range w.executions {
		if n > 1 {
			t.Errorf("without a fault, %s was executed %d times", key, n)
		}
	}
	w.mu.Unlock()

	d := w.calm(nodesLease, nap)
	w.settle(ctx, 20*time.Second, a, c, d)
	begin(200, 260)
	done, err := w.done(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	c.fault.die()
	took := w.settle(ctx, 20*time.Second, a, d)
	t.Logf("after a death the others have all shards in %s, with leases of %s", took, nodesLease)
	finish(200, 260)
	_ = c.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, n := range done {
		if now := w.executions[key]; now != n {
			t.Errorf("%s was done before the death, and is executed again", key)
		}
	}
}

// settle waits until the processes share the shards of each lane evenly, and returns how long that
// took.
func (w *world) settle(ctx context.Context, limit time.Duration, processes ...*process) time.Duration {
	w.t.Helper()
	begun := time.Now()
	for {
		d, err := w.outside.Describe(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		held := map[string]int{}           // shards by node
		byLane := map[int]map[string]int{} // and lane
		for _, l := range d.Leases {
			if l.Shard.Group == store.DefaultGroup && l.Until > d.Now {
				held[l.Node]++
				lane := w.lanes.LaneOf(l.Shard.Slot)
				if byLane[lane] == nil {
					byLane[lane] = map[string]int{}
				}
				byLane[lane][l.Node]++
			}
		}
		sum, uneven := 0, 0
		for _, p := range processes {
			sum += held[p.name]
		}
		for _, of := range byLane {
			least, most := w.slots, 0
			for _, p := range processes {
				least, most = min(least, of[p.name]), max(most, of[p.name])
			}
			uneven = max(uneven, most-least)
		}
		switch took := time.Since(begun); {
		case sum == w.slots && uneven <= 1:
			return took
		case took > limit:
			w.t.Fatalf("after %s the shards are with %v", limit, held)
		}
		rest(ctx, 5*time.Millisecond)
	}
}
