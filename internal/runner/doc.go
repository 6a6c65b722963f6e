// Package runner interprets one run: it replays what stands, lets the code of the run go on
// cooperatively, hands completions over in one recorded order, and builds the turns that
// are to be committed. It knows no other run, reads no clock, calls no store and writes no
// log: its driver gives it the time, the inbox items and the ends of step bodies, and takes
// from it turns to commit and bodies to start.
//
// # Rooms
//
// The subjects of a run are packages of their own, each with a type that has its state, and
// with tests that need nothing else of the run:
//
//	sched     branches, scopes, waits and the baton; knows no operation
//	journal   history, replay, the order of hand-overs; what all operations have
//	turnlog   the turn that fills
//	attempts  steps and compensations: bodies, retries, permits
//	owed      what is to be undone, if the run or a saga is
//	runs      children and watched runs
//	topics    waits for events
//	mail      messages and the order in which they are received
//
// This package joins them: what the code of a run can call ([Branch]), what its driver can
// call ([Interpreter]), what the inbox brings, in which order it is handed over, and how a run ends,
// pauses, is cancelled and is undone. An operation is a type that embeds journal.Op, in a
// file of its own: timer.go is the smallest.
//
// # Driving
//
// One goroutine at a time drives an [Interpreter]:
//
//	r := runner.New(config)
//	r.Advance(now, inboxReadAt)   // as far as the code goes
//	turn := r.Take()              // nil: nothing to write
//	… commit …
//	r.Committed()                 // or drop the run: r.Unwind()
//	for body := range r.Bodies() { … start it … }
//	r.Complete(id, attempt, result); r.Deliver(item); r.Advance(…)
//
// After a turn that suspends the run it stands still, whatever is delivered, until Resumed
// reports that it was claimed again, or StillReady that it was not suspended. After a turn
// that ends it there is only Unwind.
//
// # States of a run
//
// A run replays until every recorded completion has been handed over and every recorded
// operation was called; then it is live; then it is over: ended, stalled, or broken (a
// large value could not be fetched: drop it and try again). Going live happens only when
// every branch is blocked.
//
// # What takes effect when it is called
//
// Most operations take effect when a branch waits for them. Promises, children, watched runs
// and publications take effect when they are called, because what they hand out (a token,
// the start of a run, a watch, an event) must not wait for a branch; and they go on when no
// branch waits for them any more. Their entry is written with that, so in a replay it is
// there before the next completion; one that is not there was inserted into the code.
//
// # Undoing
//
// When the code of a run has ended and the run is to be undone, the compensations of its
// completed steps are executed by a branch of their own, newest first. The turn that begins
// it fixes the outcome, and what follows replays like any other operation, after the code.
// See undoing.go. A saga undoes a part of the run while the code goes on: see saga.go.
//
// # What a run shows
//
// Setting a value, appending to a stream, tagging and answering an update are not
// operations: they block nothing, have no location and leave no entry. They go into the turn
// that fills, and a replay must not show them again. It knows what was shown without a
// record of it:
//
//   - Code is executed between two hand-overs, and a turn is taken only when every branch is
//     blocked. So a turn that has a hand-over has all that was shown because of it, up to the
//     next one.
//   - Every hand-over is recorded, and the last one of a committed turn is never pruned: a
//     loop prunes what is older than the iteration in which its code is.
//   - So what is shown after a recorded hand-over stands, and what is shown after one that
//     this activation has made is new. Whether the run is live does not matter: an unnumbered
//     completion is handed over in a replay, and is new.
//   - Before the first hand-over any entry proves it. An append makes one of its own there,
//     at "[shown]". A value that is set again, or a tag, needs none: nothing can have been set
//     since. Bodies that are requested behind it wait for the turn, so that none of theirs is
//     durable before it.
//
// A position in a stream is therefore given by the store when the turn is committed. It
// depends neither on the history, of which a loop deletes parts and continue-as-new all, nor
// on the code, which may show more or less after a deploy without moving what stands. After a
// rewind what is executed again is shown again, behind a mark.
//
// An answer is known by its update, not by its place: one that code gives in a replay to an
// update that is not answered was not given by former code, and is written when the run is
// live.
//
// # Loops
//
// An iteration of a Loop is a scope of its own in the loop's branch. After every Every-th one
// the loop's entry records how many are complete, and what is older than the last Keep is
// deleted in that turn. A replay begins with the oldest iteration that is kept, which was
// entered by a hand-over; its entry has the number, the time and the state. See
// docs/decisions/0014-loops.md.
//
// # Incarnations
//
// When the workflow's function requests it, the turn that would end the run has a
// Continuation instead. The activation is then over; the next one is of a new incarnation,
// with an empty history and the same inbox.
package runner
