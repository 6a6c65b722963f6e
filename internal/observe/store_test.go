package observe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/observe"
	"github.com/stet-run/stet/store"
)

// scripted is a store that answers what it is told to.
type scripted struct {
	store.Store
	claims store.Claims
	err    error
}

func (s *scripted) Claim(context.Context, store.ClaimRequest) (store.Claims, error) {
	return s.claims, s.err
}
func (s *scripted) Commit(context.Context, store.Batch) (store.BatchResult, error) {
	return store.BatchResult{}, s.err
}
func (s *scripted) Load(context.Context, []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	return nil, nil, s.err
}
func (s *scripted) Acquire(
	context.Context, store.Node, []store.Shard, store.Delay,
) ([]store.Acquired, store.Time, error) {
	return nil, 0, s.err
}

// TestNothingWantedIsTheStore: where nothing of the store is observed, nothing stands before it.
func TestNothingWantedIsTheStore(t *testing.T) {
	s := &scripted{}
	for _, p := range []*observe.Port{nil, {}, {RunEnded: func(*store.Run) {}}} {
		if observe.Store(s, p) != store.Store(s) {
			t.Errorf("%v: another store was returned", p)
		}
	}
}

// TestClaimLags: a run's lag counts from its start, or from the oldest new item, but not from
// before the last claim that has left nothing; of other runs it is not known.
func TestClaimLags(t *testing.T) {
	second := store.Time(time.Second / time.Microsecond)
	shard := store.Shard{Group: "g"}
	run := func(created, started store.Time, sent ...store.Time) store.Claimed {
		c := store.Claimed{New: true, Run: store.Run{Shard: shard, Created: created * second, Started: started * second}}
		for _, at := range sent {
			c.Items = append(c.Items, store.Item{Sent: at * second})
		}
		return c
	}
	known := run(1, 1)
	known.New = false
	for _, c := range []struct {
		name   string
		before store.Time // an earlier claim has left nothing then; 0: there was none
		runs   []store.Claimed
		want   []time.Duration // in seconds
	}{
		{"a start", 0, []store.Claimed{run(90, 100)}, []time.Duration{10}},
		{"the oldest item", 0, []store.Claimed{run(1, 2, 97, 95)}, []time.Duration{5}},
		{"since the claim before", 98, []store.Claimed{run(90, 100), run(1, 2, 95)}, []time.Duration{2, 2}},
		{"a timer, and one that was claimed before", 0, []store.Claimed{run(1, 2), known}, nil},
		{"an item from a later clock", 0, []store.Claimed{run(1, 2, 101)}, []time.Duration{0}},
	} {
		inner := &scripted{}
		var got []observe.Claim
		s := observe.Store(inner, &observe.Port{Claimed: func(c observe.Claim) { got = append(got, c) }})
		claim := func(claims store.Claims) {
			inner.claims = claims
			if _, err := s.Claim(t.Context(), store.ClaimRequest{Limit: 10}); err != nil {
				t.Fatal(err)
			}
		}
		if c.before != 0 {
			claim(store.Claims{Now: c.before * second})
			claim(store.Claims{Now: (c.before + 1) * second, More: true}) // this one has left some
		}
		claim(store.Claims{Runs: c.runs, Now: 100 * second})
		var lags []time.Duration
		for _, lag := range got[len(got)-1].Lags {
			if lags = append(lags, lag.Lag/time.Second); lag.Group != "g" {
				t.Errorf("%s: the group is %q", c.name, lag.Group)
			}
		}
		if !slices.Equal(lags, c.want) {
			t.Errorf("%s: the lags are %v seconds, want %v", c.name, lags, c.want)
		}
	}
}

// TestStoreErrors: what the store could not do is reported; what its caller has ended or done
// wrong is not, nor that the store was closed.
func TestStoreErrors(t *testing.T) {
	inner := &scripted{}
	var got []string
	s := observe.Store(inner, &observe.Port{StoreError: func(act string, err error) { got = append(got, act) }})
	for err, want := range map[error][]string{
		fmt.Errorf("x: %w", store.ErrUnavailable): {"commit", "claim", "load"},
		store.ErrUnknown:         {"commit", "claim", "load"},
		errors.New("disk full"):  {"commit", "claim", "load"},
		context.DeadlineExceeded: {"commit", "claim", "load"},
		context.Canceled:         nil,
		store.ErrClosed:          nil,
		store.ErrInvalid:         nil,
	} {
		inner.err, got = err, nil
		_, _ = s.Commit(t.Context(), store.Batch{})
		_, _ = s.Claim(t.Context(), store.ClaimRequest{})
		_, _, _ = s.Load(t.Context(), nil)
		if !slices.Equal(got, want) {
			t.Errorf("%v: reported were %q, want %q", err, got, want)
		}
	}
}

// TestCommittedBatches: the bytes of a batch are those of the values that are reported.
func TestCommittedBatches(t *testing.T) {
	inner := &scripted{}
	var batches []observe.Commit
	values := map[string]int{}
	s := observe.Store(inner, &observe.Port{
		Committed: func(c observe.Commit) { c.Took = 0; batches = append(batches, c) },
		Value:     func(kind string, bytes int) { values[kind] += bytes },
	})
	b := store.Batch{
		Turns: []*store.Turn{{
			Entries: []store.Entry{{Kind: store.KindStep, Value: make([]byte, 10)}, {Kind: store.KindSleep}},
			Appends: []store.Append{{Value: make([]byte, 5)}},
			Sends:   []store.Command{{Start: &store.Start{Input: make([]byte, 3)}}},
			Update:  &store.Update{Output: make([]byte, 7)},
		}},
		Commands: []store.Command{{Item: &store.Item{Kind: store.ItemMessage, Value: make([]byte, 2)}}},
	}
	for _, inner.err = range []error{nil, store.ErrUnknown} { // the second one is not reported
		_, _ = s.Commit(t.Context(), b)
	}
	if want := (observe.Commit{Turns: 1, Commands: 1, Bytes: 27}); !slices.Equal(batches, []observe.Commit{want}) {
		t.Errorf("the batches are %+v, want %+v", batches, want)
	}
	want := map[string]int{"step": 10, "stream": 5, "input": 3, "output": 7, "message": 2}
	if fmt.Sprint(values) != fmt.Sprint(want) {
		t.Errorf("the values are %v, want %v", values, want)
	}
}

// several is a store with two lanes.
type several struct {
	scripted
	lanes []store.Store
}

func (s *several) Lanes() []store.Store   { return s.lanes }
func (s *several) LaneOf(slot int) int    { return slot % 2 }
func (s *several) SlotOf(store.RunNo) int { return 1 }
func (s *several) Commit(context.Context, store.Batch) (store.BatchResult, error) {
	return store.BatchResult{}, errors.New("the whole store was asked")
}

// TestLanesAreObserved: an engine that is observed works by the lanes of its store all the same, and what each commits
// is reported.
func TestLanesAreObserved(t *testing.T) {
	commits := 0
	s := observe.Store(&several{lanes: []store.Store{&scripted{}, &scripted{}}}, &observe.Port{
		Committed: func(observe.Commit) { commits++ },
	})
	lanes := store.LanesOf(s)
	if n := len(lanes.Lanes()); n != 2 || lanes.LaneOf(3) != 1 || lanes.SlotOf(7) != 1 {
		t.Fatalf("there are %d lanes, or others", n)
	}
	for _, lane := range lanes.Lanes() {
		if _, err := lane.Commit(t.Context(), store.Batch{}); err != nil {
			t.Error(err)
		}
	}
	if commits != 2 {
		t.Errorf("%d commits were reported, want 2", commits)
	}
}
