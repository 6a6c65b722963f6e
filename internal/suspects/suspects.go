// Package suspects decides when runs go on that may have killed their process.
//
// A run that was claimed when its owner ended uncleanly is a suspect. From the second time
// without a commit in between, it is executed alone: one suspect at a time, so that the
// next unclean end shows which run caused it.
//
//	found once         stands beside: goes on when no run is alone, or waits to be
//	found twice        waits in line; its time alone begins when that is durable
//	time alone over    the next in line begins, then those beside
//
// Beside the run that is alone only those go on that are new, or have committed since the
// last end. Runs found once wait as well, so that each run which kills the process can be
// mistaken for the one alone at most once.
package suspects

import (
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
	// TimeIsUp notifies the run that its time alone is over. It reports false if the run
	// has left memory.
	TimeIsUp() bool
}

// Owner executes runs.
type Owner interface {
	// Draining reports whether nothing new is to begin.
	Draining() bool
	// Isolate makes durable that the run is executed alone, and then calls begin, unless
	// its shard is lost.
	Isolate(c Candidate, run *store.Run, begin func())
}

// Line is the line of suspects of a process. It is safe for concurrent use. New makes one.
type Line struct {
	owner    Owner
	aloneFor time.Duration

	mu      sync.Mutex
	coming  map[*ownership.Shard]int // claimed and not loaded yet
	waiting []suspect
	beside  []suspect
	alone   *suspect    // nil: none
	timer   *time.Timer // ends its time alone
}

type suspect struct {
	Candidate
	snapshot *store.Snapshot
}

// New returns an empty line. aloneFor is the time alone of a run that was found twice; each
// further time doubles it.
func New(owner Owner, aloneFor time.Duration) *Line {
	return &Line{owner: owner, aloneFor: aloneFor, coming: map[*ownership.Shard]int{}}
}

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

// StandBeside lets a run that was found once go on, now or when no other is alone or waits
// to be.
func (l *Line) StandBeside(c Candidate, snapshot *store.Snapshot) {
	l.mu.Lock()
	wait := len(l.coming) > 0 || l.alone != nil || len(l.waiting) > 0
	if wait && !c.Shard().Lost() {
		l.beside = append(l.beside, suspect{c, snapshot})
	}
	l.mu.Unlock()
	if !wait {
		c.GoOn(snapshot)
	}
}

// Queue puts a run into the line for its time alone.
func (l *Line) Queue(c Candidate, snapshot *store.Snapshot) {
	l.mu.Lock()
	if !c.Shard().Lost() {
		l.waiting = append(l.waiting, suspect{c, snapshot})
	}
	l.mu.Unlock()
	l.next()
}

// Forget drops the runs of shards that are lost, and lets the next one go on.
func (l *Line) Forget(lost map[*ownership.Shard]bool) {
	if l.drop(lost) {
		l.next()
	}
}

func (l *Line) drop(lost map[*ownership.Shard]bool) (next bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for shard := range lost {
		delete(l.coming, shard)
	}
	of := func(s suspect) bool { return lost[s.Shard()] }
	l.waiting, l.beside = slices.DeleteFunc(l.waiting, of), slices.DeleteFunc(l.beside, of)
	if l.alone == nil || !lost[l.alone.Shard()] {
		return len(l.coming) == 0 && len(l.beside) > 0
	}
	l.endLocked()
	return true
}

// Ended lets the next suspect go on if the given run was alone.
func (l *Line) Ended(no store.RunNo) {
	l.mu.Lock()
	ended := l.alone != nil && l.alone.snapshot.Run.No == no
	if ended {
		l.endLocked()
	}
	l.mu.Unlock()
	if ended {
		l.next()
	}
}

// endLocked ends the time alone.
func (l *Line) endLocked() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.alone, l.timer = nil, nil
}

// next lets the next suspect go on if none is alone. That it is alone is durable before it
// begins.
func (l *Line) next() {
	if l.owner.Draining() {
		return
	}
	l.mu.Lock()
	if l.alone != nil {
		l.mu.Unlock()
		return
	}
	if len(l.waiting) == 0 {
		var beside []suspect
		if len(l.coming) == 0 {
			beside, l.beside = l.beside, nil
		}
		l.mu.Unlock()
		for _, s := range beside {
			s.GoOn(s.snapshot)
		}
		return
	}
	s := l.waiting[0]
	l.waiting = l.waiting[1:]
	l.alone = &s
	l.mu.Unlock()
	l.owner.Isolate(s.Candidate, &s.snapshot.Run, func() {
		if l.begin(&s) {
			s.GoOn(s.snapshot)
		}
	})
}

// begin limits the time alone of a run. It reports false if the run is not the one alone
// any more, because its shard is lost.
func (l *Line) begin(s *suspect) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alone != s {
		return false
	}
	run := &s.snapshot.Run
	shift := min(run.Suspect-2, 16)
	l.timer = time.AfterFunc(l.aloneFor<<shift, func() {
		if !s.TimeIsUp() {
			l.Ended(run.No)
		}
	})
	return true
}
