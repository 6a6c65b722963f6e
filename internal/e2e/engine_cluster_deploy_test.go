package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// deployed is the workflow of a fleet in two versions: the second does one step
// more.
func (f *fleet) deployed(second bool) stet.Definition {
	return stet.Define("fleet", func(ctx stet.Context, n int) (string, error) {
		a, err := f.step(ctx, "a", n)
		if err != nil {
			return "", err
		}
		if second {
			if stet.Version(ctx, "more", 1) > 0 {
				more, err := f.step(ctx, "more", n)
				if err != nil {
					return "", err
				}
				a += more
			}
		}
		word, err := fleetWord.Receive(ctx)
		if err != nil {
			return "", err
		}
		c, err := f.step(ctx, "c", n)
		return a + word + c, err
	})
}

// A rolling deployment forwards and back: no run stalls, runs that the later build
// has worked on wait for a node of that build, and go on when there is one.
func TestRollingDeployment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 32)
		build := func(name string, second bool) func(*stet.Config) {
			return func(cfg *stet.Config) {
				cfg.Build, cfg.Workflows = name, []stet.Definition{f.deployed(second)}
			}
		}
		first, second := build("2026-01-01", false), build("2026-02-01", true)
		begin := func(from, to int) {
			for i := from; i < to; i++ {
				if _, err := fleetRef.Start(t.Context(), f.outer, i, stet.ID(fmt.Sprint("run-", i))); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		send := func(from, to int) {
			for i := from; i < to; i++ {
				err := fleetWord.Send(t.Context(), f.outer, fmt.Sprint("run-", i), "w")
				if err != nil && !errors.Is(err, stet.ErrTerminal) {
					t.Fatal(err)
				}
			}
		}
		runs := func() map[string]store.Run {
			page, err := f.outer.Store().List(t.Context(), store.Filter{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			byID := map[string]store.Run{}
			for _, r := range page.Runs {
				if r.Status == store.Stalled || r.Status == store.Failed {
					t.Fatalf("run %s is %s: %s", r.ID, r.Status, r.Reason)
				}
				byID[r.ID] = r
			}
			return byID
		}
		end := func(from, to int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for i := from; i < to; i++ {
				got, err := fleetRef.Handle(f.outer, fmt.Sprint("run-", i)).Wait(ctx)
				old, young := fmt.Sprintf("a%dwc%d", i, i), fmt.Sprintf("a%dmore%dwc%d", i, i, i)
				if err != nil || got != old && got != young {
					f.tell(fmt.Sprint("run-", i))
					t.Fatalf("run %d: %q, %v", i, got, err)
				}
			}
		}

		old := []*member{f.join(first), f.join(first), f.join(first)}
		f.settle(5*time.Second, old...)
		begin(0, 60)
		var young []*member
		for i, m := range old { // forwards, one by one, with work going on
			young = append(young, f.join(second))
			time.Sleep(500 * time.Millisecond)
			send(10*i, 10*i+5)
			f.leave(m)
			begin(100+10*i, 110+10*i)
		}
		send(0, 60)
		end(0, 60)
		runs()

		old = []*member{f.join(first), f.join(first)} // and back, with runs in the middle
		f.settle(30*time.Second, append(old, young...)...)
		begin(200, 240)
		for _, m := range young {
			f.leave(m)
		}
		begin(300, 320)
		send(100, 130)
		send(200, 240)
		send(300, 320)
		end(300, 320)
		time.Sleep(20 * time.Second)
		waiting := 0
		for id, r := range runs() {
			switch {
			case r.Build == "2026-02-01" && !r.Status.Terminal():
				waiting++
			case !r.Status.Terminal():
				t.Errorf("run %s of build %s is %s, and a node of that build lives", id, r.Build, r.Status)
			}
		}
		if waiting < 30 {
			t.Errorf("%d runs wait for the later build; the 30 that only it has worked on should", waiting)
		}
		t.Logf("%d runs wait for the later build", waiting)

		f.join(second) // one is enough for all that wait
		end(100, 130)
		end(200, 240)
		runs()
		f.once()
		f.done()
	})
}

// A run whose workflow only one node has goes on there, wherever its slot belongs.
func TestARunGoesToTheNodeThatCanLoadIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16)
		f.cfg.Grace = time.Second
		rare := stet.Define("rare", func(ctx stet.Context, n int) (int, error) {
			return stet.Step(ctx, "s", func(context.Context) (int, error) { return n, nil })
		})
		a, b := f.join(), f.join()
		c := f.join(func(cfg *stet.Config) { cfg.Workflows, cfg.Build = append(cfg.Workflows, rare), "2" })
		f.settle(5*time.Second, a, b, c)
		for i := range 40 {
			got, err := run(t, f.outer, rare, i)
			if err != nil || got != i {
				t.Fatalf("%d: %d, %v", i, got, err)
			}
		}
		f.start(0, 40)
		f.finish(0, 40, time.Minute)
		time.Sleep(4 * fleetLease) // the requirements are forgotten, and the shards are shared again
		f.settle(10*time.Second, a, b, c)
		f.done()
	})
}

// A node that is to be drained gives its shards to the others and takes none.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16)
		a, b := f.join(), f.join()
		f.settle(5*time.Second, a, b)
		f.start(0, 50)
		time.Sleep(100 * time.Millisecond)
		if err := f.outer.Nodes().Drain(t.Context(), b.name, stet.Act{}); err != nil {
			t.Fatal(err)
		}
		f.settle(2*time.Second, a)
		f.finish(0, 50, time.Minute)
		f.once()
		time.Sleep(time.Minute)
		if n := f.owned()[a.name]; n != 16 || b.Owner() {
			t.Errorf("a minute later the other node has %d shards; the one that is drained is an owner: %t", n, b.Owner())
		}
		if err := f.outer.Nodes().Drain(t.Context(), "nobody", stet.Act{}); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("a node that is not there: %v", err)
		}
		c := f.join()
		f.settle(5*time.Second, a, c)
		f.done()
		one := newFleet(t, 1)
		x := one.join()
		one.settle(5*time.Second, x)
		if err := one.outer.Nodes().Drain(t.Context(), x.name, stet.Act{}); !errors.Is(err, stet.ErrRefused) {
			t.Errorf("the owner of a store that has one at a time: %v", err)
		}
		one.done()
	})
}
