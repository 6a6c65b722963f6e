package attempts_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// run is a run whose code executes steps.
type run struct {
	*attempts.Steps
	j      *journal.Journal
	sched  *sched.Scheduler
	branch sched.Branch
	t      *testing.T
	code   func(r *run) ([]byte, error)
	value  []byte
	err    error
	done   bool
	paused string // why the run is to be paused
	failed string // why a compensation has failed
	owed   int
}

func (r *run) Execute() (any, error) {
	r.value, r.err = r.code(r)
	return nil, nil
}

func (r *run) HandOver() bool {
	if !r.j.Live() {
		return r.j.Next() != journal.Passed || r.j.GoLive(func() {})
	}
	return r.NextGrant() || r.j.Timers.Next(r.j.Bound(), r.j.InboxAt()) || r.NextEnd()
}

func (r *run) Stopped() bool                                       { return r.failed != "" }
func (r *run) Panicked(_ *sched.Branch, f *stored.Failure)         { r.t.Error(f.Message) }
func (r *run) Returned(*sched.Branch)                              { r.done = true }
func (r *run) Unawaited(*sched.Future)                             {}
func (r *run) Fail(f *stored.Failure)                              { r.t.Error(f.Message) }
func (r *run) Note(location.Loc, string, error)                    {}
func (r *run) Stall(s *journal.Stall)                              { r.t.Error(s) }
func (r *run) Damaged(_ location.Loc, err error)                   { r.t.Error(err) }
func (r *run) Break(err error)                                     { r.t.Error(err) }
func (r *run) StandsStill() bool                                   { return r.paused != "" }
func (r *run) HasReturned() bool                                   { return r.done }
func (r *run) Owes(*journal.Record, int64, *journal.Op)            { r.owed++ }
func (r *run) Undone(location.Loc)                                 { r.owed-- }
func (r *run) Owe(*journal.Op, *attempts.Undo)                     { r.owed++ }
func (r *run) UndoFailed(_ location.Loc, why string)               { r.failed = why }
func (r *run) PauseFor(reason string)                              { r.paused = reason }
func (r *run) Undecodable(location.Loc, *journal.Undecodable) bool { return false }
func (r *run) Unrecorded(location.Loc, *stored.Failure, bool) bool { return false }
func (r *run) BeingCancelled() bool                                { return false }

// begin makes a run and lets its code go as far as it can.
func begin(t *testing.T, pauseAfter int, entries []store.Entry, code func(r *run) ([]byte, error)) *run {
	t.Helper()
	r := &run{t: t, code: code}
	r.sched = sched.New(r)
	r.j = journal.New(journal.Config{Run: &store.Run{ID: "r", Seed: store.Seed{1}}, Entries: entries, Owner: r,
		Scheduler: r.sched})
	r.Steps = attempts.New(r.j, r, pauseAfter, true)
	r.sched.Begin(&r.branch, nil, "", false, r)
	t.Cleanup(r.sched.Unwind)
	r.advance(100)
	return r
}

func (r *run) advance(now store.Time) {
	r.j.Advance(now, now)
	r.sched.Run()
}

// body returns the one body that may start.
func (r *run) body() attempts.Body {
	r.t.Helper()
	bodies := slices.Collect(r.Bodies(r.j.Pos(), false))
	if len(bodies) != 1 {
		r.t.Fatalf("%d bodies may start", len(bodies))
	}
	return bodies[0]
}

// fail ends the attempt that may start with a failure.
func (r *run) fail() {
	r.t.Helper()
	b := r.body()
	r.Complete(b.ID, b.Attempt, &attempts.BodyResult{Failure: &stored.Failure{Code: "no", Message: "no"}})
	r.sched.Run()
}

// entry returns the entry that the turn has for step s.
func (r *run) entry() store.Entry {
	r.t.Helper()
	entries := r.j.Log.Entries()
	if len(entries) != 1 {
		r.t.Fatalf("the turn has %d entries", len(entries))
	}
	return entries[0]
}

var twice = attempts.Policy{Attempts: 2, First: time.Second, Factor: 1, Max: time.Second}

func step(policy attempts.Policy) attempts.Step {
	return attempts.Step{Call: sched.Call{Name: "s"}, Policy: policy}
}

func execute(spec attempts.Step) func(r *run) ([]byte, error) {
	return func(r *run) ([]byte, error) { return r.Step(&r.branch, spec) }
}

