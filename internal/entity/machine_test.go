package entity_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

func TestItemsInOrderAndOneTurnAtATime(t *testing.T) {
	j := newJournal(t)
	m := j.load()
	third, first, second := j.send("put", "a=third"), j.send("put", "a=first"), j.send("put", "a=second")
	first.No, second.No, third.No = 1, 2, 3
	m.Deliver(third, first)
	m.Deliver(second, first)
	m.Advance(j.now, j.now)
	turn := m.Take()
	if len(turn.Entries) != 1 || string(turn.Entries[0].Value) != "third" || len(turn.Consumed) != 3 {
		t.Errorf("expected three items in the order of their numbers, got %+v", turn)
	}
	if turn.Update == nil || turn.Update.Status != store.Suspended {
		t.Errorf("expected the turn to suspend the entity, got %+v", turn.Update)
	}
	late := j.send("put", "b=late")
	m.Deliver(late)
	m.Advance(j.now, j.now)
	if m.Take() != nil {
		t.Error("expected one turn at a time")
	}
	j.tell(m, turn, j.commit(turn)) // still ready
	m.Advance(j.now, j.now)
	if turn = m.Take(); len(turn.Entries) != 1 || string(turn.Entries[0].Value) != "late" {
		t.Errorf("expected what came meanwhile, got %+v", turn)
	}
}

func TestTheLastCallForALocationCounts(t *testing.T) {
	j := newJournal(t)
	j.entries["a"] = store.Entry{Loc: "a", Kind: store.KindEntity, State: store.Open, Value: []byte("old"), Size: 3}
	j.send("both", "new")
	j.settle(j.load(), j.plain)
	if _, there := j.entries["a"]; there || string(j.entries["b"].Value) != "new" {
		t.Errorf("expected a to be deleted and b to be there, got %v", j.entries)
	}
}

func TestKeptItemsComeAgainAfterALoad(t *testing.T) {
	j := newJournal(t)
	j.send("hold", "")
	j.send("hold", "")
	j.send("forget", "")
	m := j.settle(j.load(), j.plain)
	if got := len(j.open(store.Seen)); got != 3 {
		t.Fatalf("expected three kept items, got %d", got)
	}
	it := j.send("release", "")
	if !j.claim() {
		t.Fatal("expected an item to make the entity ready")
	}
	m.Resumed()
	m.Deliver(it)
	j.settle(m, j.plain)
	if got := string(j.entries["released"].Value); got != "2" || len(j.open(store.Seen)) != 1 {
		t.Errorf("expected both to be released, got %s", got)
	}
	j.send("hold", "")
	j.claim()
	j.settle(j.load(), j.plain)
	j.send("release", "")
	j.claim()
	j.settle(j.load(), j.plain)
	if got := string(j.entries["released"].Value); got != "1" {
		t.Errorf("expected the one that was kept before the load, got %s", got)
	}
}

func TestLargeTurnsAreCut(t *testing.T) {
	j := newJournal(t)
	j.send("fan", "4321")
	j.settle(j.load(), j.plain)
	if len(j.sent) != 4321 || j.turns < 9 || j.largest > 502 {
		t.Errorf("expected 4321 sends in turns of 500, got %d in %d turns, the largest of %d", len(j.sent), j.turns,
			j.largest)
	}
	j = newJournal(t)
	for i := range 2500 {
		j.send("put", fmt.Sprintf("k%d=v", i))
	}
	j.settle(j.load(), j.plain)
	if len(j.entries) != 2500 || j.largest > 502 || j.turns != 11 {
		t.Errorf("expected 2500 items in turns of 250, got %d in %d turns, the largest of %d", len(j.entries), j.turns,
			j.largest)
	}
	j = newJournal(t)
	for i := range 20 {
		j.send("put", fmt.Sprintf("k%d=%s", i, strings.Repeat("x", 1<<20)))
	}
	j.settle(j.load(), j.plain)
	if len(j.entries) != 20 || j.turns != 6 {
		t.Errorf("expected 4 values of 1 MiB in a turn, got %d in %d turns", len(j.entries), j.turns)
	}
	m := j.load() // with all of them left out of the snapshot
	if j.claim(); m.Broken() != nil {
		t.Error(m.Broken())
	}
}

