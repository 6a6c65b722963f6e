package torture

import (
	"slices"
	"strings"
)

// executions are all executions of step bodies, as they were logged.
type executions struct {
	starts   map[operation][]placed // in the order of the log
	ends     map[body]int64         // place of the end
	stale    map[body]bool          // had been cancelled before they began
	runs     map[body]string        // of the execution; a fork has results of another run
	owners   map[string][]takeover  // by shard, in the order of the log
	takes    map[take][]placed      // their lines
	shards   map[string]string      // of runs
	woken    []placed               // lines behind sleeps
	lost     []placed               // lines of processes that have lost the store
	left     map[string]bool        // shards that a living process has lost among runs that kill theirs
	taken    map[string][]taking    // by run, in the order of the log
	recorded map[operation]stepResult
	pauses   []stay
}

// takeover is a line that says that a process has taken a shard.
type takeover struct {
	process string
	place   int64
	epoch   int64 // of the lease; 0: not known
}

// take is a shard that a process has taken, "" for any.
type take struct{ process, shard string }

// taking is a line that says that a part of a run's history is going to be taken back, or was.
type taking struct {
	place int64
	asked bool // it was logged before the request, which is carried out at some time after it, or never
}

// body names one execution of a body.
type body struct {
	process string
	no      int64
}

// newExecutions reads a log. shards are those of runs, where there are several.
func newExecutions(lines []placed, pauses []stay, shards map[string]string) *executions {
	x := &executions{
		owners: map[string][]takeover{}, shards: shards,
		starts: map[operation][]placed{}, ends: map[body]int64{}, stale: map[body]bool{}, left: map[string]bool{},
		runs: map[body]string{}, takes: map[take][]placed{},
		taken: map[string][]taking{}, recorded: map[operation]stepResult{}, pauses: pauses,
	}
	latest := int64(0)
	for i := range lines {
		l := &lines[i]
		latest = max(latest, l.At) // those before it in the log were written before it
		l.written = latest
	}
	for _, l := range lines {
		switch l.Kind {
		case lineOwn:
			for i, shard := range l.Shards {
				t := takeover{process: l.Process, place: l.place}
				if i < len(l.Epochs) {
					t.epoch = l.Epochs[i]
				}
				x.owners[shard] = append(x.owners[shard], t)
				x.takes[take{l.Process, shard}] = append(x.takes[take{l.Process, shard}], l)
			}
			x.takes[take{l.Process, ""}] = append(x.takes[take{l.Process, ""}], l)
		case lineStart:
			at := operation{l.Run, l.Loc}
			x.starts[at] = append(x.starts[at], l)
			x.runs[body{l.Process, l.No}] = l.Run
		case lineEnd:
			x.ends[body{l.Process, l.No}] = l.place
		case lineStale:
			x.stale[body{l.Process, l.No}] = true
		case lineTaken:
			x.taken[l.Run] = append(x.taken[l.Run], taking{place: l.place, asked: l.Key == takenAsked})
		case lineLost:
			x.lost = append(x.lost, l)
		case lineLeft:
			for _, shard := range l.Shards {
				x.left[shard] = x.left[shard] || strings.HasPrefix(l.Process, poisonFleet)
			}
		case lineWoke:
			x.woken = append(x.woken, l)
		}
	}
	return x
}

// ownerAt returns the process that had taken a run's shard over last at a place of the log. A process that was paused
// may say so when others have taken it over since: the epoch of its lease says which was the last.
func (x *executions) ownerAt(run string, place int64) string {
	var last takeover
	for _, l := range x.owners[x.shards[run]] {
		if l.place < place && l.epoch >= last.epoch {
			last = l
		}
	}
	return last.process
}

// tookBetween reports whether the process of two starts has taken the run's shard over between them; of a run that is
// gone, any shard. A start that was decided on before a pause may be logged behind the takeover that followed it: it is
// of what the process had before.
func (x *executions) tookBetween(former, start placed) bool {
	return slices.ContainsFunc(x.takes[take{start.Process, x.shards[start.Run]}], func(own placed) bool {
		switch {
		case own.place > start.place:
			return false
		case own.place > former.place:
			return true
		}
		return slices.ContainsFunc(x.pauses, func(s stay) bool {
			return s.Process == former.Process && s.From <= own.At && former.At <= s.To+resumeSlack
		})
	})
}

// resumeSlack is how long after a pause a process may still log the begin of a
// body that it had decided on before, in microseconds.
const resumeSlack = 1_000_000

// isStale reports whether a start belongs to what its process had decided on before its run went on, or went elsewhere.
func (x *executions) isStale(start placed) bool { return x.stale[body{start.Process, start.No}] }

// excused reports whether a start may have been decided on long before it was logged: before a pause of its process,
// or before its body was cancelled.
func (x *executions) excused(start placed) bool {
	return x.isStale(start) || slices.ContainsFunc(x.pauses, func(s stay) bool {
		return s.Process == start.Process && s.From <= start.written && start.At <= s.To+resumeSlack
	})
}

