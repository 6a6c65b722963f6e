package runner

import (
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// next chooses who gets the baton: a branch, or nil for the driver when there is
// nothing to do, the turn is full, or the run is over.
func (r *Run) next() *Branch {
	for {
		if r.over != nil || r.broken != nil || r.misuse.Load() != nil {
			break
		}
		if r.ready.len() > 0 {
			b := r.ready.pop()
			r.current.Store(b)
			return b
		}
		if r.pause != nil { // every branch is blocked, as at any commit
			r.settleArrived()
			break
		}
		if !r.live {
			r.replayNext()
			continue
		}
		if r.log.full(r.limits) || !r.liveNext() {
			break
		}
	}
	r.current.Store(nil)
	return nil
}

// liveNext hands over one completion of what has arrived or is due. It reports
// whether there was anything.
func (r *Run) liveNext() bool {
	switch {
	case r.undo.proposed():
		return false // the next thing is its commit
	case r.cancelItem != nil:
		it := r.cancelItem
		r.cancelItem = nil
		r.log.consume(it.No, verbs.Yes())
		r.audit(it)
		r.takeCancel(it.Value)
	case r.enterNext(), r.matchPromise(), r.matchOther(), r.matchEvent(), r.matchMail(), r.matchGrant(), r.fireTimer():
	case r.arrived.len() > 0:
		r.attemptEnded(r.arrived.pop())
	case r.opWaits == 0:
		r.deadlock()
	default:
		at := r.policyAt()
		if at == 0 || at > r.bound {
			return false
		}
		reason := r.cfg.CancelReason
		if r.cfg.CancelAt == 0 || at < r.cfg.CancelAt {
			reason = "suspended longer than " + r.cfg.MaxSuspended.String()
		}
		r.takeCancel([]byte(reason))
	}
	return true
}

// policyAt returns when the run's policies cancel it, or 0.
func (r *Run) policyAt() store.Time {
	if r.cancelling || r.undo.outcome != nil || r.undo.begun {
		return 0
	}
	at := r.cfg.CancelAt
	if r.cfg.MaxSuspended > 0 && r.inFlight == 0 && r.live {
		if limit := r.now.Add(r.cfg.MaxSuspended); at == 0 || limit < at {
			at = limit
		}
	}
	return at
}

// takeCancel hands over the cancel of the whole run.
func (r *Run) takeCancel(reason []byte) {
	r.seq++
	r.pos++
	r.now = max(r.now, r.bound)
	r.entries++
	r.log.add(store.Entry{Loc: string(cancelLocation), Kind: store.KindCancel, State: store.Done, Seq: r.seq, Born: r.seq - 1, At: r.now, Started: r.now, Ended: r.now, Value: reason})
	r.log.marked = true
	r.cancelRun(reason)
}

func (r *Run) cancelRun(reason []byte) {
	r.cancelling, r.reason = true, reasonOf("cancelled", reason)
	r.cancel(r.root)
}

func (r *Run) deadlock() {
	var places []string
	for b := range r.branches {
		places = append(places, b.name())
	}
	slices.Sort(places)
	r.fail(&stored.Failure{
		Code:    stored.CodeDeadlock,
		Message: "every branch waits for another one and no operation is open: " + strings.Join(places[:min(len(places), 20)], ", "),
	})
}

// end notes what the workflow's function has returned. The run is over when its
// branches have ended too.
func (r *Run) end(output []byte, failure *stored.Failure) {
	switch r.result = (&Outcome{Status: store.Succeeded, Output: output}); {
	case failure == nil && r.renewal != nil:
		r.result = &Outcome{Status: store.Running, Renewal: r.renewal}
	case failure != nil:
		r.result = &Outcome{Status: store.Failed, Output: stored.EncodeFailure(failure)}
	}
}

// finished is called when the code of every branch has ended.
func (r *Run) finished() {
	if r.over != nil {
		return
	}
	if !r.live {
		r.passGone()
		if r.remaining() != nil {
			r.stall(r.blocked())
			return
		}
		if r.replay.unasked > 0 {
			r.stall(r.unasked())
			return
		}
		if !r.undo.begun {
			r.goLive()
		}
		if r.over != nil {
			return
		}
	}
	if r.cancelling {
		r.result = &Outcome{Status: store.Cancelled, Reason: r.reason}
	}
	r.conclude(r.result)
}