func TestWakeTimes(t *testing.T) {
	j := newJournal(t)
	j.send("alarm", "60000000")
	begun := j.now
	m := j.settle(j.load(), j.plain)
	if j.run.WakeAt != stored.WakeAt(begun+60*second) {
		t.Fatalf("expected to be woken shortly before a minute is over, got %d after %d", j.run.WakeAt, begun)
	}
	j.now = j.run.WakeAt
	if !j.claim() {
		t.Fatal("expected the entity to be due")
	}
	m.Resumed()
	m.Advance(j.now, j.now)
	if turn := m.Take(); turn != nil {
		t.Errorf("expected nothing to happen before the time, got %+v", turn)
	}
	if at, _ := m.NextTimer(); at != begun+60*second {
		t.Errorf("expected a timer in a minute, got %d after %d", at, begun)
	}
	j.settle(m, j.plain)
	if j.entries["rang"].Size == 0 || j.entries["alarm"].Size != 0 {
		t.Errorf("expected the alarm to have rung, got %v", j.entries)
	}
	// A wake time within a second does not suspend it.
	j.send("alarm", "5000")
	j.claim()
	turns := j.turns
	j.settle(j.load(), func(m *entity.Machine, turn *store.Turn) *entity.Machine {
		if turn.Update != nil && j.turns == turns {
			t.Error("expected the entity not to be suspended for 5 ms")
		}
		return j.plain(m, turn)
	})
	if j.entries["alarm"].Size != 0 {
		t.Error("expected the alarm to have rung")
	}
}

func TestVerbsAreRefusedAndUpdatesAnswered(t *testing.T) {
	j := newJournal(t)
	var want []string
	for _, kind := range []store.ItemKind{store.ItemCancel, store.ItemTerminate, store.ItemPause, store.ItemResume,
		store.ItemRetry, store.ItemRewind, store.ItemEdit} {
		it := j.send("", "")
		j.items[it.No-1].Kind = kind
		want = append(want, "nthis is no run of a workflow: it has no "+kind.String())
	}
	it := j.send("ask", "this")
	j.items[it.No-1].Kind = store.ItemUpdate
	watch := j.send("", "")
	j.items[watch.No-1].Kind = store.ItemWatch
	m := j.load()
	m.Deliver(j.items...) // twice
	j.settle(m, j.plain)
	for i, verdict := range append(want, "answer to this") {
		if it := j.items[i]; it.State != store.Consumed || string(it.Verdict) != verdict {
			t.Errorf("expected the answer %q, got %q in state %d", verdict, it.Verdict, it.State)
		}
	}
	if j.items[watch.No-1].State != store.Seen {
		t.Error("expected a watch to stay: an entity has no end")
	}
}

func TestWhatStallsAnEntity(t *testing.T) {
	for _, c := range []struct{ item, reason string }{
		{"panic", "broken invariant: a broken law"},
		{"early", "ask to be woken"},
		{"unknown", "nobody sent unknown"},
	} {
		j := newJournal(t)
		j.send("put", "a=1")
		j.send(c.item, "")
		j.settle(j.load(), j.plain)
		if j.run.Status != store.Stalled || !strings.Contains(j.run.Reason, c.reason) {
			t.Errorf("%s: expected the entity to stall with %q, got %s %q", c.item, c.reason, j.run.Status, j.run.Reason)
		}
		if len(j.entries) != 0 || len(j.open(store.New)) != 2 {
			t.Errorf("%s: expected nothing of the turn to stand, got %v", c.item, j.entries)
		}
	}
	j := newJournal(t)
	j.entries["damaged"] = store.Entry{Loc: "damaged", Value: []byte("x"), Size: 1}
	j.settle(j.load(), j.plain)
	if j.run.Status != store.Stalled || !strings.Contains(j.run.Reason,
		"damaged: what stands in the record cannot be read: it is damaged") {
		t.Errorf("expected damaged entries to stall the entity, got %s %q", j.run.Status, j.run.Reason)
	}
}

