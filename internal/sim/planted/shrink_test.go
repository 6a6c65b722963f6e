package main

import (
	"testing"

	"github.com/stet-run/stet/internal/sim"
	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/internal/testing/soak"
)

// TestAWorldIsMadeSmaller: what Shrink returns breaks the promise that the plan breaks, and has less in it.
func TestAWorldIsMadeSmaller(t *testing.T) {
	soak.Faults(t)
	if testing.Short() {
		t.Skip("a short test executes few worlds")
	}
	planted := program(t).WithEnv(chosen, "key-of-all")
	defer planted.Close()
	size := func(of plan.Plan) (n int) {
		for _, r := range of.Runs {
			n += 1 + len(r.Program)
		}
		return n + len(of.Nodes) + len(of.Acts) + len(of.Faults)
	}
	for seed := range uint64(20) {
		of := plan.Generate(seed + 1)
		before, err := sim.Run(planted, of, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(before.Violations) == 0 || size(of) < 20 {
			continue
		}
		small := sim.Shrink(planted, of, 40)
		after, err := sim.Run(planted, small, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(after.Violations) == 0 || after.Violations[0][:3] != before.Violations[0][:3] {
			t.Errorf("seed %d: the plan broke %q, and the smaller one breaks %q", seed+1, before.Violations, after.Violations)
		}
		if size(small) > size(of)/2 {
			t.Errorf("seed %d: the plan has %d parts, and the smaller one still %d", seed+1, size(of), size(small))
		}
		return
	}
	t.Error("expected that one of 20 worlds breaks a promise with the defect key-of-all")
}
