// Package registry knows which workflows the processes of a store have registered.
package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stet-run/stet/internal/entity/scripts"
	"github.com/stet-run/stet/internal/library"
	"github.com/stet-run/stet/store"
)

// ErrUnknownWorkflow says that no process has ever registered a workflow of the name.
var ErrUnknownWorkflow = errors.New("unknown workflow")

// Workflows are those that this process, or any other, has registered. It is safe for
// concurrent use. Both exported fields are required.
type Workflows struct {
	Store store.Store
	Code  *library.Shelf // of this process

	seen sync.Map // those of other processes that the store was found to know
}

// Check returns nil if this process has the code of the workflow, or any process has ever
// registered it in the store. Otherwise the error wraps ErrUnknownWorkflow, or is that of
// the store.
func (w *Workflows) Check(ctx context.Context, name string) error {
	if w.Known(name) {
		return nil
	}
	d, err := w.Store.Describe(ctx)
	if err != nil {
		return err
	}
	for _, known := range d.Workflows {
		w.seen.Store(known, struct{}{})
	}
	if slices.Contains(d.Workflows, name) || w.Code.Shared(ctx, name) {
		return nil
	}
	if there, err := w.inScript(ctx, name); there || err != nil {
		return err
	}
	list := "none"
	if len(d.Workflows) > 0 {
		list = strings.Join(slices.Sorted(slices.Values(d.Workflows)), ", ")
	}
	return fmt.Errorf("%w %q: no process has registered it in this store; known are: %s",
		ErrUnknownWorkflow, name, list)
}

// Knows reports whether Check returns nil.
func (w *Workflows) Knows(ctx context.Context, name string) (bool, error) {
	err := w.Check(ctx, name)
	if errors.Is(err, ErrUnknownWorkflow) {
		return false, nil
	}
	return err == nil, err
}

// Known reports whether Check knows the workflow without asking the store.
func (w *Workflows) Known(name string) bool {
	_, seen := w.seen.Load(name)
	return seen || w.Code.Has(name)
}

// inScript reports whether a script of the name was deployed, which nodes learn of a little
// later.
func (w *Workflows) inScript(ctx context.Context, name string) (bool, error) {
	id := scripts.ID(name)
	if store.CheckRunID(id) != nil {
		return false, nil
	}
	page, err := w.Store.List(ctx, store.Filter{IDs: []string{id}, Limit: 1})
	return len(page.Runs) > 0, err
}
