package server_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store/memory"
)

// TestAQueryNamesAParentByItsID: a list, a count and a bulk find the children of a run by its ID as by its number. A
// child says where it is in its parent.
func TestAQueryNamesAParentByItsID(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { _ = db.Close() })
	load := stet.Define("load", func(_ stet.Context, n int) (int, error) { return n, nil })
	etl := stet.Define("etl", func(ctx stet.Context, n int) (int, error) { return load.Call(ctx, n) })
	e, err := stet.New(t.Context(), stet.Config{Store: db, Logger: quiet(), Workflows: []stet.Definition{load, etl}})
	if err != nil {
		t.Fatal(err)
	}
	stop := running(t, e)
	defer stop()
	for _, id := range []string{"etl-7", "etl 8", "etl-9"} {
		run, err := etl.Start(t.Context(), e, 1, stet.ID(id))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, engine: e, store: db, stop: func() {}}
	w.handler, err = server.New(e, server.Options{
		Access: []access.Authenticator{server.Func(byName)}, Logger: quiet(), Rate: stet.None,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ query, parent string }{
		{"parent=etl-7", "etl-7"}, {`parent="etl 8"`, "etl 8"}, {"workflow=load parent=etl-9 status=succeeded", "etl-9"},
	} {
		var runs api.Runs
		w.get("viewer", "runs?query="+url.QueryEscape(row.query), &runs)
		if len(runs.Runs) != 1 || runs.Runs[0].ParentID != row.parent || runs.Runs[0].ParentLocation != "load" {
			t.Errorf("%s: expected the child of %s at load, found %+v", row.query, row.parent, runs.Runs)
		}
		var counts api.Counts
		w.get("viewer", "counts?query="+url.QueryEscape(row.query), &counts)
		if len(counts.Counts) != 1 || counts.Counts[0].Runs != 1 {
			t.Errorf("%s: expected one run, found %+v", row.query, counts.Counts)
		}
		if p := w.preview("operator", api.BulkRequest{Query: row.query, Verb: "cancel"}); p == nil {
			t.Errorf("%s: expected a preview", row.query)
		}
	}
	for _, query := range []string{"parent=nobody", `parent="x y"`} {
		w.ask("viewer", "GET", "runs?query="+url.QueryEscape(query), nil, http.StatusNotFound, nil)
	}
	w.ask("viewer", "GET", "runs?query=parent%3D0", nil, http.StatusNotFound, nil)
}
