package sqlstore

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
)

const now store.Time = 1000

func TestChangeOfAnUpdate(t *testing.T) {
	for _, c := range []struct {
		name string
		from store.Status
		u    store.Update
		held bool
		want Change
	}{
		{"goes on", store.Running, store.Update{Status: store.Running}, false, Change{Ready: words.Claimed, Started: now}},
		{"is given back", store.Running, store.Update{Status: store.Running, Unclaim: true}, false, Change{Ready: words.Ready, Started: now}},
		{"is paused", store.Running, store.Update{Status: store.Running, Marks: store.Paused}, false, Change{Ready: words.Ready, Started: now}},
		{"is held by a queue", store.Running, store.Update{Status: store.Running, Marks: store.Held}, false,
			Change{Ready: words.Ready, Started: now}},
		{"waits", store.Running, store.Update{Status: store.Suspended}, false, Change{}},
		{"sleeps", store.Running, store.Update{Status: store.Suspended, WakeAt: now + 5}, false, Change{WakeAt: now + 5}},
		{"sleeps until a time that is over", store.Running, store.Update{Status: store.Suspended, WakeAt: now - 5}, false,
			Change{WakeAt: now - 5}},
		{"is queued", store.Running, store.Update{Status: store.Queued}, false, Change{Ready: words.Ready}},
		{"is queued for later", store.Running, store.Update{Status: store.Queued, WakeAt: now + 5}, false, Change{WakeAt: now + 5}},
		{"is queued, and due", store.Running, store.Update{Status: store.Queued, WakeAt: now}, false, Change{Ready: words.Ready}},
		{"ends", store.Running, store.Update{Status: store.Failed}, false, Change{Ended: now}},
		{"has ended before", store.Failed, store.Update{Status: store.Failed}, false, Change{Ended: Stays}},
		{"goes on after its end", store.Failed, store.Update{Status: store.Running}, false, Change{Ready: words.Claimed, Started: now}},
		{"stalls", store.Running, store.Update{Status: store.Stalled}, false, Change{}},
		{"is isolated", store.Running, store.Update{Status: store.Running, Isolate: true}, false,
			Change{Suspicion: Isolated, Ready: words.Claimed, Started: now}},
		{"is isolated no more", store.Running, store.Update{Status: store.Running, EndIsolation: true}, false,
			Change{Suspicion: NotIsolated, Ready: words.Claimed, Started: now}},
		{"is held back", store.Running, store.Update{Status: store.Suspended}, true, Change{Held: true}},
		{"is held back, isolated", store.Running, store.Update{Status: store.Suspended, Isolate: true}, true,
			Change{Held: true, Suspicion: SuspicionStays}},
	} {
		c.want.Update = &c.u
		c.want.Marks = c.u.MarksOver(store.Admitted)
		if diff := cmp.Diff(c.want, newChange(&c.u, c.from, c.held, now)); diff != "" {
			t.Errorf("a run that %s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestATurnIsRefusedByTheStateOfItsRun(t *testing.T) {
	shard := store.Shard{Group: "g"}
	fits := RunState{Shard: shard, Incarnation: 2, Status: store.Running, Claimed: true, Generation: 3}
	for _, c := range []struct {
		says  string
		state func(*RunState)
		u     *store.Update
	}{
		{"", func(*RunState) {}, nil},
		{"", func(*RunState) {}, &store.Update{Status: store.Suspended}},
		{"", func(*RunState) {}, &store.Update{Status: store.Running, Generation: 4}},
		{"the run is of shard h/0, not g/0", func(s *RunState) { s.Shard.Group = "h" }, nil},
		{"the run is in incarnation 1, not 2", func(s *RunState) { s.Incarnation = 1 }, nil},
		{"the run is not claimed", func(s *RunState) { s.Claimed = false }, nil},
		{"a stalled run cannot continue as new", func(s *RunState) { s.Status = store.Stalled },
			&store.Update{Status: store.Running, Continue: &store.Continuation{}}},
		{"a succeeded run cannot become suspended", func(s *RunState) { s.Status = store.Succeeded }, &store.Update{Status: store.Suspended}},
		{"generation 3 does not follow 3", func(*RunState) {}, &store.Update{Status: store.Running, Generation: 3}},
	} {
		state, got := fits, ""
		c.state(&state)
		if err := state.allows(&store.Turn{Shard: shard, Incarnation: 2, Update: c.u}); err != nil {
			got = err.(*Refusal).Reason
		}
		if got != c.says {
			t.Errorf("expected %q, got %q", c.says, got)
		}
	}
}
