package observe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/observe"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

type key struct{ workflow, outcome string }

// TestSetsAreBounded: from MostSets on a name is Other, and what is known stays.
func TestSetsAreBounded(t *testing.T) {
	made := 0
	sets := observe.Sets[key, *key]{
		Make: func(k key) *key { made++; return &k },
		Rest: func(k key) key { return key{observe.Other, k.outcome} },
	}
	for i := range 3000 {
		got := sets.Of(key{fmt.Sprint(i), "done"})
		want := key{fmt.Sprint(i), "done"}
		if i >= observe.MostSets {
			want.workflow = observe.Other
		}
		if *got != want || sets.Of(key{fmt.Sprint(i), "done"}) != got {
			t.Fatalf("of %d: got %v, want %v", i, *got, want)
		}
	}
	if made != observe.MostSets+1 {
		t.Errorf("%d were made, want %d", made, observe.MostSets+1)
	}
	if got := sets.Of(key{"2999", "failed"}); *got != (key{observe.Other, "failed"}) {
		t.Errorf("got %v, want the outcome as it is", *got)
	}
	if n := testing.AllocsPerRun(100, func() { sets.Of(key{"7", "done"}) }); n != 0 {
		t.Errorf("a known set costs %v allocations", n)
	}
}

func TestOutcome(t *testing.T) {
	for want, err := range map[string]error{
		observe.Done: nil, observe.Failed: errors.New("no"), observe.TimedOut: fmt.Errorf("x: %w", stet.ErrTimeout),
		observe.Panicked:  &stet.Failure{Cause: stet.ErrPanic},
		observe.Cancelled: &stet.Failure{Cause: context.Canceled},
	} {
		if got := observe.Outcome(err); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
}

// slowStore takes a second for each count.
type slowStore struct {
	store.Store
	counts int
	err    error
}

func (s *slowStore) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	s.counts++
	time.Sleep(time.Second)
	if s.err != nil {
		return nil, s.err
	}
	return s.Store.Count(ctx, f)
}

// TestReadingKeepsToItsShare: the store is read for one part in a hundred of the time; what was
// read last stays for ten minutes.
func TestReadingKeepsToItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		defer inner.Close()
		s := &slowStore{Store: inner}
		e, err := stet.New(t.Context(), stet.Config{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		var r observe.Store
		for begun := time.Now(); time.Since(begun) < 1000*time.Second; time.Sleep(5 * time.Second) {
			if _, ok := r.Read(e); !ok {
				t.Fatal("the store was not read")
			}
		}
		if s.counts < 8 || s.counts > 11 {
			t.Errorf("in 1000 s the store was read %d times for a second, want about 10", s.counts)
		}
		s.err = store.ErrUnavailable
		time.Sleep(5 * time.Minute)
		if _, ok := r.Read(e); !ok {
			t.Error("after five minutes the last reading does not count any more")
		}
		time.Sleep(10 * time.Minute)
		if _, ok := r.Read(e); ok {
			t.Error("after fifteen minutes the last reading counts")
		}
	})
}

// TestReading: a run without a process is ready, one that is to begin later is not.
func TestReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		code := stet.Define("order", func(stet.Context, int) (int, error) { return 0, nil })
		e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{code}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := code.Start(t.Context(), e, 0, stet.StartAfter(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		var early, late observe.Store
		r, ok := early.Read(e)
		if !ok || r.ReadyOldest != 0 || r.Runs[observe.RunsOf{Workflow: "order", Status: store.Queued}] != 1 {
			t.Errorf("a run that is to begin later: got %+v, %v", r, ok)
		}
		if _, err := code.Start(t.Context(), e, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Minute)
		if r, ok = late.Read(e); !ok || r.ReadyOldest != 7*time.Minute {
			t.Errorf("a run that has waited for 7 minutes: got %s, %v", r.ReadyOldest, ok)
		}
	})
}
