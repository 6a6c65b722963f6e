package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// forgetful is a process's handle on the store that loses the wake times of runs.
type forgetful struct {
	store.Store
	store.Laned
}

func newForgetful(s store.Store) forgetful {
	return forgetful{s, store.WrapLanes(s, func(lane store.Store) store.Store { return forgetful{Store: lane} })}
}

// Commit implements store.Store.
func (f forgetful) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	for i := range b.Turns {
		if u := b.Turns[i].Update; u != nil && u.Status == store.Suspended {
			u.WakeAt = 0
		}
	}
	return f.Store.Commit(ctx, b)
}

// lostWakes lets a store lose the wake times of runs that sleep. They are found by what the runs
// wait for, and a nudge, which is what a doctor's repair requests, brings them back: one that is
// due goes on, one that is not has its time again.
func lostWakes(t *testing.T, open Open) {
	w := newWorld(t, open)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sleeps := stet.Define("sleeps", func(ctx stet.Context, text string) (string, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return "", err
		}
		return "awake", stet.Sleep(ctx, "nap", d)
	})
	p := w.start(newFaulty(newForgetful(w.open()), 0, 0), longLease, 10*time.Second, sleeps)
	until := func(id string, stands func(*stet.RunInfo) bool) {
		t.Helper()
		for {
			info, err := w.outside.Runs().Info(ctx, id)
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			if stands(info) {
				return
			}
			rest(ctx, 10*time.Millisecond)
		}
	}
	begin := func(id, nap string) {
		t.Helper()
		err := insist(ctx, func() error { _, err := sleeps.Start(ctx, w.outside, nap, stet.ID(id)); return err })
		if err != nil {
			t.Fatal(err)
		}
	}
	// A run that has less than a second left when it could be suspended stays in memory, and ends. On a machine that is
	// so slow the nap is longer.
	due := ""
	for nap := 1500 * time.Millisecond; due == ""; nap *= 2 {
		id := fmt.Sprint("due-", nap)
		begin(id, nap.String())
		until(id, func(i *stet.RunInfo) bool { return i.Status == store.Suspended && i.LostWake() || i.Status.Terminal() })
		if info, err := w.outside.Runs().Info(ctx, id); err != nil {
			t.Fatal(err)
		} else if !info.Status.Terminal() {
			due = id
		}
	}
	begin("far", "1h")
	until("far", func(i *stet.RunInfo) bool { return i.Status == store.Suspended && i.LostWake() })
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	w.calm(longLease, sleeps)
	for _, id := range []string{due, "far"} {
		err := insist(ctx, func() error { _, err := w.outside.Runs().Nudge(ctx, id, stet.Act{}); return err })
		if err != nil {
			t.Fatalf("nudge %s: %v", id, err)
		}
	}
	if got, err := sleeps.Handle(w.outside, due).Wait(ctx); err != nil || got != "awake" {
		t.Errorf("what was due: %q, %v", got, err)
	}
	until("far", func(i *stet.RunInfo) bool { return i.Status == store.Suspended && !i.LostWake() })
}
