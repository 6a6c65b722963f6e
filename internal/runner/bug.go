package runner

import (
	"fmt"
	"runtime/debug"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// # Faults of the code
//
// A fault of the code (what is recorded does not decode, a misused context, a panic, a
// deadlock) is none of the world, so it undoes nothing and fails nothing: the run stalls
// with a cause, and goes on when the code is fixed. For that the history must be one that
// the fixed code can replay. A replay takes it that code which comes between two
// hand-overs has been executed as a whole: it shows nothing again, and inserts nothing. So
// the turn of such a stall holds what there was before the last hand-over, after which the
// code has not come to its end; what was handed over comes again. See journal.Retract.
//
// A run whose cancel was handed over ends as cancelled, however its code ends, unless the
// code asks for a stall, or a bound of the engine is reached.

// faults are what is wrong with the code of a run.
type faults struct {
	r       *Interpreter
	misread *journal.Stall // the first fault with which the code has gone on; nil: none
	broken  bool           // the engine's own code has panicked: nothing of the turn counts
}

// Undecodable is a stored value that does not fit the type which the code has for it.
type Undecodable = journal.Undecodable

// guard stalls the run if the engine's own code panics, as it may of a history that is
// damaged in a way that nothing looks for. It is called deferred.
func (x *faults) guard() {
	p := recover()
	if p == nil {
		return
	}
	x.broken = true
	x.r.over = &Outcome{Status: store.Stalled, Reason: stored.Cut(
		fmt.Sprintf("broken invariant: %v\n%s", p, debug.Stack()), 4*maxReason)}
}

// maxReason bounds what the reason of a stall says of the fault; the failure has all.
const maxReason = 4 << 10

// stopsForBugs reports whether a fault of the code stops the run now. It does not if the
// run is to fail with it; and not if it has done so before, and its end is replayed.
func (x *faults) stopsForBugs() bool {
	r := x.r
	return !r.cfg.FailBugs && !(r.undo.begun && r.undo.byBug())
}

// failedForBudget reports whether an earlier build has let the run fail because a bound of the
// engine was reached: its end is replayed.
func (x *faults) failedForBudget() bool {
	return x.r.undo.begun && x.r.undo.byBug() || x.r.cfg.Run.Status == store.Failed
}

// stopFor stops the run for a failure that is a fault of its code. It reports whether it
// does, or is stopped already.
func (x *faults) stopFor(f *stored.Failure, loc location.Loc) bool {
	r := x.r
	cause := stored.BugOf(f)
	asked := cause == stored.CauseCode // which nothing makes a failure
	s := &journal.Stall{Cause: cause, Asked: stored.Cut(f.Message, maxReason), Remedy: "fix the code, then resume the run"}
	switch {
	case cause == "":
		return false
	case cause == stored.CauseBudget:
		if x.failedForBudget() {
			return false
		}
		s.Remedy = "then resume the run"
		asked = true
	case asked:
		s.Remedy = "the code is executed again from its last completion when the run is resumed"
	case !x.stopsForBugs():
		return false
	}
	if loc != "" {
		s.Location = loc.String()
	}
	if r.cancel.handedOver && cause != stored.CauseMisuse && !asked {
		x.misreads(s)
		return false
	}
	x.stop(s, f)
	return true
}

// stopForValue stops the run for a stored value that does not fit the code. It reports
// false if the code is to go on with an error. It ends the activation for a value that this process cannot read.
func (x *faults) stopForValue(u *Undecodable, loc location.Loc) bool {
	r := x.r
	if u.Lacks != nil {
		r.broken = u.Lacks
		return true
	}
	s := u.Stall(loc)
	if r.cfg.FailBugs || r.undo.branch == nil && (r.cancel.handedOver || !x.stopsForBugs()) {
		x.misreads(s)
		return false
	}
	code := stored.CodeEncoding
	if loc == "" {
		code = stored.CodeInput
	}
	x.stop(s, &stored.Failure{Code: code, Location: s.Location, Message: u.Error()})
	return true
}

// misreads notes that the code goes on with a fault: if a replay diverges, that is why.
func (x *faults) misreads(s *journal.Stall) {
	if x.misread == nil {
		x.misread = s
	}
}

// stop stalls the run for a fault of its code.
func (x *faults) stop(s *journal.Stall, f *stored.Failure) {
	r := x.r
	switch {
	case r.over != nil:
		return
	case r.terminate != nil:
		r.j.Forget()
		r.terminated()
		return
	}
	r.over = &Outcome{Status: store.Stalled, Stall: s}
	if r.undo.outcome == nil { // otherwise the run's row has that
		r.over.Output = stored.EncodeFailure(f)
	}
	if r.j.Live() && r.undo.branch == nil {
		journal.Retract(r.j)
	}
}

// takesBack takes back the end of the run, if f says that a context was misused before
// that is on its way. It reports whether it does.
func (x *faults) takesBack(f *stored.Failure) bool {
	r := x.r
	switch {
	case f.Code != stored.CodeMisuse, !r.returned, r.turns.last, r.undo.begun, r.undo.turnTaken, r.cancel.handedOver,
		r.over != nil && (r.over.Status == store.Stalled || r.over.Status == store.Cancelled):
		return false
	}
	r.over, r.undo.outcome = nil, nil
	if !x.stopFor(f, "") {
		r.conclude(&Outcome{Status: store.Failed, Output: stored.EncodeFailure(f)})
	}
	return true
}

// Unencodable stops the run for a value of its code that cannot be recorded, and does not
// return. It returns if the run is to go on: with FailBugs, in a cancelled run, and in a
// replay of code that has gone on with the error.
func (b *Branch) Unencodable(f *stored.Failure) {
	if b.Check(Call{Name: "encode"}) != nil {
		return // the operation that is given the value says so
	}
	r := b.run
	if !r.j.Live() && r.j.Remaining() != nil {
		r.faults.misreads(&journal.Stall{Cause: stored.BugOf(f), Location: b.At().String(), Asked: f.Message,
			Remedy: "fix the code, then resume the run"})
		return
	}
	if r.faults.stopFor(f, b.At()) {
		b.Halt()
	}
}

// stopForResult stops the run for the end of a body whose result cannot be recorded. owes says
// that the body has had an effect which is to be undone. It reports false if the attempt has
// failed.
func (x *faults) stopForResult(f *stored.Failure, loc location.Loc, owes bool) bool {
	if !x.stopsForBugs() || x.r.cancel.handedOver && !owes {
		return false
	}
	x.stop(&journal.Stall{
		Cause: stored.BugOf(f), Location: loc.String(), Asked: stored.Cut(f.Message, maxReason),
		Remedy: "fix the code, then resume the run, which executes the step again with its idempotency key",
	}, f)
	return true
}

// Undecodable stops the run for a stored value that does not fit the code, and does not
// return. If the run is to go on it returns. The value is that of the operation whose
// outcome the branch has got last; input says that it is the run's input instead.
func (b *Branch) Undecodable(u *Undecodable, input bool) {
	loc := b.Reached()
	if input {
		loc = ""
	}
	if b.run.faults.stopForValue(u, loc) {
		b.Halt()
	}
}

// Misread notes that the code goes on without a value that it could not decode: if a
// replay diverges, that is why. It ends the activation for a value that this process cannot read, and does not return.
func (b *Branch) Misread(u *Undecodable) {
	if u.Lacks != nil {
		b.run.broken = u.Lacks
		b.Halt()
	}
	b.run.faults.misreads(u.Stall(b.Reached()))
}