// TestRetry: a failed attempt is recorded, the next one starts after its delay, and its
// value is the step's.
func TestRetry(t *testing.T) {
	r := begin(t, 0, nil, execute(step(twice)))
	r.fail()
	if e := r.entry(); e.State != store.Open || e.Attempt != 1 || e.Wake != 100+1_000_000 {
		t.Fatalf("after a failed attempt the entry is %+v", e)
	}
	if r.advance(200); r.InFlight() != 0 {
		t.Fatal("the next attempt does not wait")
	}
	r.advance(100 + 1_000_000)
	b := r.body()
	r.Complete(b.ID, 1, &attempts.BodyResult{Value: []byte("of a former attempt")})
	r.Complete(b.ID, b.Attempt, &attempts.BodyResult{Value: []byte("v")})
	if r.sched.Run(); string(r.value) != "v" || r.err != nil || b.Attempt != 2 || r.Open() != 0 {
		t.Errorf("the step ends %q, %v", r.value, r.err)
	}
}

// TestUsedUp: the failure of a step has all that its attempts failed with.
func TestUsedUp(t *testing.T) {
	r := begin(t, 0, nil, execute(step(twice)))
	r.fail()
	r.advance(2_000_000)
	r.fail()
	f, ok := r.err.(*stored.Failure)
	if !ok || f.Code != stored.CodeStep || f.Attempts != 2 || len(f.Causes) != 2 {
		t.Errorf("the step ends %v", r.err)
	}
}

// TestBarrier: a body starts when all that was handed over before is durable.
func TestBarrier(t *testing.T) {
	r := begin(t, 0, nil, func(r *run) ([]byte, error) {
		if _, err := r.Step(&r.branch, step(twice)); err != nil {
			return nil, err
		}
		return r.Step(&r.branch, step(twice))
	})
	b := r.body()
	r.Complete(b.ID, b.Attempt, &attempts.BodyResult{})
	r.sched.Run()
	before := slices.Collect(r.Bodies(r.j.Pos()-1, false))
	if after := slices.Collect(r.Bodies(r.j.Pos(), false)); len(before) != 0 || len(after) != 1 {
		t.Errorf("%d bodies start before the completion is durable, %d after", len(before), len(after))
	}
}

// TestPermit: a step that uses a queue asks for a permit, begins with the grant, and gives
// the permit back with the end of the attempt.
func TestPermit(t *testing.T) {
	spec := step(twice)
	spec.Permit = &permit.Place{Queue: "q"}
	r := begin(t, 0, nil, execute(spec))
	sends := r.j.Log.Sends()
	if len(sends) != 1 || r.InFlight() != 0 {
		t.Fatalf("the step sends %+v", sends)
	}
	p, err := stored.DecodeProgress(r.entry().Value)
	if err != nil || p.Permit == nil {
		t.Fatalf("the entry has %+v, %v", p, err)
	}
	grant := *permit.GrantStep("q", p.Permit.Ticket, "r", r.entry().Loc).Item
	grant.No = 7
	r.j.Log.Next()
	r.DeliverGrant(grant)
	r.sched.Run()
	b := r.body()
	r.Complete(b.ID, b.Attempt, &attempts.BodyResult{})
	r.sched.Run()
	turn := r.j.Log.Turn(r.j.Run)
	if b.Queue != "q" || !r.done || len(turn.Sends) != 1 || len(turn.Consumed) != 1 || turn.Consumed[0].Item != 7 {
		t.Errorf("the turn that ends the attempt is %+v", turn)
	}
}

// TestPauseAfter: a run is paused after so many failed attempts, and the end of another
// step is then recorded without a number.
func TestPauseAfter(t *testing.T) {
	r := begin(t, 1, nil, execute(step(twice)))
	if r.fail(); !strings.HasPrefix(r.paused, "step s has failed 1 times, at last with: no") || !r.Settled() {
		t.Fatalf("the run is paused for %q", r.paused)
	}
	p, _ := stored.DecodeProgress(r.entry().Value)
	r.Pauses()
	if q, _ := stored.DecodeProgress(r.entry().Value); !p.Pause || q.Pause {
		t.Errorf("the entry requests a pause %v, and then %v", p.Pause, q.Pause)
	}
}

