package runner

import (
	"github.com/stet-run/stet/store"
)

// Renewal is a run that continues as new.
type Renewal struct {
	Workflow string
	Input    []byte
}

// ContinueAsNew makes what the workflow's function returns from now on the end of
// this incarnation only: the run goes on with another input, and maybe another
// workflow. A failure that is returned counts nevertheless, and so does a cancel
// that was handed over. It is for the workflow's function, in its own branch.
func (b *Branch) ContinueAsNew(next Renewal) { b.run.renewal = &next }

// renew makes a turn the last one of the incarnation. What is recorded in it would
// be read by no activation. The seed is the caller's to fill in.
func (r *Interpreter) renew(turn *store.Turn) {
	next := r.over.Renewal
	turn.Entries, turn.Prune = nil, nil
	turn.Update.Sends = r.runs.Orphans()
	turn.Update.Continue = &store.Continuation{Workflow: next.Workflow, Input: next.Input, At: r.j.Now()}
}
