package judge

import (
	"testing"
	"time"

	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/store"
)

// TestAnOwnerMayComeLate: a process whose first request has had no answer begins once more after five seconds (seed
// 1386); then a lease must end, another one and a poll pass, and a second.
func TestAnOwnerMayComeLate(t *testing.T) {
	now := time.Duration(0)
	o := newOracle(plan.Plan{Slots: 1, Nodes: []plan.Node{{LeaseTTL: time.Second}}}, func() time.Duration { return now })
	m := newMonitor(o, func(string, ...any) {}, func(int) string { return "" })
	m.lates.held(store.Shard{Group: store.DefaultGroup}, 1, 0)
	for _, c := range []struct {
		at   time.Duration
		said bool
	}{{0, false}, {4 * time.Second, false}, {7 * time.Second, false}, {9 * time.Second, true}} {
		now = c.at
		m.lates.judge(c.at == 0)
		if said := len(o.violations) > 0; said != c.said {
			t.Errorf("after %s: %q", c.at, o.violations)
		}
	}
}
