package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// spender is a world whose permits cost something. It knows what a rate may count, and
// nothing of how the queue keeps it.
type spender struct {
	*world
	settings permit.Settings
	asks     map[string]*spending // by ticket
	waits    []string             // tickets, in the order of asking
	granted  []*spending
}

type spending struct {
	ticket, key string
	cost        int
	at          store.Time // when the permit was granted; 0: it was not
	units       int        // that count
}

func newSpender(t testing.TB, s permit.Settings) *spender {
	w := &spender{world: newWorld(t), settings: s, asks: map[string]*spending{}}
	w.manage(permit.Create, s)
	return w
}

func (w *spender) ask(key string, cost int) {
	s := &spending{ticket: fmt.Sprint("t", len(w.asks)), key: key, cost: max(cost, 1), units: max(cost, 1)}
	w.asks[s.ticket], w.waits = s, append(w.waits, s.ticket)
	p := permit.Place{Queue: "q", Key: key, Cost: cost, Ticket: s.ticket}
	w.put(p.AskFor(permit.Ask{RunID: "run", Loc: "step " + s.ticket}).Item)
}

// spend gives a permit back that has taken so many units.
func (w *spender) spend(s *spending, units int) {
	if s.units = units; units == permit.AsAsked {
		s.units = s.cost
	}
	w.put(permit.GiveBack("q", []permit.Given{{Ticket: s.ticket, Spent: units}}).Item)
}

// settle commits turns until there is nothing to do. Each permit must be one that the rates
// allow.
func (w *spender) settle() {
	w.t.Helper()
	for turn := w.turn(); turn != nil; turn = w.turn() {
		w.take(turn)
		if len(turn.Entries)+len(turn.Prune)+len(turn.Sends)+len(turn.Consumed)+len(turn.Seen)+len(turn.Values) == 0 {
			return
		}
	}
}

// take commits a turn.
func (w *spender) take(turn *store.Turn) {
	w.t.Helper()
	w.apply(turn)
	for _, c := range turn.Sends {
		for _, ticket := range permit.Tickets(c.Item) {
			w.grant(w.asks[ticket])
		}
	}
}

func (w *spender) grant(s *spending) {
	w.t.Helper()
	if s.at != 0 {
		w.t.Fatalf("%s is granted twice", s.ticket)
	}
	for _, c := range []struct {
		what string
		rate int
		key  string
	}{{"the queue", w.settings.Rate, ""}, {"key " + s.key, w.settings.RatePerKey, s.key}} {
		if c.rate == 0 || c.what == "key " {
			continue
		}
		if has := w.counted(c.key, 0); has+min(s.cost, c.rate) > c.rate {
			w.t.Fatalf("%s has %d units of %d, and %s gets %d at %d", c.what, has, c.rate, s.ticket, s.cost, w.now)
		}
	}
	s.at = w.now
	w.granted = append(w.granted, s)
	w.waits = slices.DeleteFunc(w.waits, func(t string) bool { return t == s.ticket })
}

// counted returns the units of a key, or of all, that a rate counts now; late is how much
// later a permit may count than it was granted.
func (w *spender) counted(key string, late store.Delay) (units int) {
	for _, s := range w.granted {
		if s.at+store.Time(w.settings.Per+late) > w.now && (key == "" || s.key == key) {
			units += s.units
		}
	}
	return units
}

// TestRatesKeepTheirBounds: random asks of random costs, of which some spend more or less,
// with crashes. No interval has more than the rates allow, nobody waits who may go on, and
// what is kept is bounded.
func TestRatesKeepTheirBounds(t *testing.T) {
	corrected, blocked := 0, 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 9))
		s := permit.Settings{Group: "g", RatePerKey: 1 + rng.IntN(20), Per: store.Delay(1000 + rng.IntN(5_000_000))}
		if rng.IntN(2) == 0 {
			s.Rate = 1 + rng.IntN(40)
		}
		w := newSpender(t, s)
		late := s.Per/keyParts + 1
		for range 150 {
			switch n := rng.IntN(10); {
			case n < 5:
				w.ask([]string{"", "a", "b", "c"}[rng.IntN(4)], rng.IntN(s.RatePerKey+3))
			case n < 7 && len(w.granted) > 0:
				one := w.granted[len(w.granted)-1-rng.IntN(min(len(w.granted), 5))]
				if _, held := w.entries[permitLoc+one.ticket]; !held || slices.ContainsFunc(w.inbox, func(it store.Item) bool {
					return permit.Ticket(&it) == one.ticket
				}) {
					continue
				}
				units := permit.AsAsked
				if rng.IntN(2) == 0 {
					units = rng.IntN(2 * one.cost)
					corrected++
				}
				w.spend(one, units)
			default:
				w.now += store.Time(rng.Int64N(int64(s.Per) / 3))
			}
			if rng.IntN(4) == 0 { // the process ends, before or after a commit
				w.turn()
				w.load()
			}
			w.settle()
			for _, ticket := range w.waits {
				ask := w.asks[ticket]
				if s.Rate == 0 && (ask.key == "" || w.counted(ask.key, late)+min(ask.cost, s.RatePerKey) <= s.RatePerKey) &&
					!w.behind(ask) {
					t.Fatalf("seed %d: at %d %+v waits, of %+v", seed, w.now, ask, s)
				}
			}
			if at, _ := w.machine.NextTimer(); len(w.waits) > 0 {
				blocked++
				if at <= w.now || at > w.now+store.Time(s.Per+late) {
					t.Fatalf("seed %d: at %d it is to be woken at %d, of %+v", seed, w.now, at, s)
				}
			}
		}
		for range 10_000 {
			if len(w.waits) == 0 {
				break
			}
			w.now, _ = w.machine.NextTimer()
			w.settle()
		}
		if len(w.waits) > 0 {
			t.Fatalf("seed %d: %q wait for ever", seed, w.waits)
		}
		for n := range 1000 {
			w.ask("a", 1)
			w.now += store.Time(s.Per) / 500
			w.settle()
			if n%100 == 0 {
				w.load()
			}
		}
		if n := w.kept(keyRateLoc); n > 4*(keyParts+2) {
			t.Errorf("seed %d: %d entries are kept for 4 keys", seed, n)
		}
	}
	if corrected == 0 || blocked == 0 {
		t.Errorf("%d permits were corrected, %d times one waited", corrected, blocked)
	}
}

