package registry_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/registry"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestUnservedIsLoggedOncePerWorkflow: not per run, not again and again, and again after a process had the code.
func TestUnservedIsLoggedOncePerWorkflow(t *testing.T) {
	s := memory.New()
	registers := func(node string, stopped bool, workflows ...string) {
		t.Helper()
		n := store.Node{ID: node, Boot: node, Workflows: workflows, Stopped: stopped}
		if _, err := s.Register(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	starts := func(workflow string) {
		t.Helper()
		for i := range 3 {
			start := &store.Start{ID: fmt.Sprint(workflow, i), Workflow: workflow, Shard: store.Shard{Group: store.DefaultGroup}}
			start.Seed[0] = byte(i)
			if _, _, err := s.Apply(t.Context(), []store.Command{{Start: start}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	registers("here", false, "served")
	registers("old", false, "gone", "idle")
	for _, w := range []string{"served", "gone"} {
		starts(w)
	}
	var log bytes.Buffer
	u := registry.Unserved{Store: s, Log: slog.New(slog.NewTextHandler(&log, nil))}
	looks := func(what string, want int) {
		t.Helper()
		log.Reset()
		for range 3 {
			if err := u.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		got, gone := strings.Count(log.String(), "no process has"), strings.Count(log.String(), "workflow=gone")
		if got != want || gone != want {
			t.Errorf("%s: logged %d times, want %d:\n%s", what, got, want, &log)
		}
	}
	looks("with both processes", 0)
	registers("old", true)
	looks("when one has stopped", 1)
	looks("then", 0)
	registers("old", false, "gone", "idle")
	looks("when it is back", 0)
	registers("old", true)
	looks("when it has stopped again", 1)

	registers("old", false, "idle")
	registers("old", true)
	starts("idle") // a run that comes later
	log.Reset()
	for range 3 {
		if err := u.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(log.String(), "workflow=idle") {
		t.Errorf("a run that came later is not logged:\n%s", &log)
	}
}
