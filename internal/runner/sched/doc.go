// Package sched runs the branches of one run: it passes the baton, lets branches
// wait and wakes them, ends scopes with all that was begun in them, and cancels.
// It knows nothing of operations, of what is recorded or of turns: an [Owner] says
// whether the run goes on and hands over completions, and an [Operation] says what
// becomes of it when a branch begins to wait for it or is cancelled.
//
// # The baton
//
// Each branch is a coroutine, and exactly one has the baton, or the driver, whose goroutine has called
// [Scheduler.Run] and calls the branches. A branch that blocks chooses the next one, so a hand-over to
// the branch that has just blocked costs no switch; otherwise the driver calls the chosen one:
//
//	           Run             park: B is ready
//	driver ─────────► branch A ─────────────────┐
//	   ▲ │ ◄────────────────────────────────────┘
//	   │ └──────────► branch B ─────────────────┐
//	   └────────────────────────────────────────┘
//	                   park: nothing more to do
//
// All state of a Scheduler and of its branches belongs to the goroutine that has
// the baton; the two exceptions are marked. An operation that is called without the
// baton, or with it on another goroutine than the branch's, is refused and fails the
// run.
//
// # The rule of order
//
// The ready queue is first in, first out. When it is empty, the owner hands over
// one completion, which wakes the branches that wait for it. Code follows from
// hand-overs alone, so the same hand-overs lead to the same code in the same order.
//
// # Ends
//
// A scope ends with all its branches: those that still run when the code of the
// scope has ended are cancelled, and the end of their code is awaited. Unwinding
// wakes the parked branches one at a time into runtime.Goexit: deferred functions
// run, recover sees nothing, and an operation that they call exits again.
package sched
