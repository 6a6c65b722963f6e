package view

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
)

// Placer says where runs of scripts stand in their sources.
type Placer interface {
	Places(ctx context.Context, e *stet.Engine, runID string) ([]stet.ScriptPlace, error)
}

// Scripts are the scripts of a store whose runs the identity sees.
type Scripts struct{ *View }

// List returns the scripts, without their versions.
func (v Scripts) List(ctx context.Context) ([]api.Script, error) {
	found, err := stet.ScriptsOf(v.engine).List(ctx)
	list := []api.Script{}
	for i := range found {
		if v.who.Sees(found[i].Name) {
			list = append(list, v.show(&found[i]))
		}
	}
	return list, err
}

// Info returns a script with its versions.
func (v Scripts) Info(ctx context.Context, name string) (*api.Script, error) {
	if !v.who.Sees(name) {
		return nil, notFound("script", name)
	}
	info, err := stet.ScriptsOf(v.engine).Info(ctx, name)
	if err != nil {
		return nil, err
	}
	out := v.show(info)
	return &out, nil
}

func (v Scripts) show(info *stet.ScriptInfo) api.Script {
	s := api.ScriptOf(info)
	if e, ok := v.editor(s.Name, "script"); ok {
		s.Edit(e)
	}
	return s
}

// Source returns the source of a version.
func (v Scripts) Source(ctx context.Context, name string, version int) (*api.ScriptSource, error) {
	if !v.who.Sees(name) {
		return nil, notFound("script", name)
	}
	code, err := stet.ScriptsOf(v.engine).Code(ctx, name, version)
	if err != nil {
		return nil, err
	}
	out := api.SourceOf(name, version, code)
	return &out, nil
}

// Deploy makes code the current version of a script, and returns its number.
func (v Scripts) Deploy(ctx context.Context, name string, d *api.DeployScript) (int, error) {
	if !v.who.Sees(name) {
		return 0, Denied("script %s", name)
	}
	code := stet.ScriptCode{Code: d.Code}
	for _, f := range d.Files {
		code.Files = append(code.Files, stet.ScriptFile(f))
	}
	return stet.ScriptsOf(v.engine).Deploy(ctx, name, code, stet.Act{By: v.who.Name, Why: d.Reason})
}

// Run returns the source that a run executes, and where it stands; of a run that is bound to no
// version it is not found. at may be nil.
func (v Scripts) Run(ctx context.Context, runID string, at Placer) (*api.RunScript, error) {
	info, err := v.View.Info(ctx, runID)
	if err != nil {
		return nil, err
	}
	scripts := stet.ScriptsOf(v.engine)
	number, err := scripts.BoundTo(ctx, runID)
	if err != nil {
		return nil, err
	}
	if number == 0 {
		return nil, fmt.Errorf("run %q is bound to no version of a script: %w", runID, stet.ErrNotFound)
	}
	source, err := v.Source(ctx, info.Workflow, number)
	if err != nil {
		return nil, err
	}
	out := &api.RunScript{ScriptSource: *source, Stands: []api.ScriptPlace{}}
	if out.Current, err = scripts.Current(ctx, info.Workflow); err != nil && !errors.Is(err, stet.ErrNotFound) {
		return nil, err
	}
	if at == nil {
		out.Unknown = "this server does not execute scripts; one that does shows the line"
		return out, nil
	}
	places, err := at.Places(ctx, v.engine, runID)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		out.Stands = append(out.Stands, api.ScriptPlace(p))
	}
	return out, nil
}
