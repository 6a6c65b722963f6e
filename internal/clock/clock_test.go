package clock_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/clock"
	"github.com/stet-run/stet/store"
)

const begin = store.Time(1_000_000)

// The bound goes on between answers, by less than the steady clock, and does not go back.
func TestBoundGoesOnAndNotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b clock.Bound
		is := func(when string, want store.Time) {
			t.Helper()
			if got := b.Now(); got != want {
				t.Errorf("%s: expected %d, found %d", when, want, got)
			}
		}
		b.Observe(time.Now(), begin)
		time.Sleep(2 * time.Second)
		passed := begin.Add(2*time.Second - time.Millisecond)
		is("after two seconds", passed)
		b.Observe(time.Time{}, begin)
		is("after an answer of which nothing is known", passed)
		b.Observe(time.Now().Add(-2*time.Second), begin)
		is("after an answer that has travelled for long", passed)
		b.Observe(time.Now(), begin.Add(2*time.Second))
		is("after an answer that is ahead by what the clock may be late", begin.Add(2*time.Second))
		b.Observe(time.Now(), begin.Add(time.Minute))
		is("after an answer that is far ahead", begin.Add(time.Minute))
	})
}

// Of a store in the process nothing is taken off.
func TestBoundOfTheSameClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b clock.Bound
		b.Same()
		b.Observe(time.Now(), begin)
		time.Sleep(time.Hour)
		if got := b.Now(); got != begin.Add(time.Hour) {
			t.Errorf("after an hour: expected %d, found %d", begin.Add(time.Hour), got)
		}
		if d := b.Until(begin.Add(time.Hour + time.Second)); d != time.Second+time.Microsecond {
			t.Errorf("a second before: found a timer of %s", d)
		}
	})
}

// A bound that is shown to be ahead of the store stands until the store's time is there again.
func TestBoundStandsWhenItIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b clock.Bound
		b.Observe(time.Now(), begin.Add(time.Minute)) // and then the store's clock is set back
		time.Sleep(2 * time.Second)
		ahead := b.Now()
		b.Observe(time.Now(), begin.Add(50*time.Second))
		if got := b.Now(); got != ahead {
			t.Errorf("after an answer that is behind: expected that the bound stands at %d, found %d", ahead, got)
		}
		if d := b.Until(ahead); d != time.Microsecond {
			t.Errorf("what was due already: expected that it is due, found it in %s", d)
		}
		due := begin.Add(80 * time.Second)
		if d := b.Until(due); d < 30*time.Second {
			t.Errorf("the store is there in 30 s: expected no less, found %s", d)
		}
		time.Sleep(5 * time.Second)
		if got := b.Now(); got != ahead {
			t.Errorf("before the store has caught up: expected %d, found %d", ahead, got)
		}
		time.Sleep(25*time.Second + 10*time.Millisecond)
		if got := b.Now(); got < due.Add(-20*time.Millisecond) || got > due {
			t.Errorf("after the store has caught up: expected %d or up to 20 ms before, found %d", due, got)
		}
	})
}

// A timer that asks again when it is over finds its time passed, soon after it is.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{0, time.Microsecond, time.Second, 10 * time.Second, time.Hour} {
			var b clock.Bound
			b.Observe(time.Now(), begin)
			started, looks := time.Now(), 0
			for ; b.Now() < begin.Add(d); looks++ {
				time.Sleep(b.Until(begin.Add(d)))
			}
			if late := time.Since(started) - d; late < 0 || late > d/1900+2*time.Microsecond || looks > 5 {
				t.Errorf("a timer of %s is over %s late after %d looks", d, late, looks)
			}
		}
		var b clock.Bound
		b.Observe(time.Now(), begin)
		if d := b.Until(store.TimeOf(time.Unix(1<<62, 0))); d > time.Hour+2*time.Millisecond {
			t.Errorf("of a time that is far off: expected an hour, found %s", d)
		}
		if d := b.Until(0); d != time.Microsecond {
			t.Errorf("of a time that has passed: expected a microsecond, found %s", d)
		}
	})
}

// TestBoundIsNeverAheadOfTheStore: whatever the steady clocks do within what is allowed, however
// long requests and answers take, and however long the machine is suspended, the bound is not ahead
// of the store's time, does not go back, and is not far behind after a quick answer. The time of the
// test is that of the steady clock.
func TestBoundIsNeverAheadOfTheStore(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }
			// rate is that of the store's clock by the steady one, in millionths.
			rate := 1_000_000 + []int64{-500, -499, -50, 0, 50, 1000}[seed%6]
			stored := time.Duration(begin) * time.Microsecond
			pass := func(d time.Duration) {
				time.Sleep(d)
				stored += time.Duration(int64(d)*rate/1_000_000) + 1
			}
			now := func() store.Time { return store.Time(stored / time.Microsecond) }
			var b clock.Bound
			b.Observe(time.Time{}, now())
			for before, i := store.Time(0), 0; i < 300; i++ {
				pass(upTo(time.Duration(1) << r.IntN(36)))
				sent := time.Now()
				pass(upTo(20 * time.Millisecond))
				if i%50 == 9 {
					stored += upTo(time.Hour) // suspended
				}
				answer := now()
				pass(upTo(time.Duration(1) << r.IntN(32)))
				if i%3 > 0 {
					b.Observe(sent, answer)
					if got := b.Now(); got < answer {
						t.Fatalf("seed %d: the bound is %s behind an answer", seed, answer.Sub(got))
					}
				}
				switch got := b.Now(); {
				case got > now():
					t.Fatalf("seed %d: the bound is %s ahead of the store", seed, got.Sub(now()))
				case got < before:
					t.Fatalf("seed %d: the bound has gone back by %s", seed, before.Sub(got))
				default:
					before = got
				}
			}
		})
	}
}
