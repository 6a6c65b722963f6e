package registry

import (
	"context"
	"log/slog"
	"slices"

	"github.com/stet-run/stet/store"
)

// Unserved finds the workflows of live runs whose code no process has that lives, and logs each
// of them once, not each run. Its fields are required. It is for one goroutine.
type Unserved struct {
	Store store.Store
	Log   *slog.Logger

	missed map[string]bool // workflows without a process: true if that is logged, or no run needs it
}

// Look looks once. A workflow is logged if it lacks a process at two looks one after the other:
// one that is restarted may be away at one. It is logged again when it had a process meanwhile.
func (u *Unserved) Look(ctx context.Context) error {
	d, err := u.Store.Describe(ctx)
	if err != nil {
		return err
	}
	before := u.missed
	u.missed = map[string]bool{}
	for _, workflow := range d.Workflows {
		if store.IsEntity(workflow) || slices.ContainsFunc(d.Nodes, func(n store.Node) bool {
			return slices.Contains(n.Workflows, workflow) && d.Executes(&n)
		}) {
			continue
		}
		logged, twice := before[workflow]
		if twice && !logged {
			if logged, err = u.report(ctx, workflow); err != nil {
				return err
			}
		}
		u.missed[workflow] = logged
	}
	return nil
}

// report logs a workflow of which a run lives, and reports whether one does.
func (u *Unserved) report(ctx context.Context, workflow string) (bool, error) {
	page, err := u.Store.List(ctx, store.Filter{Workflows: []string{workflow}, Limit: 1,
		Statuses: []store.Status{store.Queued, store.Running, store.Suspended}})
	if err != nil || len(page.Runs) == 0 {
		return false, err
	}
	u.Log.Warn("runs wait for code that no process has", "workflow", workflow, "run_id", page.Runs[0].ID,
		"status", page.Runs[0].Status)
	return true, nil
}