// TestCancel: the cancel of a step with a compensation waits for the end of its body, which
// is recorded; the code sees ErrCancelled. Another one is withdrawn.
func TestCancel(t *testing.T) {
	for _, whole := range []bool{true, false} {
		spec := step(twice)
		if whole {
			spec.Undo = &attempts.Undo{}
		}
		r := begin(t, 0, nil, execute(spec))
		b := r.body()
		r.sched.Cancel(&r.branch)
		r.sched.Run()
		if cancels := r.Cancels(); len(cancels) != 1 || cancels[0] != b.ID || r.done == whole {
			t.Fatalf("whole %v: the bodies %v are cancelled, the code has returned: %v", whole, cancels, r.done)
		}
		r.Complete(b.ID, b.Attempt, &attempts.BodyResult{Value: []byte("v")})
		r.sched.Run()
		if r.err != sched.ErrCancelled {
			t.Errorf("whole %v: the code sees %v", whole, r.err)
		}
		if whole && (r.owed != 1 || r.entry().State != store.Done || !r.entry().Owes) {
			t.Errorf("the entry is %+v", r.entry())
		}
		if !whole && len(r.j.Log.Entries()) != 0 {
			t.Errorf("a step that was not begun is recorded: %+v", r.entry())
		}
	}
}

// TestWhatWasCutIsRecorded: of a step that was withdrawn while its body executed, that it had begun, and its end.
func TestWhatWasCutIsRecorded(t *testing.T) {
	failed := &stored.Failure{Code: stored.CodeStep, Message: "no"}
	for _, end := range []*attempts.BodyResult{
		nil, {Value: []byte("v"), Started: 5, Ended: 9}, {Failure: failed, Started: 5, Ended: 9},
	} {
		r := begin(t, 0, nil, execute(step(twice)))
		b := r.body()
		r.sched.Cancel(&r.branch)
		r.sched.Run()
		r.Began(b.ID, 5, false)
		if e := r.entry(); e.State != store.Withdrawn || e.Seq != 0 || e.Attempt != 1 || e.Started != 5 || e.Ended != 0 {
			t.Errorf("while the body executes the entry is %+v", e)
		}
		if end == nil {
			continue
		}
		r.Complete(b.ID, b.Attempt, end)
		r.Complete(b.ID, b.Attempt, end)
		e := r.entry()
		p, err := stored.DecodeProgress(e.Value)
		if err != nil || len(r.j.Log.Entries()) != 1 || e.State != store.Withdrawn || e.Attempt != 1 || e.Ended != 9 ||
			p.Succeeded != (end.Failure == nil) || len(p.Causes) == 1 != (end.Failure != nil) {
			t.Errorf("after %+v the entry is %+v with %+v, %v", end, e, p, err)
		}
	}
}

// TestContinues: the next activation continues with what the history says of the former
// attempts.
func TestContinues(t *testing.T) {
	loc := string(location.Loc("").Name("s", 1))
	progress := stored.Progress{Causes: []*stored.Failure{{Code: "no", Message: "no"}}, Detail: []byte("half")}
	r := begin(t, 0, []store.Entry{
		{Loc: loc, Kind: store.KindStep, State: store.Open, Attempt: 1, Started: 7, Value: progress.Encode()},
	}, execute(step(twice)))
	b := r.body()
	if b.Attempt != 2 || string(b.Detail) != "half" {
		t.Fatalf("the body is %+v", b)
	}
	if !r.Heartbeat(b.ID, 2, []byte("more")) || r.Heartbeat(b.ID, 1, nil) {
		t.Error("a heartbeat is not that of the current attempt alone")
	}
	r.Complete(b.ID, b.Attempt, &attempts.BodyResult{Failure: &stored.Failure{Code: "no", Message: "never"}})
	r.sched.Run()
	f, ok := r.err.(*stored.Failure)
	if !ok || len(f.Causes) != 2 || r.entry().Started != 7 {
		t.Errorf("the step ends %v", r.err)
	}
}

// TestUndoFails: a compensation that has used up its attempts stops the run, and has all of
// them again then.
func TestUndoFails(t *testing.T) {
	r := begin(t, 0, nil, func(r *run) ([]byte, error) {
		return nil, r.Undo(&r.branch, attempts.Undoing{
			Kind: store.KindUndo, At: location.Loc("").Name("s", 1).Name("undo", 1), Policy: attempts.Policy{Attempts: 1},
			Body: func(bool) attempts.Step { return attempts.Step{} },
		})
	})
	if r.fail(); r.failed != "no" {
		t.Fatalf("the run is stopped for %q", r.failed)
	}
	if p, _ := stored.DecodeProgress(r.entry().Value); p.Former != 1 || r.entry().Kind != store.KindUndo {
		t.Errorf("the entry is %+v", r.entry())
	}
}
