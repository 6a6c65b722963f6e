// Package journal is the memory of one run: what its history holds, what of it was
// handed over, and what is written next. It replays recorded operations, hands
// completions over in one order, and gives what the run does next to the turn that
// fills. It knows what all durable operations have ([Op]) and nothing of their kinds:
// each [Kind] says for itself what it does when it takes effect, is abandoned, handed
// over or recalled.
//
// # States of an operation
//
//	declared ──────────► handed over (numbered, in the turn's log)
//	    │  started (body, timer, registration)
//	    └──────► closed (by a cancel, or withdrawn because it lost)
//
// An operation that is called in a replay takes effect only when the run goes live. One
// that is closed before its body was given out has never begun. What arrives for a
// closed operation is dropped.
//
// # The rule of order
//
// When every branch is blocked one completion is handed over: in a replay the recorded
// one with the lowest number among those that some branch waits for, live the next that
// has arrived. Both go through the same code, so all that follows from a hand-over is
// the same. A run replays until every recorded completion has been handed over and every
// recorded operation was called; then it goes live.
//
// # Code that changes
//
// An operation that is not recorded and stands before recorded ones stalls the run, and
// so does a recorded one that is not called. Two marks in the code say that it is meant.
//
// Version decides once for a run, or for a loop iteration, whether it takes the former
// way or the new one. What is recorded says so. If nothing is, the run takes the former
// way, version 0, exactly if former code has passed the call:
//
//   - A turn is taken only when every branch is blocked. So if completion n is durable,
//     all code has been executed that runs between it and the next hand-over, in every
//     branch, and what that code wrote is durable as well.
//   - If the last hand-over before the call is a recorded one, the call has therefore
//     been passed by code that did not have it: otherwise its entry would be there. That
//     holds between recorded operations and behind the last one, also if what stands
//     behind the call has left no record: a step in flight, a wait.
//   - Before the first completion the same holds if the history has an entry of this
//     generation, or the run's row says that a turn was committed, by a build or by
//     waits. If nothing was, it cannot be known, and the run is new; so is a new
//     incarnation, and a run that was rewound to its begin.
//   - After a hand-over that is not recorded the call is passed for the first time: the
//     run is new there, and the newest version is recorded, without a number, in the turn
//     of that hand-over. Step bodies that are requested later wait for that turn, so that
//     nothing that depends on the version becomes durable before it.
//
// Version 0 needs no entry: a history only grows, so every later replay gives the same
// answer; and a rewind keeps what was born before its cut, which is exactly what the code
// before it has passed. A rewound run keeps the versions it had there.
//
// With several branches the first call that is executed decides, and the order of
// execution is the same in every replay; the others get the same number, wherever they
// stand. An old run in which one branch has passed a call and another one comes to its
// call later therefore takes the former way in both.
//
// Removed accepts a record that the code does not call any more. One with a number at
// the location itself, or in a Map or a Loop there, is waited for and handed over in its
// turn, so that the order of what remains is the same; those of a branch that Go began
// are handed over to nothing, when they are the lowest that remain; those without a
// number are accepted on the spot. Nothing is written; a child that still runs ends with
// the run. An operation that is called at a location that was accepted stalls the run, as
// it must not be executed again.
//
// # Segments
//
// All that a run counts or holds for its operations is counted by segments, the
// iterations of a loop that are pruned together, so that pruning takes it away: entries
// and bytes of the budget, promises, versions, other runs.
package journal
