package server_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
)

// placed says that each run stands at a line.
type placed struct{ err error }

func (p placed) Places(_ context.Context, _ *stet.Engine, runID string) ([]stet.ScriptPlace, error) {
	return []stet.ScriptPlace{{File: "a.js", Line: 3, Column: 1, Location: "delay/sleep of " + runID}}, p.err
}

// TestScriptsByHTTP: versions, sources for those who see values, and where a run stands, which
// the server asks for.
func TestScriptsByHTTP(t *testing.T) {
	for name, change := range map[string]func(*server.Options){
		"without": func(*server.Options) {}, "with": func(o *server.Options) { o.Scripts = placed{} },
		"trouble": func(o *server.Options) { o.Scripts = placed{errors.New("secret trouble")} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true, change)
			files := []stet.ScriptFile{{Name: "order.ts", Text: "second"}, {Name: "lib.ts", Text: "lib"}}
			for _, code := range []stet.ScriptCode{{Code: "first()"}, {Code: "second()", Files: files}} {
				for _, name := range []string{"order", "hidden"} {
					w.deployed(name, code)
				}
			}
			var list api.Scripts
			w.get("viewer", "scripts", &list)
			if len(list.Scripts) != 2 || list.Scripts[1].Name != "order" || list.Scripts[1].Current != 2 {
				t.Errorf("the list: %+v", list)
			}
			w.get("limited", "scripts", &list)
			if len(list.Scripts) != 1 || list.Scripts[0].Name != "order" {
				t.Errorf("the list within a limit: %+v", list)
			}
			var one api.Script
			w.get("viewer", "scripts/order", &one)
			if len(one.Versions) != 2 || one.Versions[0].Number != 2 || one.Versions[0].By != "ada" ||
				len(one.Versions[0].Hash) != 64 || one.Versions[1].Left.IsZero() {
				t.Errorf("the script: %+v", one)
			}
			var source api.ScriptSource
			w.get("operator", "scripts/order/source", &source)
			if source.Version != 2 || len(source.Files) != 2 || source.Files[0].Text != "second" {
				t.Errorf("the current source: %+v", source)
			}
			w.get("operator", "scripts/order/source?version=1", &source)
			if len(source.Files) != 1 || source.Files[0].Text != "first()" || source.Files[0].Name != "order.js" {
				t.Errorf("the first source: %+v", source)
			}
			w.refused("operator", "GET", "scripts/order/source?version=9", nil, "not_found")
			w.refused("operator", "GET", "scripts/none", nil, "not_found")
			for _, who := range []string{"viewer", "caller"} {
				w.refused(who, "GET", "scripts/order/source", nil, "forbidden")
			}
			w.refused("limited", "GET", "scripts/hidden", nil, "not_found")
			w.refused("limited", "GET", "scripts/hidden/source", nil, "not_found")

			w.started("order", "o-1", "apple")
			w.refused("operator", "GET", "runs/o-1/script", nil, "not_found") // it is none of a script
			if _, err := scripted.Start(t.Context(), w.engine, 2, stet.ID("s-1")); err != nil {
				t.Fatal(err)
			}
			if _, err := w.engine.Runs().Wait(t.Context(), "s-1"); err != nil {
				t.Fatal(err)
			}
			w.deployed("scripted", stet.ScriptCode{Code: "x"})
			if name == "trouble" {
				w.refused("operator", "GET", "runs/s-1/script", nil, "internal")
				return
			}
			var run api.RunScript
			w.get("operator", "runs/s-1/script", &run)
			if run.Name != "scripted" || run.Version != 1 || run.Current != 1 || len(run.Files) != 1 {
				t.Errorf("the run's: %+v", run)
			}
			if known := name == "with"; known != (run.Unknown == "") || known != (len(run.Stands) == 1) {
				t.Errorf("it stands at %+v, %q", run.Stands, run.Unknown)
			}
			w.refused("viewer", "GET", "runs/s-1/script", nil, "forbidden")
			w.refused("limited", "GET", "runs/s-1/script", nil, "not_found")
		})
	}
}

// scripted records what a script records first.
var scripted = stet.Define("scripted", func(ctx stet.Context, _ int) (int, error) {
	return stet.Version(ctx, stet.ScriptChange, 1), nil
})

// deployed deploys a version of a script.
func (w *world) deployed(name string, code stet.ScriptCode) {
	w.t.Helper()
	act := stet.Act{By: "ada", Why: "law"}
	if _, err := stet.ScriptsOf(w.engine).Deploy(w.t.Context(), name, code, act); err != nil {
		w.t.Fatal(err)
	}
}
