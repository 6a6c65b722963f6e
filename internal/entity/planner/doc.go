// Package planner holds the rules of a schedule: an entity that starts runs of a
// workflow at the instants that its times name.
//
// # What stands
//
//	config        the schedule itself; absent: there is none of this name
//	state         the last decided instant, and whether the schedule is paused
//	run/ID        a run that it has started and whose end has not arrived
//	fill/N        instants of the past that are to be started once more
//	past/N        the decision about an instant, or about several that were
//	              skipped for one reason; the last 1,000
//
// # Each instant once
//
// The state names the last instant that was decided. Each later one, once it is due, is
// decided in order:
//
//   - a run is started; or
//   - the instant is buffered until a run can be started; or
//   - the instant is skipped, with the reason.
//
// The decision, the start and the state are one turn, so an instant is decided once
// wherever a crash happens. The ID of the run follows from the name of the schedule and
// the instant. If a run with this ID exists already, nothing is started.
//
// The schedule watches its runs, also one that existed before, and so is notified of
// their ends.
package planner
