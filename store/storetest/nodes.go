package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet/store"
)

var nodeCases = []testCase{
	{"ARegisteredNodeIsListed", func(k *kit) {
		n := store.Node{ID: "b", Boot: "b-1", Build: "v1", Host: "host", PID: 7, Workflows: []string{"x", "w"}}
		other := store.Node{ID: "a", Boot: "a-1", Workflows: []string{"y", "w"}}
		for _, n := range []store.Node{n, other} {
			now, err := k.s.Register(k.ctx, n)
			k.ok(err)
			k.equal("the time", now, k.now())
		}
		other.SeenAt = k.now()
		k.pass(minute)
		_, err := k.s.Register(k.ctx, n)
		k.ok(err)
		n.SeenAt = k.now()
		k.nodes("after a heartbeat", other, n)
		n.Boot, n.Build, n.Workflows = "b-2", "v2", []string{"z"}
		_, err = k.s.Register(k.ctx, n)
		k.ok(err)
		k.nodes("after another boot", other, n)
		n.Stopped = true
		stale := n
		stale.Boot = "b-1"
		_, err = k.s.Register(k.ctx, stale)
		k.ok(err)
		n.Stopped = false
		k.nodes("after a former boot has stopped", other, n)
		n.Stopped = true
		_, err = k.s.Register(k.ctx, n)
		k.ok(err)
		k.nodes("after it has stopped", other)
		d, err := k.s.Describe(k.ctx)
		k.ok(err)
		k.equal("every workflow that was ever registered", d.Workflows, []string{"w", "x", "y", "z"})
		if d.ID == "" || d.Kind == "" || d.Slots < 1 || d.Durable == "" || d.Now != k.now() {
			k.Errorf("the description %+v lacks something", d)
		}
	}},
	{"ANodeIsForgottenAfterADay", func(k *kit) {
		for _, id := range []string{"gone", "owner", "alive"} {
			_, err := k.s.Register(k.ctx, store.Node{ID: id, Boot: id + "-1"})
			k.ok(err)
		}
		o := k.owner(k.s, "owner")
		alive := func(want ...string) {
			k.Helper()
			_, err := k.s.Register(k.ctx, store.Node{ID: "alive", Boot: "alive-1"})
			k.ok(err)
			d, err := k.s.Describe(k.ctx)
			k.ok(err)
			var got []string
			for _, n := range d.Nodes {
				got = append(got, n.ID)
			}
			k.equal("the nodes", got, want)
		}
		k.pass(24 * hour)
		alive("alive", "gone", "owner")
		k.pass(1)
		alive("alive", "owner")
		o.release()
		alive("alive")
	}},
}

// nodes checks which nodes are listed.
func (k *kit) nodes(what string, want ...store.Node) {
	k.Helper()
	d, err := k.s.Describe(k.ctx)
	k.ok(err)
	k.equal("the nodes "+what, d.Nodes, want)
}

// patience is how long a case waits for an event that should not happen.
const patience = 50 * time.Millisecond

var changedCases = []testCase{
	{"WakesAnotherProcess", func(k *kit) {
		listener := k.harness.Join(k)
		o := k.owner(k.s, "n")
		var ready store.ShardSet
		ready.Add(shardA)
		for _, row := range []struct {
			what string
			of   store.Change
			act  func()
		}{
			{"a start", store.Change{Ready: ready}, func() { k.start("r") }},
			{"an item", store.Change{Ready: ready}, func() { k.send(message("r", "m")) }},
			{"a turn", store.Change{Answered: true}, func() {
				c := o.claim(10, "w")
				o.turn(&store.Turn{Run: c.Runs[0].Run.No, Shard: shardA,
					Consumed: []store.Consumption{{Item: c.Runs[0].Items[0].No}}}, store.Committed)
			}},
			{"giving shards back", store.Change{Nodes: true}, o.release},
		} {
			k.hinted(listener, row.what, row.of, row.act)
		}
	}},
	{"DoesNotMissWhatCameBefore", func(k *kit) {
		listener := k.harness.Join(k)
		k.quiet(listener)
		k.start("r")
		var ready store.ShardSet
		ready.Add(shardA)
		k.ok(hear(k.ctx, listener, store.Change{Ready: ready}))
	}},
	{"IsQuietWhenNothingHappens", func(k *kit) {
		listener := k.harness.Join(k)
		k.start("r")
		k.quiet(listener)
		k.quiet(k.s)
	}},
	{"EndsWithItsContextAndTheStore", func(k *kit) {
		listener := k.harness.Join(k)
		k.quiet(listener)
		ctx, cancel := context.WithCancelCause(k.ctx)
		done := make(chan error, 1)
		changed := func(ctx context.Context) error { _, err := listener.Changed(ctx); return err }
		go func() { done <- changed(ctx) }()
		cancel(errors.New("enough"))
		k.fails("Changed", <-done, context.Canceled)
		go func() { done <- changed(k.ctx) }()
		k.ok(listener.Close())
		k.fails("Changed", <-done, store.ErrClosed)
	}},
}

// hinted checks that a listening handle is notified of an act.
func (k *kit) hinted(listener store.Store, what string, of store.Change, act func()) {
	k.Helper()
	k.quiet(listener)
	done := make(chan error, 1)
	go func() { done <- hear(k.ctx, listener, of) }()
	act()
	if err := <-done; err != nil {
		k.Errorf("waiting for %s: %v", what, err)
	}
}

// hear waits until all parts of a change were notified.
func hear(ctx context.Context, s store.Store, want store.Change) error {
	var heard store.Change
	for {
		change, err := s.Changed(ctx)
		if err != nil {
			return fmt.Errorf("expected to hear of %+v, found %+v: %w", want, heard, err)
		}
		heard.Add(change)
		both := heard
		if both.Add(want); both == heard {
			return nil
		}
	}
}

// quiet waits until a handle has no hint: Changed may return early, but not for ever.
func (k *kit) quiet(s store.Store) {
	k.Helper()
	for range 20 {
		ctx, cancel := context.WithTimeout(k.ctx, patience)
		_, err := s.Changed(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return
		}
		k.ok(err)
	}
	k.Fatal("Changed returns again and again though nothing happens")
}
