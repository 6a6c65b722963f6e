package cluster

import (
	"context"
	"errors"
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
