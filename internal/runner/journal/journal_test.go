package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// run is a run whose operations end at once when they take effect.
type run struct {
	*journal.Journal
	branch   sched.Branch // of the code
	t        *testing.T
	code     func(r *run) error
	done     []*op // have taken effect and are to be handed over
	log      []string
	over     string // why the run goes no further
	owed     []int64
	undone   []string
	returned bool
}

// op is an operation that is done when it takes effect.
type op struct {
	journal.Op
	run *run
}

func (o *op) Start() {
	if o.StartsNow() {
		o.run.done = append(o.run.done, o)
	}
}

func (r *run) Execute() (any, error) { return nil, r.code(r) }

// Stopped, HandOver and the rest are what a scheduler and a journal ask their owner.
func (r *run) Stopped() bool { return r.over != "" }

func (r *run) HandOver() bool {
	if r.Live() {
		if len(r.done) == 0 {
			return false
		}
		o := r.done[0]
		r.done = r.done[1:]
		o.HandOver()
		return true
	}
	switch r.Next() {
	case journal.Cancels:
		r.say("cancelled")
	case journal.Passed:
		r.GoLive(func() {})
	}
	return true
}

func (r *run) Panicked(_ *sched.Branch, f *stored.Failure)      { r.over = f.Message }
func (r *run) Returned(*sched.Branch)                           { r.returned = true }
func (r *run) Unawaited(*sched.Future)                          {}
func (r *run) Fail(f *stored.Failure)                           { r.over = f.Message }
func (r *run) Note(location.Loc, string, error)                 {}
func (r *run) Stall(s *journal.Stall)                           { r.over = s.Error() }
func (r *run) Damaged(loc location.Loc, err error)              { r.over = fmt.Sprintf("%s: %v", loc, err) }
func (r *run) Break(err error)                                  { r.over = err.Error() }
func (r *run) StandsStill() bool                                { return false }
func (r *run) HasReturned() bool                                { return r.returned }
func (r *run) Owes(_ *journal.Record, seq int64, _ *journal.Op) { r.owed = append(r.owed, seq) }
func (r *run) Undone(step location.Loc)                         { r.undone = append(r.undone, step.String()) }
func (r *run) say(format string, args ...any)                   { r.log = append(r.log, fmt.Sprintf(format, args...)) }

// begin makes a run of a history and lets its code go as far as it can.
func begin(t *testing.T, entries []store.Entry, limits journal.Limits, code func(r *run) error) *run {
	t.Helper()
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Loc, b.Loc) })
	r := &run{t: t, code: code}
	scheduler := sched.New(r)
	r.Journal = journal.New(journal.Config{
		Run: &store.Run{Started: 5}, Entries: entries, Limits: limits, Owner: r, Scheduler: scheduler,
		Fetch: func(loc string) ([]byte, error) { return nil, errors.New("fetched") },
	})
	scheduler.Begin(&r.branch, nil, "", false, r)
	r.Advance(100, 100)
	scheduler.Run()
	t.Cleanup(scheduler.Unwind)
	return r
}

func path(name string) location.Loc { return location.Loc("").Name(name, 1) }

// recorded is the entry of an operation that was handed over.
func recorded(name string, seq int64) store.Entry {
	return store.Entry{
		Loc: string(path(name)), Kind: store.KindStep, State: store.Done, Seq: seq, At: store.Time(10 * seq),
		Value: []byte(name),
	}
}

// call declares an operation.
func (r *run) call(name string) *op {
	o := &op{run: r}
	r.Declare(&r.branch, &o.Op, o, sched.Call{Name: name}, store.KindStep)
	return o
}

// do calls an operation and waits for it.
func (r *run) do(names ...string) error {
	for _, name := range names {
		o := r.call(name)
		if err := o.Wait(&r.branch, sched.Call{Name: name}); err != nil {
			return err
		}
		r.say("%s %q at %d", name, o.Value, r.Now())
	}
	return nil
}

// race waits for the first of several operations.
func (r *run) race(ops ...*op) {
	w := r.branch.NewWait(sched.Call{})
	for _, o := range ops {
		w.Add(&o.Source)
	}
	winner, _ := r.branch.Block(w)
	for _, o := range ops {
		if &o.Source == winner {
			r.say("%s is first", o.Loc)
		}
	}
}

func (r *run) want(want ...string) {
	r.t.Helper()
	if !slices.Equal(r.log, want) {
		r.t.Fatalf("the code sees\n\t%s\nwant\n\t%s\nthe run is over: %s", strings.Join(r.log, "\n\t"),
			strings.Join(want, "\n\t"), r.over)
	}
}

