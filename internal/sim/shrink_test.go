package sim

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/sim/plan"
)

// TestShrinkLeavesWhatBreaksThePromise: of each plan the parts that break the promise stay, and others go.
func TestShrinkLeavesWhatBreaksThePromise(t *testing.T) {
	for seed := range uint64(20) {
		of := plan.Generate(seed + 1)
		if len(of.Faults) == 0 || len(of.Runs) == 0 || len(of.Runs[0].Program) == 0 {
			continue
		}
		fault, run := of.Faults[len(of.Faults)-1], of.Runs[0]
		tries := 0
		promise := func(of plan.Plan) string {
			tries++
			at := slices.IndexFunc(of.Runs, func(r plan.Run) bool { return r.ID == run.ID })
			if at < 0 || len(of.Runs[at].Program) == 0 {
				return "2"
			}
			if !slices.ContainsFunc(of.Faults, func(f plan.Fault) bool { return reflect.DeepEqual(f, fault) }) {
				return ""
			}
			return "1"
		}
		small := shrink(of, 5000, promise)
		if got := promise(small); got != "1" {
			t.Errorf("seed %d: expected that the smaller plan breaks the promise 1, found %q", seed+1, got)
		}
		parts := []int{len(small.Faults), len(small.Acts), len(small.Runs), len(small.Nodes), len(small.Runs[0].Program)}
		// The last node goes, with its faults, and then the one before it.
		if want := []int{1, 0, 1, max(1, fault.Node+1), 1}; !slices.Equal(parts, want) {
			t.Errorf("seed %d: expected %v faults, acts, runs, nodes and operations, found %v", seed+1, want, parts)
		}
		tries = 0
		if shrink(of, 3, promise); tries > 3 {
			t.Errorf("seed %d: expected at most 3 tries, found %d", seed+1, tries)
		}
	}
}
