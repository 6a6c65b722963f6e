package engine

import (
	"errors"
	"strconv"
	"time"

	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/library"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/suspects"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/internal/verbs/decide"
	"github.com/stet-run/stet/store"
)

// admit decides where a claimed run goes that has been loaded: it is dismissed, decided
// at rest, given back, held for a permit, stalled, or executed, after others if it is
// suspected of killing processes.
//
// The order of the cases matters. Verbs come first, so that an operator can end a run
// whose code is missing, that gets no permit, or that kills every process. The permit
// comes before suspicion: a run without one is not executed, so it need not be alone.
func (x *executor) admit(a *activation, s *store.Snapshot) {
	run := &s.Run
	known := x.e.executes(run.Workflow)
	limit := x.e.cfg.PoisonLimit
	if a.expected {
		defer x.suspects.Arrived(a.shard)
	}
	switch {
	case !run.Claimed:
		// What the claim had found is done with already.
		a.post(dismissed{})
	case known && run.Damage == "" && !a.isFirst(run) && (x.member == nil || run.Build <= x.build()) &&
		verbs.ReplaysBefore(s) && permit.Has(run, s.Items):
		a.decidable.Store(s)
		x.execute(a, s)
	case verbs.NeedsNoCode(s, a.isFirst(run)):
		x.decide(a, s)
	case !known, x.member != nil && x.build() != "" && run.Build > x.build():
		x.unclaim(a, run)
	case run.Damage != "":
		x.stall(a.shard, *run, stored.DamagedReason(run.Damage), func() { a.post(dismissed{}) })
	case run.Queue != nil && !x.permitted(a, s):
	case limit > 0 && run.Strikes >= max(limit, 2): // the first one it may have got beside others
		reason := "poison: the process ended " + strconv.Itoa(run.Strikes) +
			" times in a row while this suspect was executed, and not while it waited; fix its code, then resume it"
		x.stall(a.shard, *run, reason, func() { a.post(dismissed{}) })
	default:
		x.execute(a, s)
	}
}

// execute lets a run go on in its activation.
func (x *executor) execute(a *activation, s *store.Snapshot) {
	if x.e.code.IsShared(s.Run.Workflow) {
		switch err := x.e.code.Fetch(x.held, x.e.cfg.LeaseTTL, s, &a.workflow); {
		case errors.Is(err, library.ErrNoCode):
			reason := string(stored.CauseCode) + ": " + err.Error() +
				"; provide the code, or move the run to other code, and resume it; or end the run"
			x.stall(a.shard, s.Run, reason, func() { a.post(dismissed{}) })
			return
		case (errors.Is(err, ErrUnknownWorkflow) || errors.Is(err, entity.ErrLacks)) && verbs.TerminateAmong(s.Items):
			x.decide(a, s) // without the code that would tell what else it owes
			return
		case errors.Is(err, entity.ErrLacks):
			a.id = s.Run.ID
			a.post(dismissed{})
			a.dispatcher().lack(a, err)
			return
		case err != nil:
			if x.e.code.Tell(s.Run.Workflow, time.Now()) {
				x.log().Error("the library does not give the code of a run; trying again", "run_id", s.Run.ID,
					"workflow", s.Run.Workflow, "error", err)
			}
			a.post(dismissed{})
			x.reloadUnrun(a)
			return
		}
	}
	x.introduce(a, &s.Run)
	switch limit := x.e.cfg.PoisonLimit; {
	case limit > 0 && suspects.Suspected(&s.Run):
		x.suspects.Queue(a, s)
	default:
		a.post(snapshotLoaded{s})
	}
}

// decide answers the verbs in the inbox of a run whose code does not run.
func (x *executor) decide(a *activation, s *store.Snapshot) {
	run := &s.Run
	w := x.e.cfg.Workflows[run.Workflow]
	d, err := decide.AtRest(x.held, s, decide.Owner{
		Reader: x.e.cfg.Store, Now: x.e.time.Now(), First: a.isFirst(run), Executes: x.e.executes(run.Workflow),
		Discard: w.Discard, DiscardNames: w.DiscardNames,
	})
	if err != nil {
		x.log().Error("deciding about a run; trying again", "run_id", run.ID, "error", err)
		a.post(dismissed{})
		x.reloadUnrun(a)
		return
	}
	x.recordBegun(run, d.Turn, stored.Offered(s.Entries))
	x.hint(run, d.Turn)
	x.address(d.Turn)
	x.committer.SubmitTurn(committer.Turn{Shard: a.shard, Turn: d.Turn, Done: func(result store.TurnResult) {
		x.decided(a, run, &d, result)
	}})
}

