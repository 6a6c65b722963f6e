package engine

import (
	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/suspects"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// The executor is the owner of the line of suspects, and an activation a candidate in it.

// Draining reports whether nothing new is to begin.
func (x *executor) Draining() bool { return x.memory.Drains() }

// Trying notes that a trial begins.
func (x *executor) Trying(runs, waiting int) {
	x.log().Warn("executing some of the runs with which the process has ended uncleanly before; others follow",
		"runs", runs, "waiting", waiting)
}

// Try makes durable that the run is on trial, and then calls begin.
func (x *executor) Try(c suspects.Candidate, run *store.Run, alone bool, begin func()) {
	if alone {
		x.log().Warn("executing a run alone: the process has ended uncleanly with it before",
			"run_id", run.ID, "workflow", run.Workflow, "suspect", run.Suspect, "strikes", run.Strikes)
	}
	trial := verbs.BareTurn(run, store.Update{
		Status: store.Running, Marks: run.Marks, Isolate: true, EndIsolation: !alone,
	})
	x.committer.SubmitTurn(committer.Turn{Shard: c.Shard(), Turn: trial, Done: func(result store.TurnResult) {
		switch result.Verdict {
		case store.Fenced:
			x.fenced(c.Shard())
			return
		case store.Refused:
			x.log().Error("marking a suspect", "run_id", run.ID, "reason", result.Reason)
		}
		begin()
	}})
}

// Shard returns the stay of the run's shard.
func (a *activation) Shard() *ownership.Shard { return a.shard }

// GoOn lets a suspect go on with what was loaded of it.
func (a *activation) GoOn(snapshot *store.Snapshot) { a.post(snapshotLoaded{snapshot}) }

// TimeIsUp ends a suspect's trial. It reports false if the run has left memory.
func (a *activation) TimeIsUp() bool { return a.post(isolationOver{}) }

// endIsolation ends a suspect's trial: an end of the process counts against it no more. A
// turn of its own that is under way does that as well, unless it is one that repeats.
func (a *activation) endIsolation() {
	if a.touched || a.turn.underWay {
		a.turn.over = a.turn.repeats
		return
	}
	a.turn = turnUnderWay{underWay: true}
	end := verbs.BareTurn(&a.run, store.Update{Status: store.Running, Marks: a.run.Marks, EndIsolation: true})
	a.x.committer.SubmitTurn(committer.Turn{Shard: a.shard, Turn: end, Done: func(result store.TurnResult) {
		if result.Verdict == store.Fenced {
			a.x.fenced(a.shard)
			return
		}
		a.x.suspects.Ended(a.no)
		a.post(isolationEnded{})
	}})
}
