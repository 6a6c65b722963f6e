package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/internal/cluster"
	"github.com/stet-run/stet/internal/gather"
	"github.com/stet-run/stet/internal/idle"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/suspects"
	"github.com/stet-run/stet/store"
)

// longestRest bounds the rest between two claims because of hints. Some stores do not
// say in which shards something has changed, and then most hints are about the acts of
// other nodes: each claim in a row that finds nothing makes the rest longer.
const longestRest = 8 * time.Millisecond

// lagging is how far the store's time may be behind our bound before that counts as a clock that was set back.
// Until it has caught up, a run that is due by our bound is not due to the store.
const lagging = 50 * time.Millisecond

// dispatcher claims what is ready in one lane: on a hint, when a wake time has come, and once per poll
// interval. It is one goroutine.
type dispatcher struct {
	x      *executor
	lane   int
	store  store.Store   // the lane, with values as they are stored
	wake   chan struct{} // capacity 1: a hint to claim
	asked  atomic.Int64  // claims that were asked for
	claims idle.Claims
	loads  gather.Gather[*activation]
	behind atomic.Bool // a claim is requested when most of what was claimed is loaded
	unsure atomic.Bool // since reloadClaimed a claim has failed, or what one may have claimed has left memory

	failures int       // claims that have failed since the last success; of run, as said is
	said     time.Time // when that was logged

	mu         sync.Mutex
	nextWake   store.Time                // earliest known wake time of a suspended run; 0: none known
	lag        time.Duration             // by which the store's time was behind our bound at the last claim
	readers    readers                   // wait for the inbox to be read
	unservable []store.Unservable        // what the last claim that asked has found
	lacking    map[store.Shard]time.Time // when an entity was found there for which this process lacks something
	askedAt    time.Time                 // when it asked
}

func newDispatcher(x *executor, lane int, s store.Store) *dispatcher {
	d := &dispatcher{x: x, lane: lane, store: s, wake: make(chan struct{}, 1), readers: readers{}}
	d.loads = gather.Gather[*activation]{Workers: loaders, Most: loadChunk, Go: x.beginLoading, Do: d.load}
	return d
}

// held returns the shards of the lane that are held now.
func (d *dispatcher) held() *ownership.Shards { return d.x.shards.Now().In(d.lane) }

// readers are activations, each once however often it asks: claims may fail for hours.
type readers map[*activation]struct{}

// run claims until the executor is asked to stop, or has lost what it holds.
func (d *dispatcher) run() {
	x := d.x
	timer := time.NewTimer(0)
	defer timer.Stop()
	_, changed := x.e.changes.TakeReady(d.lane)
	rest := time.Duration(0)
	looked := time.Now()
	for {
		hinted := false
		select {
		case <-x.stop.Done():
			return
		case <-x.held.Done():
			return
		case <-d.wake:
		case <-changed:
			var shards store.ShardSet
			if shards, changed = x.e.changes.TakeReady(d.lane); !d.held().AnyOpen(&shards) {
				continue // it is another node's
			}
			hinted = true
		case <-timer.C:
		}
		if hinted && rest > 0 {
			select { // what this process has done itself does not wait, and no wake time does
			case <-time.After(rest):
			case <-d.wake:
			case <-timer.C:
			case <-x.stop.Done():
			case <-x.held.Done():
			}
		}
		shards, more := x.e.changes.TakeReady(d.lane)
		changed = more // of what the claim may have missed
		found := d.claim()
		if polled := time.Since(looked) >= x.e.cfg.Poll; polled || hinted || d.held().AnyOpen(&shards) {
			x.hintLines(d, polled)
			if polled {
				looked = time.Now()
			}
		}
		switch {
		case found || !hinted || x.member == nil:
			rest = 0
		default:
			rest = min(2*rest+longestRest/16, longestRest)
		}
		timer.Reset(d.pause())
	}
}

// pause returns how long the dispatcher may wait without a hint.
func (d *dispatcher) pause() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	wait := d.x.e.cfg.Poll
	if d.nextWake != 0 {
		until := d.x.e.time.Until(d.nextWake)
		if late := d.nextWake.Sub(d.x.e.time.Now()); late <= 0 && d.lag > lagging {
			until = max(late+d.lag, time.Millisecond)
		}
		wait = min(wait, until)
	}
	return wait
}

// claimSoon wakes the dispatcher, unless it is already being woken.
func (d *dispatcher) claimSoon() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// claimFor requests a claim, after which a's expired deadline may be handed over.
func (d *dispatcher) claimFor(a *activation) {
	d.mu.Lock()
	d.readers[a] = struct{}{}
	d.mu.Unlock()
	d.claimSoon()
}

// wakeBy makes the dispatcher claim at a wake time, at the latest.
func (d *dispatcher) wakeBy(at store.Time) {
	d.mu.Lock()
	earlier := d.nextWake == 0 || at < d.nextWake
	if earlier {
		d.nextWake = at
	}
	d.mu.Unlock()
	if earlier && at.Sub(d.x.e.time.Now()) < d.x.e.cfg.Poll {
		d.claimSoon()
	}
}

