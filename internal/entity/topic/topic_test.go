package topic

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/store"
)

func TestConsumedEventGoesToLongestWaitingRun(t *testing.T) {
	w := newWorld(t)
	w.wait(11, "a", 0)
	w.wait(12, "b", 0)
	w.publish(event.Consumed, event.Settings{}, "e1")
	w.expect(t, "a←e1")
	w.publish(event.Consumed, event.Settings{}, "e2")
	w.publish(event.Consumed, event.Settings{}, "e3")
	w.expect(t, "b←e2")
	w.wait(13, "c", 0)
	w.expect(t, "c←e3")
}

func TestConsumedEventGoesToLongestWaitingThatMaySeeIt(t *testing.T) {
	w := newWorld(t)
	w.wait(11, "a", w.now+10)
	w.wait(12, "b", 0)
	w.publish(event.Consumed, event.Settings{}, "e1")
	w.expect(t, "b←e1")
	w.now += 10
	w.publish(event.Consumed, event.Settings{}, "e2")
	w.expect(t, "a←e2")
}

func TestBroadcastGoesToEveryRunOnceInOrder(t *testing.T) {
	w := newWorld(t)
	w.publish(event.Broadcast, event.Settings{}, "e1")
	w.wait(11, "a1", 0)
	w.wait(12, "b1", 0)
	w.expect(t, "a1←e1 b1←e1")
	w.wait(11, "a2", 0)
	w.expect(t, "")
	w.publish(event.Broadcast, event.Settings{}, "e2")
	w.publish(event.Broadcast, event.Settings{}, "e3")
	w.expect(t, "a2←e2")
	w.wait(11, "a3", 0)
	w.wait(12, "b2", 0)
	w.wait(12, "b3", 0)
	w.expect(t, "a3←e3 b2←e2 b3←e3")
}

func TestOneRunsTwoWaitsGetDifferentEvents(t *testing.T) {
	w := newWorld(t)
	w.wait(11, "a", 0)
	w.wait(11, "b", 0, "a")
	w.publish(event.Broadcast, event.Settings{}, "e1")
	w.expect(t, "a←e1")
	w.publish(event.Broadcast, event.Settings{}, "e2")
	w.expect(t, "b←e2")
}

func TestVisibilityIsATime(t *testing.T) {
	w := newWorld(t)
	w.publish(event.Broadcast, event.Settings{}, "old")
	w.now += 10
	w.publish(event.Broadcast, event.Settings{}, "new")
	w.wait(11, "a", w.now)
	w.wait(12, "b", 0)
	w.wait(13, "c", w.now+1)
	w.expect(t, "a←new b←old")
}

func TestWithdrawnDeliveryTakesItsOldPlace(t *testing.T) {
	for _, mode := range []event.Mode{event.Consumed, event.Broadcast} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t)
			w.wait(11, "a", 0)
			w.publish(mode, event.Settings{}, "e1")
			w.expect(t, "a←e1")
			w.publish(mode, event.Settings{}, "e2")
			w.put(event.Withdraw("orders", "a")) // the run has not taken it
			w.wait(11, "b", 0)
			w.wait(11, "c", 0, "b")
			w.expect(t, "b←e1 c←e2")
		})
	}
}

func TestReturnedConsumedEventIsDeliveredAnew(t *testing.T) {
	w := newWorld(t)
	w.wait(11, "a", 0)
	w.publish(event.Consumed, event.Settings{}, "e1")
	w.settle()
	d := w.sent[0]
	w.put(event.Ack("orders", "a"))
	w.publish(event.Consumed, event.Settings{}, "e2")
	w.settle()
	w.got()
	if w.stats.Counts.Received != 1 || w.stats.Pending != 1 {
		t.Fatalf("after the ack: %+v", w.stats)
	}
	w.put(event.GiveBack(&store.Run{No: 11}, &d)) // the run is rewound
	w.wait(12, "b", 0)
	w.wait(11, "c", 0)
	w.expect(t, "b←e1 c←e2")
	if w.stats.Counts.Received != 0 || w.stats.InFlight != 2 || w.stats.Counts.Accepted != 2 {
		t.Fatalf("after the return: %+v", w.stats)
	}
}

