package judge

import (
	"maps"
	"slices"
	"time"

	"github.com/stet-run/stet/store"
)

// lates judges how long what could go on waits, in a world in which nothing goes wrong any more: a run that is ready
// until it is claimed, one that is suspended after its wake time, and a shard for an owner.
//
// It knows of each run what the store has answered. What makes a run ready that is paused or held, or that a verb
// only can make ready, it does not know, and does not judge.
type lates struct {
	*oracle
	runs   map[store.RunNo]*resting
	owners map[store.Shard]owner
	healed bool
	unrest time.Duration // when something was last wrong
}

// resting is what the store has of a run.
type resting struct {
	store.Run               // without its values
	ready     time.Duration // since when it can be claimed; negative: it cannot
}

type owner struct {
	machine      int
	since, until time.Duration
}

func newLates(o *oracle) *lates {
	return &lates{o, map[store.RunNo]*resting{}, map[store.Shard]owner{}, false, 0}
}

const still = store.Paused | store.Held

// answered takes the answer to a command that was carried out for the first time.
func (l *lates) answered(c *store.Command, a store.Answer) {
	if a.Outcome != store.Applied || a.Repeated {
		return
	}
	r, known := l.runs[a.Run.No], c.Start == nil
	if r == nil {
		r, known = &resting{ready: -1}, true
		l.runs[a.Run.No] = r
	}
	if !known {
		return // it was started before
	}
	r.Run = a.Run
	switch delayed := r.Status == store.Queued && r.WakeAt > l.micros(); {
	case a.Run.Claimed || a.Claimed:
		r.Claimed, r.ready = true, -1
	case r.Status != store.Queued && r.Status != store.Suspended, r.Marks&store.Paused != 0, r.ready >= 0:
	case r.Marks&store.Held != 0:
		if c.Item != nil && c.Item.Kind == store.ItemGrant {
			r.ready = l.now()
		}
	case !delayed:
		r.ready = l.now()
	}
}

// micros returns the store's time.
func (l *lates) micros() store.Time { return store.TimeOf(Begin(l.plan).Add(l.now())) }

// since returns a time of the store in the world's time.
func (l *lates) since(at store.Time) time.Duration {
	return time.UnixMicro(int64(at)).Sub(Begin(l.plan))
}

// claimed takes a run that was newly claimed.
func (l *lates) claimed(run store.Run) {
	if r := l.runs[run.No]; r != nil && l.healed {
		switch {
		case r.ready >= l.unrest:
			l.count("ready run claimed in a healed world")
		case r.WakeAt > 0 && l.since(r.WakeAt) >= l.unrest:
			l.count("run woken in a healed world")
		}
	}
	run.Claimed = true
	l.runs[run.No] = &resting{run, -1}
}

// turn takes a turn that was written.
func (l *lates) turn(t *store.Turn, v store.Verdict) {
	r := l.runs[t.Run]
	if r == nil {
		return // it was deleted, and another one has its number
	}
	r.ready = -1
	u := t.Update
	if u == nil || v == store.StillReady {
		return
	}
	r.Status, r.Marks, r.WakeAt = u.Status, u.Marks, 0
	if u.Status == store.Suspended || u.Status == store.Queued && u.WakeAt > l.micros() {
		r.WakeAt = u.WakeAt
	}
	r.Claimed = u.Status == store.Running && u.Marks&still == 0 && !u.Unclaim
	if !r.Claimed && u.Marks&still == 0 && (u.Status == store.Running || u.Status == store.Queued && r.WakeAt == 0) {
		r.ready = l.now()
	}
}

// held takes a lease that was given or renewed, for a request of a time.
func (l *lates) held(shard store.Shard, machine int, asked time.Duration) {
	was := l.owners[shard]
	now := owner{machine, l.now(), asked + l.lease()}
	if was.machine == machine && was.until > l.now() {
		now.since, now.until = was.since, max(was.until, now.until)
	}
	l.owners[shard] = now
}

// left takes the end of a lease, which makes ready what was claimed.
func (l *lates) left(shard store.Shard, released bool) {
	if o := l.owners[shard]; released {
		o.until = l.now()
		l.owners[shard] = o
	}
	for _, r := range l.runs {
		if r.Shard != shard || !r.Claimed {
			continue
		}
		r.Claimed = false
		if r.Status == store.Running && r.Marks&still == 0 && r.WakeAt == 0 {
			r.ready = l.now()
		}
	}
}

func (l *lates) lease() (longest time.Duration) {
	for _, n := range l.plan.Nodes {
		longest = max(longest, n.LeaseTTL)
	}
	return longest
}

// poll is how often nodes look without a hint.
func (l *lates) poll() (longest time.Duration) {
	for _, n := range l.plan.Nodes {
		longest = max(longest, n.Poll, time.Second)
	}
	return longest
}

// full says whether nodes may have no room for a run, or none for what a run waits for.
func (l *lates) full() bool {
	for _, n := range l.plan.Nodes {
		if n.MaxRuns > 0 {
			return true
		}
	}
	return false
}

// opening is how long a process that begins waits for an answer, before it begins once more.
const opening = 5 * time.Second

// judge looks at what waits. wrong: something is, or a process does not live.
func (l *lates) judge(wrong bool) {
	if wrong || !l.healed {
		l.healed, l.unrest = true, l.now()
		return
	}
	calm := l.unrest + max(l.lease(), opening) // what is under way has ended
	// After a claim without an answer each claim waits for what is on its way to the store, for so long at most.
	soon := time.Second + l.lease()/8
	if l.plan.Disk || l.now() < calm {
		return // of a store whose power is cut the answers are not known
	}
	for _, shard := range l.shards() {
		if since := max(l.owners[shard].until, calm); l.now() > since+l.lease()+l.poll()+time.Second {
			l.violated("12: %v has no owner since %s", shard, since)
		}
	}
	if l.full() {
		return
	}
	for _, no := range slices.Sorted(maps.Keys(l.runs)) {
		r := l.runs[no]
		since := max(l.owners[r.Shard].since, calm)
		switch {
		case r.Claimed, r.Status.Terminal(), l.owners[r.Shard].until < l.now():
		case r.ready >= 0:
			if l.now() > max(since, r.ready)+l.poll()+soon {
				l.violated("26: %s of %v is ready since %s, and nobody has claimed it", r.ID, r.Shard, r.ready)
			}
		case r.WakeAt > 0 && r.Marks&still == 0:
			// The promise is a lease more, for an owner that has died. This one lives, and knows the time.
			if due := l.since(r.WakeAt); l.now() > max(since, due)+soon {
				l.violated("26: %s of %v is to be woken at %s, and nobody has claimed it", r.ID, r.Shard, due)
			}
		}
	}
}

// shards returns those that have an owner. A store with one slot has no groups of nodes.
func (l *lates) shards() (all []store.Shard) {
	groups := map[string]bool{store.SystemGroup: true}
	for _, n := range l.plan.Nodes {
		if n.Until > 0 {
			continue
		}
		if len(n.Groups) == 0 || l.plan.Slots == 1 {
			groups[store.DefaultGroup] = true
			continue
		}
		for _, g := range n.Groups {
			groups[g] = true
		}
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		for slot := range l.plan.Slots {
			all = append(all, store.Shard{Group: g, Slot: slot})
		}
	}
	return all
}
