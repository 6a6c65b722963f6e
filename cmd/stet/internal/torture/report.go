package torture

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
)

// violation is something that must never happen.
type violation string

const (
	acknowledgedLost violation = "acknowledged lost"
	runAgain         violation = "completed step run again"
	duplicated       violation = "duplicated"
	stuck            violation = "stuck"
	earlyTimers      violation = "early timers"
	staleCommits     violation = "stale commits accepted"
	wrongResults     violation = "wrong results"
	brokenStreams    violation = "broken streams"
	wrongStalls      violation = "stalled without a cause"
	poisonAlive      violation = "poison not stalled"
	limitExceeded    violation = "limits exceeded"
	wrongInstants    violation = "instants lost or doubled"
	lostEvents       violation = "events lost or doubled"
	wrongUndos       violation = "undone wrongly"
	wrongUnits       violation = "units counted wrongly"
	wrongBuilds      violation = "executed by an earlier build"
	otherAnswers     violation = "updates answered differently"
	refusedApplied   violation = "refused updates applied"
	unexpectedErrors violation = "unexpected errors"
)

var violations = []violation{
	acknowledgedLost, runAgain, duplicated, stuck, earlyTimers, staleCommits, wrongResults, brokenStreams, wrongStalls,
	poisonAlive, limitExceeded, wrongInstants, lostEvents, wrongUndos, wrongUnits,
	wrongBuilds, otherAnswers, refusedApplied, unexpectedErrors,
}

// maxExamples bounds the examples of one violation.
const maxExamples = 5

// Report has the acts of a torture and its findings.
type Report struct {
	DB   string `json:"db"`
	Kind string `json:"kind"`
	Seed uint64 `json:"seed"`
	// Counts has the number of each act, by name.
	Counts map[string]int64 `json:"counts"`
	// Violations has the number of each violation, and Examples describes the first ones.
	Violations map[violation]int      `json:"violations"`
	Examples   map[violation][]string `json:"examples,omitempty"`
	// Troubles are acts of the torture itself that could not be carried out, such as an outage: they say nothing of the
	// store, and without violations nothing is known.
	Troubles []string `json:"troubles,omitempty"`
	// Logs is the folder of the logs, if they are kept.
	Logs string `json:"logs,omitempty"`
	OK   bool   `json:"ok"` // there are no violations and no troubles

	mu       sync.Mutex // guards what is below, and the maps, while the harness runs
	forgiven []violation
}

func newReport(db, kind string, seed uint64, logs string) *Report {
	r := &Report{DB: db, Kind: kind, Seed: seed, Logs: logs, Counts: map[string]int64{}, Violations: map[violation]int{},
		Examples: map[violation][]string{}}
	for _, v := range violations {
		r.Violations[v] = 0
	}
	return r
}

// count adds to a count.
func (r *Report) count(name string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Counts[name] += int64(n)
}

// violated notes a violation.
func (r *Report) violated(v violation, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.forgiven, v) {
		return
	}
	r.Violations[v]++
	if len(r.Examples[v]) < maxExamples {
		r.Examples[v] = append(r.Examples[v], fmt.Sprintf(format, args...))
	}
}

// troubled notes an act that could not be carried out.
func (r *Report) troubled(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Troubles = append(r.Troubles, fmt.Sprintf(format, args...))
}

// forgive has some violations not be noted from now on: they would say nothing.
func (r *Report) forgive(some ...violation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgiven = append(r.forgiven, some...)
}

// Broken reports whether there are violations.
func (r *Report) Broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.Violations {
		if n > 0 {
			return true
		}
	}
	return false
}

// decide sets OK.
func (r *Report) decide() { r.OK = !r.Broken() && len(r.Troubles) == 0 }

// WriteText writes the report for people.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s (%s), seed %d\n\nDONE\tTIMES\n", r.DB, r.Kind, r.Seed)
	names := make([]string, 0, len(r.Counts))
	for name := range r.Counts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "%s\t%d\n", name, r.Counts[name])
	}
	fmt.Fprintln(w, "\nVIOLATION\tTIMES")
	for _, v := range violations {
		fmt.Fprintf(w, "%s\t%d\n", v, r.Violations[v])
	}
	for _, v := range violations {
		for _, example := range r.Examples[v] {
			fmt.Fprintf(w, "\n%s: %s", v, example)
		}
	}
	for _, trouble := range r.Troubles {
		fmt.Fprintf(w, "\nnot carried out: %s", trouble)
	}
	verdict := "nothing that was promised is broken"
	switch {
	case r.Broken():
		verdict = "BROKEN; the logs are in " + r.Logs
	case !r.OK:
		verdict = "NOT CARRIED OUT to its end, so nothing is said; the logs are in " + r.Logs
	}
	fmt.Fprintf(w, "\n%s\n", verdict)
	return w.Flush()
}
