// Package suspects decides when runs go on that may have killed their process.
//
// A run that was claimed when its owner ended uncleanly is a suspect. One that was found so
// once goes on at once: most ends have no cause in a run. From the second time without a
// commit in between the suspects are searched by halves, so that log2(n) ends single one
// out of n:
//
//  1. half of those that were found most often are tried: they go on, the others wait
//  2. the other half of these is tried
//  3. then all others
//
// That a run is tried is durable before it goes on, and so is the end of its trial before
// the next ones go on. So an end of the process makes only those more suspect that were on
// trial, and the search continues among them. A trial ends when all have committed, or with
// its time.
//
// A single one that was found most often is tried alone, and an end meanwhile is a strike.
// That it is the cause must not be believed for a process that is killed again and again by
// something else. So all suspects wait for a while before it: an end within that while
// clears its strikes. The while grows with each strike, so that no process that is killed
// at regular intervals gives a run three strikes.
//
// Runs that are no suspects, or were found once, go on in any case.
package suspects

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// Candidate is a run in memory that does not go on yet. Its methods are called without a
// lock of the Line.
type Candidate interface {
	Shard() *ownership.Shard
	// GoOn lets the run go on with what was loaded of it.
	GoOn(*store.Snapshot)
	// TimeIsUp notifies the run that its trial is over. It reports false if the run has left
	// memory. Otherwise the run calls Ended when that is durable.
	TimeIsUp() bool
}

// Owner executes runs.
type Owner interface {
	// Draining reports whether nothing new is to begin.
	Draining() bool
	// Try makes durable that the run is on trial, alone or with others, and then calls
	// begin, unless its shard is lost.
	Try(c Candidate, run *store.Run, alone bool, begin func())
	// Trying notes that a trial of so many runs begins while so many wait.
	Trying(runs, waiting int)
}

// Suspected reports whether a run has to be queued.
func Suspected(run *store.Run) bool { return run.Suspect >= 2 }

// Line is the line of suspects of a process. It is safe for concurrent use. New makes one.
type Line struct {
	owner    Owner
	aloneFor time.Duration

	mu      sync.Mutex
	coming  map[*ownership.Shard]int // claimed and not loaded yet
	waiting []*suspect
	round   []*suspect // the one that is tried alone after the pause
	trial   map[store.RunNo]*suspect
	pausing bool        // before a trial alone
	stage   int         // how many trials of this round have begun
	timer   *time.Timer // ends the pause or the trial
	number  int         // of the trial or pause; a timer of a former one does nothing
}

type suspect struct {
	Candidate
	snapshot *store.Snapshot
	begun    bool
}

func (s *suspect) run() *store.Run { return &s.snapshot.Run }

// New returns an empty line. aloneFor is the longest time of a trial.
func New(owner Owner, aloneFor time.Duration) *Line {
	return &Line{owner: owner, aloneFor: aloneFor, coming: map[*ownership.Shard]int{}, trial: map[store.RunNo]*suspect{}}
}

// pauseBefore returns how long all suspects wait before a trial alone: a quarter of the
// longest trial, then half of it, then twice as long. An end within the third trial comes
// later than any within the first two.
func (l *Line) pauseBefore(strikes int) time.Duration {
	unit := l.aloneFor / 4
	switch strikes {
	case 0:
		return unit
	case 1:
		return 2 * unit
	}
	return 8 * unit
}

// trialOf returns the length of a trial of several runs, of which one was found so many
// times. The next one is twice as long, up to the longest.
func (l *Line) trialOf(found int) time.Duration { return l.aloneFor / 4 << min(max(found-2, 0), 2) }

// Expect notes that a run which will be queued has been claimed.
func (l *Line) Expect(of *ownership.Shard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !of.Lost() {
		l.coming[of]++
	}
}

// Arrived notes that a run that was expected has been loaded.
func (l *Line) Arrived(of *ownership.Shard) {
	l.mu.Lock()
	if l.coming[of]--; l.coming[of] <= 0 {
		delete(l.coming, of)
	}
	l.mu.Unlock()
	l.next()
}

// Queue puts a run into the line.
func (l *Line) Queue(c Candidate, snapshot *store.Snapshot) {
	l.mu.Lock()
	if !c.Shard().Lost() {
		l.waiting = append(l.waiting, &suspect{Candidate: c, snapshot: snapshot})
	}
	l.mu.Unlock()
	l.next()
}

