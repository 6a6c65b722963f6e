package engine

import (
	"context"
	"errors"

	"github.com/stet-run/stet/internal/registry"
	"github.com/stet-run/stet/store"
)

// ErrUnknownWorkflow says that no process has ever registered a workflow of the name.
var ErrUnknownWorkflow = registry.ErrUnknownWorkflow

// CheckWorkflow is [registry.Workflows.Check].
func (e *Engine) CheckWorkflow(ctx context.Context, name string) error {
	return e.workflows.Check(ctx, name)
}

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
	err := x.e.CheckWorkflow(ctx, workflow)
	if errors.Is(err, ErrUnknownWorkflow) {
		return false, nil
	}
	return err == nil, err
}
