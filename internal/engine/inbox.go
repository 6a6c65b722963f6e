package engine

import "github.com/stet-run/stet/store"

// claimedBefore reports whether an event says that a command has claimed the run although
// it was claimed by then. Of a batch that is repeated the store says so of every claimed
// run: it does not know which one the first try has claimed. Answers to batches come in
// their order, so a run that a command has claimed knows that it is suspended.
func (a *activation) claimedBefore(ev *runClaimed) bool {
	return ev.byCommand && a.r != nil && (a.turn.underWay || !a.r.Suspended())
}

// receive delivers items that a claim of that number has found, or an answer if it is 0,
// unless there may be earlier items. What an earlier claim has found is found again, unless
// the run has consumed it since. A claim that has found nothing says that there is nothing earlier.
func (a *activation) receive(claim int64, items ...store.Item) {
	if claim < a.behind {
		if claim == 0 {
			a.waiting = append(a.waiting, items...)
			a.dispatcher().claimSoon() // one that was answered may have had nothing for this run
		}
		return
	}
	a.deliver(items...)
	waiting := a.waiting
	a.waiting, a.behind = nil, 0
	a.deliver(waiting...)
	if a.missed {
		a.missed = false
		inboxUncertain{}.handle(a, nil)
	}
}

// deliver gives items to the runner, and decides verbs that are not its own.
func (a *activation) deliver(items ...store.Item) {
	if a.code == nil {
		a.r.Deliver(items...)
		return
	}
	for i := range items {
		switch it := items[i]; it.Kind {
		case store.ItemTerminate:
			a.code.Terminate(it)
		case store.ItemPause:
			if a.code.Over() != nil || a.r.Suspended() {
				a.leaveItem()
				continue
			}
			a.code.Pause(it)
		case store.ItemResume, store.ItemRetry, store.ItemRewind, store.ItemEdit, store.ItemNudge:
			if !a.withdrawPause(it) {
				a.decide(it)
			}
		default:
			if a.code.Pausing() && !a.withdrawPause(it) {
				a.leaveItem()
				continue
			}
			a.r.Deliver(it)
		}
	}
}

// withdrawPause lets the run go on for a verb that is stronger than its pause. What was left
// in the inbox meanwhile is read again, before anything else is handed over.
func (a *activation) withdrawPause(by store.Item) bool {
	if !a.code.WithdrawPause(by) {
		return false
	}
	a.missed, a.left = a.left, false
	return true
}

// leaveItem leaves an item in the inbox, for the claim that follows when the turn under way
// is committed.
func (a *activation) leaveItem() {
	if a.turn.underWay || a.code.Pausing() {
		a.left = true
		return
	}
	a.dispatcher().claimSoon()
}

// decide answers a verb that asks nothing of the code of an executing run.
func (a *activation) decide(it store.Item) {
	if a.code.Pausing() || a.code.Over() != nil || a.r.Suspended() {
		a.leaveItem()
	} else {
		a.code.Decide(it)
	}
}
