package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
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
	a.s.relay.Close()
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
	items := []outgoing{{from: from, to: to, no: 1, blob: "1;0;never read"}}
	c := committing{Store: next, b: &store.Batch{}}
	if _, err := next.one(ctx, deliverScript, "deliver", to, c.deliveryArguments(items)...); err != nil {
		t.Errorf("a delivery that has arrived before: %v", err)
	}
	items[0].blob = "9000000000000001;9000000000000000;never read"
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
	if owner.relay.Pending() > 0 {
		t.Error("what may be on its way is delivered")
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
	left, err := outboxes{owner}.Waiting(t.Context(), []int{owner.partOf(a.sender.Shard.Slot)})
	if err != nil || len(left[0]) > len(a.others) {
		t.Errorf("more is left than was sent: %v, %v", left, err)
	}
}

// Taking arrived commands out of an outbox delivers nothing: the commands behind them are
// delivered by a commit, which needs the answers.
func TestForgettingWhatHasArrivedDeliversNothing(t *testing.T) {
	url, prefix := servers.SharedRedis(t)
	a := newAbroad(t, spreadAt(t, url, prefix))
	a.half(t, a.batch("1"))
	from, to := a.s.partOf(a.sender.Shard.Slot), a.s.partOf(a.others[0].Shard.Slot)
	if _, err := (outboxes{a.s}).Read(t.Context(), from, to, []int64{1}, 0); err != nil {
		t.Fatal(err)
	}
	if got := a.got(t, a.s, a.others[0]); got != "" {
		t.Errorf("%s has %q", a.others[0].ID, got)
	}
	if err := a.s.relay.Flush(t.Context(), from, to); err != nil {
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

// A part whose server has lost acknowledged writes, or the part that it receives from, goes
// on: what is sent after the loss arrives, and the loss of the receiver is logged.
func TestRelayGoesOnAfterLostWrites(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, s *Store, from, to int){
		"sender": func(t *testing.T, s *Store, from, to int) {
			do(t, s, "HDEL", s.tag(from)+"oq", strconv.Itoa(to))
		},
		"receiver": func(t *testing.T, s *Store, from, to int) {
			do(t, s, "HSET", s.tag(to)+"q", strconv.Itoa(from), "1")
		},
		"receiver, all": func(t *testing.T, s *Store, from, to int) {
			do(t, s, "HDEL", s.tag(to)+"q", strconv.Itoa(from))
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, prefix := servers.SharedRedis(t)
			var log bytes.Buffer
			a := newAbroad(t, spreadAt(t, url, prefix))
			a.s.cfg.log = slog.New(slog.NewTextHandler(&log, nil))
			from := a.s.partOf(a.sender.Shard.Slot)
			for _, id := range []string{"1", "2"} {
				if _, err := a.s.Commit(t.Context(), a.batch(id)); err != nil {
					t.Fatal(err)
				}
			}
			a.s.relay.Close() // it has taken out what has arrived, or does so below
			parts := map[int]bool{}
			for _, r := range a.others {
				parts[a.s.partOf(r.Shard.Slot)] = true
			}
			for to := range parts {
				last := do(t, a.s, "HGET", a.s.tag(from)+"oq", strconv.Itoa(to))
				no, err := strconv.ParseInt(last, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if blobs, err := a.s.outbox(t.Context(), from, to, no, maxChunk); err != nil || len(blobs) > 0 {
					t.Fatalf("%d commands are left, %v", len(blobs), err)
				}
				lose(t, a.s, from, to)
			}
			b := a.batch("3")
			for i := range b.Turns[0].Sends { // which have to be answered, or the batch is repeated
				b.Turns[0].Sends[i].Claim = true
			}
			for try := 0; ; try++ {
				_, err := a.s.Commit(t.Context(), b)
				if err == nil {
					break
				}
				if try == 3 || !errors.Is(err, store.ErrUnknown) {
					t.Fatalf("repeat %d: %v", try, err)
				}
			}
			if _, err := a.s.Commit(t.Context(), a.batch("4")); err != nil {
				t.Fatal(err)
			}
			for _, r := range a.others {
				if got := a.got(t, a.s, r); got != "1234" {
					t.Errorf("%s has %q", r.ID, got)
				}
			}
			if lost := strings.Contains(log.String(), "have lost messages"); lost != (name != "sender") {
				t.Errorf("a loss is logged: %t\n%s", lost, log.String())
			}
		})
	}
}

// do executes a command on the server and returns its answer as text.
func do(t *testing.T, s *Store, words ...string) string {
	t.Helper()
	command := s.client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()
	m, err := s.client.Do(t.Context(), command).ToMessage()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := m.ToString() // numbers are answers that no test reads
	return text
}

// Numbers in an outbox have gaps. What has arrived is taken out, and nothing else.
func TestOutboxWithGapsIsTrimmed(t *testing.T) {
	url, prefix := servers.SharedRedis(t)
	a := newAbroad(t, spreadAt(t, url, prefix))
	a.s.relay.Close()
	do(t, a.s, "RPUSH", a.s.tag(0)+"o:1", "10;0;a", "11;10;b", "5000;11;c", "5001;5000;d", "9000;5001;e")
	do(t, a.s, "HSET", a.s.tag(0)+"oq", "1", "9000")
	do(t, a.s, "SADD", a.s.tag(0)+"ow", "1")
	for _, row := range []struct {
		arrived int64
		first   string
		left    int
	}{
		{0, "10;0;a", 5}, {9, "10;0;a", 5}, {10, "11;10;b", 4}, {4000, "5000;11;c", 3}, {5001, "9000;5001;e", 1},
		{9000, "", 0},
	} {
		blobs, err := a.s.outbox(t.Context(), 0, 1, row.arrived, maxChunk)
		if err != nil || len(blobs) != row.left || row.left > 0 && blobs[0] != row.first {
			t.Errorf("after %d: %q, %v", row.arrived, blobs, err)
		}
	}
}
