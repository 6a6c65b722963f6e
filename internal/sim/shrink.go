package sim

import (
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/sim/box"
	"github.com/stet-run/stet/internal/sim/plan"
)

// Shrink returns a smaller plan that breaks the same promise first: with fewer faults, acts, runs, schedules, nodes and
// operations. tries bounds how many worlds it executes.
func Shrink(p *box.Program, of plan.Plan, tries int) plan.Plan {
	return shrink(of, tries, func(of plan.Plan) string {
		r, err := Run(p, of, nil)
		if err != nil {
			return "none: the world could not be executed"
		}
		number, _, _ := strings.Cut(strings.Join(r.Violations[:min(len(r.Violations), 1)], ""), ":")
		return number
	})
}

// shrink is Shrink with what says which promise a plan breaks, "": none.
func shrink(of plan.Plan, tries int, promise func(plan.Plan) string) plan.Plan {
	first := promise(of)
	tries--
	breaks := func(of plan.Plan) bool {
		tries--
		return first != "" && promise(of) == first
	}
	for smaller := true; smaller && tries > 0; {
		smaller = false
		// less tries to leave parts of a list out: halves first, then single ones.
		less := func(n int, without func(plan.Plan, int, int) plan.Plan) {
			for size := n / 2; size > 0 || n == 1; size /= 2 {
				size = max(size, 1)
				for at := 0; at+size <= n && tries > 0; {
					if next := without(of, at, at+size); breaks(next) {
						of, n, smaller = next, n-size, true
					} else {
						at += size
					}
				}
				if size == 1 {
					return
				}
			}
		}
		less(len(of.Faults), func(of plan.Plan, i, j int) plan.Plan {
			of.Faults = slices.Delete(slices.Clone(of.Faults), i, j)
			return of
		})
		less(len(of.Acts), func(of plan.Plan, i, j int) plan.Plan {
			of.Acts = slices.Delete(slices.Clone(of.Acts), i, j)
			return of
		})
		less(len(of.Runs), func(of plan.Plan, i, j int) plan.Plan {
			of.Runs = slices.Delete(slices.Clone(of.Runs), i, j)
			return of
		})
		less(len(of.Schedules), func(of plan.Plan, i, j int) plan.Plan {
			of.Schedules = slices.Delete(slices.Clone(of.Schedules), i, j)
			of.Acts = slices.DeleteFunc(slices.Clone(of.Acts), func(a plan.Act) bool {
				return slices.Contains([]string{plan.PauseAll, plan.ResumeAll, plan.Trigger}, a.Kind) &&
					!slices.ContainsFunc(of.Schedules, func(s plan.Schedule) bool { return s.Name == a.Name })
			})
			return of
		})
		if n := len(of.Nodes); n > 1 && tries > 0 {
			next := of
			next.Nodes = next.Nodes[:n-1]
			next.Faults = slices.DeleteFunc(slices.Clone(of.Faults), func(f plan.Fault) bool { return f.Node == n-1 })
			if breaks(next) {
				of, smaller = next, true
			}
		}
		for i := range of.Runs {
			less(len(of.Runs[i].Program), func(of plan.Plan, j, k int) plan.Plan {
				of.Runs = slices.Clone(of.Runs)
				of.Runs[i].Program = slices.Delete(slices.Clone(of.Runs[i].Program), j, k)
				return of
			})
		}
	}
	return of
}
