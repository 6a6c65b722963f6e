package torture

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stet-run/stet"
)

// The builds of the workers. In the middle of the strikes a deploy begins: processes that are started from then on are
// of the next build. Runs that it has worked on are for it, or a later one.
const (
	firstBuild = "torture-1"
	nextBuild  = "torture-2"
	lastBuild  = "torture-3" // of those that nobody strikes at, which must take up all runs
)

// buildMark stands between a process's name and its build.
const buildMark = "@"

// buildOf returns the build of a process by its name.
func buildOf(process string) string {
	_, build, _ := strings.Cut(process, buildMark)
	return build
}

// shared reports whether several processes work on the store at a time. On another one builds do not come first: the
// one process takes up all runs, whatever its build.
func (a *audit) shared() bool { return a.report.Kind != "sqlite" }

// worked is a step that a process has recorded, in the order of a run's completions.
type worked struct {
	number  int64
	process string
}

// checkBuilds checks that a run that a build has worked on was not taken up by an earlier one.
func checkBuilds(report *Report, run string, steps []worked) {
	steps = slices.Clone(steps)
	slices.SortFunc(steps, func(a, b worked) int { return cmp.Compare(a.number, b.number) })
	last := worked{}
	for _, s := range steps {
		switch build, former := buildOf(s.process), buildOf(last.process); {
		case build < former:
			report.violated(wrongBuilds, "run %s: %s has recorded completion %d, after %s has recorded completion %d",
				run, s.process, s.number, last.process, last.number)
			return
		case build > former && former != "":
			report.count("runs taken up by a later build", 1)
		}
		last = s
	}
}

// workOf returns the steps of a run that are done, with the processes that have recorded them.
func workOf(entries []stet.HistoryEntry) (steps []worked) {
	for i := range entries {
		if result, ok, err := resultOf(&entries[i]); ok && err == nil && result.Process != "" {
			steps = append(steps, worked{entries[i].Number, result.Process})
		}
	}
	return steps
}
