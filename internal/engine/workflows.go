package engine

import (
	"context"

	"github.com/stet-run/stet/internal/registry"
)

// ErrUnknownWorkflow says that no process has ever registered a workflow of the name.
var ErrUnknownWorkflow = registry.ErrUnknownWorkflow

// Workflows returns the workflows that this process, or any other, has.
func (e *Engine) Workflows() *registry.Workflows { return &e.workflows }

// look calls a function that reads the store for the code of a run.
func (x *executor) look(look func(context.Context) error) error {
	ctx, cancel := x.limited(x.held)
	defer cancel()
	return look(ctx)
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
