package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

// clock is the time that a store is given.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) step(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(by)
}

// kit holds the means of a case.
type kit struct {
	testing.TB
	ctx     context.Context
	harness Harness
	clock   *clock
	s       store.Store // the first handle
	seeds   int
	// ids are of all items that were sent, so that state finds consumed ones.
	ids map[string]bool
}

// newKit returns the kit for a case that may last so long.
func newKit(t testing.TB, h Harness, c *clock, limit time.Duration) *kit {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return &kit{TB: t, ctx: ctx, harness: h, clock: c, s: h.First(), ids: map[string]bool{}}
}

// now is the clock's time.
func (k *kit) now() store.Time { return store.TimeOf(k.clock.Now()) }

// pass lets time pass.
func (k *kit) pass(d store.Delay) { k.clock.step(time.Duration(d) * time.Microsecond) }

func (k *kit) equal(what string, got, want any) {
	k.Helper()
	if diff := difference(want, got); diff != "" {
		k.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (k *kit) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// fails checks that an act was refused with the error.
func (k *kit) fails(what string, err, want error) {
	k.Helper()
	if !errors.Is(err, want) {
		k.Errorf("%s: got the error %v; want %v", what, err, want)
	}
}

// owner is a node with leases.
type owner struct {
	*kit
	s      store.Store
	node   store.Node
	leases []store.Lease
	no     int64 // of the last batch
	last   store.Batch
}

// ttl is how long an owner's leases last.
const ttl = 10 * second

// owner takes shards for a node, shardA if none is named.
func (k *kit) owner(s store.Store, id string, shards ...store.Shard) *owner {
	k.Helper()
	o := &owner{kit: k, s: s, node: store.Node{ID: id, Boot: id + "-1", Build: "v1"}}
	o.take(shards...)
	return o
}

// take takes shards, which must be free.
func (o *owner) take(shards ...store.Shard) []store.Acquired {
	o.Helper()
	if len(shards) == 0 {
		shards = []store.Shard{shardA}
	}
	got, _, err := o.s.Acquire(o.ctx, o.node, shards, ttl)
	o.ok(err)
	o.leases = nil
	for i, a := range got {
		if !a.Held {
			o.Fatalf("%s could not take %s: it is held by %+v", o.node.ID, shards[i], a.Lease)
		}
		o.leases = append(o.leases, a.Lease)
	}
	return got
}

// batch writes the next batch.
func (o *owner) batch(commands []store.Command, turns ...*store.Turn) store.BatchResult {
	o.Helper()
	o.no++
	o.last = store.Batch{Node: o.node.ID, Boot: o.node.Boot, No: o.no, Leases: o.leases, Turns: turns, Commands: commands}
	return o.again()
}

// again repeats the last batch.
func (o *owner) again() store.BatchResult {
	o.Helper()
	result, err := o.s.Commit(o.ctx, o.last)
	o.ok(err)
	if len(result.Turns) != len(o.last.Turns) || len(result.Commands) != len(o.last.Commands) {
		o.Fatalf("%d turns and %d commands got %d and %d answers",
			len(o.last.Turns), len(o.last.Commands), len(result.Turns), len(result.Commands))
	}
	return result
}

// turn commits one turn and checks the verdict.
func (o *owner) turn(turn *store.Turn, want store.Verdict) {
	o.Helper()
	if got := o.batch(nil, turn).Turns[0]; got.Verdict != want || (got.Reason != "") != (want == store.Refused) {
		o.Errorf("the turn is %s (%q); want it %s", got.Verdict, got.Reason, want)
	}
}

func (o *owner) claim(limit int, workflows ...string) store.Claims {
	o.Helper()
	return o.claimFor("", limit, workflows...)
}

func (o *owner) claimFor(build string, limit int, workflows ...string) store.Claims {
	o.Helper()
	claims, err := o.s.Claim(o.ctx, store.ClaimRequest{Node: o.node.ID, Boot: o.node.Boot, Leases: o.leases,
		Workflows: workflows, Build: build, Limit: limit})
	o.ok(err)
	return claims
}

func (o *owner) release() {
	o.Helper()
	o.ok(o.s.Release(o.ctx, o.leases))
}

// update is a turn that changes the run's row alone.
func update(r store.Run, u store.Update) *store.Turn {
	return &store.Turn{Run: r.No, Shard: r.Shard, Update: &u}
}

// become brings a claimed run into a status.
func (o *owner) become(r store.Run, status store.Status) {
	o.Helper()
	o.turn(update(r, store.Update{Status: status}), store.Committed)
}

// startOf returns a start in shardA of the workflow "w".
func (k *kit) startOf(id string, change ...func(*store.Start)) *store.Start {
	k.seeds++
	start := &store.Start{ID: id, Shard: shardA, Workflow: "w", Seed: seedOf(k.seeds), Input: []byte("in " + id)}
	for _, c := range change {
		c(start)
	}
	return start
}

// start starts a run, idle.
func (k *kit) start(id string, change ...func(*store.Start)) store.Run {
	k.Helper()
	a := k.apply(store.Command{Start: k.startOf(id, change...)})
	if a.Outcome != store.Applied {
		k.Fatalf("start of %s: outcome %d", id, a.Outcome)
	}
	return a.Run
}

// apply carries out one command.
func (k *kit) apply(c store.Command) store.Answer {
	k.Helper()
	note(k.ids, c)
	answers, _, err := k.s.Apply(k.ctx, []store.Command{c})
	k.ok(err)
	if len(answers) != 1 {
		k.Fatalf("one command got %d answers", len(answers))
	}
	return answers[0]
}

// started starts a run that the owner claims in the same act.
func (o *owner) started(id string, change ...func(*store.Start)) store.Run {
	o.Helper()
	start := o.startOf(id, change...)
	a := o.batch([]store.Command{{Claim: true, Start: start}}).Commands[0]
	if a.Outcome != store.Applied || !a.Claimed {
		o.Fatalf("start of %s with a claim: %+v", id, a)
	}
	return a.Run
}

// message is a command that sends a message.
func message(run, id string) store.Command {
	return item(run, store.Item{Kind: store.ItemMessage, Name: "m", ID: id, Origin: "o", Value: []byte("value of " + id)})
}

// verb is a command that sends a verb.
func verb(run, id string, kind store.ItemKind) store.Command {
	return item(run, store.Item{Kind: kind, ID: id, Origin: "o"})
}

func item(run string, it store.Item) store.Command { return store.Command{RunID: run, Item: &it} }

// send sends an item and returns its number.
func (k *kit) send(c store.Command) store.ItemNo {
	k.Helper()
	a := k.apply(c)
	if a.Outcome != store.Applied || a.Item < 1 {
		k.Fatalf("item %s for %s: %+v", c.Item.ID, c.RunID, a)
	}
	return a.Item
}

// get returns a run by its number, with values.
func (k *kit) get(no store.RunNo) store.Run {
	k.Helper()
	page, err := k.s.List(k.ctx, store.Filter{Nos: []store.RunNo{no}, Values: true})
	k.ok(err)
	if len(page.Runs) != 1 {
		k.Fatalf("run number %d: found %d runs", no, len(page.Runs))
	}
	return page.Runs[0]
}

// history returns the entries of a run, with values.
func (k *kit) history(no store.RunNo) []store.Entry {
	k.Helper()
	entries, err := k.s.History(k.ctx, store.HistoryQuery{Run: no, Values: true})
	k.ok(err)
	return entries
}

// inbox returns the items of a run that are not consumed, or those with the IDs.
func (k *kit) inbox(no store.RunNo, ids ...string) []store.Item {
	k.Helper()
	items, err := k.s.Inbox(k.ctx, no, ids...)
	k.ok(err)
	return items
}

// unchanged checks that act changes nothing visible.
func (k *kit) unchanged(what string, act func()) {
	k.Helper()
	before, err := view(k.ctx, k.s, k.ids)
	k.ok(err)
	act()
	after, err := view(k.ctx, k.s, k.ids)
	k.ok(err)
	before.Now, after.Now = 0, 0
	k.equal(what+" changes nothing", after, before)
}
