package torture

import (
	"context"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestEmitted has the items of a step in two attempts, three of each, as they may stand, and as they may not.
func TestEmitted(t *testing.T) {
	item := func(attempt, no int) stet.StreamItem[said] {
		return stet.StreamItem[said]{Location: readStep, Attempt: attempt, Value: said{no}}
	}
	again := func(attempt int) stet.StreamItem[said] {
		return stet.StreamItem[said]{Location: readStep, Attempt: attempt, Again: true}
	}
	for name, c := range map[string]struct {
		items []stet.StreamItem[said]
		right bool
	}{
		"the first attempt fails early": {[]stet.StreamItem[said]{item(2, 0), item(2, 1), item(2, 2)}, true},
		"and late": {
			[]stet.StreamItem[said]{item(1, 0), item(1, 1), again(2), item(2, 0), item(2, 1), item(2, 2)}, true},
		"an attempt is lost with its process": {[]stet.StreamItem[said]{
			item(1, 0), again(1), item(1, 0), item(1, 1), again(2), item(2, 0), item(2, 1), item(2, 2)}, true},
		"an item is missing":     {[]stet.StreamItem[said]{item(2, 0), item(2, 2)}, false},
		"the last one is":        {[]stet.StreamItem[said]{item(2, 0), item(2, 1)}, false},
		"one is there twice":     {[]stet.StreamItem[said]{item(2, 0), item(2, 1), item(2, 1), item(2, 2)}, false},
		"the last attempt is":    {[]stet.StreamItem[said]{item(1, 0), item(1, 1), item(1, 2)}, false},
		"the mark is":            {[]stet.StreamItem[said]{item(1, 0), item(2, 0), item(2, 1), item(2, 2)}, false},
		"a mark behind nothing":  {[]stet.StreamItem[said]{again(2), item(2, 0), item(2, 1), item(2, 2)}, false},
		"of an earlier attempt":  {[]stet.StreamItem[said]{item(2, 0), item(2, 1), item(1, 2)}, false},
		"of one that never came": {[]stet.StreamItem[said]{item(3, 0), item(3, 1), item(3, 2)}, false},
	} {
		for i := range c.items {
			c.items[i].Position = int64(i) + 1
		}
		if err := emitted(c.items, 3, 2); (err == nil) != c.right {
			t.Errorf("%s: found %v", name, err)
		}
	}
}

// found judges, and returns how many violations of a kind there are.
func found(v violation, judge func(*Report)) int {
	report := newReport("", "", 0, "")
	judge(report)
	return report.Violations[v]
}

// TestUndone has bookings and their compensations in the order in which they were recorded.
func TestUndone(t *testing.T) {
	for name, c := range map[string]struct {
		order    []string
		executed []string // compensations in the log
		left     int
		right    bool
	}{
		"a saga fails, the next one does not": {
			[]string{"a", "b", "b/undo", "a/undo", "c"}, []string{"b/undo", "a/undo"}, 1, true},
		"oldest first":        {[]string{"a", "b", "a/undo", "b/undo"}, []string{"a/undo", "b/undo"}, 0, false},
		"one is forgotten":    {[]string{"a", "b", "b/undo"}, []string{"b/undo"}, 0, false},
		"one too many":        {[]string{"a", "b", "b/undo", "a/undo"}, []string{"b/undo", "a/undo"}, 1, false},
		"twice":               {[]string{"a", "a/undo", "a/undo"}, []string{"a/undo"}, 0, false},
		"never executed":      {[]string{"a", "a/undo"}, nil, 0, false},
		"executed, and kept":  {[]string{"a"}, []string{"a/undo"}, 1, false},
		"nothing was to undo": {[]string{"a", "b"}, nil, 2, true},
	} {
		var lines []placed
		for i, loc := range c.executed {
			lines = append(lines, placed{line: line{Kind: lineStart, Run: "r", Loc: loc, Process: "p"}, place: int64(i)})
		}
		n := found(wrongUndos, func(report *Report) {
			newExecutions(lines, nil, nil).checkUndone(report, &undone{Run: "r", Order: c.order, Left: c.left})
		})
		if (n == 0) != c.right {
			t.Errorf("%s: found %d violations", name, n)
		}
	}
}

// TestBuildsTakeTurns: a later build may take up what an earlier one has worked on, and not the other way round.
func TestBuildsTakeTurns(t *testing.T) {
	of := func(builds ...string) (steps []worked) {
		for i, b := range builds {
			steps = append(steps, worked{int64(i) + 1, "p" + buildMark + b})
		}
		return steps
	}
	for _, c := range []struct {
		steps []worked
		right bool
	}{
		{of(firstBuild, firstBuild, nextBuild, lastBuild), true},
		{of(nextBuild, firstBuild), false},
		{of(firstBuild, lastBuild, nextBuild), false},
		{[]worked{{2, "q" + buildMark + nextBuild}, {1, "p" + buildMark + firstBuild}}, true}, // by number
	} {
		if n := found(wrongBuilds, func(r *Report) { checkBuilds(r, "r", c.steps) }); (n == 0) != c.right {
			t.Errorf("%v: found %d violations", c.steps, n)
		}
	}
}

// TestRates has bodies of a key within three times of its rate, of which four are allowed at most.
func TestRates(t *testing.T) {
	s := spending[tokensQueue]
	for name, c := range map[string]struct {
		bodies int // each takes the whole rate
		right  bool
	}{"all that is allowed": {4, true}, "more": {6, false}} {
		var lines []placed
		var asked []askedFor
		for i := range c.bodies {
			run := string(rune('a' + i))
			at := 1000 + s.Per.Microseconds()*5/2*int64(i)/int64(c.bodies-1)
			start := line{Kind: lineStart, Run: run, Loc: askStep, Process: "p", At: at}
			lines = append(lines, placed{line: start, place: int64(2 * i)},
				placed{line: start, place: int64(2*i) + 1}) // a second execution is free
			asked = append(asked, askedFor{run, "x", s.RatePerKey})
		}
		n := found(limitExceeded, func(r *Report) { newExecutions(lines, nil, nil).checkRates(r, 1000, asked) })
		if (n == 0) != c.right {
			t.Errorf("%s: found %d violations", name, n)
		}
	}
}

// suspectStore is a store whose live runs are these.
type suspectStore struct {
	store.Store
	runs []store.Run
}

func (s suspectStore) List(context.Context, store.Filter) (store.Page, error) {
	return store.Page{Runs: s.runs}, nil
}

// TestChildrenAreSuspectsToo: the next poison run waits until none is, as its acts would be held against them. A child
// was stalled once, because only the runs that the harness attends to were looked at.
func TestChildrenAreSuspectsToo(t *testing.T) {
	child := store.Run{ID: "child", Workflow: childRef.Name(), Status: store.Suspended, Suspect: 1}
	for suspects, want := range map[int]bool{0: false, 1: true} {
		child.Suspect = suspects
		h := &harness{runs: map[string]*run{"poison": {ended: true}}, db: suspectStore{runs: []store.Run{child}}}
		if got, err := h.suspected(t.Context(), "poison"); got != want || err != nil {
			t.Errorf("with %d suspicions: expected %t, found %t, %v", suspects, want, got, err)
		}
	}
}

// TestASlowMachineBreaksNothing: what goes on, and has not ended in the time that the harness has, says nothing.
func TestASlowMachineBreaksNothing(t *testing.T) {
	report := newReport("", "", 0, "")
	h := &harness{report: report}
	h.unsettled("the runs have not ended within %s", time.Minute)
	report.violated(stuck, "run r is running")
	report.violated(poisonAlive, "run p is running")
	if report.decide(); report.Broken() || report.OK {
		t.Errorf("expected neither broken nor right, found %+v", report)
	}
	if report.violated(wrongResults, "run r"); !report.Broken() {
		t.Error("a wrong result is one however slow the machine is")
	}
}
