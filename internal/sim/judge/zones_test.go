package judge

import (
	"testing"
	"time"

	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/schedule"
)

// TestInstantsOfZones: what the oracle expects of schedules whose clocks are changed is what package
// schedule computes, hours before and after each change.
func TestInstantsOfZones(t *testing.T) {
	seen := 0
	for seed := range uint64(3_000) {
		p := plan.Generate(seed + 1)
		for _, of := range p.Schedules {
			if of.Cron == "" {
				continue
			}
			seen++
			spec, err := schedule.Spec{Cron: of.Cron, Zone: of.Zone}.Compile()
			if err != nil {
				t.Fatal(err)
			}
			s := &schedules{oracle: &oracle{plan: p}}
			for _, from := range []time.Duration{-time.Hour, p.Length/2 - 30*time.Second, p.Length / 2, 50 * time.Minute} {
				at := p.Begin.Add(from)
				for range 30 {
					next := spec.Next(at)
					if got := s.next(of, at.UnixMicro()); got != next.UnixMicro() && (got != farAway || next.Sub(at) < Limit) {
						t.Fatalf("seed %d, %s %s after %s: expected %s, found %s",
							seed+1, of.Cron, of.Zone, at, next, time.UnixMicro(got).UTC())
					}
					at = next
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("expected that some of 3,000 worlds have such a schedule, found %d", seen)
	}
}