func TestReturnedBroadcastEventIsForThatRunAlone(t *testing.T) {
	w := newWorld(t)
	w.wait(11, "a", 0)
	w.wait(12, "b", 0)
	w.publish(event.Broadcast, event.Settings{}, "e1")
	w.settle()
	d := w.sent[0]
	w.got()
	w.wait(11, "a2", 0) // a is taken
	w.wait(12, "b2", 0)
	w.settle()
	w.put(event.GiveBack(&store.Run{No: 11}, &d))
	w.expect(t, "a2←e1")
}

func TestExpiredEventIsNotDelivered(t *testing.T) {
	for _, mode := range []event.Mode{event.Consumed, event.Broadcast} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t)
			w.publish(mode, event.Settings{Expiry: 10}, "e1")
			w.settle()
			if at := w.rules.Wake(); at != w.now+10 {
				t.Fatalf("the topic wakes at %d; want %d", at, w.now+10)
			}
			w.now += 10
			w.wait(11, "a", 0)
			w.expect(t, "")
			if w.stats.Counts.Expired != 1 || w.stats.Pending != 0 {
				t.Fatalf("%+v", w.stats)
			}
		})
	}
}

func TestRetentionDropsWhatWasReceivedOrNot(t *testing.T) {
	w := newWorld(t)
	keep := event.Settings{Retention: 10}
	w.wait(11, "a", 0)
	w.publish(event.Broadcast, keep, "e1")
	w.publish(event.Broadcast, keep, "e2")
	w.publish(event.Consumed, keep, "e3")
	w.expect(t, "a←e1")
	w.now += 10
	w.settle()
	if c := w.stats.Counts; c.Received != 1 || c.Expired != 2 || w.stats.Pending != 0 {
		t.Fatalf("%+v", w.stats)
	}
	if len(w.entries) != 1 {
		t.Fatalf("%d entries stand; want the counts alone: %v", len(w.entries), w.entries)
	}
	w.wait(11, "b", 0)
	w.expect(t, "")
}

func TestEventInFlightExpiresWhenItComesBack(t *testing.T) {
	w := newWorld(t)
	w.wait(11, "a", 0)
	w.publish(event.Consumed, event.Settings{Expiry: 10}, "e1")
	w.expect(t, "a←e1")
	w.now += 20
	w.settle()
	if w.stats.InFlight != 1 {
		t.Fatalf("%+v", w.stats)
	}
	w.wait(12, "b", 0)
	w.put(event.Withdraw("orders", "a"))
	w.expect(t, "")
	if w.stats.Counts.Expired != 1 {
		t.Fatalf("%+v", w.stats)
	}
}

func TestPositionOfAForkIsItsOwnWord(t *testing.T) {
	w := newWorld(t)
	n := w.publish(event.Broadcast, event.Settings{}, "e1")
	w.publish(event.Broadcast, event.Settings{}, "e2")
	w.put(event.Register("orders", "a", &event.Registration{Run: 11, After: n}))
	w.expect(t, "a←e2")
}

func TestWhatWasToldOnceIsToldOnce(t *testing.T) {
	w := newWorld(t)
	w.wait(11, "a", 0)
	w.publish(event.Consumed, event.Settings{}, "e1")
	w.settle()
	d := w.sent[0]
	w.put(event.Ack("orders", "a"))
	w.put(event.Ack("orders", "a"))
	w.put(event.Withdraw("orders", "a"))
	w.put(event.Withdraw("orders", "unknown"))
	w.settle()
	w.put(event.GiveBack(&store.Run{No: 11}, &d))
	w.put(event.GiveBack(&store.Run{No: 11}, &d))
	w.settle()
	if c := w.stats.Counts; c.Received != 0 || w.stats.Pending != 1 {
		t.Fatalf("%+v", w.stats)
	}
}

