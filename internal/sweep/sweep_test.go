package sweep_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/sweep"
	"github.com/stet-run/stet/store"
)

// swept is a store in which each part takes a second, and a pass has three parts, or as many as it says.
type swept struct {
	parts    int
	requests []store.SweepRequest
	at       []time.Time
	fails    atomic.Bool // the next part
	looks    int
}

func (s *swept) Sweep(_ context.Context, req store.SweepRequest) (store.Swept, error) {
	s.requests, s.at = append(s.requests, req), append(s.at, time.Now())
	time.Sleep(time.Second)
	if s.fails.Swap(false) {
		return store.Swept{}, errors.New("not now")
	}
	if s.parts > 0 && len(s.requests) < s.parts {
		return store.Swept{Next: store.SweepPlace{No: int64(len(s.requests))}}, nil
	}
	if s.parts > 0 || req.From.Stage == 2 {
		return store.Swept{Done: true}, nil
	}
	return store.Swept{Next: store.SweepPlace{Stage: req.From.Stage + 1}}, nil
}

// run sweeps for a while of virtual time, and returns what was asked and how often objects
// were collected.
func run(t *testing.T, s *swept, mine bool, d time.Duration) (collected int) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	sweeper := sweep.Sweeper{
		Store: s, Pause: time.Minute, Log: slog.New(slog.DiscardHandler), Rules: oneRule,
		Leases:  func() []store.Lease { return []store.Lease{{Epoch: 7}} },
		Collect: func(context.Context) (int, error) { collected++; return 0, nil },
		Mine:    func() bool { return mine },
		Look:    func(context.Context) error { s.looks++; return nil },
	}
	go func() {
		sweeper.Run(ctx, nil)
		close(ended)
	}()
	time.Sleep(d)
	cancel()
	<-ended
	return collected
}

// A pass is made of parts, each followed by a rest that is four times as long; after the
// last one comes the pause.
func TestPartsAndRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s swept
		begun := time.Now()
		run(t, &s, true, 3*time.Minute)
		want := []time.Duration{60 * time.Second, 65 * time.Second, 70 * time.Second, 131 * time.Second}
		for i, at := range want {
			if got := s.at[i].Sub(begun); got != at {
				t.Errorf("part %d began after %s; want %s", i, got, at)
			}
		}
		for i, stage := range []int{0, 1, 2, 0} {
			if r := s.requests[i]; int(r.From.Stage) != stage || len(r.Rules) != 1 || len(r.Leases) != 1 || r.Items {
				t.Errorf("part %d asked for %+v; want stage %d", i, r, stage)
			}
		}
	})
}

// A pass that does not end within a minute takes larger parts and rests less, and again after ten minutes.
func TestALongPassHurries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := swept{parts: 1_000_000}
		run(t, &s, true, 30*time.Minute)
		begun := s.at[0]
		for i := 1; i < len(s.at); i++ {
			lasted, period := s.at[i-1].Sub(begun), s.at[i].Sub(s.at[i-1])
			want, most := 1250*time.Millisecond, 2000
			switch {
			case lasted < time.Minute:
				want, most = 5*time.Second, 0
			case lasted < 10*time.Minute:
				want = 2 * time.Second
			}
			if period != want || s.requests[i-1].Most != most {
				t.Fatalf("after %s a part and its rest took %s with %d rows; want %s, %d",
					lasted, period, s.requests[i-1].Most, want, most)
			}
		}
	})
}

// After an error the pass begins from the start, when the pause is over.
func TestAnErrorBeginsThePassAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s swept
		begun := time.Now()
		time.AfterFunc(64*time.Second, func() { s.fails.Store(true) })
		run(t, &s, true, 3*time.Minute)
		if got := s.at[2].Sub(begun); got != 126*time.Second || s.requests[2].From != (store.SweepPlace{}) {
			t.Errorf("after the error it asked for %+v after %s", s.requests[2].From, got)
		}
	})
}

// Consumed items are looked for in all parts of one pass, every quarter of an hour.
func TestItemsEveryQuarter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s swept
		run(t, &s, true, 3*time.Hour)
		passes := 0
		for i := 0; i < len(s.requests)-2; i += 3 {
			if s.requests[i].Items {
				passes++
				if !s.requests[i+1].Items || !s.requests[i+2].Items {
					t.Error("a part of the pass does not look for items")
				}
			}
		}
		if passes < 9 || passes > 12 {
			t.Errorf("in three hours %d passes have looked for items; want about 11", passes)
		}
	})
}

// One process looks after each pass for what nobody serves.
func TestLookAfterEachPass(t *testing.T) {
	for mine, want := range map[bool]int{true: 2, false: 0} {
		synctest.Test(t, func(t *testing.T) {
			var s swept
			if run(t, &s, mine, 145*time.Second); s.looks != want {
				t.Errorf("with mine %t it has looked %d times; want %d", mine, s.looks, want)
			}
		})
	}
}

// Objects are collected once a day, by one process.
func TestCollectOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if n := run(t, &swept{}, true, 49*time.Hour); n != 3 {
			t.Errorf("objects were collected %d times; want 3", n)
		}
		if n := run(t, &swept{}, false, 49*time.Hour); n != 0 {
			t.Errorf("another process has collected objects %d times", n)
		}
	})
}

func oneRule() []store.Retention { return []store.Retention{{}} }

// TestRunsLoseATenth: while runs are executed a pass over a backlog has a tenth of the time, however long it lasts, and
// after an hour a fifth. Once none are it hurries.
func TestRunsLoseATenth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := swept{parts: 1_000_000}
		begun := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		sweeper := sweep.Sweeper{
			Store: &s, Pause: time.Minute, Log: slog.New(slog.DiscardHandler), Rules: oneRule,
			Leases:  func() []store.Lease { return nil },
			Working: func() bool { return time.Since(begun) < 2*time.Hour },
		}
		ended := make(chan struct{})
		go func() {
			sweeper.Run(ctx, nil)
			close(ended)
		}()
		time.Sleep(3 * time.Hour)
		cancel()
		<-ended
		for i := 1; i < len(s.at); i++ {
			at, period, want := s.at[i-1].Sub(s.at[0]), s.at[i].Sub(s.at[i-1]), 10*time.Second
			switch {
			case at >= 2*time.Hour-time.Minute-5*time.Second:
				want = 1250 * time.Millisecond
			case at >= time.Hour:
				want = 5 * time.Second
			}
			if period != want && at < 2*time.Hour-2*time.Minute || at > 2*time.Hour && period != want {
				t.Fatalf("after %s a part and its rest took %s; want %s", at, period, want)
			}
		}
	})
}
