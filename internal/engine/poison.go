package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// suspects are runs that were found in the hand of an owner that ended
// uncleanly, twice or more without a commit in between. One at a time is
// executed, so that the next unclean end says which run it was.
//
// Beside it only runs go on that are new or have committed since the last end:
// those that were found only once wait as well, so that each run that kills the
// process can be taken for the one alone at most once.
type suspects struct {
	// coming counts, by shard, the runs that were claimed and not loaded yet.
	coming  map[*ownership.Shard]int
	waiting []suspect
	beside  []suspect   // found once; they go on when nobody is alone or waits
	alone   *activation // the one that is executed; nil: none
	timer   *time.Timer
}

type suspect struct {
	a        *activation
	snapshot *store.Snapshot
}

// forget drops what belongs to shards that are lost. It reports whether the next run may
// go on because of that. The caller holds executor.mu.
func (s *suspects) forget(lost map[*ownership.Shard]bool) (next bool) {
	for h := range lost {
		delete(s.coming, h)
	}
	of := func(x suspect) bool { return lost[x.a.shard] }
	s.waiting, s.beside = slices.DeleteFunc(s.waiting, of), slices.DeleteFunc(s.beside, of)
	if s.alone == nil || !lost[s.alone.shard] {
		return len(s.coming) == 0 && len(s.beside) > 0
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.alone, s.timer = nil, nil
	return true
}

// expectSuspect notes that a run that will be queued has been claimed.
func (x *executor) expectSuspect(h *ownership.Shard) {
	x.mu.Lock()
	if !h.Lost() {
		x.suspects.coming[h]++
	}
	x.mu.Unlock()
}

// suspectCame is called when a run that was to be queued has been looked at.
func (x *executor) suspectCame(h *ownership.Shard) {
	x.mu.Lock()
	if x.suspects.coming[h]--; x.suspects.coming[h] <= 0 {
		delete(x.suspects.coming, h)
	}
	x.mu.Unlock()
	x.nextSuspect()
}

// standBeside lets a run that was found once go on, or wait while another is
// executed alone.
func (x *executor) standBeside(a *activation, s *store.Snapshot) {
	x.mu.Lock()
	wait := len(x.suspects.coming) > 0 || x.suspects.alone != nil || len(x.suspects.waiting) > 0
	if wait && !a.shard.Lost() {
		x.suspects.beside = append(x.suspects.beside, suspect{a, s})
	}
	x.mu.Unlock()
	if !wait {
		a.post(event{snapshot: s})
	}
}

// suspect queues a run for its time alone.
func (x *executor) suspect(a *activation, s *store.Snapshot) {
	x.mu.Lock()
	if !a.shard.Lost() {
		x.suspects.waiting = append(x.suspects.waiting, suspect{a, s})
	}
	x.mu.Unlock()
	x.nextSuspect()
}

// nextSuspect lets the next suspect run if none does. That it is alone is durable
// before it begins.
func (x *executor) nextSuspect() {
	x.mu.Lock()
	if x.suspects.alone != nil || x.drain {
		x.mu.Unlock()
		return
	}
	if len(x.suspects.waiting) == 0 {
		var beside []suspect
		if len(x.suspects.coming) == 0 {
			beside, x.suspects.beside = x.suspects.beside, nil
		}
		x.mu.Unlock()
		for _, s := range beside {
			s.a.post(event{snapshot: s.snapshot})
		}
		return
	}
	s := x.suspects.waiting[0]
	x.suspects.waiting = x.suspects.waiting[1:]
	x.suspects.alone = s.a
	x.mu.Unlock()
	run := &s.snapshot.Run
	x.log().Warn("executing a run alone: the process has ended uncleanly with it before",
		"run_id", run.ID, "workflow", run.Workflow, "suspect", run.Suspect, "strikes", run.Strikes)
	alone := store.Update{Status: store.Running, Marks: run.Marks, Isolate: true}
	x.committer.SubmitTurn(committer.Turn{Shard: s.a.shard, Turn: bareTurn(run, alone), Done: func(result store.TurnResult) {
		switch result.Verdict {
		case store.Fenced:
			x.fenced(s.a.shard)
			return
		case store.Refused:
			x.log().Error("marking a suspect", "run_id", run.ID, "reason", result.Reason)
		}
		shift := min(run.Suspect-2, 16)
		x.mu.Lock()
		if x.suspects.alone != s.a {
			x.mu.Unlock()
			return // its shard is lost
		}
		x.suspects.timer = time.AfterFunc(x.e.cfg.AloneFor<<shift, func() {
			if !s.a.post(event{spare: true}) {
				x.aloneEnded(run.No)
			}
		})
		x.mu.Unlock()
		s.a.post(event{snapshot: s.snapshot})
	}})
}

// bareTurn is a turn that only updates the run's row.
func bareTurn(run *store.Run, u store.Update) *store.Turn {
	if u.Waits == nil {
		u.Waits = verbs.KeepSign(run)
	}
	return &store.Turn{Run: run.No, Shard: run.Shard, Incarnation: run.Incarnation, Update: &u}
}

// spare ends a suspect's time alone: an end of the process counts against it no
// more. A turn of its own that is under way does that as well.
func (a *activation) spare() {
	if a.touched || a.underWay {
		return
	}
	a.underWay = true
	update := store.Update{Status: store.Running, Marks: a.run.Marks, EndIsolation: true}
	a.x.committer.SubmitTurn(committer.Turn{Shard: a.shard, Turn: bareTurn(&a.run, update), Done: func(result store.TurnResult) {
		if result.Verdict == store.Fenced {
			a.x.fenced(a.shard)
			return
		}
		a.x.aloneEnded(a.no)
		a.post(event{spared: true})
	}})
}

// aloneEnded lets the next suspect run if the given run was executed alone.
func (x *executor) aloneEnded(no store.RunNo) {
	x.mu.Lock()
	ended := x.suspects.alone != nil && x.suspects.alone.no == no
	if ended {
		if x.suspects.timer != nil {
			x.suspects.timer.Stop()
		}
		x.suspects.alone, x.suspects.timer = nil, nil
	}
	x.mu.Unlock()
	if ended {
		x.nextSuspect()
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
