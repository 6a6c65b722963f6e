package cluster

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

// TestNamesOfALibraryAreNotCompared: nodes of a build may know different names of a library,
// and not different workflows of their own.
func TestNamesOfALibraryAreNotCompared(t *testing.T) {
	own := store.Node{ID: "own", Boot: "o", Build: "1", Groups: []string{"g"}, Workflows: []string{"w", "script-a"}}
	m := &Member{Node: own, TTL: time.Minute, Shared: func(_ context.Context, name string) bool {
		return strings.HasPrefix(name, "script-")
	}}
	compared := func(workflows ...string) error {
		other := store.Node{ID: "other", Boot: "x", Build: "1", Groups: []string{"g"}, Workflows: workflows, SeenAt: 1}
		return m.compare(t.Context(), &store.Description{Now: 2, Nodes: []store.Node{own, other}})
	}
	if err := compared("w", "script-b"); err != nil {
		t.Errorf("other names of the library: %v", err)
	}
	var differ *DifferError
	if err := compared("v", "script-a"); !errors.As(err, &differ) || len(differ.Lacks)+len(differ.More) != 2 {
		t.Errorf("other workflows: %v", err)
	}
	m.Shared = nil
	if err := compared("w", "script-b"); !errors.As(err, &differ) {
		t.Errorf("without a library: %v", err)
	}
}

// TestOtherTasksAreLogged: nodes of one build that have functions for different tasks are named,
// once when the later one joins; it works all the same.
func TestOtherTasksAreLogged(t *testing.T) {
	var log bytes.Buffer
	own := store.Node{ID: "own", Boot: "o", Build: "1", Groups: []string{"g"}, Workflows: []string{"w"},
		Tasks: []string{"resize", "scan"}}
	m := &Member{Node: own, TTL: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, c := range []struct {
		build string
		tasks []string
		want  string
	}{
		{"1", []string{"resize", "print"}, "lacks=[print] has_more=[scan]"}, {"1", nil, "has_more=\"[resize scan]\""},
		{"1", own.Tasks, ""}, {"2", nil, ""},
	} {
		other := store.Node{ID: "other", Boot: "x", Build: c.build, Groups: []string{"g"}, Workflows: []string{"w"},
			Tasks: c.tasks, SeenAt: 1}
		log.Reset()
		if err := m.compare(t.Context(), &store.Description{Now: 2, Nodes: []store.Node{own, other}}); err != nil {
			t.Error(err)
		}
		if text := log.String(); strings.Contains(text, "node=own other=other") != (c.want != "") ||
			!strings.Contains(text, c.want) {
			t.Errorf("build %s, tasks %q: the log says %s", c.build, c.tasks, text)
		}
	}
}
