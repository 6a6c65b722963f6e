package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/sim/plan"
)

// TestARunThatIsTakenUpMayLackItsChild: a child that was cancelled at the end of its parent fails the parent
// when an operator takes that up (seed 3516). Of a run that nobody has ended, or taken up, that is said.
func TestARunThatIsTakenUpMayLackItsChild(t *testing.T) {
	const bereft = `run "r" failed: run "c" is cancelled: cancelled: its parent has ended`
	for _, c := range []struct {
		err  string
		acts []string
		said bool
	}{
		{bereft, []string{plan.Terminate, plan.Edit}, false},
		{bereft, []string{plan.Cancel, plan.Rewind}, false},
		{bereft, []string{plan.Edit}, true},
		{bereft, []string{plan.Terminate}, true},
		{`run "r" failed: another cause`, []string{plan.Terminate, plan.Edit}, true},
	} {
		p := plan.Plan{Runs: []plan.Run{{ID: "r", Program: plan.Program{{Kind: plan.Call, Name: "ca1"}}}}}
		for i, kind := range c.acts {
			p.Acts = append(p.Acts, plan.Act{No: i, Kind: kind, Run: "r"})
		}
		o := newOracle(p, func() time.Duration { return 0 })
		for i := range c.acts {
			o.acts[i] = &plan.Note{Kind: plan.Done}
		}
		o.ended(p.Runs[0], &plan.Dump{ID: "r", Status: "failed", Error: c.err})
		said := slices.ContainsFunc(o.violations, func(v string) bool { return strings.Contains(v, "has failed") })
		if said != c.said {
			t.Errorf("%q after %q: %q", c.err, c.acts, o.violations)
		}
	}
}
