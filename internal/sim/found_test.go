package sim_test

import (
	"path/filepath"
	"testing"

	"github.com/stet-run/stet/internal/sim"
)

// TestFoundWorlds executes the plans of worlds that have found a defect. Each is named after it:
//
//   - lost-claim: a claim without an answer may have claimed a schedule, whose turn is committed meanwhile. The
//     next claim, which is under way, takes it as well (seed 4691 of its day).
//   - later-behind: a process that replaces the former one of its name, and whose clock is behind, took that for a
//     later one and ended (seed 15941 of its day).
//
// One that breaks a promise is looked at by go run ./internal/sim/run --plan FILE --trace.
func TestFoundWorlds(t *testing.T) {
	p := program(t)
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("expected plans in testdata, found %q, %v", files, err)
	}
	for _, file := range files {
		of, err := sim.ReadPlan(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := sim.Run(p, of, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, v := range r.Violations {
			t.Errorf("%s: %s", file, v)
		}
	}
}
