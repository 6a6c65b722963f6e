package main

import (
	"context"
	"sync"
	"testing"

	"github.com/stet-run/stet/internal/sim/box"
	"github.com/stet-run/stet/internal/testing/soak"
)

var compiled = sync.OnceValues(func() (*box.Program, error) { return compile(context.Background(), table) })

// program returns the machines with all defects in them, for all tests.
func program(t *testing.T) *box.Program {
	t.Helper()
	p, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestEachDefectFits: the text of each defect is once in its file, and has a name, what it breaks and why.
func TestEachDefectFits(t *testing.T) {
	names := map[string]bool{}
	for _, d := range table {
		if names[d.name] || d.name == "" || d.breaks == "" || d.why == "" {
			t.Errorf("expected a name of its own, what it breaks and why, found %q, %q, %q", d.name, d.breaks, d.why)
		}
		names[d.name] = true
	}
	root, err := module(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := overlay(root, t.TempDir(), table); err != nil {
		t.Error(err)
	}
}

// TestEachDefectBuilds: the machines can be compiled with all defects in them, and show the chosen one. To compile them
// once more, after each change of the code, takes half a minute of processor.
func TestEachDefectBuilds(t *testing.T) {
	soak.Faults(t)
	p := program(t)
	// What is not chosen changes nothing, and what is chosen does.
	if said, _ := broken(p, 1); said != "" {
		t.Errorf("seed 1 without a defect: %s", said)
	}
	if f := search(p, "key-of-all", 20); f.seed == 0 {
		t.Error("expected that the defect key-of-all is found in 20 worlds")
	}
}

// TestAChangeThatDoesNotFit: a table that has rotted is refused.
func TestAChangeThatDoesNotFit(t *testing.T) {
	for what, defects := range map[string][]defect{
		"is not there":   {{name: "a", text: "d", becomes: "planted"}},
		"is there twice": {{name: "a", text: "b", becomes: "planted"}},
		"asks nothing":   {{name: "a", text: "ac", becomes: "c"}},
		"overlaps":       {{name: "a", text: "ba", becomes: "planted"}, {name: "b", text: "ac", becomes: "planted"}},
	} {
		if out, err := change("bbac", defects); err == nil {
			t.Errorf("a change that %s: expected an error, found %q", what, out)
		}
	}
}