func TestForeignItemsAreConsumed(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []store.ItemKind{store.ItemEvent, store.ItemWait, store.ItemWithdraw, store.ItemAck,
		store.ItemReturn, store.ItemMessage} {
		w.put(store.Command{RunID: "x", Item: &store.Item{Kind: kind, ID: fmt.Sprint("i", kind), Value: []byte("no record")}})
	}
	w.expect(t, "")
	if len(w.inbox) != 0 || w.stats.Counts.Refused != 1 {
		t.Fatalf("%d items are left; %+v", len(w.inbox), w.stats)
	}
}

func TestRefusedArePublishedWithTheNext(t *testing.T) {
	w := newWorld(t)
	s := event.Settings{Mode: event.Consumed, Cap: 1, Expiry: event.Never, Retention: event.Never}
	w.put(event.Publish("orders", "e1", "e1", &event.Publication{Settings: s}, nil))
	w.settle()
	if !w.stats.Full() {
		t.Fatalf("one of one is pending and the topic is not full: %+v", w.stats)
	}
	w.put(event.Publish("orders", "r", "r", &event.Publication{Settings: s, Refused: 3, Only: true}, nil))
	w.put(event.Publish("orders", "e2", "e2", &event.Publication{Settings: s, Refused: 2}, nil))
	w.settle()
	if c := w.stats.Counts; c.Refused != 5 || c.Accepted != 2 {
		t.Fatalf("%+v", w.stats)
	}
}

// TestBroadcastToManyGoesOverSeveralTurns: none is lost or delivered twice when a crash
// comes between any two of them.
func TestBroadcastToManyGoesOverSeveralTurns(t *testing.T) {
	const runs = 3000
	for cut := range 5 {
		w := newWorld(t)
		for i := range runs {
			w.wait(store.RunNo(i+1), fmt.Sprint("k", i), 0)
		}
		w.settle()
		w.publish(event.Broadcast, event.Settings{}, "e1")
		for range cut {
			w.commit(w.turn())
		}
		w.turn() // is lost
		w.load()
		if turns := w.settle(); cut == 0 && turns < 4 {
			t.Fatalf("%d deliveries took %d turns: this proves nothing", runs, turns)
		}
		seen := map[string]bool{}
		for _, d := range w.sent {
			if seen[d.Key] {
				t.Fatalf("%s got two", d.Key)
			}
			seen[d.Key] = true
		}
		if len(seen) != runs {
			t.Fatalf("after a crash behind %d turns %d of %d runs got the event", cut, len(seen), runs)
		}
	}
}

// TestWhatAllHaveHadIsNoLoad: the cap counts what some run may still want, and beyond it
// the oldest that all have had is dropped. A run that comes later sees what is kept.
func TestWhatAllHaveHadIsNoLoad(t *testing.T) {
	w := newWorld(t)
	s := event.Settings{Cap: 3}
	for i := range 10 {
		w.wait(11, fmt.Sprint("a", i), w.now)
		w.publish(event.Broadcast, s, fmt.Sprint("e", i))
		w.expect(t, fmt.Sprintf("a%d←e%d", i, i))
		w.now++
		if w.stats.Full() || w.stats.Pending > 3 {
			t.Fatalf("after event %d: %+v", i, w.stats)
		}
	}
	w.wait(12, "new", w.now)
	w.wait(13, "b", 0)
	w.expect(t, "b←e7")
	if w.stats.Full() || w.stats.Had != 1 || w.stats.Slow != 13 || w.stats.Counts.Received != 7 {
		t.Fatalf("with a run that has read one of three: %+v", w.stats)
	}
}

