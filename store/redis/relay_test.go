package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
)

// spreadAt opens a store with as many parts as slots.
func spreadAt(t *testing.T, url, prefix string) *Store {
	t.Helper()
	s, err := Open(context.Background(), url, Prefix(prefix), Slots(8), Spread(), Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// abroad makes a run, and the IDs of some in other slots.
type abroad struct {
	s      *Store
	node   store.Node
	leases []store.Lease
	sender store.Run
	others []store.Run
	no     int64
}

func newAbroad(t *testing.T, s *Store) *abroad {
	t.Helper()
	a := &abroad{s: s, node: store.Node{ID: "n", Boot: "n-1"}}
	a.take(t, s)
	var commands []store.Command
	for i := range 9 {
		id := fmt.Sprint("run-", i)
		shard := store.Shard{Group: "g", Slot: s.slotOf(id)}
		commands = append(commands, store.Command{Claim: true,
			Start: &store.Start{ID: id, Shard: shard, Workflow: "w", Seed: store.Seed([]byte(fmt.Sprintf("%-16s", id)))}})
	}
	a.no++
	result, err := s.Commit(t.Context(), store.Batch{Node: a.node.ID, Boot: a.node.Boot, No: a.no, Leases: a.leases,
		Commands: commands})
	if err != nil {
		t.Fatal(err)
	}
	a.sender = result.Commands[0].Run
	for _, answer := range result.Commands[1:] {
		if answer.Run.Shard != a.sender.Shard {
			a.others = append(a.others, answer.Run)
		}
	}
	return a
}

// take takes all shards.
func (a *abroad) take(t *testing.T, s *Store) {
	t.Helper()
	shards := make([]store.Shard, s.slots)
	for i := range shards {
		shards[i] = store.Shard{Group: "g", Slot: i}
	}
	got, _, err := s.Acquire(t.Context(), a.node, shards, 10_000_000)
	if err != nil {
		t.Fatal(err)
	}
	a.leases = nil
	for _, l := range got {
		a.leases = append(a.leases, l.Lease)
	}
}

// batch is a turn of the sender that sends a message to each of the others.
func (a *abroad) batch(id string) store.Batch {
	turn := &store.Turn{Run: a.sender.No, Shard: a.sender.Shard,
		Entries: []store.Entry{{Loc: id, Kind: store.KindStep, State: store.Done}}}
	for _, r := range a.others {
		turn.Sends = append(turn.Sends,
			store.Command{RunNo: r.No, Item: &store.Item{Kind: store.ItemMessage, Name: "m", ID: id, Origin: "o"}})
	}
	a.no++
	return store.Batch{Node: a.node.ID, Boot: a.node.Boot, No: a.no, Leases: a.leases, Turns: []*store.Turn{turn}}
}

// half carries out a batch as a process does that dies before it delivers anything.
func (a *abroad) half(t *testing.T, b store.Batch) {
	t.Helper()
	a.s.relay.close()
	c := committing{Store: a.s, b: &b}
	act := c.newAct(a.s.partOf(a.sender.Shard.Slot), []int{0}, nil)
	args := c.arguments(&act, c.positions(&stage{turns: []int{0}}))
	if _, err := a.s.one(t.Context(), commitScript, "commit", act.part, args...); err != nil {
		t.Fatal(err)
	}
}

// got returns the IDs of the messages that a run has.
func (a *abroad) got(t *testing.T, s *Store, r store.Run) (ids string) {
	t.Helper()
	items, err := s.Inbox(t.Context(), r.No)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		ids += it.ID
	}
	return ids
}

// What a process has committed and not delivered is delivered once the next one takes
// its shards, in the order in which it was sent, and once.
func TestWhatADeadProcessHasSentIsDelivered(t *testing.T) {
	url, prefix := servers.SharedRedis(t)
	a := newAbroad(t, spreadAt(t, url, prefix))
	if len(a.others) == 0 {
		t.Fatal("all runs are in one slot")
	}
	if _, err := a.s.Commit(t.Context(), a.batch("1")); err != nil {
		t.Fatal(err)
	}
	a.half(t, a.batch("2"))
	a.half(t, a.batch("3"))
	for _, r := range a.others {
		if got := a.got(t, a.s, r); got != "1" {
			t.Fatalf("before it was delivered %s has %q", r.ID, got)
		}
	}
	next := spreadAt(t, url, prefix)
	a.node.Boot = "n-1" // the same, so that the leases need not end
	a.take(t, next)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, r := range a.others {
		for a.got(t, next, r) != "123" {
			if _, err := next.Changed(ctx); err != nil {
				t.Fatalf("%s has %q: %v", r.ID, a.got(t, next, r), err)
			}
		}
	}
	// A delivery that is repeated changes nothing, and a gap is not jumped.
	from, to := a.s.partOf(a.sender.Shard.Slot), a.s.partOf(a.others[0].Shard.Slot)
	items := []outgoing{{from: from, to: to, no: 1, blob: "never read"}}
	c := committing{Store: next, b: &store.Batch{}}
	if _, err := next.one(ctx, deliverScript, "deliver", to, c.deliveryArguments(items)...); err != nil {
		t.Errorf("a delivery that has arrived before: %v", err)
	}
	items[0].no = 1000
	if _, err := next.one(ctx, deliverScript, "deliver", to, c.deliveryArguments(items)...); err == nil {
		t.Error("a delivery after a gap is applied")
	}
	if got := a.got(t, next, a.others[0]); got != "123" {
		t.Errorf("in the end %s has %q", a.others[0].ID, got)
	}
}

// What a process has committed and not delivered, which did not own the part or has lost
// the answer, is delivered by the owner when it extends its leases for the second time.
func TestWhatSomebodyHasLeftIsDelivered(t *testing.T) {
	url, prefix := servers.SharedRedis(t)
	owner := spreadAt(t, url, prefix)
	a := newAbroad(t, spreadAt(t, url, prefix))
	a.half(t, a.batch("1"))
	renew := func() {
		if _, _, err := owner.Renew(t.Context(), a.leases, 10_000_000); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	select {
	case <-owner.relay.wake:
		t.Error("what may be on its way is delivered")
	default:
	}
	renew()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, r := range a.others {
		for a.got(t, owner, r) != "1" {
			if _, err := owner.Changed(ctx); err != nil {
				t.Fatalf("%s has %q: %v", r.ID, a.got(t, owner, r), err)
			}
		}
	}
	renew()
	renew()
	if owner.relay.mu.Lock(); len(owner.relay.waiting[owner.partOf(a.sender.Shard.Slot)]) > len(a.others) {
		t.Error("more is left than was sent")
	}
	owner.relay.mu.Unlock()
}

// Taking arrived commands out of an outbox delivers nothing: the commands behind them are
// delivered by a commit, which needs the answers.
func TestForgettingWhatHasArrivedDeliversNothing(t *testing.T) {
	url, prefix := servers.SharedRedis(t)
	a := newAbroad(t, spreadAt(t, url, prefix))
	a.half(t, a.batch("1"))
	from, to := a.s.partOf(a.sender.Shard.Slot), a.s.partOf(a.others[0].Shard.Slot)
	if err := a.s.relay.flush(t.Context(), from, to, &route{}); err != nil {
		t.Fatal(err)
	}
	if got := a.got(t, a.s, a.others[0]); got != "" {
		t.Errorf("%s has %q", a.others[0].ID, got)
	}
	if err := a.s.relay.flush(t.Context(), from, to, &route{pending: true}); err != nil {
		t.Fatal(err)
	}
	if got := a.got(t, a.s, a.others[0]); got != "1" {
		t.Errorf("when it is to be delivered %s has %q", a.others[0].ID, got)
	}
}

// The last batch of a boot is kept in each part that it wrote, and gone from all with
// the boot: when it stops, or was not heard of for 24 hours.
func TestBatchesOfABootGoWithIt(t *testing.T) {
	url, prefix := servers.SharedRedis(t)
	begun, hours := time.Now(), atomic.Int64{}
	clock := func() time.Time { return begun.Add(time.Duration(hours.Load()) * time.Hour) }
	s, err := Open(context.Background(), url, Prefix(prefix), Slots(8), Spread(), Logger(slog.New(slog.DiscardHandler)),
		Clock(clock))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	kept := func() (n int64) {
		for part := range s.parts {
			have, err := s.client.Do(t.Context(), s.client.B().Hlen().Key(s.tag(part)+"b").Build()).AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			n += have
		}
		return n
	}
	register := func(n store.Node) {
		t.Helper()
		if _, err := s.Register(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	a := newAbroad(t, s)
	register(a.node)
	if kept() < 2 {
		t.Fatalf("the batch was kept in %d parts", kept())
	}
	stopped := a.node
	stopped.Stopped = true
	register(stopped)
	if n := kept(); n != 0 {
		t.Errorf("after its boot has stopped the batch is kept in %d parts", n)
	}
	register(a.node)
	if _, err := s.Commit(t.Context(), a.batch("1")); err != nil {
		t.Fatal(err)
	}
	hours.Store(25)
	register(store.Node{ID: "other", Boot: "o-1"})
	if kept() == 0 {
		t.Error("the batch of a boot that holds leases is forgotten")
	}
	if err := s.Release(t.Context(), a.leases); err != nil {
		t.Fatal(err)
	}
	register(store.Node{ID: "other", Boot: "o-1"})
	if n := kept(); n != 0 {
		t.Errorf("25 hours after its boot was heard of the batch is kept in %d parts", n)
	}
}

// A batch whose answer was lost in the middle is repeated: what is missing is carried
// out, and nothing twice.
func TestHalfABatchIsCompletedByItsRepeat(t *testing.T) {
	url, prefix := servers.SharedRedis(t)
	a := newAbroad(t, spreadAt(t, url, prefix))
	b := a.batch("1")
	a.half(t, b)
	for repeat := range 2 {
		result, err := a.s.Commit(t.Context(), b)
		if err != nil || result.Turns[0].Verdict != store.Committed || repeat == 1 &&
			len(result.Turns[0].Sends) != len(a.others) {
			t.Fatalf("repeat %d: %+v, %v", repeat, result, err)
		}
		for i, answer := range result.Turns[0].Sends {
			if answer.Outcome != store.Applied || answer.Item == 0 {
				t.Errorf("send %d: %+v", i, answer)
			}
		}
	}
	for _, r := range a.others {
		if got := a.got(t, a.s, r); got != "1" {
			t.Errorf("%s has %q", r.ID, got)
		}
	}
}
