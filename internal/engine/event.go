package engine

import (
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// event is something that happens to an activation. Events are posted from anywhere, and
// handled by the activation's driver in their order.
type event interface {
	// handle applies the event, behind which rest is queued. It reports whether the run
	// goes on in memory.
	handle(a *activation, rest []event) bool
}

// snapshotLoaded brings the run into memory.
type snapshotLoaded struct{ *store.Snapshot }

// runClaimed says that the run was claimed, by a claim or in the act that made it ready.
// It was in memory already.
type runClaimed struct {
	*store.Claimed
	number    int64 // of the claim; 0: it was no claim, but the answer to a command
	sealed    bool  // the items are in their stored form
	cut       bool  // some of the items may be missing
	byCommand bool  // by a command or a send, says the answer to the batch
}

// itemArrived is an item that a command of this process has put into the inbox.
type itemArrived store.Item

// turnAnswered is the verdict on the turn under way.
type turnAnswered store.TurnResult

// stepEnded is the end of an attempt, stepBeat what it wants its successor to know, and
// stepEmitted what readers are to see.
type (
	stepEnded   steps.End
	stepBeat    steps.Heartbeat
	stepEmitted steps.Emission
)

type (
	// timeReached: a timer may be due.
	timeReached struct{}
	// inboxRead: the claim of this number has read the inbox whole. What it has found for the run was posted before.
	inboxRead struct{ claim int64 }
	// evictionDue: the run has been parked for long, or others need the room.
	evictionDue struct{}
	// unwound: the shard is lost, or the executor ends.
	unwound struct{}
	// isolationOver: the run's trial is over, and isolationEnded: that is durable.
	isolationOver  struct{}
	isolationEnded struct{}
	// inboxUncertain: an item is in the inbox that may have been received long ago. A
	// claim knows.
	inboxUncertain struct{}
	// dismissed: nothing is to be done here any more; reload: the run, still claimed, is
	// to be loaded from scratch. If its code was not executed here, that is still known.
	dismissed struct{ reload bool }
	// claimUncertain: the run is claimed, perhaps since it was parked, by a claim without answer. It leaves, and is looked
	// for once the claim under way is answered, which may have claimed it too.
	claimUncertain struct{}
)

func (ev snapshotLoaded) handle(a *activation, _ []event) bool {
	a.load(ev.Snapshot)
	early := a.early
	a.early = nil
	return a.handle(early)
}

func (ev *runClaimed) handle(a *activation, rest []event) bool {
	switch {
	case a.claimedBefore(ev):
		return inboxUncertain{}.handle(a, rest)
	case ev.New && (verbs.Resting(&ev.Run) || a.releases || ev.cut):
		a.leave(rest)
		a.x.take(a.shard, a.no) // it is decided without the code, has to ask for a permit, or lacks items
		return false
	case !a.open(ev):
		return false
	}
	if ev.New {
		a.turn.reclaimed = a.turn.underWay
		a.x.memory.Unpark(a)
		a.r.Resumed()
		a.resumeLine()
	}
	a.receive(ev.number, ev.Items...)
	return true
}

func (ev *itemArrived) handle(a *activation, _ []event) bool {
	a.receive(0, store.Item(*ev))
	return true
}

func (ev *turnAnswered) handle(a *activation, rest []event) bool {
	result := store.TurnResult(*ev)
	*ev = turnAnswered{} // a run that is parked keeps none of it
	return a.answer(result, rest)
}

func (ev *stepEnded) handle(a *activation, _ []event) bool {
	delete(a.bodies, ev.ID)
	a.code.Complete(ev.ID, ev.Attempt, &ev.Result)
	a.outcomes = append(a.outcomes, ev.Place)
	return true
}

func (ev *stepBeat) handle(a *activation, _ []event) bool {
	if ev.Started != 0 {
		runner.Executing(a.code, ev.ID, ev.Attempt, ev.Started)
		return true
	}
	a.code.Heartbeat(ev.ID, ev.Attempt, ev.Detail)
	return true
}

func (timeReached) handle(*activation, []event) bool { return true }

func (ev inboxRead) handle(a *activation, _ []event) bool {
	if a.behind != 0 {
		a.receive(ev.claim)
	}
	return true
}

func (evictionDue) handle(a *activation, rest []event) bool { return !a.evict(len(rest) == 0) }

func (unwound) handle(a *activation, rest []event) bool {
	a.leave(rest)
	return false
}

func (isolationOver) handle(a *activation, _ []event) bool {
	a.endIsolation()
	return true
}

func (isolationEnded) handle(a *activation, _ []event) bool {
	a.turn = turnUnderWay{}
	return true
}

func (inboxUncertain) handle(a *activation, _ []event) bool {
	a.behind = a.dispatcher().asked.Load() + 1
	a.dispatcher().claimSoon()
	return true
}

func (ev dismissed) handle(a *activation, rest []event) bool {
	a.leave(rest)
	if ev.reload {
		a.x.takeSince(a.shard, a.no, a.claimed)
	}
	return false
}

func (ev claimUncertain) handle(a *activation, rest []event) bool {
	return a.r == nil || !a.r.Suspended() || a.turn.underWay || dismissed{}.handle(a, append([]event{ev}, rest...))
}
