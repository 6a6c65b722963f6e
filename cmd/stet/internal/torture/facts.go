package torture

import (
	"encoding/json"
	"os"
	"slices"
)

// facts are what the log of effects is judged by: what the harness has done, and what the store holds in the end. They
// are written beside the logs, so that logs that were kept can be judged again.
type facts struct {
	Pauses   []stay            `json:"pauses,omitempty"`
	Shards   map[string]string `json:"shards,omitempty"`  // of runs, by ID
	Limited  []string          `json:"limited,omitempty"` // runs on the queues that nobody has asked to cancel
	Recorded []recordedStep    `json:"recorded,omitempty"`
	Undone   []undone          `json:"undone,omitempty"`  // of trips that have ended
	Stalled  []stalledRun      `json:"stalled,omitempty"` // and were not to be
	Asked    []askedFor        `json:"asked,omitempty"`
	Made     int64             `json:"made,omitempty"` // when the queues were made, by this machine's clock
}

// stalledRun is a run that is stalled in the end.
type stalledRun struct {
	What  string `json:"what"`
	Shard string `json:"shard"`
	Why   string `json:"why"`
}

// recordedStep is a step that is done in the store, with its result.
type recordedStep struct {
	Run    string     `json:"run"`
	Loc    string     `json:"loc"`
	Result stepResult `json:"result"`
}

// judge checks the log of effects, and returns what it was read into.
func (f *facts) judge(report *Report, lines []placed) *executions {
	x := newExecutions(lines, f.Pauses, f.Shards)
	for _, step := range f.Recorded {
		x.checkRecorded(report, operation{step.Run, step.Loc}, step.Result)
	}
	for i := range f.Stalled {
		x.checkStalled(report, &f.Stalled[i])
	}
	x.checkStarts(report)
	x.checkBodies(report, lines, f.Limited)
	for i := range f.Undone {
		x.checkUndone(report, &f.Undone[i])
	}
	x.checkRates(report, f.Made, f.Asked)
	return x
}

// write writes the facts to a file.
func (f *facts) write(path string) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// underWay are the bodies of one attempt of a step of which any may be the one that is recorded.
type underWay []body

// checkBodies goes through the log of effects and counts the attempts of limited runs that are under way: from the
// begin of the last execution to its end. One whose process was killed is under way until it was executed again,
// because its run has its permit until then. So under kills alone no more bodies execute than are counted.
//
// Two are not counted. A run that is cancelled gives its permit back though its body may take its time. A body that a
// pause has delayed may begin when its run is elsewhere; but if it does not, it is the execution again of one whose
// process was killed. So its end ends that one too.
func (x *executions) checkBodies(report *Report, lines []placed, limited []string) {
	counted := map[string]bool{}
	for _, id := range limited {
		counted[id] = true
	}
	open := map[operation]underWay{}
	most := map[string]int{}
	count := func(why placed) {
		under := map[string]int{}
		for at := range open {
			under[slotsQueue]++
			if at.location == callStep {
				under[callsQueue]++
			}
		}
		for name, n := range under {
			most[name] = max(most[name], n)
			if most := limits[name].Concurrency; n > most {
				report.violated(limitExceeded, "queue %s: %d bodies are under way, of %d, "+
					"when %s begins %s in run %s (byte %d of the log)", name, n, most, why.Process, why.Loc, why.Run, why.place)
			}
		}
	}
	for _, l := range lines {
		if !counted[l.Run] {
			continue
		}
		at, b := operation{l.Run, l.Loc}, body{l.Process, l.No}
		switch {
		case l.Kind == lineStart && x.excused(l):
			if open[at] != nil {
				open[at] = append(open[at], b)
			}
		case l.Kind == lineStart:
			open[at] = underWay{b}
			count(l)
		case l.Kind == lineEnd && slices.Contains(open[at], b):
			delete(open, at)
		}
	}
	for name, n := range most {
		report.count("bodies at once of "+name, n)
	}
}
