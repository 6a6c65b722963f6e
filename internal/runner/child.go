package runner

import (
	"github.com/stet-run/stet/internal/runner/runs"
)

// The words of package runs that are those of an operation's caller too.
type (
	// Child asks for a run to be started.
	Child = runs.Child
	// RunFuture is another run whose end this run may await: a child, or any run.
	RunFuture = runs.Future
)

// StartChild starts a run in the turn. It returns at once, unless no process has ever
// registered the workflow: then the failure is handed over like a completion.
func (b *Branch) StartChild(c Child) (*RunFuture, error) {
	if err := b.Enter(c.Call); err != nil {
		return nil, err
	}
	return b.run.runs.StartChild(&b.Branch, c)
}

// Watch subscribes this run to the end of any run and returns at once.
func (b *Branch) Watch(call Call, runID string) (*RunFuture, error) {
	if err := b.Enter(call); err != nil {
		return nil, err
	}
	return b.run.runs.Watch(&b.Branch, call, runID)
}

// RunID returns the ID of another run.
func (b *Branch) RunID(f *RunFuture) string { return b.run.runs.RunID(&b.Branch, f) }

// AwaitRun waits until another run has ended and returns its encoded result. A *Failure
// with CodeRun says that it has not succeeded. A run that is known to have ended gives its
// outcome also in a cancelled branch.
func (b *Branch) AwaitRun(call Call, f *RunFuture) ([]byte, error) {
	return b.run.runs.Await(&b.Branch, call, f)
}
