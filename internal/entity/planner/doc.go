// Package planner is the rules of a schedule: an entity that starts runs of a
// workflow at the instants that its times name.
//
// # What stands
//
//	config        what the schedule is; absent: there is none of this name
//	state         how far it has come, and whether it is paused
//	run/ID        a run that it has started and of whose end it has not heard
//	fill/N        instants of the past that are to be started once more
//	past/N        what became of an instant, or of several that were skipped
//	              for one reason; the last 1,000
//
// # Each instant once
//
// The state names the last instant that was decided. Each later one, once it has
// come, is decided in order: a run is started, or it is buffered until one can be,
// or it is skipped with its reason. The decision, the start and the state are one
// turn, so that after a crash at any place an instant is decided once. The ID of
// the run follows from the name of the schedule and the instant: should it exist
// already, nothing is started.
//
// The end of a run is told to the schedule because it watches it; that is so too
// for a run that had existed.
package planner
