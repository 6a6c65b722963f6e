package runs_test

import (
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/runs"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// run is a run whose code starts and watches others.
type run struct {
	*runs.Runs
	j      *journal.Journal
	sched  *sched.Scheduler
	branch sched.Branch
	t      *testing.T
	code   func(r *run) ([]byte, error)
	value  []byte
	err    error
	over   string
	done   bool
	owed   int
}

func (r *run) Execute() (any, error) {
	r.value, r.err = r.code(r)
	return nil, nil
}

func (r *run) HandOver() bool {
	if r.j.Live() {
		return r.Next()
	}
	if r.j.Next() == journal.Passed && r.j.GoLive(func() {}) {
		r.GoLive()
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

// begin makes a run and lets its code go as far as it can.
func begin(t *testing.T, of store.Run, entries []store.Entry, code func(r *run) ([]byte, error)) *run {
	t.Helper()
	of.No, of.Seed = 7, store.Seed{1}
	r := &run{t: t, code: code}
	r.sched = sched.New(r)
	r.j = journal.New(journal.Config{Run: &of, Entries: entries, Owner: r, Scheduler: r.sched})
	r.Runs = runs.New(r.j, func(workflow string) (bool, error) { return workflow != "unknown", nil },
		nil, func(*journal.Op, *attempts.Undo) { r.owed++ })
	r.sched.Begin(&r.branch, nil, "", false, r)
	t.Cleanup(r.sched.Unwind)
	r.j.Advance(100, 100)
	r.sched.Run()
	return r
}

// tell delivers the end of another run.
func (r *run) tell(name string, end stored.End) {
	r.Deliver(store.Item{No: 9, Kind: store.ItemEnd, ID: "i", Name: name, Value: end.Encode()})
	r.sched.Run()
}

func call(name string) sched.Call { return sched.Call{Name: name} }

func child(r *run) ([]byte, error) {
	f, err := r.StartChild(&r.branch, runs.Child{Call: call("c"), Workflow: "w", Input: []byte("in")})
	if err != nil {
		return nil, err
	}
	return r.Await(&r.branch, call("await"), f)
}

var id = runs.ChildID(store.Seed{1}, 0, location.Loc("").Name("c", 1), 0)

// TestChild: a child is started in the turn in which it is called, and its end is handed
// over once.
func TestChild(t *testing.T) {
	r := begin(t, store.Run{}, nil, child)
	turn := r.j.Log.Turn(r.j.Run)
	if len(turn.Sends) != 1 || turn.Sends[0].Start == nil || turn.Sends[0].Start.ID != id ||
		string(turn.Sends[0].Start.Input) != "in" || turn.Sends[0].Start.Parent != 7 {
		t.Fatalf("the turn is %+v", turn)
	}
	if len(turn.Entries) != 1 || turn.Entries[0].State != store.Open || r.Len() != 1 {
		t.Fatalf("the entries are %+v", turn.Entries)
	}
	r.j.Log.Next()
	r.tell(id, stored.End{RunID: id, Status: store.Succeeded, Output: []byte("out")})
	if turn = r.j.Log.Turn(r.j.Run); string(r.value) != "out" || len(turn.Consumed) != 1 || turn.Entries[0].Seq != 1 ||
		r.Len() != 0 {
		t.Errorf("the child has returned %q, %v; the turn is %+v", r.value, r.err, turn)
	}
	r.tell(id, stored.End{RunID: id, Status: store.Failed})
	if turn = r.j.Log.Turn(r.j.Run); len(turn.Consumed) != 2 || len(turn.Dead) != 0 {
		t.Errorf("an end that is known is not consumed: %+v", turn)
	}
}

// TestUnknownWorkflow: a child whose workflow nobody has ever had is a failure that is
// handed over like a completion; nothing is started.
func TestUnknownWorkflow(t *testing.T) {
	r := begin(t, store.Run{}, nil, func(r *run) ([]byte, error) {
		_, err := r.StartChild(&r.branch, runs.Child{Call: call("c"), Workflow: "unknown"})
		return nil, err
	})
	f, ok := r.err.(*stored.Failure)
	if turn := r.j.Log.Turn(r.j.Run); !ok || f.Code != stored.CodeUnknownWorkflow || len(turn.Sends) != 0 ||
		turn.Entries[0].Seq != 1 {
		t.Errorf("the code sees %v; the turn is %+v", r.err, turn)
	}
}

// TestFailure: the failure of a run that has not succeeded says how it has ended.
func TestFailure(t *testing.T) {
	r := begin(t, store.Run{}, nil, child)
	r.tell(id, stored.End{RunID: id, Status: store.Cancelled, Reason: "why"})
	f, ok := r.err.(*stored.Failure)
	if !ok || f.Code != stored.CodeRun || !strings.HasSuffix(f.Message, " is cancelled: why") {
		t.Fatalf("the code sees %v", r.err)
	}
	if l, err := f.Link(); err != nil || l.RunID != id || l.Status != store.Cancelled {
		t.Errorf("the failure is of %+v, %v", l, err)
	}
}

// TestCancelledWithItsScope: a child that still runs when its scope ends is withdrawn and
// cancelled, one that is left is not.
func TestCancelledWithItsScope(t *testing.T) {
	for _, leave := range []bool{false, true} {
		r := begin(t, store.Run{}, nil, func(r *run) ([]byte, error) {
			_, err := r.StartChild(&r.branch, runs.Child{Call: call("c"), Workflow: "w", Leave: leave})
			if err != nil {
				return nil, err
			}
			f, err := r.Watch(&r.branch, call("w"), "someone")
			if err != nil {
				return nil, err
			}
			return r.Await(&r.branch, call("await"), f)
		})
		r.tell(r.j.Log.Sends()[1].Item.Name, stored.End{RunID: "someone", Status: store.Succeeded})
		turn := r.j.Log.Turn(r.j.Run)
		cancels := len(turn.Sends) == 3 && turn.Sends[2].Item.Kind == store.ItemCancel && turn.Sends[2].RunID == id
		if !r.done || cancels == leave || (turn.Entries[0].State == store.Withdrawn) == leave {
			t.Errorf("left %v: the turn is %+v", leave, turn)
		}
	}
}

// TestWatch: any run can be watched; one that does not exist is a failure.
func TestWatch(t *testing.T) {
	r := begin(t, store.Run{}, nil, func(r *run) ([]byte, error) {
		f, err := r.Watch(&r.branch, call("w"), "someone")
		if err != nil || r.RunID(&r.branch, f) != "someone" {
			return nil, err
		}
		return r.Await(&r.branch, call("await"), f)
	})
	sends := r.j.Log.Sends()
	if len(sends) != 1 || sends[0].RunID != "someone" || sends[0].Item.Kind != store.ItemWatch {
		t.Fatalf("the turn sends %+v", sends)
	}
	r.Deliver(store.Item{No: 9, Kind: store.ItemEnd, Name: sends[0].Item.Name, Failed: true})
	r.sched.Run()
	if f, ok := r.err.(*stored.Failure); !ok || f.Code != stored.CodeNotFound {
		t.Errorf("the code sees %v", r.err)
	}
}

// TestEnd: what a run waits for as it ends is withdrawn, and the children that end with it
// are cancelled.
func TestEnd(t *testing.T) {
	r := begin(t, store.Run{}, nil, child)
	r.j.Log.Next()
	r.End()
	turn := r.j.Log.Turn(r.j.Run)
	if len(turn.Entries) != 1 || turn.Entries[0].State != store.Withdrawn {
		t.Errorf("the turn is %+v", turn)
	}
	if orphans := r.Orphans(); len(orphans) != 1 || orphans[0].RunID != id || orphans[0].Item.Kind != store.ItemCancel {
		t.Errorf("the orphans are %+v", orphans)
	}
}

// TestOutdated: an end that nothing waits for is a dead letter if it was for an older
// incarnation, and consumed otherwise.
func TestOutdated(t *testing.T) {
	nothing := func(*run) ([]byte, error) { return nil, nil }
	for name, c := range map[string]struct {
		name string
		dead bool
	}{"this one": {id, false}, "an older one": {"another seed's", true}} {
		r := begin(t, store.Run{Incarnation: 1}, nil, nothing)
		r.Deliver(store.Item{No: 9, Kind: store.ItemEnd, Name: c.name, Loc: string(location.Loc("").Name("c", 1))})
		turn := r.j.Log.Turn(r.j.Run)
		if (len(turn.Dead) == 1) != c.dead || (len(turn.Consumed) == 1) == c.dead {
			t.Errorf("%s: the turn is %+v", name, turn)
		}
	}
}

// TestReplay: the outcome of a recorded child is that of its entry, and nothing is sent
// again.
func TestReplay(t *testing.T) {
	link := stored.Link{RunID: id, Workflow: "w", Status: store.Succeeded, Output: []byte("out")}
	r := begin(t, store.Run{}, []store.Entry{{
		Loc: string(location.Loc("").Name("c", 1)), Kind: store.KindChild, State: store.Done, Seq: 1, Value: link.Encode(),
	}}, child)
	if string(r.value) != "out" || !r.j.Log.Empty() {
		t.Errorf("the child has returned %q, %v; the turn is %+v", r.value, r.err, r.j.Log.Turn(r.j.Run))
	}
}
