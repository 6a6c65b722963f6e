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
// go on because of that. The caller holds tenure.mu.
func (s *suspects) forget(lost map[*ownership.Shard]bool) (next bool) {
	for h := range lost {
		delete(s.coming, h)
	}
	of := func(x suspect) bool { return lost[x.a.h] }
	s.waiting, s.beside = slices.DeleteFunc(s.waiting, of), slices.DeleteFunc(s.beside, of)
	if s.alone == nil || !lost[s.alone.h] {
		return len(s.coming) == 0 && len(s.beside) > 0
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.alone, s.timer = nil, nil
	return true
}

// expectSuspect notes that a run that will be queued has been claimed.
func (t *tenure) expectSuspect(h *ownership.Shard) {
	t.mu.Lock()
	if !h.Lost() {
		t.suspects.coming[h]++
	}
	t.mu.Unlock()
}

// suspectCame is called when a run that was to be queued has been looked at.
func (t *tenure) suspectCame(h *ownership.Shard) {
	t.mu.Lock()
	if t.suspects.coming[h]--; t.suspects.coming[h] <= 0 {
		delete(t.suspects.coming, h)
	}
	t.mu.Unlock()
	t.nextSuspect()
}

// standBeside lets a run that was found once go on, or wait while another is
// executed alone.
func (t *tenure) standBeside(a *activation, s *store.Snapshot) {
	t.mu.Lock()
	wait := len(t.suspects.coming) > 0 || t.suspects.alone != nil || len(t.suspects.waiting) > 0
	if wait && !a.h.Lost() {
		t.suspects.beside = append(t.suspects.beside, suspect{a, s})
	}
	t.mu.Unlock()
	if !wait {
		a.post(event{snapshot: s})
	}
}

// suspect queues a run for its time alone.
func (t *tenure) suspect(a *activation, s *store.Snapshot) {
	t.mu.Lock()
	if !a.h.Lost() {
		t.suspects.waiting = append(t.suspects.waiting, suspect{a, s})
	}
	t.mu.Unlock()
	t.nextSuspect()
}

// nextSuspect lets the next suspect run if none does. That it is alone is durable
// before it begins.
func (t *tenure) nextSuspect() {
	t.mu.Lock()
	if t.suspects.alone != nil || t.drain {
		t.mu.Unlock()
		return
	}
	if len(t.suspects.waiting) == 0 {
		var beside []suspect
		if len(t.suspects.coming) == 0 {
			beside, t.suspects.beside = t.suspects.beside, nil
		}
		t.mu.Unlock()
		for _, s := range beside {
			s.a.post(event{snapshot: s.snapshot})
		}
		return
	}
	s := t.suspects.waiting[0]
	t.suspects.waiting = t.suspects.waiting[1:]
	t.suspects.alone = s.a
	t.mu.Unlock()
	run := &s.snapshot.Run
	t.log().Warn("executing a run alone: the process has ended uncleanly with it before",
		"run_id", run.ID, "workflow", run.Workflow, "suspect", run.Suspect, "strikes", run.Strikes)
	alone := store.Update{Status: store.Running, Marks: run.Marks, Isolate: true}
	t.committer.SubmitTurn(committer.Turn{Shard: s.a.h, Turn: bareTurn(run, alone), Done: func(result store.TurnResult) {
		switch result.Verdict {
		case store.Fenced:
			t.fenced(s.a.h)
			return
		case store.Refused:
			t.log().Error("marking a suspect", "run_id", run.ID, "reason", result.Reason)
		}
		shift := min(run.Suspect-2, 16)
		t.mu.Lock()
		if t.suspects.alone != s.a {
			t.mu.Unlock()
			return // its shard is lost
		}
		t.suspects.timer = time.AfterFunc(t.e.cfg.AloneFor<<shift, func() {
			if !s.a.post(event{spare: true}) {
				t.aloneEnded(run.No)
			}
		})
		t.mu.Unlock()
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
	a.t.committer.SubmitTurn(committer.Turn{Shard: a.h, Turn: bareTurn(&a.run, update), Done: func(result store.TurnResult) {
		if result.Verdict == store.Fenced {
			a.t.fenced(a.h)
			return
		}
		a.t.aloneEnded(a.no)
		a.post(event{spared: true})
	}})
}

// aloneEnded lets the next suspect run if the given run was executed alone.
func (t *tenure) aloneEnded(no store.RunNo) {
	t.mu.Lock()
	ended := t.suspects.alone != nil && t.suspects.alone.no == no
	if ended {
		if t.suspects.timer != nil {
			t.suspects.timer.Stop()
		}
		t.suspects.alone, t.suspects.timer = nil, nil
	}
	t.mu.Unlock()
	if ended {
		t.nextSuspect()
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