// behind reports whether an earlier one of its key waits.
func (w *spender) behind(s *spending) bool {
	for _, ticket := range w.waits {
		if ticket == s.ticket {
			return false
		}
		if w.asks[ticket].key == s.key {
			return true
		}
	}
	return false
}

func (w *world) kept(prefix string) (n int) {
	for loc := range w.entries {
		if strings.HasPrefix(loc, prefix) {
			n++
		}
	}
	return n
}

// TestKeyThatHasUsedItsRateUpLetsTheOthersPass: a tenant with a thousand asks does not hold
// up one that comes later, and what is kept of keys goes when their time is over.
func TestKeyThatHasUsedItsRateUpLetsTheOthersPass(t *testing.T) {
	w := newSpender(t, permit.Settings{Group: "g", RatePerKey: 10, Per: 1_000_000})
	for range 1000 {
		w.ask("large", 1)
	}
	w.settle()
	for n := range 20 {
		w.ask(fmt.Sprint("small", n), 1)
	}
	w.settle()
	if got := w.counted("large", 0); got != 10 || len(w.granted) != 30 {
		t.Errorf("%d of 1,000 of the large one, and %d in all, have a permit", got, len(w.granted))
	}
	begun := w.now
	for len(w.waits) > 0 {
		at, _ := w.machine.NextTimer()
		w.now = at
		w.settle()
	}
	if took := w.now - begun; took != 99*1_000_000 {
		t.Errorf("1,000 at 10 per second took %d µs", took)
	}
	for _, s := range w.granted {
		w.spend(s, permit.AsAsked)
	}
	w.now += 2_000_000
	w.settle()
	if n := w.kept(keyRateLoc); n != 0 {
		t.Errorf("%d entries are kept of what is over", n)
	}
}

// TestSpentCountsInPlaceOfTheCost: less makes room at once, more takes it.
func TestSpentCountsInPlaceOfTheCost(t *testing.T) {
	for _, key := range []bool{false, true} {
		s := permit.Settings{Group: "g", Rate: 100, Per: 1_000_000}
		if key {
			s.Rate, s.RatePerKey = 0, 100
		}
		w := newSpender(t, s)
		for _, cost := range []int{60, 40, 50, 30} {
			w.ask("k", cost)
		}
		want := func(n int) {
			t.Helper()
			w.load()
			w.settle()
			if len(w.granted) != n {
				t.Fatalf("%d have a permit; want %d", len(w.granted), n)
			}
		}
		want(2)
		w.spend(w.granted[0], 10) // of 60
		want(3)
		w.spend(w.granted[1], 75) // of 40
		want(3)
		w.spend(w.granted[2], 0) // of 50: 85 count, and the next one takes 30
		want(3)
		w.now += 999_000
		want(3)
		w.now += 1000 + 1_000_000/keyParts
		want(4)
		w.ask("k", 1000) // more than the rate: alone
		want(4)
		w.now += 1_100_000
		want(5)
		w.ask("k", 1)
		want(5)
		w.now += 1_100_000
		want(6)
	}
}

// TestQueueOfOldHasItsRate: entries that were written when each bucket was one time, and
// asks without a cost.
func TestQueueOfOldHasItsRate(t *testing.T) {
	w := newSpender(t, permit.Settings{Group: "g", Rate: 3, Per: 1_000_000})
	w.settle()
	for n := range int64(2) {
		loc := rateLocOf(n + 1)
		w.entries[loc] = store.Entry{Loc: loc, Value: encode(w.now)}
	}
	w.load()
	w.ask("", 0)
	w.ask("", 0)
	w.settle()
	if len(w.granted) != 1 {
		t.Errorf("%d have a permit", len(w.granted))
	}
}

// TestRowsOfAPermitDoNotDependOnThoseThatWait: with rates of keys and costs, what a permit
// writes is bounded, whether few wait or many.
func TestRowsOfAPermitDoNotDependOnThoseThatWait(t *testing.T) {
	perPermit := func(waiting int) float64 {
		w := newSpender(t, permit.Settings{Group: "g", Rate: 100, RatePerKey: 30, Per: 1_000_000})
		w.settle()
		for n := range waiting {
			w.ask(fmt.Sprint("key", n%5), 1+n%3)
		}
		w.settle()
		before, rows := len(w.granted), 0
		for range 10 {
			w.now, _ = w.machine.NextTimer()
			for turn := w.turn(); turn != nil; turn = w.turn() {
				rows += len(turn.Entries) + len(turn.Prune) + len(turn.Sends) + len(turn.Values)
				w.take(turn)
				if len(turn.Sends) == 0 {
					break
				}
			}
		}
		return float64(rows) / float64(len(w.granted)-before)
	}
	few, many := perPermit(500), perPermit(5000)
	if few > 6 || many > 6 {
		t.Errorf("a permit writes %.1f rows where few wait, and %.1f where many do", few, many)
	}
}