// TestBytesThatAllHaveHadAreNoLoad: the cap in bytes counts what some run may still want, and
// beyond it the oldest that all have had is dropped, as of the cap in events.
func TestBytesThatAllHaveHadAreNoLoad(t *testing.T) {
	w := newWorld(t)
	s := event.Settings{Cap: -1, CapBytes: 6} // three of two bytes
	for i := range 10 {
		w.wait(11, fmt.Sprint("a", i), w.now)
		w.publish(event.Broadcast, s, fmt.Sprint("e", i))
		w.expect(t, fmt.Sprintf("a%d←e%d", i, i))
		w.now++
		if w.stats.Full() || w.stats.Bytes > 6 {
			t.Fatalf("after event %d: %+v", i, w.stats)
		}
	}
	w.wait(12, "slow", 0)
	w.publish(event.Broadcast, s, "f0")
	w.publish(event.Broadcast, s, "f1")
	w.settle()
	if !w.stats.Full() || w.stats.Slow == 0 {
		t.Fatalf("with a run that waits for what is kept: %+v", w.stats)
	}
	w.put(event.Leave("orders", "1", []store.RunNo{11}))
	w.load()
	w.settle()
	if w.stats.Bytes != w.rules.bytes || w.stats.HadBytes != w.rules.wants.hadBytes {
		t.Fatalf("after a crash it says %+v, and holds %d bytes", w.stats, w.rules.bytes)
	}
}

// TestConsumedEventsOnTheirWayCount: their bytes are held until they are acknowledged.
func TestConsumedEventsOnTheirWayCount(t *testing.T) {
	w := newWorld(t)
	s := event.Settings{Cap: 1, CapBytes: 4}
	w.wait(11, "a", 0)
	w.publish(event.Consumed, s, "e123")
	w.expect(t, "a←e123")
	if !w.stats.Full() || w.stats.Pending != 0 || w.stats.Bytes != 4 {
		t.Fatalf("on its way: %+v", w.stats)
	}
	w.put(event.Ack("orders", "a"))
	w.settle()
	if w.stats.Full() || w.stats.Bytes != 0 {
		t.Fatalf("it is taken: %+v", w.stats)
	}
}

// TestSlowReaderHoldsTheCap, and its end frees it.
func TestSlowReaderHoldsTheCap(t *testing.T) {
	w := newWorld(t)
	s := event.Settings{Cap: 3}
	w.wait(11, "a0", 0)
	w.wait(12, "b", 0)
	for i := range 4 {
		w.publish(event.Broadcast, s, fmt.Sprint("e", i))
		w.wait(11, fmt.Sprint("a", i+1), 0)
		w.settle()
	}
	if !w.stats.Full() || w.stats.Pending != 4 || w.stats.Had != 1 || w.stats.Slow != 12 {
		t.Fatalf("a run has one of four: %+v", w.stats)
	}
	w.load() // after a crash it is the same
	w.put(event.Leave("orders", "1", []store.RunNo{11, 12, 77}))
	w.settle()
	if w.stats.Full() || w.stats.Pending != 3 || w.stats.Had != 3 || w.stats.Slow != 0 {
		t.Fatalf("the slow run has ended: %+v", w.stats)
	}
	w.got()
	w.wait(12, "b2", 0) // it was rewound
	w.expect(t, "b2←e1")
}

// TestReturnedEventCountsAgain: it is wanted, and is not dropped.
func TestReturnedEventCountsAgain(t *testing.T) {
	w := newWorld(t)
	s := event.Settings{Cap: 2}
	w.wait(11, "a0", 0)
	w.publish(event.Broadcast, s, "e1")
	w.settle()
	d := w.sent[0]
	w.publish(event.Broadcast, s, "e2")
	w.wait(11, "a1", 0)
	w.wait(11, "a2", 0)
	w.put(event.Leave("orders", "1", []store.RunNo{11}))
	w.settle()
	w.got()
	w.put(event.Withdraw("orders", "a2"))
	w.put(event.GiveBack(&store.Run{No: 11}, &d))
	w.settle()
	if w.stats.Had != 1 || w.stats.Pending != 2 {
		t.Fatalf("one of two is returned: %+v", w.stats)
	}
	w.publish(event.Broadcast, s, "e3")
	w.publish(event.Broadcast, s, "e4")
	w.wait(11, "a3", 0)
	w.expect(t, "a3←e1")
}

