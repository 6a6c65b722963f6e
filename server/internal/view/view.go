// Package view is what an identity may see and change of a store: every read and every act
// of the HTTP API goes through a View, never to the engine itself.
//
// It keeps three promises. A run is shown or changed only if the workflow of the run that was
// *loaded* is within the identity's limit, whatever name led to it. A list is restricted by
// its filter, so that neither its length nor its cursors tell of other runs. Values are taken
// away unless the identity may read values.
package view

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// Editor edits a value before it is shown: of which workflow, and where it was found, as
// input, output, entry or message.
type Editor func(workflow, place string, value json.RawMessage) json.RawMessage

// View is an engine as one identity sees it. Safe for concurrent use.
type View struct {
	engine *stet.Engine
	who    *access.Identity
	edit   Editor // nil: nothing is edited
	undone undoneMemo
}

// New returns what an identity sees of an engine. edit may be nil.
func New(e *stet.Engine, who *access.Identity, edit Editor) *View {
	return &View{engine: e, who: who, edit: edit}
}

// Who returns the identity.
func (v *View) Who() *access.Identity { return v.who }

// act returns a request as one of the identity.
func (v *View) act(why string) stet.Act { return stet.Act{By: v.who.Name, Why: why} }

// editor returns what to do to the values of a workflow's runs, and whether there is
// anything to do.
func (v *View) editor(workflow, place string) (api.Editor, bool) {
	switch {
	case !v.who.Role.May(access.Values):
		return api.Redaction, true
	case v.edit == nil:
		return api.Editor{}, false
	}
	return api.Editor{
		Value: func(value json.RawMessage) json.RawMessage { return v.edit(workflow, place, value) },
		Text: func(text string) string {
			quoted, err := json.Marshal(text)
			if err != nil {
				return text // a text always encodes
			}
			var edited string
			if json.Unmarshal(v.edit(workflow, place, quoted), &edited) != nil {
				return "" // it was replaced by something else
			}
			return edited
		},
	}, true
}

// notFound is the answer for what the identity may not see: the same as for what is not
// there.
func notFound(what, name string) error { return fmt.Errorf("%s %q: %w", what, name, stet.ErrNotFound) }

func invalidLetter(number store.ItemNo) error {
	return fmt.Errorf("dead letter %d: %w", number, stet.ErrNotFound)
}

// Info returns a run within the limit, unedited and without its input and result, for what decides by it.
func (v *View) Info(ctx context.Context, runID string) (*stet.RunInfo, error) {
	return v.read(ctx, runID, none)
}

// read returns a run within the limit, with values of at most so many bytes; 0: of any size.
func (v *View) read(ctx context.Context, runID string, longest int) (*stet.RunInfo, error) {
	if store.IsEntity(runID) {
		return nil, notFound("run", runID)
	}
	info, err := Read(ctx, v.engine, runID, longest)
	if err != nil {
		return nil, err
	}
	if !v.who.Sees(info.Workflow) {
		return nil, notFound("run", runID)
	}
	return info, nil
}

