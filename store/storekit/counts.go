package storekit

import (
	"cmp"
	"slices"

	"github.com/stet-run/stet/store"
)

// Counts are numbers of runs by workflow and status.
type Counts map[Counted]int64

// Counted is what runs are counted by.
type Counted struct {
	Workflow string
	Status   store.Status
}

// Tallies returns the counts in the order of Count's answer, and of each status no more
// than a filter's Most asks for, see store.Filter.
func (c Counts) Tallies(most int) []store.Tally {
	var tallies []store.Tally
	for k, n := range c {
		tallies = append(tallies, store.Tally{Workflow: k.Workflow, Status: k.Status, Runs: n})
	}
	slices.SortFunc(tallies, func(a, b store.Tally) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Status, b.Status))
	})
	if most == 0 {
		return tallies
	}
	left := map[store.Status]int64{}
	for _, status := range store.AllStatuses() {
		left[status] = int64(most) + 1
	}
	for i := range tallies {
		t := &tallies[i]
		t.Runs = min(t.Runs, left[t.Status])
		left[t.Status] -= t.Runs
	}
	return slices.DeleteFunc(tallies, func(t store.Tally) bool { return t.Runs == 0 })
}
