package torture

import "testing"

// TestStalledRuns: one that counts as poison may be so because leases were lost, where runs kill their processes.
func TestStalledRuns(t *testing.T) {
	const poison = "poison: the process ended 2 times in a row"
	left := func(process, shard string) []placed {
		return []placed{{line: line{Kind: lineLeft, Process: process, Shards: []string{shard}}}}
	}
	for name, c := range map[string]struct {
		lines []placed
		why   string
		said  bool
	}{
		"nobody has lost leases":             {nil, poison, true},
		"leases were lost":                   {left("poison0.1@torture-3", "g/1"), poison, false},
		"those of another shard":             {left("poison0.1@torture-3", "g/2"), poison, true},
		"they were lost before":              {left("storm0.1@torture-1", "g/1"), poison, true},
		"leases were lost, of another cause": {left("poison0.1@torture-3", "g/1"), "mismatch: another step", true},
	} {
		report := newReport("", "", 0, "")
		newExecutions(c.lines, nil, nil).checkStalled(report, &stalledRun{"run r", "g/1", c.why})
		if report.Broken() != c.said {
			t.Errorf("%s: %v", name, report.Examples)
		}
	}
}

// TestExecutions checks the findings in logs, each with the store's entry of one step.
func TestExecutions(t *testing.T) {
	own := func(process string) line { return line{Kind: lineOwn, Process: process, Shards: []string{"g/1"}} }
	elsewhere := func(process string) line { return line{Kind: lineOwn, Process: process, Shards: []string{"g/2"}} }
	start := func(process string, no int64, attempt int) line {
		return line{Kind: lineStart, Process: process, Run: "r", Loc: "s", Attempt: attempt, No: no, Key: "key", At: 100}
	}
	end := func(process string, no int64) line { return line{Kind: lineEnd, Process: process, No: no} }
	again := func(process string, no int64, key string) line {
		l := start(process, no, 1)
		l.Key = key
		return l
	}
	asked := line{Kind: lineTaken, Run: "r", Key: takenAsked}
	taken := line{Kind: lineTaken, Run: "r"}
	other := line{Kind: lineStart, Process: "p", Run: "r", Loc: "other", Attempt: 1, No: 9, Key: "key"}
	late := start("p", 2, 1)
	late.At = 900
	back := own("p") // after the pause
	back.At = 860
	lateFirst, lateSecond := start("p", 1, 1), start("p", 2, 1)
	lateFirst.At, lateSecond.At = 870, 880
	before := own("p")
	before.At = 700 // before it

	stale := func(process string, no int64) line {
		return line{Kind: lineStale, Process: process, No: no, Run: "r", Loc: "s", Attempt: 1}
	}

	for name, c := range map[string]struct {
		lines  []line
		result stepResult
		want   violation // "": none
	}{
		"of before it was taken back, behind a pause": {
			[]line{own("p"), own("q"), asked, taken, again("q", 2, "new"), end("q", 2), lateFirst},
			stepResult{Process: "q", No: 2}, ""},
		"of before it was taken back, behind a pause, and then again": {
			[]line{own("p"), own("q"), asked, taken, lateFirst, again("q", 2, "new"), end("q", 2)},
			stepResult{Process: "q", No: 2}, ""},
		"of before it was taken back, without a pause": {
			[]line{own("p"), own("q"), asked, taken, again("q", 2, "new"), start("p", 1, 1), end("q", 2)},
			stepResult{Process: "q", No: 2}, duplicated},
		"dated before a pause and written behind it": {
			[]line{own("p"), own("q"), start("q", 1, 1), end("q", 1), back, start("p", 2, 1)},
			stepResult{Process: "q", No: 1}, ""},
		"begun late, when its process had lost the store and taken it again": {
			[]line{own("p"), own("p"), start("p", 1, 1), stale("p", 1), start("p", 2, 1), end("p", 2)},
			stepResult{Process: "p", No: 2}, ""},
		"begun late, beside what its process has begun since": {
			[]line{own("p"), own("p"), start("p", 2, 1), start("p", 1, 1), stale("p", 1), end("p", 2)},
			stepResult{Process: "p", No: 2}, ""},
		"begun late, after the run was taken back": {
			[]line{own("p"), asked, taken, again("p", 2, "new"), end("p", 2), start("p", 1, 1), stale("p", 1), end("p", 1)},
			stepResult{Process: "p", No: 2}, ""},
		"begun late, and twice by one owner all the same": {
			[]line{own("p"), start("p", 1, 1), stale("p", 1), start("p", 2, 1), start("p", 3, 1), end("p", 3)},
			stepResult{Process: "p", No: 3}, duplicated},
		"cancelled after it had begun": {
			[]line{own("p"), start("p", 1, 1), stale("p", 9), start("p", 2, 1), end("p", 2)},
			stepResult{Process: "p", No: 2}, duplicated},
		"once": {[]line{own("p"), start("p", 1, 1), end("p", 1)}, stepResult{Process: "p", No: 1}, ""},
		"again after its process was replaced": {
			[]line{own("p"), start("p", 1, 1), own("q"), start("q", 1, 1), end("q", 1)}, stepResult{Process: "q", No: 1}, ""},
		"again by a process that had lost the store": {
			[]line{own("p"), start("p", 1, 1), own("q"), own("p"), start("p", 2, 1), end("p", 2)},
			stepResult{Process: "p", No: 2}, ""},
		"beside the owner of another shard": {
			[]line{own("p"), start("p", 1, 1), elsewhere("q"), end("p", 1)}, stepResult{Process: "p", No: 1}, ""},
		"twice by one owner, which has taken another shard meanwhile": {
			[]line{own("p"), start("p", 1, 1), elsewhere("p"), start("p", 2, 1), end("p", 2)}, stepResult{Process: "p", No: 2},
			duplicated},
		"a second attempt": {
			[]line{own("p"), start("p", 1, 1), end("p", 1), start("p", 2, 2), end("p", 2)}, stepResult{Process: "p", No: 2}, ""},
		"late, behind a pause": {
			[]line{own("q"), start("q", 1, 1), end("q", 1), late}, stepResult{Process: "q", No: 1}, ""},
		"late, behind a pause and the takeover that followed it": {
			[]line{own("p"), own("q"), back, lateFirst, lateSecond, end("p", 2)}, stepResult{Process: "p", No: 2}, ""},
		"again after it was taken back": {
			[]line{own("p"), start("p", 1, 1), end("p", 1), asked, again("p", 2, "new"), end("p", 2), taken},
			stepResult{Process: "p", No: 2}, ""},
		"taken back by a repeated request after it was executed again": {
			[]line{own("p"), start("p", 1, 1), end("p", 1), asked, asked, again("p", 2, "new"), end("p", 2),
				again("p", 3, "newer"), end("p", 3), taken}, stepResult{Process: "p", No: 3}, ""},
		"tried again by a repeated request after it was tried again": {
			[]line{own("p"), start("p", 1, 1), end("p", 1), asked, asked, start("p", 2, 1), end("p", 2), start("p", 3, 2),
				end("p", 3), start("p", 4, 1), end("p", 4), taken, start("p", 5, 2), end("p", 5)},
			stepResult{Process: "p", No: 5}, ""},

		"tried again more often than was asked": {
			[]line{own("p"), start("p", 1, 1), end("p", 1), asked, start("p", 2, 1), start("p", 3, 1), start("p", 4, 1),
				end("p", 4), taken}, stepResult{Process: "p", No: 4}, duplicated},
		"twice after it was taken back": {
			[]line{own("p"), start("p", 1, 1), end("p", 1), asked, taken, again("p", 2, "new"), again("p", 3, "newer"),
				end("p", 3)}, stepResult{Process: "p", No: 3}, duplicated},
		"taken back more often than was asked": {
			[]line{own("p"), start("p", 1, 1), end("p", 1), asked, again("p", 2, "new"), again("p", 3, "newer"),
				again("p", 4, "newest"), end("p", 4), taken}, stepResult{Process: "p", No: 4}, duplicated},
		"twice by one owner": {
			[]line{own("p"), start("p", 1, 1), start("p", 2, 1), end("p", 2)}, stepResult{Process: "p", No: 2}, duplicated},
		"twice by one owner, which was paused and had taken nothing since": {
			[]line{before, lateFirst, lateSecond, end("p", 2)}, stepResult{Process: "p", No: 2}, duplicated},
		"two steps with one key": {
			[]line{own("p"), start("p", 1, 1), end("p", 1), other}, stepResult{Process: "p", No: 1}, duplicated},
		"after its end": {
			[]line{own("p"), start("p", 1, 1), end("p", 1), own("q"), start("q", 1, 1)}, stepResult{Process: "p", No: 1},
			runAgain},
		"the first attempt after the second": {
			[]line{own("p"), start("p", 1, 2), own("q"), start("q", 1, 1), end("q", 1)}, stepResult{Process: "q", No: 1},
			runAgain},
		"recorded behind a takeover": {
			[]line{own("p"), start("p", 1, 1), own("q"), end("p", 1)}, stepResult{Process: "p", No: 1}, staleCommits},
		"recorded and never executed": {
			[]line{own("p"), start("p", 1, 1), end("p", 1)}, stepResult{Process: "p", No: 7}, wrongResults},
	} {
		lines := make([]placed, len(c.lines))
		for i, l := range c.lines {
			lines[i] = placed{line: l, place: int64(i) * 10}
		}
		x := newExecutions(lines, []stay{{"p", 800, 850}}, map[string]string{"r": "g/1"})
		report := newReport("", "", 0, "")
		x.checkRecorded(report, operation{"r", "s"}, c.result)
		x.checkStarts(report)
		for _, v := range violations {
			if found := report.Violations[v] > 0; found != (v == c.want) {
				t.Errorf("%s: expected %q, found %q %d times: %q", name, c.want, v, report.Violations[v], report.Examples[v])
			}
		}
	}
}