// find returns the ID, number, incarnation, workflow and status of a run within the limit, by one read without
// values: for what shows no more of the run itself. See Info for the others.
func (v *View) find(ctx context.Context, runID string) (*stet.RunInfo, error) {
	if store.IsEntity(runID) {
		return nil, notFound("run", runID)
	}
	page, err := v.engine.Store().List(ctx, store.Filter{IDs: []string{runID}, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", runID, err)
	}
	if len(page.Runs) == 0 || !v.who.Sees(page.Runs[0].Workflow) {
		return nil, notFound("run", runID)
	}
	run := &page.Runs[0]
	return &stet.RunInfo{
		ID: run.ID, Number: run.No, Incarnation: run.Incarnation, Workflow: run.Workflow, Status: run.Status,
	}, nil
}

// Read returns a run, with values of at most so many bytes; 0: of any size, below 0: of none.
func Read(ctx context.Context, e *stet.Engine, runID string, longest int) (*stet.RunInfo, error) {
	infos, _, err := e.Runs().List(ctx, store.Filter{IDs: []string{runID}, Limit: 1, Values: true, Longest: longest})
	switch {
	case err != nil:
		return nil, err
	case len(infos) == 0:
		return nil, notFound("run", runID)
	}
	return &infos[0], nil
}

// whole returns a run with all of the values that the identity may read.
func (v *View) whole(ctx context.Context, runID string) (*stet.RunInfo, error) {
	if !v.values() {
		return v.read(ctx, runID, none)
	}
	return v.read(ctx, runID, 0)
}

// Run returns a run.
func (v *View) Run(ctx context.Context, runID string) (*api.Run, error) {
	info, err := v.whole(ctx, runID)
	if err != nil {
		return nil, err
	}
	run := v.show(info)
	if err := v.judge(ctx, info, run); err != nil {
		return nil, err
	}
	return run, v.hideParents(ctx, []*api.Run{run})
}

// Show returns the form of a run that was read for several identities, if it is within the
// limit.
func (v *View) Show(ctx context.Context, info *stet.RunInfo) (*api.Run, error) {
	if !v.who.Sees(info.Workflow) || store.IsEntity(info.Workflow) {
		return nil, notFound("run", info.ID)
	}
	run := v.show(info)
	return run, v.hideParents(ctx, []*api.Run{run})
}

// show returns the form of a run that was read with values, edited for the identity. Values that were not read are
// noted.
func (v *View) show(info *stet.RunInfo) *api.Run {
	run := api.RunOf(info)
	if e, ok := v.editor(info.Workflow, "run"); ok {
		run.Edit(e)
	}
	if run.Input == nil && info.InputSize > 0 {
		run.Input = v.unread(info.InputSize)
	}
	if run.Output == nil && info.OutputSize > 0 && info.Status == store.Succeeded {
		run.Output = v.unread(info.OutputSize)
	}
	return run
}

// Longest returns how many bytes a value has that is read for a page of the identity, as store.Filter.Longest has it.
func (v *View) Longest() int {
	if v.values() {
		return listed
	}
	return none
}

// restrict adds the limit of an identity to a filter. It reports false if nothing can match.
func restrict(who *access.Identity, f *store.Filter) bool {
	if !who.Limited() {
		return true
	}
	if len(f.Workflows) == 0 {
		f.Workflows = slices.Clone(who.Workflows)
		return true
	}
	f.Workflows = slices.DeleteFunc(slices.Clone(f.Workflows), func(w string) bool { return !who.Sees(w) })
	return len(f.Workflows) > 0
}

// withoutEntities takes entities out of what a filter names, which are no runs of users. It
// reports false if nothing is left.
func withoutEntities(f *store.Filter) bool {
	entity := func(names []string) ([]string, bool) {
		left := slices.DeleteFunc(slices.Clone(names), store.IsEntity)
		return left, len(left) > 0 || len(names) == 0
	}
	var ids, workflows bool
	f.IDs, ids = entity(f.IDs)
	f.Workflows, workflows = entity(f.Workflows)
	return ids && workflows
}

// atOnce is how many runs a list reads at once, so that their values are not all in memory.
const atOnce = 64

// Runs returns a page of the runs that match a filter, newest first, with values if the filter says so. Large values
// are cut.
func (v *View) Runs(ctx context.Context, f store.Filter) (runs []*api.Run, next string, err error) {
	if !withoutEntities(&f) || !restrict(v.who, &f) {
		return nil, "", nil
	}
	left, space := cmp.Or(f.Limit, store.DefaultPage), room(pageBytes)
	for left > 0 {
		if f.Limit = left; f.Values && v.values() {
			f.Limit = min(left, atOnce)
		}
		if f.Longest = v.Longest(); space <= 0 {
			f.Longest = min(f.Longest, shortened)
		}
		left -= f.Limit
		var infos []stet.RunInfo
		if infos, next, err = v.engine.Runs().List(ctx, f); err != nil {
			return nil, "", err
		}
		for i := range infos {
			info := &infos[i]
			if !v.who.Sees(info.Workflow) || store.IsEntity(info.Workflow) {
				continue
			}
			run := v.show(info)
			if f.Values {
				space.fit(&run.Input)
				space.fit(&run.Output)
			} else {
				run.Input, run.Output = nil, nil
			}
			runs = append(runs, run)
		}
		if f.Cursor = next; next == "" {
			break
		}
	}
	return runs, next, v.hideParents(ctx, runs)
}

// Count counts the runs that match a filter.
func (v *View) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	if !withoutEntities(&f) || !restrict(v.who, &f) {
		return nil, nil
	}
	tallies, err := v.engine.Runs().Count(ctx, f)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(tallies, func(t store.Tally) bool {
		return !v.who.Sees(t.Workflow) || store.IsEntity(t.Workflow)
	}), nil
}
