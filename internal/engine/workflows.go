package engine

import (
	"github.com/stet-run/stet/internal/registry"
	"github.com/stet-run/stet/store"
)

// ErrUnknownWorkflow says that no process has ever registered a workflow of the name.
var ErrUnknownWorkflow = registry.ErrUnknownWorkflow

// Workflows returns the workflows that this process, or any other, has.
func (e *Engine) Workflows() *registry.Workflows { return &e.workflows }

// room reports that the inbox of the run to which another one sends is full.
func (x *executor) room(runID string, it *store.Item) (full, err error) {
	if x.e.cfg.Admit == nil {
		return nil, nil
	}
	ctx, cancel := x.limited(x.held)
	defer cancel()
	return x.e.cfg.Admit(ctx, runID, it)
}

// knows reports whether a run may start children of the workflow.
func (x *executor) knows(workflow string) (bool, error) {
	if x.e.workflows.Known(workflow) {
		return true, nil
	}
	ctx, cancel := x.limited(x.held)
	defer cancel()
	return x.e.workflows.Knows(ctx, workflow)
}