// claim claims what is ready, and posts to activations what is new for them. It reports
// whether there was anything.
//
// Three things depend on the order here. What is posted to wakeBy from the request on may
// be missing in the answer, so the known wake time is forgotten before it. The inbox counts
// as read at the time of the answer only after its items are posted. And activations that
// wait for that (readers) are woken last.
func (d *dispatcher) claim() (found bool) {
	x := d.x
	begin := d.claims.Begin()
	in := d.held()
	if len(in.Open()) == 0 {
		d.claims.End(begin, idle.Claim{})
		d.mu.Lock()
		d.nextWake = 0 // of shards that are lost
		d.mu.Unlock()
		return false
	}
	room, behind := d.room()
	req, waiting := d.request(in, room)
	asOf := x.memory.BeginClaim(d.lane)
	number := d.asked.Add(1)
	begun := x.e.time.Now()
	limited, done := x.limited(x.held)
	sent := time.Now()
	claims, err := d.store.Claim(limited, req)
	done()
	x.memory.EndClaim(d.lane)
	if err != nil {
		d.failed(err, waiting)
		return false
	}
	d.failures = 0
	x.e.time.Observe(sent, claims.Now)
	if len(claims.Fenced) > 0 {
		d.lose(in, claims.Fenced)
		if x.member == nil {
			return false
		}
	}
	d.activate(in, &claims, number, asOf, min(begun, claims.Now)) // this clock may drift
	x.recovery.Claimed(x.held, in, &claims)
	if d.unsure.Swap(false) && !x.reloadClaimed(d, in) {
		d.unsure.Store(true)
	}
	late := d.learn(&req, &claims)
	switch {
	case !claims.More:
	case behind:
		d.claimWhenLoaded()
	default:
		x.memory.Starve(room == 0)
	}
	if !claims.MoreItems {
		for _, l := range in.Open() {
			in.Of(l.Shard).InboxRead(claims.Now)
		}
	}
	switch {
	case room == 0:
	case claims.MoreItems:
		d.claimSoon()
	case claims.More:
		d.claimWhenLoaded()
	}
	for a := range waiting {
		switch {
		case late:
			time.AfterFunc(x.e.cfg.Poll, func() { a.post(timeReached{}) })
		case claims.MoreItems:
			a.post(timeReached{})
		default:
			a.post(inboxRead{number})
		}
	}
	answer := idle.Claim{Found: claims.More || claims.MoreItems || len(claims.Runs)+len(claims.Fenced) > 0}
	if claims.NextWake != 0 {
		answer.Next = time.Now().Add(claims.NextWake.Sub(claims.Now))
	}
	d.claims.End(begin, answer)
	return len(claims.Runs) > 0
}

const (
	// maxUnloaded bounds the claimed runs that wait to be loaded. The rest of a backlog stays in the
	// store, where a run that comes meanwhile has its turn before most of it.
	maxUnloaded = 512
	// fewAtOnce is what a claim takes where memory has room for one: enough for a turn of all lines
	// that wait. Otherwise, of a full memory, those that are due would always come first.
	fewAtOnce = 16
)

// room returns how many runs the next claim may take. behind: none, until others are loaded.
func (d *dispatcher) room() (room int, behind bool) {
	unloaded := d.loads.Waiting()
	if unloaded > maxUnloaded/2 {
		return 0, true
	}
	if room = d.x.memory.Room(); room > 0 {
		room = max(room, min(fewAtOnce, d.x.e.cfg.MaxRuns/fewAtOnce))
	}
	return min(room, maxUnloaded-unloaded), false
}

// claimWhenLoaded requests a claim for when most of what was claimed is loaded.
func (d *dispatcher) claimWhenLoaded() {
	d.behind.Store(true)
	d.caughtUp()
}

// caughtUp requests the claim of claimWhenLoaded, if that is due.
func (d *dispatcher) caughtUp() {
	if d.loads.Waiting() <= maxUnloaded/2 && d.behind.Swap(false) {
		d.claimSoon()
	}
}

// load loads runs.
func (d *dispatcher) load(expected []*activation) (rest []*activation) {
	defer d.caughtUp()
	return d.x.loadChunk(expected)
}

