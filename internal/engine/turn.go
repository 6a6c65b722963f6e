package engine

import (
	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/reload"
	"github.com/stet-run/stet/internal/report"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/internal/verbs/decide"
	"github.com/stet-run/stet/store"
)

// turnUnderWay is what an activation knows of the turn that is being committed; zero: there
// is none.
type turnUnderWay struct {
	underWay  bool         // a turn is being committed, or another update of the run
	ended     *store.Run   // what the run will be if the turn ends or stalls it
	watches   int          // how many watches a turn that ends the run answers
	continues bool         // the run continues as new
	built     bool         // it gives the run this build
	heard     bool         // an item from the inbox has arrived since it was taken
	outcomes  []steps.Task // steps whose outcomes it has
	emitted   []func()     // settle the items of bodies that it has
	repeats   bool         // the next activation does all of it again: a suspicion stays
	over      bool         // the time of the suspect's trial was over meanwhile
	reclaimed bool         // the run was claimed again before the answer arrived, so it stays claimed
}

// sentTurn is the turn that was handed to the committer last. There is one at a time, so that its
// parts need no memory of their own.
type sentTurn struct {
	news    report.Turn
	verdict turnAnswered
	answer  func(store.TurnResult) // turnAnswered
}

// submit hands the turn that is ready to the committer.
func (a *activation) submit() {
	if a.turn.underWay || a.unread {
		return
	}
	turn := a.r.Take()
	outcomes, emitted := a.outcomes, a.emitted
	a.outcomes, a.emitted = a.room, nil
	a.room = nil
	if turn == nil {
		a.release(outcomes) // nobody wants them
		settle(emitted)
		return
	}
	a.turn = turnUnderWay{underWay: true, outcomes: outcomes, emitted: emitted}
	news := &a.sent.news
	*news = report.Turn{Run: &a.run, Turn: turn} // the row is as it was loaded
	if a.code != nil {
		news.Began = !a.begun && !a.announced && a.run.Incarnation == 0 && a.run.Generation == 0
	}
	turn.Shard = a.run.Shard
	if a.code != nil {
		a.x.recordBegun(&a.run, turn, runner.Withdrawn(a.code))
		turn.Sends = permit.Pack(turn.Sends)
	}
	if a.workflow.Discard {
		for _, no := range turn.Dead {
			turn.Consumed = append(turn.Consumed, store.Consumption{Item: no})
		}
		turn.Dead = nil
	}
	a.update(turn)
	a.turn.continues = turn.Update != nil && turn.Update.Continue != nil
	if news.Over = a.turn.ended; a.code != nil {
		news.News = runner.NewsOf(a.code, turn)
	}
	a.x.hint(&a.run, turn)
	a.x.address(turn)
	for i := range turn.Entries {
		if x := &turn.Entries[i]; a.x.e.large.Is(len(x.Value)) {
			a.x.e.large.Saw(a.run.Workflow, location.Loc(x.Loc).String(), len(x.Value))
		}
	}
	a.x.committer.SubmitTurn(committer.Turn{Shard: a.shard, Turn: turn, Done: a.sent.answer})
}

// turnAnswered delivers the verdict on the turn under way. The committer calls it.
func (a *activation) turnAnswered(result store.TurnResult) {
	turn := a.sent.news.Turn
	a.x.report.Committed(&a.sent.news, result.Verdict)
	a.sent.news = report.Turn{} // a run that is parked keeps no values
	if result.Verdict == store.Committed {
		a.x.yielded(&a.run, turn.Update)
	}
	if result.Verdict == store.Committed && turn.Update != nil && turn.Update.WakeAt != 0 {
		a.dispatcher().wakeBy(turn.Update.WakeAt)
	}
	if result.Verdict == store.Committed || result.Verdict == store.StillReady {
		a.x.e.waiters.Committed(turn, result.Verdict)
	}
	a.sent.verdict = turnAnswered(result)
	a.post(&a.sent.verdict) // from here on the next turn may be on its way
	if result.Verdict == store.StillReady {
		a.dispatcher().claimSoon() // its items come after the verdict, and are not left in the inbox
	}
}