// stalled fails the test unless the run has stalled with such a reason.
func (r *run) stalled(part string) {
	r.t.Helper()
	if !strings.Contains(r.over, part) || r.Live() {
		r.t.Fatalf("the run is over for %q, want %q; it is live: %v", r.over, part, r.Live())
	}
	if !r.Log.Empty() {
		r.t.Error("a stalled replay has written something")
	}
}

// TestReplayThenLive: what is recorded is handed over with its value and time, and
// written by nobody; what follows is new.
func TestReplayThenLive(t *testing.T) {
	r := begin(t, []store.Entry{recorded("a", 1), recorded("b", 2)}, journal.Limits{}, func(r *run) error {
		return r.do("a", "b", "c")
	})
	r.want(`a "a" at 10`, `b "b" at 20`, `c "" at 100`)
	turn := r.Log.Turn(r.Run)
	if len(turn.Entries) != 1 || turn.Entries[0].Seq != 3 || turn.Entries[0].Born != 2 || r.Replayed() != 2 ||
		r.Seq() != 3 {
		t.Errorf("the turn is %+v", turn)
	}
	if entries, bytes := r.Size(); entries != 3 || bytes != 2 {
		t.Errorf("the history has %d entries with %d bytes", entries, bytes)
	}
}

// TestLowestOfThoseAwaited: a replay hands over the completion with the lowest number
// among those that some branch waits for.
func TestLowestOfThoseAwaited(t *testing.T) {
	begin(t, []store.Entry{recorded("a", 2), recorded("b", 1)}, journal.Limits{}, func(r *run) error {
		r.race(r.call("a"), r.call("b"))
		return nil
	}).want("b is first")
}

// TestDoneWithoutANumber: what was done before it had a number is handed over after all
// that have one.
func TestDoneWithoutANumber(t *testing.T) {
	r := begin(t, []store.Entry{recorded("a", 0), recorded("b", 1)}, journal.Limits{}, func(r *run) error {
		r.race(r.call("a"), r.call("b"))
		return r.do("c")
	})
	if len(r.log) == 0 || r.log[0] != "b is first" {
		t.Errorf("the code sees %q", r.log)
	}
}

// TestDivergence: each way in which code and history do not fit together stalls the run,
// and nothing is written.
func TestDivergence(t *testing.T) {
	history := func() []store.Entry { return []store.Entry{recorded("a", 1), recorded("b", 2)} }
	for name, c := range map[string]struct {
		code func(r *run) error
		part string
	}{
		"inserted":   {func(r *run) error { return r.do("new", "a", "b") }, "the code asks for step new"},
		"not called": {func(r *run) error { return r.do("a", "x") }, "the history has step b (done, completion 2)"},
		"another kind": {func(r *run) error {
			o := &op{run: r}
			r.Declare(&r.branch, &o.Op, o, sched.Call{Name: "a"}, store.KindSleep)
			return nil
		}, "the code asks for sleep a"},
	} {
		t.Run(name, func(t *testing.T) {
			begin(t, history(), journal.Limits{}, c.code).stalled(c.part)
		})
	}
}

// TestRemoved: what Removed accepts is handed over in its turn, and what follows is the
// same again.
func TestRemoved(t *testing.T) {
	r := begin(t, []store.Entry{recorded("a", 1), recorded("b", 2)}, journal.Limits{}, func(r *run) error {
		r.Removed(&r.branch, sched.Call{Name: "a"})
		return r.do("b", "c")
	})
	if r.want(`b "b" at 20`, `c "" at 100`); r.Replayed() != 2 {
		t.Errorf("%d completions were handed over", r.Replayed())
	}
}

// TestVersion: former code has passed what stands before a recorded completion, and not
// what follows a new one.
func TestVersion(t *testing.T) {
	var before, after int
	r := begin(t, []store.Entry{recorded("a", 1)}, journal.Limits{}, func(r *run) error {
		before = r.Version(&r.branch, sched.Call{Name: "change"}, 2)
		err := r.do("a", "b")
		after = r.Version(&r.branch, sched.Call{Name: "other"}, 3)
		return err
	})
	if before != 0 || after != 3 {
		t.Errorf("the versions are %d and %d", before, after)
	}
	if turn := r.Log.Turn(r.Run); len(turn.Entries) != 2 || turn.Entries[1].Kind != store.KindVersion {
		t.Errorf("the turn is %+v", turn)
	}
}

// TestOwed: the completion of a step that carries a compensation is reported, also if the
// code has it no more.
func TestOwed(t *testing.T) {
	owing := func(name string, seq int64) store.Entry {
		e := recorded(name, seq)
		e.Owes = true
		return e
	}
	r := begin(t, []store.Entry{owing("a", 1), owing("b", 2)}, journal.Limits{}, func(r *run) error {
		r.Removed(&r.branch, sched.Call{Name: "a"})
		return r.do("b")
	})
	if !slices.Equal(r.owed, []int64{1, 2}) {
		t.Errorf("owed are %v", r.owed)
	}
}