// TestReaderOfAnEarlierReleaseCounts: what stood without a word of when its waits look.
func TestReaderOfAnEarlierReleaseCounts(t *testing.T) {
	w := newWorld(t)
	w.publish(event.Broadcast, event.Settings{Cap: 1}, "old")
	w.wait(12, "b", 0)
	w.now += 10
	w.wait(11, "a", w.now)
	w.settle()
	w.got()
	r := &reader{Waits: []*wait{{Key: "a", No: 3, Since: w.now}}}
	loc := at(runLoc, store.RunNo(11))
	w.entries[loc] = store.Entry{Loc: loc, Value: event.Encode(r)}
	w.load()
	w.settle()
	if w.rules.wants.had != 1 {
		t.Fatalf("%d events are had by all", w.rules.wants.had)
	}
	w.publish(event.Broadcast, event.Settings{Cap: 1}, "new")
	w.expect(t, "a←new")
}

// A removed event is given to nobody, and counts as expired, or as received if some run got it. One that is on its way
// is gone when it comes back.
func TestARemovedEventIsGivenToNobody(t *testing.T) {
	w := newWorld(t)
	remove := func(id string, want bool) {
		t.Helper()
		it := newRemoval(id)
		no := w.put(store.Command{Item: it})
		turn := w.turn()
		i := slices.IndexFunc(turn.Consumed, func(c store.Consumption) bool { return c.Item == no })
		var answer removed
		if i < 0 {
			t.Fatalf("the removal of %s has no answer", id)
		}
		if err := event.Decode(turn.Consumed[i].Verdict, &answer); err != nil || answer.Found != want {
			t.Errorf("the removal of %s is answered with %+v, %v; want %t", id, answer, err, want)
		}
		w.commit(turn)
		w.settle()
	}
	for _, id := range []string{"c1", "k:c2"} {
		w.publish(event.Consumed, event.Settings{}, id)
	}
	w.settle()
	remove("c2", true)
	remove("c2", false)
	w.wait(11, "a", 0)
	w.expect(t, "a←c1")
	remove("c1", true) // on its way
	w.load()
	w.put(event.Withdraw("orders", "a"))
	w.wait(12, "b", 0)
	w.expect(t, "")
	if got := w.stats.Counts; got.Expired != 2 || got.Received != 0 || w.stats.Pending+w.stats.InFlight != 0 {
		t.Errorf("it says of itself: %+v", w.stats)
	}

	w.publish(event.Broadcast, event.Settings{}, "b1")
	w.publish(event.Broadcast, event.Settings{}, "b2")
	w.expect(t, "b←b1")
	remove("b1", true)
	remove("b2", true)
	w.wait(12, "b'", 0)
	w.wait(13, "c", 0)
	w.load()
	w.expect(t, "")
	if got := w.stats.Counts; got.Expired != 3 || got.Received != 1 {
		t.Errorf("it says of itself: %+v", w.stats)
	}
	w.publish(event.Broadcast, event.Settings{}, "b3")
	w.expect(t, "b'←b3 c←b3")
	if it := newRemoval("b3"); true {
		it.Name = "another"
		w.put(store.Command{Item: it})
		w.settle()
	}
	if w.stats.Pending != 1 {
		t.Errorf("a request that is unknown has an effect: %+v", w.stats)
	}
}

func newRemoval(id string) *store.Item {
	return &store.Item{Kind: store.ItemUpdate, Name: itemRemove, ID: "r:" + id, Origin: "o",
		Value: event.Encode(&removal{ID: id, By: "ada"})}
}
