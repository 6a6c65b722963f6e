// Package runner interprets one run: it replays what stands, schedules the
// run's branches cooperatively, hands completions over in one recorded order,
// and builds the turns that are to be committed. It knows no other run, reads
// no clock, calls no store and writes no log: whoever drives it tells it the
// time, the inbox items and the ends of step bodies, and takes from it turns to
// commit and bodies to start.
//
// # Driving
//
// One goroutine at a time drives a [Run]:
//
//	r := runner.New(config)
//	r.Advance(now, inboxReadAt)   // as far as the code goes
//	turn := r.Take()              // nil: nothing to write
//	… commit …
//	r.Committed()                 // or drop the run: r.Unwind()
//	for _, body := range r.Bodies() { … start it … }
//	r.Complete(id, attempt, result); r.Deliver(item); r.Advance(…)
//
// After a turn that suspends the run it stands still, whatever is delivered,
// until Resumed says that it was claimed again, or StillReady that it was not
// suspended. After a turn that ends it there is only Unwind.
//
// # States of a run
//
// A run replays until every recorded completion has been handed over and every
// recorded operation has been asked for; then it is live; then it is over:
// ended, stalled, or broken (a large value could not be fetched: drop it and try
// again). Going live happens only when every branch is blocked.
//
// # States of an operation
//
//	requested ──────────► handed over (numbered, in the turn's log)
//	    │  begun (body, timer, registration)
//	    └──────► closed (by a cancel, or withdrawn because it lost)
//
// An operation requested in replay takes effect only when the run goes live. One
// that is closed before its body was given out has never begun. What arrives for
// a closed operation is dropped.
//
// # The rule of order
//
// Branches run one at a time; the ready queue is first in, first out. When it is
// empty one completion is handed over: in replay the recorded one with the
// lowest number among those that some branch waits for, live the next that has
// arrived. Both go through the same code, so all that follows from a hand-over
// is the same.
//
// # Goroutines
//
// Each branch has a goroutine and exactly one goroutine has the baton: the
// driver's or a branch's. A branch that blocks chooses who goes on and passes
// the baton itself, so a hand-over to the branch that has just blocked costs no
// switch. All state of a Run belongs to who has the baton; the two exceptions
// are marked. Who calls an operation without it, or has it and is not on the
// branch's goroutine, is refused and fails the run. Unwinding wakes the parked branches one at a time into
// runtime.Goexit: deferred functions run, recover sees nothing, and an operation
// that they call exits again.
package runner