// update completes the update of a turn, or adds one if the run's row has to know of it:
// that this build executes it, or that it has begun though the turn has no entry.
func (a *activation) update(turn *store.Turn) {
	shown := a.begun || len(turn.Entries) > 0
	u := turn.Update
	if u == nil {
		a.turn.repeats = !a.touched && a.run.Suspect > 0 && runner.Repeats(a.code, turn)
		if a.turn.repeats || a.touched && !a.former && (shown || a.code == nil) {
			return
		}
		u = &store.Update{Status: store.Running, Marks: a.run.Marks}
		turn.Update = u
	}
	if a.code != nil { // entities are of no build
		u.Discard = a.workflow.Discard
		if u.Status.Terminal() {
			u.DiscardNames = a.workflow.DiscardNames
		}
		switch u.Build = a.x.e.cfg.Build; {
		case !a.touched && verbs.StallsAsFound(turn):
			u.Build, u.Waits = "", verbs.KeepSign(&a.run)
		case a.former && verbs.SuspendsAsFound(turn, &a.run):
			u.Build, u.Waits = "", reload.Mark(u.Waits, u.Build)
		case u.Waits == nil && len(turn.Entries) == 0 && u.Continue == nil && !u.Status.Terminal():
			u.Waits = verbs.NoWaits()
		}
		a.turn.built = u.Build != ""
	}
	if u.Continue != nil {
		u.Continue.Seed = stored.IncarnationSeed(&a.run, a.run.Incarnation+1)
		a.x.e.origin(&a.run, u.Continue)
	}
	if u.Status == store.Stalled || u.Status.Terminal() {
		ended := a.run
		ended.Status, ended.Marks, ended.Output, ended.Reason = u.Status, u.Marks, u.Output, u.Reason
		a.turn.ended, a.turn.watches = &ended, len(a.watches())
		if u.Status.Terminal() {
			decide.NotifyEnd(u, &ended, a.watches())
		}
	}
	if u.Status == store.Suspended && a.releases {
		permit.Release(u, &a.run)
	}
}

// answer takes the verdict on the turn under way, behind which rest is queued. It reports
// whether the run goes on in memory.
func (a *activation) answer(result store.TurnResult, rest []event) bool {
	turn := a.turn
	a.turn = turnUnderWay{}
	switch result.Verdict {
	case store.Committed:
		return a.committed(&turn, rest)
	case store.StillReady:
		a.release(turn.outcomes)
		settle(turn.emitted)
		a.announced = true
		a.r.StillReady()
		a.unread = !turn.heard || a.left // items that were left come again
		a.left = false
		return true
	case store.Fenced:
		if !a.shard.Lost() {
			a.x.log().Error("a commit was fenced", "run_id", a.id, "shard", a.run.Shard)
		}
		a.leave(nil)
		a.x.fenced(a.shard)
		return false
	}
	a.x.log().Error("a turn was refused", "run_id", a.id, "reason", result.Reason)
	a.phase = stalling
	a.x.stall(a.shard, a.run, "refused turn: "+result.Reason, func() { a.post(dismissed{}) })
	return false
}

// release gives up the places of steps whose outcomes are durable, or unwanted.
func (a *activation) release(outcomes []steps.Task) {
	a.places.Release(outcomes)
	clear(outcomes)
	a.room = outcomes[:0]
}

// committed goes on after a committed turn. Where the run leaves memory and was claimed
// again meanwhile, that claim is still to be served: the run is loaded again.
func (a *activation) committed(turn *turnUnderWay, rest []event) bool {
	a.release(turn.outcomes)
	settle(turn.emitted)
	a.r.Committed()
	if !turn.repeats {
		a.begun, a.former = true, a.former && !turn.built
	}
	switch {
	case turn.repeats && turn.over:
		a.endIsolation()
	case !turn.repeats && !a.touched:
		a.touched = true
		a.x.suspects.Ended(a.no)
	}
	switch {
	case turn.continues:
		a.leave(rest)
		if a.run.Marks&store.Paused == 0 {
			a.x.take(a.shard, a.no) // still claimed, and later items are in its inbox
		}
		return false
	case a.code != nil && a.code.Paused():
		a.leaveClaimed(turn, rest)
		a.dispatcher().claimSoon()
		return false
	}
	if a.left {
		a.left = false
		a.dispatcher().claimSoon()
	}
	switch {
	case turn.ended != nil:
		if len(a.watches()) > turn.watches {
			a.dispatcher().claimSoon() // later watches are answered by a decision about the ended run
		}
		// Waiters are notified before the run can be activated again: otherwise one of
		// them might wait for the end of what began afterwards.
		a.stop()
		a.x.memory.Unname(a)
		a.x.e.waiters.RunEnded(*turn.ended)
		a.leaveClaimed(turn, rest)
		return false
	case a.r.Suspended() && a.releases:
		a.leaveClaimed(turn, rest)
		a.dispatcher().claimSoon()
		return false
	case a.r.Suspended():
		a.x.memory.Park(a, a.bytes())
	}
	return true
}

// leaveClaimed leaves memory after a turn. A run that was claimed again meanwhile is loaded.
func (a *activation) leaveClaimed(turn *turnUnderWay, rest []event) {
	a.leave(rest)
	if turn.reclaimed {
		a.x.take(a.shard, a.no)
	}
}

// origin keeps how a run began if its stored input is not the one that it was given.
func (e *Engine) origin(run *store.Run, next *store.Continuation) {
	if run.Incarnation == 0 && e.cfg.Payloads.Active() {
		next.First = run.Origin()
	}
}
