// Package judge knows what is promised in a simulated world, sees what happens there, and says which promise
// is broken. See docs/simulation.md.
package judge

import (
	"time"

	"github.com/stet-run/stet/internal/sim/box"
	"github.com/stet-run/stet/internal/sim/plan"
)

// Judge is of one world, which calls its methods in the order in which things happen there.
type Judge struct {
	oracle  *oracle
	monitor *monitor
}

// World is what a judge has to know of a world.
type World struct {
	Plan plan.Plan
	Now  func() time.Duration             // since its beginning
	Name func(machine int) string         // of a machine
	Log  func(format string, args ...any) // gets a line for each turn
	Tell func(line string)                // gets what happens, in words; nil: nobody listens
}

// New returns the judge of a world.
func New(w World) *Judge {
	o := newOracle(w.Plan, w.Now)
	o.story.Line = w.Tell
	return &Judge{o, newMonitor(o, w.Log, w.Name)}
}

// Limit is how long a healed world may take until everything has ended.
const Limit = 40 * time.Minute

// Begin is what the clocks of a world show at first.
func Begin(of plan.Plan) time.Time {
	if of.Begin.IsZero() {
		return box.Begin
	}
	return of.Begin
}

// Violations are of promises; none: all were kept so far.
func (j *Judge) Violations() []string { return j.oracle.violations }

// Reached says how often each rare situation was reached.
func (j *Judge) Reached() map[string]int { return j.oracle.reached }

// Count counts that a situation was reached.
func (j *Judge) Count(situation string) { j.oracle.count(situation) }

// Ended judges how everything has ended.
func (j *Judge) Ended() {
	if len(j.oracle.violations) == 0 {
		j.oracle.judge()
	}
}

// Endless takes that the world has not ended within the limit.
func (j *Judge) Endless() { j.oracle.violated("the world has not ended in %s after its faults", Limit) }

// Note takes what a machine says, and whether that is to die.
func (j *Judge) Note(n plan.Note) (die bool) { return j.oracle.note(n) }

// Died takes the death of a machine.
func (j *Judge) Died(machine string) { j.oracle.died(machine) }

// Stopped takes the end of a machine that was asked to stop, in a healed world. ttl is that of its leases.
func (j *Judge) Stopped(machine int, name string, ttl time.Duration) {
	j.monitor.stopped(machine, name, ttl)
}

// Asked takes a request on its way to the store.
func (j *Judge) Asked(from int, call uint32, body []byte) { j.monitor.asked(from, call, body) }

// Cut takes that the power of the store is cut.
func (j *Judge) Cut() { j.monitor.cut() }

// Asks says whether a request for a method has no answer.
func (j *Judge) Asks(method string) bool { return j.monitor.asks(method) }

// Answered takes an answer on its way back, and returns the method's name.
func (j *Judge) Answered(to int, call uint32, body []byte) string {
	return j.monitor.answered(to, call, body)
}

// Unheard takes the loss of an answer that was taken as Answered.
func (j *Judge) Unheard(to int, method string, body []byte) { j.monitor.lost(to, method, body) }

// Look judges what waits in a healed world. wrong: something is wrong again, or a process does not live.
func (j *Judge) Look(wrong bool) { j.oracle.lates.judge(wrong) }

// Fault tells of a fault that begins.
func (j *Judge) Fault(f plan.Fault) {
	j.Count("fault " + f.Kind)
	j.oracle.story.Fault(f, &j.oracle.plan)
}

// Tell tells of something else that happens.
func (j *Judge) Tell(format string, args ...any) { j.oracle.story.Tell(format, args...) }

// Lost takes the loss of a request, or of an answer.
func (j *Judge) Lost() { j.oracle.spins.lost++ }
