package engine

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// suspects are runs that were claimed by an owner that ended uncleanly, twice or more
// without a commit in between. One at a time is executed, so that the next unclean end
// says which run it was.
//
// Beside it only runs go on that are new or have committed since the last end. Those that
// were found only once wait as well, so that each run that kills the process can be taken
// for the one alone at most once.
type suspects struct {
	x *executor

	mu      sync.Mutex
	coming  map[*ownership.Shard]int // claimed and not loaded yet, by shard
	waiting []suspect
	beside  []suspect   // found once; they go on when nobody is alone or waits
	alone   *activation // the one that is executed; nil: none
	timer   *time.Timer // ends its time alone
}

type suspect struct {
	a        *activation
	snapshot *store.Snapshot
}

func newSuspects(x *executor) *suspects {
	return &suspects{x: x, coming: map[*ownership.Shard]int{}}
}

// forget drops what belongs to shards that are lost, and lets the next run go on if one of
// them was alone.
func (s *suspects) forget(lost map[*ownership.Shard]bool) {
	if s.drop(lost) {
		s.next()
	}
}

func (s *suspects) drop(lost map[*ownership.Shard]bool) (next bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range lost {
		delete(s.coming, h)
	}
	of := func(w suspect) bool { return lost[w.a.shard] }
	s.waiting, s.beside = slices.DeleteFunc(s.waiting, of), slices.DeleteFunc(s.beside, of)
	if s.alone == nil || !lost[s.alone.shard] {
		return len(s.coming) == 0 && len(s.beside) > 0
	}
	s.endLocked()
	return true
}

// endLocked ends the time alone.
func (s *suspects) endLocked() {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.alone, s.timer = nil, nil
}

// expect notes that a run that will be queued has been claimed.
func (s *suspects) expect(h *ownership.Shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.Lost() {
		s.coming[h]++
	}
}

// arrived is called when a run that was expected has been loaded.
func (s *suspects) arrived(h *ownership.Shard) {
	s.mu.Lock()
	if s.coming[h]--; s.coming[h] <= 0 {
		delete(s.coming, h)
	}
	s.mu.Unlock()
	s.next()
}

// standBeside lets a run that was found once go on, or wait while another is
// executed alone.
func (s *suspects) standBeside(a *activation, snapshot *store.Snapshot) {
	s.mu.Lock()
	wait := len(s.coming) > 0 || s.alone != nil || len(s.waiting) > 0
	if wait && !a.shard.Lost() {
		s.beside = append(s.beside, suspect{a, snapshot})
	}
	s.mu.Unlock()
	if !wait {
		a.post(snapshotLoaded{snapshot})
	}
}

// queue queues a run for its time alone.
func (s *suspects) queue(a *activation, snapshot *store.Snapshot) {
	s.mu.Lock()
	if !a.shard.Lost() {
		s.waiting = append(s.waiting, suspect{a, snapshot})
	}
	s.mu.Unlock()
	s.next()
}

// next lets the next suspect run if none does. That it is alone is durable before it
// begins.
func (s *suspects) next() {
	if s.x.memory.drains() {
		return
	}
	s.mu.Lock()
	if s.alone != nil {
		s.mu.Unlock()
		return
	}
	if len(s.waiting) == 0 {
		var beside []suspect
		if len(s.coming) == 0 {
			beside, s.beside = s.beside, nil
		}
		s.mu.Unlock()
		for _, w := range beside {
			w.a.post(snapshotLoaded{w.snapshot})
		}
		return
	}
	w := s.waiting[0]
	s.waiting = s.waiting[1:]
	s.alone = w.a
	s.mu.Unlock()
	run := &w.snapshot.Run
	s.x.log().Warn("executing a run alone: the process has ended uncleanly with it before",
		"run_id", run.ID, "workflow", run.Workflow, "suspect", run.Suspect, "strikes", run.Strikes)
	alone := bareTurn(run, store.Update{Status: store.Running, Marks: run.Marks, Isolate: true})
	s.x.committer.SubmitTurn(committer.Turn{Shard: w.a.shard, Turn: alone, Done: func(result store.TurnResult) {
		switch result.Verdict {
		case store.Fenced:
			s.x.fenced(w.a.shard)
			return
		case store.Refused:
			s.x.log().Error("marking a suspect", "run_id", run.ID, "reason", result.Reason)
		}
		if s.begin(w.a, run) {
			w.a.post(snapshotLoaded{w.snapshot})
		}
	}})
}

// begin limits the time alone of a run. It reports false if its shard is lost.
func (s *suspects) begin(a *activation, run *store.Run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone != a {
		return false
	}
	shift := min(run.Suspect-2, 16)
	s.timer = time.AfterFunc(s.x.e.cfg.AloneFor<<shift, func() {
		if !a.post(isolationOver{}) {
			s.ended(run.No)
		}
	})
	return true
}

// ended lets the next suspect run if the given run was executed alone.
func (s *suspects) ended(no store.RunNo) {
	s.mu.Lock()
	ended := s.alone != nil && s.alone.no == no
	if ended {
		s.endLocked()
	}
	s.mu.Unlock()
	if ended {
		s.next()
	}
}

// endIsolation ends a suspect's time alone: an end of the process counts against it no
// more. A turn of its own that is under way does that as well.
func (a *activation) endIsolation() {
	if a.touched || a.turn.underWay {
		return
	}
	a.turn = turnUnderWay{underWay: true}
	end := bareTurn(&a.run, store.Update{Status: store.Running, Marks: a.run.Marks, EndIsolation: true})
	a.x.committer.SubmitTurn(committer.Turn{Shard: a.shard, Turn: end, Done: func(result store.TurnResult) {
		if result.Verdict == store.Fenced {
			a.x.fenced(a.shard)
			return
		}
		a.x.suspects.ended(a.no)
		a.post(isolationEnded{})
	}})
}

// bareTurn is a turn that only updates the run's row.
func bareTurn(run *store.Run, u store.Update) *store.Turn {
	if u.Waits == nil {
		u.Waits = verbs.KeepSign(run)
	}
	return &store.Turn{Run: run.No, Shard: run.Shard, Incarnation: run.Incarnation, Update: &u}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