// checkRecorded checks the execution whose result stands in the store: it had the
// right to be recorded, and nothing was executed after it.
func (x *executions) checkRecorded(report *Report, at operation, result stepResult) {
	x.recorded[at] = result
	end, ok := x.ends[body{result.Process, result.No}]
	if !ok {
		report.violated(wrongResults, "run %s: the result of %s is of execution %d of %s, which was never logged",
			at.run, at.location, result.No, result.Process)
		return
	}
	if owner := x.ownerAt(x.runs[body{result.Process, result.No}], end); owner != result.Process {
		report.violated(staleCommits, "run %s: %s was recorded by %s, whose body ended when %s had taken over",
			at.run, at.location, result.Process, owner)
	}
	x.checkAfter(report, at, end, "the execution that is recorded had ended")
}

// checkAfter looks for starts behind a place at which the step was done.
func (x *executions) checkAfter(report *Report, at operation, place int64, why string) {
	for _, start := range x.starts[at] {
		if start.place <= place {
			continue
		}
		if x.excused(start) {
			report.count("starts that were delayed", 1)
			continue
		}
		report.violated(runAgain, "run %s: %s was started by %s (byte %d of the log) after %s (byte %d)",
			at.run, at.location, start.Process, start.place, why, place)
	}
}

// rounds numbers the starts of a step: those of one number are of one operation of the run. A part of the run's history
// that was taken back in between begins another. Where that was asked for and not yet answered the operation may have
// been executed just before it was taken back: what cannot be of one operation begins another round, once.
func (x *executions) rounds(run string, starts []placed) []int {
	numbers := make([]int, len(starts))
	first, changed := 0, false
	for i, start := range starts {
		if i == 0 {
			continue
		}
		numbers[i] = numbers[i-1]
		n := x.takenBack(run, start.place)
		switch {
		case n > x.takenBack(run, starts[i-1].place):
			first, changed, numbers[i] = i, false, numbers[i]+1
		case n > 0 && x.taken[run][n-1].asked && !changed && !x.excused(start) && (start.Key != starts[first].Key ||
			slices.ContainsFunc(starts[first:i], func(former placed) bool { return x.contradicts(former, start) != "" })):
			first, changed, numbers[i] = i, true, numbers[i]+1
		}
	}
	return numbers
}

// contradicts says what is broken if a step's start followed a former one of the same operation; "": nothing.
func (x *executions) contradicts(former, start placed) violation {
	switch {
	case former.Attempt > start.Attempt && !x.excused(start):
		return runAgain
	case former.Attempt == start.Attempt && former.Key == start.Key && former.Process == start.Process &&
		!x.tookBetween(former, start):
		return duplicated
	}
	return ""
}

// sameKey reports whether a start has the key of the former ones of its round. One that was delayed may be of an
// earlier round, and have the key of that.
func (x *executions) sameKey(formers []placed, start placed) bool {
	i := slices.IndexFunc(formers, func(former placed) bool { return !x.excused(former) })
	return i < 0 || formers[i].Key == start.Key || x.excused(start)
}

// checkStalled looks at a run that is stalled and was not to be. One that was executed alone when a process lost its
// leases, twice in a row, counts as one that ends processes: the store does not know that they live.
func (x *executions) checkStalled(report *Report, s *stalledRun) {
	if x.left[s.Shard] && strings.HasPrefix(s.Why, "poison:") {
		report.count("stalled because leases were lost", 1)
		return
	}
	report.violated(wrongStalls, "%s: %s", s.What, s.Why)
}

// checkStarts checks the log of effects by itself.
func (x *executions) checkStarts(report *Report) {
	keys := map[string]operation{}
	for at, starts := range x.starts {
		report.count("executions of steps", len(starts))
		starts = slices.DeleteFunc(slices.Clone(starts), x.isStale)
		rounds := x.rounds(at.run, starts)
		for i, start := range starts {
			first := slices.Index(rounds, rounds[i])
			if other, taken := keys[start.Key]; taken && other != at || !x.sameKey(starts[first:i], start) {
				report.violated(duplicated, "run %s: %s has the idempotency key %s, "+
					"which differs from an earlier one or is that of %+v", at.run, at.location, start.Key, other)
			}
			keys[start.Key] = at
			for _, former := range starts[first:i] {
				switch x.contradicts(former, start) {
				case runAgain:
					report.violated(runAgain, "run %s: attempt %d of %s was started by %s after attempt %d",
						at.run, start.Attempt, at.location, start.Process, former.Attempt)
				case duplicated:
					report.violated(duplicated, "run %s: attempt %d of %s was started twice by %s, "+
						"which had not lost the store in between", at.run, start.Attempt, at.location, start.Process)
				}
			}
		}
	}
	for _, l := range x.woken {
		report.count("timers", 1)
		if l.At < l.Due {
			report.violated(earlyTimers, "run %s: node %d was over %d µs before its time", l.Run, l.Node, l.Due-l.At)
		}
	}
	report.count("processes that have lost the store", len(x.lost))
	for of, places := range x.takes {
		if of.shard != "" {
			report.count("takeovers", len(places))
		}
	}
}