func TestAValueThatCannotBeFetchedBreaksTheActivationAlone(t *testing.T) {
	gone := errors.New("gone")
	loads := 0
	m := entity.New(entity.Config{
		Rules: &toy{loads: &loads}, Entries: []store.Entry{{Loc: "a", Size: store.LargeValue}},
		Fetch: func(string) ([]byte, error) { return nil, gone },
	})
	m.Advance(second, second)
	if !errors.Is(m.Broken(), gone) || m.Take() != nil || loads != 0 {
		t.Errorf("expected the machine to be broken and to do nothing, got %v after %d loads", m.Broken(), loads)
	}
}

// TestItemsThatAClaimFoundBefore: a claim that began before an item was consumed
// may tell of it afterwards; and an item of long ago is forgotten.
func TestItemsThatAClaimFoundBefore(t *testing.T) {
	j := newJournal(t)
	m := j.load()
	found := make([]store.Item, 0, 1000)
	for range 1000 {
		it := j.send("put", "a=1")
		found = append(found, it)
		if j.run.Status == store.Suspended {
			j.claim()
			m.Resumed()
		}
		m.Deliver(it)
		j.settle(m, j.plain)
		j.now += second / 100
		m.Deliver(found[max(len(found)-50, 0):]...) // of the last half second
	}
	if len(found) != len(j.items) || len(j.open(store.New)) != 0 {
		t.Errorf("expected each to be taken once, got %d", len(j.open(store.New)))
	}
	if n := entity.Known(m); n > 300 {
		t.Errorf("expected items to be forgotten after some seconds, got %d of 1000", n)
	}
}

// TestCrashAtEveryCommit cuts random programs at each commit, before it and after
// it, and compares the state with that of a life without a crash.
func TestCrashAtEveryCommit(t *testing.T) {
	for seed := range uint64(60) {
		program := programOf(seed)
		calm := life(t, program, -1, false)
		commits := calm.turns
		for cut := range commits {
			for _, before := range []bool{true, false} {
				j := life(t, program, cut, before)
				if got, want := j.state(), calm.state(); got != want {
					t.Fatalf("seed %d, cut at commit %d (before it: %t)\n got %s\nwant %s\nprogram %v", seed, cut, before, got, want,
						program)
				}
				if j.loads != 2 {
					t.Fatalf("seed %d: expected a crash, got %d loads", seed, j.loads)
				}
			}
		}
	}
}

type sending struct{ name, value string }

func programOf(seed uint64) []sending {
	rng := rand.New(rand.NewPCG(seed, 1))
	var program []sending
	for range 2 + rng.IntN(8) {
		key := string(rune('a' + rng.IntN(3)))
		program = append(program, [...]sending{
			{"put", key + "=" + fmt.Sprint(rng.IntN(100))},
			{"put", key + "=" + strings.Repeat("x", store.LargeValue)},
			{"del", key}, {"both", fmt.Sprint(rng.IntN(100))}, {"hold", ""}, {"release", ""},
			{"fan", fmt.Sprint(rng.IntN(2500))}, {"alarm", fmt.Sprint(rng.IntN(3_000_000))}, {"forget", ""},
		}[rng.IntN(9)])
	}
	return program
}

// life sends the program's items, one whenever the entity rests, and two at once
// now and then. At commit number cut the process ends, before or after it.
func life(t *testing.T, program []sending, cut int, before bool) *journal {
	j := newJournal(t)
	after := func(m *entity.Machine, turn *store.Turn) *entity.Machine {
		if j.turns != cut || j.loads > 1 {
			return j.plain(m, turn)
		}
		if !before {
			j.commit(turn)
		}
		if j.run.Status == store.Suspended {
			j.run.Status = store.Running // the next owner claims what is due or new; here at once
		}
		return j.load()
	}
	m := j.settle(j.load(), after)
	for len(program) > 0 {
		n := min(1+len(program)%2, len(program))
		for _, s := range program[:n] {
			it := j.send(s.name, s.value)
			m.Deliver(it)
		}
		program = program[n:]
		for j.claim() {
			m.Resumed()
			m = j.settle(m, after)
		}
		if j.run.WakeAt != 0 { // time passes
			j.now = j.run.WakeAt
			j.claim()
			m.Resumed()
			m = j.settle(m, after)
		}
	}
	return j
}
