package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknownWorkflow says that no process has ever registered a workflow of the name.
var ErrUnknownWorkflow = errors.New("unknown workflow")

// CheckWorkflow returns nil if this engine has the code of the workflow, or any process has
// ever registered it in the store. Otherwise the error wraps ErrUnknownWorkflow, or is that
// of the store.
func (e *Engine) CheckWorkflow(ctx context.Context, name string) error {
	if e.registered(name) {
		return nil
	}
	d, err := e.cfg.Store.Describe(ctx)
	if err != nil {
		return err
	}
	for _, known := range d.Workflows {
		e.seen.Store(known, struct{}{})
	}
	if slices.Contains(d.Workflows, name) {
		return nil
	}
	list := "none"
	if len(d.Workflows) > 0 {
		list = strings.Join(slices.Sorted(slices.Values(d.Workflows)), ", ")
	}
	return fmt.Errorf("%w %q: no process has registered it in this store; known are: %s",
		ErrUnknownWorkflow, name, list)
}

// registered reports whether CheckWorkflow knows the workflow without asking the store.
func (e *Engine) registered(name string) bool {
	_, own := e.cfg.Workflows[name]
	_, seen := e.seen.Load(name)
	return own || seen
}

// knows reports whether a run may start children of the workflow.
func (x *executor) knows(workflow string) (bool, error) {
	if x.e.registered(workflow) {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(x.held, x.e.cfg.LeaseTTL)
	defer cancel()
	switch err := x.e.CheckWorkflow(ctx, workflow); {
	case errors.Is(err, ErrUnknownWorkflow):
		return false, nil
	default:
		return err == nil, err
	}
}
