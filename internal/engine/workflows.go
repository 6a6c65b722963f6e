package engine

import (
	"context"
	"errors"

	"github.com/stet-run/stet/internal/registry"
)

// ErrUnknownWorkflow says that no process has ever registered a workflow of the name.
var ErrUnknownWorkflow = registry.ErrUnknownWorkflow

// CheckWorkflow is [registry.Workflows.Check].
func (e *Engine) CheckWorkflow(ctx context.Context, name string) error {
	return e.workflows.Check(ctx, name)
}

// knows reports whether a run may start children of the workflow.
func (x *executor) knows(workflow string) (bool, error) {
	if x.e.workflows.Known(workflow) {
		return true, nil
	}
	ctx, cancel := x.limited(x.held)
	defer cancel()
	err := x.e.CheckWorkflow(ctx, workflow)
	if errors.Is(err, ErrUnknownWorkflow) {
		return false, nil
	}
	return err == nil, err
}