// decided is called with the verdict on a decision about a run.
func (x *executor) decided(a *activation, run *store.Run, d *decide.Decision, result store.TurnResult) {
	if result.Verdict == store.Committed {
		x.yielded(run, d.Turn.Update)
	}
	if result.Verdict == store.Committed || result.Verdict == store.StillReady {
		x.e.waiters.Committed(d.Turn, result.Verdict)
	}
	switch {
	case result.Verdict == store.StillReady, result.Verdict == store.Committed && d.GoesOn:
		a.post(dismissed{reload: true}) // there is more to decide, or the run goes on
		return
	case result.Verdict != store.Committed:
		x.undecided(a.shard, run, result)
	case d.Ended != nil:
		x.report.Over(d.Ended, "")
		x.e.waiters.RunEnded(*d.Ended)
	default:
		if at := d.Turn.Update.WakeAt; at != 0 {
			a.dispatcher().wakeBy(at)
		}
		a.dispatcher().claimSoon() // an item may have arrived for which the run, as it is now, is claimed
	}
	a.post(dismissed{})
}

// undecided is called when a decision or stall was not committed. The run stays claimed
// and is loaded again after a while.
func (x *executor) undecided(h *ownership.Shard, run *store.Run, result store.TurnResult) {
	if result.Verdict == store.Fenced {
		x.fenced(h)
		return
	}
	x.log().Error("a decision about a run was not taken; trying again",
		"run_id", run.ID, "verdict", result.Verdict.String(), "reason", result.Reason)
	x.reload(h, run.No)
}

// unclaim makes a claimed run that cannot be loaded here ready for a node that can.
func (x *executor) unclaim(a *activation, run *store.Run) {
	x.log().Warn("a claimed run is given back: its code is not here, or is of a later build",
		"run_id", run.ID, "workflow", run.Workflow, "build", run.Build)
	back := verbs.BareTurn(run, store.Update{
		Status: store.Running, Marks: run.Marks, Waits: run.Waits, Reason: run.Reason, EndIsolation: true, Unclaim: true,
	})
	x.committer.SubmitTurn(committer.Turn{Shard: a.shard, Turn: back, Done: func(result store.TurnResult) {
		switch result.Verdict {
		case store.Fenced:
			x.fenced(a.shard)
		case store.Refused:
			x.log().Error("giving a run back", "run_id", run.ID, "reason", result.Reason)
		}
		a.post(dismissed{})
	}})
}

// stall stops a run for a person, and then calls done.
func (x *executor) stall(h *ownership.Shard, run store.Run, reason string, done func()) {
	turn := verbs.BareTurn(&run, store.Update{Status: store.Stalled, Marks: run.Marks, Reason: reason,
		Audit: []store.Audit{stored.StallAudit(reason)}})
	x.committer.SubmitTurn(committer.Turn{Shard: h, Turn: turn, Done: func(result store.TurnResult) {
		defer done()
		if result.Verdict != store.Committed {
			x.undecided(h, &run, result)
			return
		}
		run.Status, run.Reason = store.Stalled, reason
		x.report.Over(&run, "")
		x.e.waiters.RunEnded(run)
	}})
}

// permitted reports whether a claimed run may execute as far as its queue is
// concerned. If not, it is held again, and the activation closed.
func (x *executor) permitted(a *activation, s *store.Snapshot) bool {
	run := &s.Run
	p, _, err := permit.DecodePlace(run.Queue)
	if err != nil {
		x.stall(a.shard, *run, "damaged: "+err.Error(), func() { a.post(dismissed{}) })
		return false
	}
	if p.HeldBy(run, s.Items) {
		return true
	}
	// It was woken after a suspension without a permit, or by a grant for a former
	// ticket. It cannot be queued again: it may have run.
	turn := verbs.BareTurn(run, store.Update{
		Status: store.Suspended, Marks: run.Marks | store.Held, Reason: run.Reason, Waits: run.Waits,
		EndIsolation: run.Suspect > 0,
	})
	for i := range s.Items {
		switch it := &s.Items[i]; {
		case it.Kind != store.ItemGrant || it.State == store.Consumed:
		case !permit.OfStep(it):
			turn.Consumed = append(turn.Consumed, store.Consumption{Item: it.No})
		case it.State == store.New:
			turn.Seen = append(turn.Seen, it.No) // it is the code's
		}
	}
	if p.Ticket == "" {
		permit.Request(turn.Update, run, p)
	}
	x.address(turn)
	x.committer.SubmitTurn(committer.Turn{Shard: a.shard, Turn: turn, Done: func(result store.TurnResult) {
		if result.Verdict != store.Committed {
			x.undecided(a.shard, run, result)
		} else {
			x.yielded(run, turn.Update)
		}
		a.post(dismissed{})
		a.dispatcher().claimSoon() // an item for which it is to be claimed may have arrived
	}})
	return false
}