// TestBudget: a run that asks for more entries than its budget fails with what to do
// instead.
func TestBudget(t *testing.T) {
	r := begin(t, nil, journal.Limits{Entries: 2}, func(r *run) error { return r.do("a", "b", "c") })
	if !strings.Contains(r.over, "operation c exceeds the budget of a run: 2 entries (limit 2)") {
		t.Errorf("the run is over for %q", r.over)
	}
}

// TestBreaks: a value that cannot be fetched breaks the activation, and not the run.
func TestBreaks(t *testing.T) {
	e := recorded("a", 1)
	e.Value, e.Size = nil, 5000
	r := begin(t, []store.Entry{e}, journal.Limits{}, func(r *run) error { return r.do("a") })
	if r.over != "fetch the value of a: fetched" {
		t.Errorf("the run is over for %q", r.over)
	}
}

// TestPrune: what a segment of a loop holds is gone with it, and the size of the history
// with that.
func TestPrune(t *testing.T) {
	outer := &journal.Segment{}
	inner := &journal.Segment{Outer: outer}
	pruned := 0
	r := begin(t, nil, journal.Limits{}, func(r *run) error {
		r.branch.Inside(path("l").Iteration(0), inner, func() { _ = r.do("a", "b") })
		return nil
	})
	inner.OnPrune(func() { pruned++ })
	if entries, _ := r.Size(); entries != 2 {
		t.Fatalf("the history has %d entries", entries)
	}
	r.Prune(inner)
	r.Keep(path("l"), 1, store.Span{From: string(path("l").Iteration(0)), To: string(path("l").Iteration(1))})
	if entries, _ := r.Size(); entries != 0 || pruned != 1 {
		t.Errorf("after pruning there are %d entries, and %d things forgotten", entries, pruned)
	}
	if !r.IsPruned(path("l").Iteration(0).Name("a", 1)) || r.IsPruned(path("l").Iteration(1).Name("a", 1)) {
		t.Error("the wrong iteration is pruned")
	}
}

// timed is an operation with a deadline.
type timed struct {
	journal.Op
	name  string
	log   *[]string
	inbox bool
}

func (o *timed) Due()               { *o.log = append(*o.log, o.name) }
func (o *timed) AgainstInbox() bool { return o.inbox }
func (o *timed) IsDelay() bool      { return true }

// TestTimers: they act by time and then by order of request, not before they are due, and
// those that stand against the inbox not before it was read.
func TestTimers(t *testing.T) {
	r := begin(t, nil, journal.Limits{}, func(*run) error { return nil })
	var log []string
	for id, o := range []*timed{
		{name: "late", Op: journal.Op{Deadline: 20}}, {name: "first", Op: journal.Op{Deadline: 10}},
		{name: "second", Op: journal.Op{Deadline: 10}}, {name: "closed", Op: journal.Op{Deadline: 5, Closed: true}},
		{name: "inbox", Op: journal.Op{Deadline: 12}, inbox: true},
	} {
		o.ID, o.log = int64(id), &log
		r.Timers.Set(o, o.Deadline)
	}
	for r.Timers.Next(15, 11) {
	}
	if !slices.Equal(log, []string{"first", "second"}) {
		t.Errorf("due are %q", log)
	}
	for r.Timers.Next(20, 12) {
	}
	if !slices.Equal(log[2:], []string{"inbox", "late"}) {
		t.Errorf("due are then %q", log[2:])
	}
}

// arriving is an operation whose item is there.
type arriving struct {
	journal.Op
	unwanted, late, taken bool
}

func (o *arriving) Wanted() bool { return !o.unwanted }
func (o *arriving) IsLate() bool { return o.late }
func (o *arriving) Take()        { o.taken = true }

// TestLane: the first that is wanted and not late is taken; what is not wanted leaves the
// lane, and what is late stays.
func TestLane(t *testing.T) {
	var lane journal.Lane
	late, unwanted, first, second := &arriving{late: true}, &arriving{unwanted: true}, &arriving{}, &arriving{}
	for _, o := range []*arriving{late, unwanted, first, first, second} {
		lane.Add(o)
	}
	if !lane.Next() || !first.taken || second.taken || len(lane) != 2 {
		t.Fatalf("the lane has %d operations", len(lane))
	}
	late.late = false
	if !lane.Next() || !late.taken || !lane.Next() || lane.Next() {
		t.Error("what was late is not taken when it is not any more")
	}
}