// TestExpectedFollowsTheChoices checks that results that cannot be are not
// expected.
func TestExpectedFollowsTheChoices(t *testing.T) {
	races, promises := 0, 0
	for seed := range uint64(200) {
		p := newProgram(seed, "torture-x")
		none := &choices{}
		for _, n := range p.nodes {
			switch n.kind {
			case kindAny, kindRace:
				races++
			case kindPromise:
				promises++
			default:
				continue
			}
			if _, err := p.expectedOf(n, none); err == nil {
				t.Errorf("seed %d: %s is expected without a choice", seed, n.name())
			}
		}
	}
	if races == 0 || promises == 0 {
		t.Errorf("the trees have %d races and %d promises", races, promises)
	}
	p := newProgram(1, "torture-x")
	n := &node{kind: kindPromise}
	a, errA := p.expectedOf(n, &choices{Promised: map[int]uint64{0: p.offer(n, 0)}})
	b, errB := p.expectedOf(n, &choices{Promised: map[int]uint64{0: p.offer(n, 1)}})
	if errA != nil || errB != nil || a == b {
		t.Errorf("expected two values, found %d (%v) and %d (%v)", a, errA, b, errB)
	}
}

// TestJournalSurvivesACutLine writes a line that was cut by a kill between two
// others.
func TestJournalSurvivesACutLine(t *testing.T) {
	path := t.TempDir() + "/log"
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, write := range []func() error{
		func() error { return j.append(line{Kind: lineOwn, Process: "a", Shards: []string{"g/1"}}) },
		func() error { _, err := j.file.WriteString("\n{\"k\":\"sta"); return err },
		func() error { return j.append(line{Kind: lineOwn, Process: "b", Shards: []string{"g/1"}}) },
		j.close,
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := readJournal(path)
	if err != nil || len(lines) != 2 || lines[0].Process != "a" || lines[1].Process != "b" ||
		lines[0].place >= lines[1].place {
		t.Fatalf("expected the lines of a and b, found %+v, %v", lines, err)
	}
}
