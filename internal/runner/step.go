package runner

import (
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/store"
)

// The words of package attempts that are those of an operation's caller and of the
// run's driver too.
type (
	// Step asks for a side effect that is recorded.
	Step = attempts.Step
	// Task is a step whose body is executed by a worker elsewhere.
	Task = attempts.Task
	// Policy says how often and when a step is tried.
	Policy = attempts.Policy
	// Undo is the compensation that a step carries.
	Undo = attempts.Undo
	// Body is a step body to be started.
	Body = attempts.Body
	// BodyFunc executes a step.
	BodyFunc = attempts.BodyFunc
	// BodyResult is the end of an attempt.
	BodyResult = attempts.BodyResult
)

// Step executes a step and returns its encoded value.
func (b *Branch) Step(s Step) ([]byte, error) {
	if err := b.Enter(s.Call); err != nil {
		return nil, err
	}
	return b.run.steps.Step(&b.Branch, s)
}

// NeverBegun is the end of a body that was cancelled before it began.
func NeverBegun(now store.Time) BodyResult { return attempts.NeverBegun(now) }