// request returns what to claim, and the activations that wait for it.
func (d *dispatcher) request(in *ownership.Shards, room int) (store.ClaimRequest, readers) {
	x := d.x
	req := store.ClaimRequest{
		Node: x.e.cfg.Node, Boot: x.e.boot, Leases: in.Open(), Workflows: x.e.code.Executed(), Limit: room,
	}
	if x.member != nil {
		req.Build = x.build()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nextWake = 0
	waiting := d.readers
	d.readers = readers{}
	if req.Unservable = x.member != nil && time.Since(d.askedAt) >= x.e.cfg.Poll; req.Unservable {
		d.askedAt = time.Now()
	}
	return req, waiting
}

// failed is called when a claim has failed. It may have claimed runs all the same.
func (d *dispatcher) failed(err error, waiting readers) {
	switch {
	case errors.Is(err, store.ErrClosed):
		d.x.StoreClosed(err)
	case d.x.held.Err() == nil:
		d.unsure.Store(true)
		if d.failures++; d.failures == 1 || time.Since(d.said) >= time.Minute {
			d.said = time.Now()
			d.x.log().Error("claiming; trying again", "error", err, "failures", d.failures)
		}
		time.AfterFunc(d.x.e.cfg.Poll>>max(3-d.failures, 0), d.claimSoon)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for a := range waiting {
		if !a.Gone() {
			d.readers[a] = struct{}{}
		}
	}
}

// lose drops the shards whose leases the store has refused.
func (d *dispatcher) lose(in *ownership.Shards, fenced []store.Shard) {
	lost := slices.DeleteFunc(fenced, func(s store.Shard) bool { return in.Of(s).Lost() })
	if len(lost) > 0 {
		d.x.log().Error("leases are not current any more", "shards", lost)
	}
	for _, shard := range lost {
		d.x.fenced(in.Of(shard))
	}
}

// activate posts to activations what a claim has found, begun at a time or later, and loads the other runs.
func (d *dispatcher) activate(in *ownership.Shards, claims *store.Claims, number, asOf int64, begun store.Time) {
	x := d.x
	var load []*activation
	for i := range claims.Runs {
		c := &claims.Runs[i]
		if d.post(in, &runClaimed{Claimed: c, number: number, sealed: len(c.Items) > 0, cut: claims.MoreItems}, asOf) {
			continue
		}
		h := in.Of(c.Run.Shard)
		if a := x.memory.Expect(h, c.Run.No); a != nil {
			a.claimed = begun
			if a.expected = suspects.Suspected(&c.Run); a.expected {
				x.suspects.Expect(h)
			}
			load = append(load, a)
		}
	}
	d.loads.Add(load...)
}

// learn keeps what a claim says of the store. It reports whether the store's time is
// behind ours.
func (d *dispatcher) learn(req *store.ClaimRequest, claims *store.Claims) (late bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lag = d.x.e.time.Now().Sub(claims.Now)
	if req.Unservable {
		if d.unservable = claims.Unservable; len(d.unservable) > 0 {
			d.x.member[d.lane].Look()
		}
	}
	if claims.NextWake != 0 && (d.nextWake == 0 || claims.NextWake < d.nextWake) {
		d.nextWake = claims.NextWake
	}
	return d.lag > lagging
}

// unservableRuns returns the ready runs that the last claim has found and cannot be loaded here.
func (d *dispatcher) unservableRuns() []store.Unservable {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.unservable
	for shard, at := range d.lacking {
		if time.Since(at) > 2*unreadable {
			delete(d.lacking, shard)
			continue
		}
		all = append(slices.Clip(all), store.Unservable{Shard: shard, Workflow: cluster.NotOn(d.x.e.cfg.Node)})
	}
	return all
}

// lack is called for an entity or a run for which this process lacks something. Its shard goes to another node. If
// there is none, it is tried again from time to time.
func (d *dispatcher) lack(a *activation, err error) {
	if n := d.x.e.lacks.note(a.id, err); n > 0 {
		d.x.log().Error("this process cannot execute records of the store: they go to another process, or wait for one; "+
			"give this one what it lacks", "records", n, "run_id", a.id, "error", err)
	}
	d.x.reloadAfter(a.shard, a.no, 0, unreadable)
	if d.x.member == nil {
		return
	}
	d.mu.Lock()
	if d.lacking == nil {
		d.lacking = map[store.Shard]time.Time{}
	}
	d.lacking[a.shard.ID()] = time.Now()
	d.mu.Unlock()
	d.x.member[d.lane].Look()
}

// post posts a claim to the run's activation. It reports false if the run is newly claimed
// and has to be loaded.
//
// A run that is newly claimed had no activation, or one whose suspension is
// committed. News for a run that was claimed before are for the activation that
// was there. If that one is gone it may have ended the run, or suspended it, without
// the news: they make the run ready now, and it is claimed again. If there was none,
// the answer to the command that has claimed the run is on its way here.
//
// asOf is the number of activations before the claim was asked for. A later one may have
// consumed what was found: the next claim says. in is what was held then: the activation
// of a former stay of the shard is not meant, though it may not have ended yet.
func (d *dispatcher) post(in *ownership.Shards, ev *runClaimed, asOf int64) bool {
	c := ev.Claimed
	a := d.x.memory.Find(c.Run.No)
	switch {
	case a == nil, in.Of(a.shard.ID()) != a.shard:
		if d.x.memory.HasLeft(d.lane, c.Run.No) {
			d.claimSoon()
		}
		return !c.New
	case !c.New && a.number > asOf:
		d.claimSoon()
		return true
	}
	if a.post(ev) {
		return true
	}
	if !c.New {
		d.claimSoon()
	}
	return !c.New
}
