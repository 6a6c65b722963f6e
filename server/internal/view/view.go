// Package view is what an identity may see and change of a store: every read and every act
// of the HTTP API goes through a View, never to the engine itself.
//
// It keeps three promises. A run is shown or changed only if the workflow of the run that was
// *loaded* is within the identity's limit, whatever name led to it. A list is restricted by
// its filter, so that neither its length nor its cursors tell of other runs. Values are taken
// away unless the identity may read values.
package view

import (
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
}

// New returns what an identity sees of an engine. edit may be nil.
func New(e *stet.Engine, who *access.Identity, edit Editor) *View { return &View{e, who, edit} }

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

// Info returns a run within the limit, unedited, for what decides by it.
func (v *View) Info(ctx context.Context, runID string) (*stet.RunInfo, error) {
	if store.IsEntity(runID) {
		return nil, notFound("run", runID)
	}
	info, err := v.engine.Runs().Info(ctx, runID)
	if err != nil {
		return nil, err
	}
	if !v.who.Sees(info.Workflow) {
		return nil, notFound("run", runID)
	}
	return info, nil
}

// Run returns a run.
func (v *View) Run(ctx context.Context, runID string) (*api.Run, error) {
	info, err := v.Info(ctx, runID)
	if err != nil {
		return nil, err
	}
	run := v.show(info)
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

// show returns the form of a run, edited for the identity.
func (v *View) show(info *stet.RunInfo) *api.Run {
	run := api.RunOf(info)
	if e, ok := v.editor(info.Workflow, "run"); ok {
		run.Edit(e)
	}
	return run
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

// Runs returns a page of the runs that match a filter, newest first, with values.
func (v *View) Runs(ctx context.Context, f store.Filter) (runs []*api.Run, next string, err error) {
	if !withoutEntities(&f) || !restrict(v.who, &f) {
		return nil, "", nil
	}
	infos, next, err := v.engine.Runs().List(ctx, f)
	if err != nil {
		return nil, "", err
	}
	for i := range infos {
		if info := &infos[i]; v.who.Sees(info.Workflow) && !store.IsEntity(info.Workflow) {
			runs = append(runs, v.show(info))
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

// History returns entries of a run, in the order of locations.
func (v *View) History(ctx context.Context, runID string, q stet.HistoryQuery) ([]*api.Entry, error) {
	info, err := v.Info(ctx, runID)
	if err != nil {
		return nil, err
	}
	found, err := v.engine.Runs().History(ctx, runID, q)
	if err != nil {
		return nil, err
	}
	e, edited := v.editor(info.Workflow, "entry")
	entries := make([]*api.Entry, len(found))
	for i := range found {
		entries[i] = api.EntryOf(&found[i])
		if edited {
			entries[i].Edit(e)
		}
	}
	if q.Values {
		return entries, nil
	}
	return entries, fillTries(ctx, v.engine, runID, entries, func(o *api.Entry) {
		if edited {
			o.Edit(e)
		}
	})
}
