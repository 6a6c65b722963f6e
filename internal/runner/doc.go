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
// Promises, children and awaited runs last: they take effect when they are asked
// for, because what they hand out (a token, the start of a run, a watch) must not
// wait for a branch, and they go on when nobody waits for them any more. Their
// entry is written with that, so in a replay it is there before the next
// completion; one that is not there was inserted into the code.
//
// # Other runs
//
// A child is started by the turn, and its ID derived from seed, generation and
// location. It ends with the scope that has started it: when that is cancelled or
// has ended, the child's entry is withdrawn and the turn asks it to cancel. A run
// that ends without the end of its code (terminated, misused) cancels what is left
// in the turn that ends it. How another run has ended comes as an inbox item by
// the name of the child or of the watch; one by a name that nothing waits for is
// of an older incarnation, and a dead letter, or of an older generation or known,
// and consumed. When a run
// ends, what it still waits for is withdrawn too: if it is taken up again, it asks
// those that are withdrawn, and awaited, how they have ended meanwhile.
//
// # The rule of order
//
// Branches run one at a time; the ready queue is first in, first out. When it is
// empty one completion is handed over: in replay the recorded one with the
// lowest number among those that some branch waits for, live the next that has
// arrived. Both go through the same code, so all that follows from a hand-over
// is the same.
//
// # Undoing
//
// When the code of a run has ended and the run is to be undone, the compensations
// of its completed steps are executed by a branch of their own, newest first. The
// turn that begins it fixes the outcome, and what follows replays like any other
// operation, after the code. See undo.go.
//
// # Code that changes
//
// An operation that is not recorded and stands before recorded ones stalls the
// run, and so does a recorded one that is not asked for. Two marks in the code
// say that it is meant.
//
// Version decides once for a run, or for a loop iteration, whether it takes the
// former way or the new one. What is recorded says so. If nothing is, the run
// takes the former way, version 0, exactly if former code has passed the call:
//
//   - A turn is taken only when every branch is blocked. So if completion n is
//     durable, all code has been executed that runs between it and the next
//     hand-over, in every branch, and what that code wrote is durable as well.
//   - If the last hand-over before the call is a recorded one, the call has
//     therefore been passed by code that did not have it: else its entry would be
//     there. That holds between recorded operations and behind the last one, also
//     if what stands behind the call has left no record: a step in flight, a wait.
//   - Before the first completion the same holds if the history has an entry of
//     this generation, or the run's row says that a turn was committed, by a build
//     or by waits. If nothing was, nobody can tell, and the run is new; so is a new
//     incarnation, and a run that was rewound to its begin.
//   - After a hand-over that is not recorded the call is passed for the first
//     time: the run is new there, and the newest version is recorded, without a
//     number, in the turn of that hand-over. Step bodies that are asked for later
//     wait for that turn, so that nothing that depends on the version becomes
//     durable before it.
//
// Version 0 needs no entry: a history only grows, so every later replay says the
// same again; and a rewind keeps what was born before its cut, which is exactly
// what the code before it has passed. A rewound run keeps the versions it had there.
//
// With several branches the first call that is executed decides, and the order of
// execution is the same in every replay; the others get the same number, wherever
// they stand. An old run in which one branch has passed a call and another one
// comes to its call later therefore takes the former way in both.
//
// Removed accepts a record that the code does not ask for any more. One with a
// number at the location itself, or in a Map or a Loop there, is waited for and
// handed over in its turn, so that the order of what remains is the same; those of
// a branch that Go began are handed over to nobody, when they are the lowest that
// remain; those without a number are accepted on the spot. Nothing is written;
// a child that still runs ends with the run. An operation that is asked for at a
// location that was accepted stalls the run, as it must not be executed again.
//
// # What a run shows
//
// Setting a value, appending to a stream, tagging and answering an update are not
// operations: they block nothing, have no location and leave no entry. They go
// into the turn that fills, and a replay must not say them again. It knows what was
// said without a record of it:
//
//   - Code is executed between two hand-overs, and a turn is taken only when every
//     branch is blocked. So a turn that has a hand-over has all that was said
//     because of it, up to the next one.
//   - Every hand-over is recorded, and the last one of a committed turn is never
//     pruned: a loop prunes what is older than the iteration in which its code is.
//   - So what is said after a recorded hand-over stands, and what is said after one
//     that this activation has made is new. Whether the run is live does not matter:
//     an unnumbered completion is handed over in a replay, and is new.
//   - Before the first hand-over an entry says it, of whatever operation. An append
//     makes one of its own there, at "[shown]". A value that is set again, or a tag,
//     needs none: nothing can have been set since. Bodies that are asked for behind
//     it wait for the turn, so that none of theirs is durable before it.
//
// A position in a stream is therefore given by the store when the turn is
// committed: it does not depend on the history, of which a loop deletes parts and
// continue-as-new all; nor on the code, which may say more or less after a deploy
// without moving what stands. After a rewind what is executed anew is said anew,
// behind a mark.
//
// An answer is known by its update, not by its place: one that code gives in a
// replay to an update that is not answered was not given by former code, and is
// written when the run is live.
//
// # Loops
//
// An iteration of a Loop is a scope of its own in the loop's branch. After every
// Every-th one the loop's entry says how many are complete, and what is older than
// the last Keep is deleted in that turn. A replay begins with the oldest iteration
// that is kept, which was entered by a hand-over; its entry has the number, the
// time and the state. See docs/decisions/0014-loops.md.
//
// All that a run counts or holds for its operations is counted by segments, the
// iterations that are pruned together, so that pruning takes it away: entries and
// bytes of the budget, promises, versions, other runs.
//
// # Incarnations
//
// When the workflow's function asks for it the turn that would end the run has a
// Continuation instead. The activation is then over; the next one is of a new
// incarnation, with an empty history and the same inbox.
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
