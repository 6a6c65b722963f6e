package engine

import (
	"slices"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// dispatch claims what is ready until the executor is asked to stop or is lost.
func (x *executor) dispatch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	_, changed := x.e.changes.TakeReady()
	rest := time.Duration(0)
	for {
		hinted := false
		select {
		case <-x.stop.Done():
			return
		case <-x.held.Done():
			return
		case <-x.kick:
		case <-changed:
			var shards store.ShardSet
			if shards, changed = x.e.changes.TakeReady(); !x.shards.Now().AnyOpen(&shards) {
				continue // it is another node's
			}
			hinted = true
		case <-timer.C:
		}
		if hinted && rest > 0 {
			select { // what this process has done itself does not wait
			case <-time.After(rest):
			case <-x.kick:
			case <-x.stop.Done():
			case <-x.held.Done():
			}
		}
		_, changed = x.e.changes.TakeReady() // of what the claim may have missed
		found := x.claim()
		switch {
		case found || !hinted || x.member == nil:
			rest = 0
		default:
			rest = min(2*rest+longestRest/16, longestRest)
		}
		timer.Reset(x.pause())
	}
}

// longestRest bounds the rest between two claims because of hints. Some stores do not
// say in which shards something has changed, and then most of what other nodes do is
// nothing to this one: each claim in a row that finds nothing makes the rest longer.
const longestRest = 8 * time.Millisecond

// lagging is how far the store's time may be behind what is known of it, before that
// counts as a clock that was set back: until it has caught up, what is due by our
// bound is not due to the store.
const lagging = 50 * time.Millisecond

// pause returns how long the dispatcher may wait without a hint.
func (x *executor) pause() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	wait := x.e.cfg.Poll
	if x.nextWake != 0 {
		until := x.nextWake.Sub(x.e.time.now())
		if until <= 0 && x.lag > lagging {
			until = max(x.nextWake.Sub(x.e.time.now())+x.lag, time.Millisecond)
		}
		// A microsecond more, so that the bound has passed the wake time by then.
		wait = min(wait, max(until, 0)+time.Microsecond)
	}
	return wait
}

// claimSoon wakes the dispatcher.
func (x *executor) claimSoon() { hint(x.kick) }

// hint wakes the goroutine that receives from ch, unless it is already being woken.
func hint(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// claimFor has the inbox read for an activation that waits for a deadline.
func (x *executor) claimFor(a *activation) {
	x.mu.Lock()
	x.readers = append(x.readers, a)
	x.mu.Unlock()
	x.claimSoon()
}

// wakeBy tells the dispatcher of a wake time.
func (x *executor) wakeBy(at store.Time) {
	x.mu.Lock()
	earlier := x.nextWake == 0 || at < x.nextWake
	if earlier {
		x.nextWake = at
	}
	x.mu.Unlock()
	if earlier && at.Sub(x.e.time.now()) < x.e.cfg.Poll {
		x.claimSoon()
	}
}

// claim takes in hand what is ready and tells activations what is new. It reports
// whether there was anything.
func (x *executor) claim() (found bool) {
	in := x.shards.Now()
	if len(in.Open()) == 0 {
		x.mu.Lock()
		x.nextWake = 0 // of shards that have gone
		x.mu.Unlock()
		return false
	}
	room := x.room()
	req := store.ClaimRequest{Node: x.e.cfg.Node, Boot: x.e.boot, Leases: in.Open(), Workflows: x.workflows, Limit: room}
	if x.member != nil {
		req.Build = x.build()
	}
	x.mu.Lock()
	x.nextWake = 0 // wake times told from here on may be missing in the answer
	readers, asOf := x.readers, x.activations
	x.readers = nil
	x.claiming, x.gone = true, map[store.RunNo]bool{}
	req.Unservable = x.member != nil && time.Since(x.askedUnfit) >= x.e.cfg.Poll
	if req.Unservable {
		x.askedUnfit = time.Now()
	}
	x.mu.Unlock()
	number := x.asked.Add(1)
	limited, done := x.limited(x.held)
	claims, err := x.e.base.Claim(limited, req)
	done()
	x.mu.Lock()
	x.claiming = false
	x.mu.Unlock()
	if err != nil {
		if x.held.Err() == nil {
			x.unsure = true
			x.log().Error("claiming; trying again", "error", err)
			time.AfterFunc(x.e.cfg.Poll/4, x.claimSoon)
		}
		x.mu.Lock()
		x.readers = append(readers, x.readers...)
		x.mu.Unlock()
		return false
	}
	x.e.time.observe(claims.Now)
	if len(claims.Fenced) > 0 {
		lost := slices.DeleteFunc(claims.Fenced, func(s store.Shard) bool { return in.Of(s).Lost() })
		if len(lost) > 0 {
			x.log().Error("leases are not current any more", "shards", lost)
		}
		for _, shard := range lost {
			x.fenced(in.Of(shard))
		}
		if x.member == nil {
			return false
		}
	}
	var load []*activation
	for i := range claims.Runs {
		if c := &claims.Runs[i]; !x.tell(in, event{claimed: c, number: number, sealed: len(c.Items) > 0}, asOf) {
			h := in.Of(c.Run.Shard)
			if c.Run.Suspect >= 2 {
				x.expectSuspect(h)
			}
			if a := x.expect(h, c.Run.No); a != nil {
				load = append(load, a)
			}
		}
	}
	x.load(load...)
	if x.unsure {
		x.unsure = !x.retake(in, &claims)
	}
	x.mu.Lock()
	x.lag = x.e.time.now().Sub(claims.Now)
	late := x.lag > lagging
	if req.Unservable {
		if x.unfit = claims.Unservable; len(x.unfit) > 0 {
			x.member.Look()
		}
	}
	if claims.NextWake != 0 && (x.nextWake == 0 || claims.NextWake < x.nextWake) {
		x.nextWake = claims.NextWake
	}
	if claims.More {
		x.starved = room == 0
	} else {
		for _, l := range in.Open() {
			in.Of(l.Shard).InboxRead(claims.Now)
		}
	}
	x.mu.Unlock()
	if claims.More && room > 0 {
		x.claimSoon()
	}
	for _, a := range readers {
		if late {
			time.AfterFunc(x.e.cfg.Poll, func() { a.post(event{tick: true}) })
			continue
		}
		a.post(event{tick: true})
	}
	return len(claims.Runs) > 0
}

// tell posts a claim to the run's activation. It reports false if the run was
// claimed anew and has to be loaded.
//
// A run that is claimed anew had no activation, or one whose suspension is
// committed. News for a run that was claimed before are for the activation that
// was there. If it is gone it may have ended the run, or suspended it, without
// them: they make the run ready now, and it is claimed again. If there was none,
// the answer to the command that adopted the run is on its way here. asOf is the number of activations
// before the claim was asked for: a later one may have consumed what was found,
// and is told by the next claim.
//
// in is the hand of the claim: an activation of a former one is not meant, though it
// may not have ended yet.
func (x *executor) tell(in *ownership.Shards, ev event, asOf int64) bool {
	c := ev.claimed
	a := x.find(c.Run.No)
	switch {
	case a == nil, in.Of(a.shard.ID()) != a.shard:
		if x.hasLeft(c.Run.No) {
			x.claimSoon()
		}
		return !c.New
	case !c.New && a.number > asOf:
		x.claimSoon()
		return true
	}
	if a.post(ev) {
		return true
	}
	if !c.New {
		x.claimSoon()
	}
	return !c.New
}

// hasLeft reports whether a run has left memory while the last claim was asked for.
func (x *executor) hasLeft(no store.RunNo) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.gone[no]
}
