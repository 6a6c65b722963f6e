package topics_test

import (
	"testing"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/runner/topics"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// run is a run whose code waits for one event.
type run struct {
	*topics.Topics
	j      *journal.Journal
	sched  *sched.Scheduler
	branch sched.Branch
	spec   topics.Event
	t      *testing.T
	given  *event.Delivery
	err    error
	over   string
	done   bool
}

func (r *run) Execute() (any, error) {
	r.given, r.err = r.Event(&r.branch, r.spec)
	return nil, nil
}

func (r *run) HandOver() bool {
	if r.j.Live() {
		return r.Next() || r.j.Timers.Next(r.j.Bound(), r.j.InboxAt())
	}
	if r.j.Next() == journal.Passed && r.j.GoLive(r.GoLive) {
		r.DeliverEarly()
	}
	return true
}

func (r *run) Stopped() bool                               { return r.over != "" }
func (r *run) Panicked(_ *sched.Branch, f *stored.Failure) { r.over = f.Message }
func (r *run) Returned(*sched.Branch)                      { r.done = true }
func (r *run) Unawaited(*sched.Future)                     {}
func (r *run) Fail(f *stored.Failure)                      { r.over = f.Message }
func (r *run) Note(location.Loc, string, error)            {}
func (r *run) Stall(s *journal.Stall)                      { r.over = s.Error() }
func (r *run) Damaged(_ location.Loc, err error)           { r.over = err.Error() }
func (r *run) Break(err error)                             { r.over = err.Error() }
func (r *run) StandsStill() bool                           { return false }
func (r *run) HasReturned() bool                           { return r.done }
func (r *run) Owes(*journal.Record, int64, *journal.Op)    {}
func (r *run) Undone(location.Loc)                         {}

// begin makes a run that waits, and lets it go as far as it can.
func begin(t *testing.T, entries []store.Entry, spec topics.Event) *run {
	t.Helper()
	spec.Call, spec.Topic = sched.Call{Name: "e"}, "topic"
	r := &run{t: t, spec: spec}
	r.sched = sched.New(r)
	r.j = journal.New(journal.Config{Run: &store.Run{No: 7, Created: 50, Seed: store.Seed{1}}, Entries: entries,
		Owner: r, Scheduler: r.sched})
	r.Topics = topics.New(r.j)
	r.sched.Begin(&r.branch, nil, "", false, r)
	t.Cleanup(r.sched.Unwind)
	r.advance(100)
	return r
}

func (r *run) advance(now store.Time) {
	r.j.Advance(now, now)
	r.sched.Run()
}

// key returns the key of the wait that the turn registers.
func (r *run) key() string {
	r.t.Helper()
	sends := r.j.Log.Sends()
	if len(sends) != 1 || sends[0].Item.Kind != store.ItemWait {
		r.t.Fatalf("the turn sends %+v", sends)
	}
	return sends[0].Item.Name
}

// deliver delivers an event to a wait.
func (r *run) deliver(key string, mode event.Mode, sent store.Time) {
	d := &event.Delivery{Topic: "topic", Key: key, Event: event.Event{Mode: mode, Number: 3, Value: []byte("v")}}
	r.Deliver(store.Item{No: 9, Kind: store.ItemDelivery, Name: key, Sent: sent, Value: event.Encode(d)})
	r.sched.Run()
}

// TestConsumed: a wait is registered in the turn, and the turn that hands the event over
// acknowledges it.
func TestConsumed(t *testing.T) {
	r := begin(t, nil, topics.Event{})
	key := r.key()
	r.j.Log.Next()
	r.deliver(key, event.Consumed, 100)
	turn := r.j.Log.Turn(r.j.Run)
	if r.given == nil || string(r.given.Event.Value) != "v" || len(turn.Consumed) != 1 || len(turn.Sends) != 1 ||
		turn.Entries[0].Seq != 1 {
		t.Errorf("the code is given %+v, %v; the turn is %+v", r.given, r.err, turn)
	}
	r.deliver(key, event.Consumed, 100)
	if turn = r.j.Log.Turn(r.j.Run); len(turn.Consumed) != 2 {
		t.Error("a delivery that nothing waits for is not consumed")
	}
}

// TestBroadcast: an event that all may see is not acknowledged.
func TestBroadcast(t *testing.T) {
	r := begin(t, nil, topics.Event{})
	key := r.key()
	r.j.Log.Next()
	r.deliver(key, event.Broadcast, 100)
	if r.given == nil || len(r.j.Log.Sends()) != 0 {
		t.Errorf("the turn sends %+v", r.j.Log.Sends())
	}
}

// TestDeadline: an event that was sent later has lost, and the wait is withdrawn.
func TestDeadline(t *testing.T) {
	r := begin(t, nil, topics.Event{Deadline: 200})
	key := r.key()
	r.j.Log.Next()
	r.deliver(key, event.Consumed, 201)
	if r.done || r.Arrived() != 1 {
		t.Fatal("the wait ends with an event that was sent after its deadline")
	}
	r.advance(200)
	turn := r.j.Log.Turn(r.j.Run)
	if r.err != journal.ErrTimeout || len(turn.Sends) != 1 || len(turn.Consumed) != 1 {
		t.Errorf("the code sees %v; the turn is %+v", r.err, turn)
	}
}

// TestCancel: a wait that is cancelled in the turn that registers it is not sent.
func TestCancel(t *testing.T) {
	r := begin(t, nil, topics.Event{})
	r.sched.Cancel(&r.branch)
	r.sched.Run()
	turn := r.j.Log.Turn(r.j.Run)
	if r.err != sched.ErrCancelled || len(turn.Sends) != 0 || turn.Entries[0].State != store.Withdrawn {
		t.Errorf("the code sees %v; the turn is %+v", r.err, turn)
	}
}

// TestContinues: a wait that stands is not registered again; one at a topic that the code
// has no more is withdrawn.
func TestContinues(t *testing.T) {
	for topic, sends := range map[string]int{"topic": 0, "former": 2} {
		r := begin(t, []store.Entry{{
			Loc: string(location.Loc("").Name("e", 1)), Kind: store.KindEvent, State: store.Open,
			Value: event.Encode(event.Wait{Topic: topic, Key: "k"}),
		}}, topics.Event{})
		if n := len(r.j.Log.Sends()); n != sends || r.over != "" {
			t.Errorf("of a wait at %s the turn sends %d, want %d", topic, n, sends)
		}
	}
}

// TestEnd: what a run waits for as it ends is withdrawn.
func TestEnd(t *testing.T) {
	r := begin(t, nil, topics.Event{})
	r.j.Log.Next()
	r.End()
	turn := r.j.Log.Turn(r.j.Run)
	if len(turn.Sends) != 1 || len(turn.Entries) != 1 || turn.Entries[0].State != store.Withdrawn {
		t.Errorf("the turn is %+v", turn)
	}
}