// Forget drops the runs of shards that are lost, and lets the next ones go on.
func (l *Line) Forget(lost map[*ownership.Shard]bool) {
	l.mu.Lock()
	for shard := range lost {
		delete(l.coming, shard)
	}
	of := func(s *suspect) bool { return lost[s.Shard()] }
	l.waiting, l.round = slices.DeleteFunc(l.waiting, of), slices.DeleteFunc(l.round, of)
	before := len(l.trial)
	maps.DeleteFunc(l.trial, func(_ store.RunNo, s *suspect) bool { return of(s) })
	if before > 0 && len(l.trial) == 0 {
		l.endLocked()
	}
	l.mu.Unlock()
	l.next()
}

// Ended notes that a run has committed, or that the end of its trial is durable. The last
// one of a trial lets the next ones go on.
func (l *Line) Ended(no store.RunNo) {
	l.mu.Lock()
	_, tried := l.trial[no]
	delete(l.trial, no)
	over := tried && len(l.trial) == 0
	if over {
		l.endLocked()
	}
	l.mu.Unlock()
	if over {
		l.next()
	}
}

// endLocked ends a trial or a pause.
func (l *Line) endLocked() {
	if l.timer != nil {
		l.timer.Stop()
	}
	clear(l.trial)
	l.timer, l.pausing = nil, false
	l.number++
}

// next begins the next trial if none is under way.
func (l *Line) next() {
	if l.owner.Draining() {
		return
	}
	l.mu.Lock()
	switch {
	case len(l.trial) > 0, l.pausing, len(l.coming) > 0:
		l.mu.Unlock()
		return
	case len(l.round) > 0: // the pause is over
		l.begin(l.round, true)
		return
	case len(l.waiting) == 0:
		l.stage = 0
		l.mu.Unlock()
		return
	}
	most, strikes := 0, 0
	for _, s := range l.waiting {
		most = max(most, s.run().Suspect)
	}
	first, others := []*suspect{}, []*suspect{}
	for _, s := range l.waiting {
		if s.run().Suspect == most {
			first, strikes = append(first, s), s.run().Strikes
		} else {
			others = append(others, s)
		}
	}
	l.stage++
	switch {
	case l.stage > 2: // those found most often had their trials in this round
		l.waiting, l.stage = nil, 0
		l.begin(append(first, others...), false)
	case l.stage > 1:
		l.waiting = others
		l.begin(first, false)
	case len(first) == 1:
		l.waiting, l.round, l.stage = others, first, 2
		l.pausing = true
		l.after(l.pauseBefore(strikes), l.goOn)
		l.mu.Unlock()
	default:
		// Any half: if the process is killed by something else, others get further next time.
		rand.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
		half := len(first) / 2
		l.waiting = append(others, first[half:]...)
		l.begin(first[:half], false)
	}
}

// begin begins a trial. It unlocks l.mu.
func (l *Line) begin(tried []*suspect, alone bool) {
	tried = slices.Clone(tried)
	l.round = nil
	found := 0
	for _, s := range tried {
		l.trial[s.run().No] = s
		found = max(found, s.run().Suspect)
	}
	d := l.trialOf(found)
	if alone {
		d = l.aloneFor
	}
	l.after(d, l.timeIsUp)
	number, waiting := l.number, len(l.waiting)
	l.mu.Unlock()
	l.owner.Trying(len(tried), waiting)
	for _, s := range tried {
		l.owner.Try(s.Candidate, s.run(), alone, func() {
			l.mu.Lock()
			goesOn := !s.begun && !s.Shard().Lost()
			s.begun = true
			if l.number == number && goesOn && alone { // counted from when it is durable
				l.timer.Reset(d)
			}
			l.mu.Unlock()
			if goesOn {
				s.GoOn(s.snapshot)
			}
		})
	}
}

// after calls do after a time, unless the pause or trial has ended by then. do unlocks
// l.mu.
func (l *Line) after(d time.Duration, do func()) {
	number := l.number
	l.timer = time.AfterFunc(d, func() {
		l.mu.Lock()
		if l.number != number {
			l.mu.Unlock()
			return
		}
		do()
	})
}

// goOn ends a pause or trial. It unlocks l.mu.
func (l *Line) goOn() {
	l.endLocked()
	l.mu.Unlock()
	l.next()
}

// timeIsUp notifies the runs on trial that it is over. If the end of it does not become
// durable within a while, such as because the store is away, the next ones go on all the
// same: no run waits without a bound. It unlocks l.mu.
func (l *Line) timeIsUp() {
	tried := slices.Collect(maps.Values(l.trial))
	l.after(l.aloneFor/4, l.goOn)
	l.mu.Unlock()
	for _, s := range tried {
		if !s.TimeIsUp() {
			l.Ended(s.run().No)
		}
	}
}
