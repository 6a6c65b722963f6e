package main

import (
	"context"
	"testing"
)

// TestEachDefectBuilds: the text of each defect stands once in its file, and the machines can be
// compiled with all of them.
func TestEachDefectBuilds(t *testing.T) {
	names := map[string]bool{}
	for _, d := range table {
		if names[d.name] || d.name == "" || d.breaks == "" || d.why == "" {
			t.Errorf("expected a name of its own, what it breaks and why, found %q, %q, %q", d.name, d.breaks, d.why)
		}
		names[d.name] = true
	}
	p, err := compile(context.Background(), table)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
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
