package live

import (
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// What this process commits of a run is told at once, and not at the next tick: a hub gives the
// hints of the engine to the followers of the run. How often it does is bounded by what that
// costs, so that being looked at takes no more than a fiftieth of a processor.
const (
	// pause is the least time between two hints.
	pause = 25 * time.Millisecond
	// share is how much longer than its cost the time to the next hint is.
	share = 50
	// eventCost is what an event costs for each follower, about.
	eventCost = 40 * time.Microsecond
)

// hub gives hints about a run to its followers.
type hub struct {
	run   store.RunNo
	id    string
	stop  chan struct{} // closed when the last follower leaves
	ended chan struct{} // closed when its goroutine ends

	// Guarded by Reads.mu.
	followers map[*Follower]bool
	since     time.Time // of the last hint: what was read before is old
}

// Listen returns a channel with a hint when Round may have something to tell before the next tick.
// Close must be called.
func (f *Follower) Listen() <-chan struct{} {
	f.hints, f.joined = make(chan struct{}, 1), map[string]*hub{}
	return f.hints
}

// Close ends the hints.
func (f *Follower) Close() {
	for id := range f.joined {
		f.leave(id)
	}
}

// join has the follower get hints about a run. It reports whether it was not there before.
func (f *Follower) join(info *stet.RunInfo) bool {
	former := f.joined[info.ID]
	if f.hints == nil || former != nil && former.run == info.Number {
		return false
	}
	f.leave(info.ID)
	r := f.reads
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hubs[info.Number]
	if h == nil {
		h = &hub{run: info.Number, id: info.ID, stop: make(chan struct{}), ended: make(chan struct{}),
			followers: map[*Follower]bool{}, since: time.Now()}
		r.hubs[h.run] = h
		hints, leave := stet.CommitsOf(r.engine, h.run)
		go func() {
			defer close(h.ended)
			defer leave()
			h.give(r, hints)
		}()
	}
	h.followers[f] = true
	f.joined[info.ID] = h
	return true
}

// leave ends the hints about a run. The last follower waits for the end of the hub.
func (f *Follower) leave(id string) {
	h := f.joined[id]
	if h == nil {
		return
	}
	delete(f.joined, id)
	f.reads.mu.Lock()
	delete(h.followers, f)
	last := len(h.followers) == 0
	if last {
		delete(f.reads.hubs, h.run)
		close(h.stop)
	}
	f.reads.mu.Unlock()
	if last {
		<-h.ended
	}
}

// since returns when the last hint about a run was given.
func (f *Follower) since(id string) time.Time {
	h := f.joined[id]
	if h == nil {
		return time.Time{}
	}
	f.reads.mu.Lock()
	defer f.reads.mu.Unlock()
	return h.since
}

// give gives hints until the last follower has left.
func (h *hub) give(r *Reads, hints <-chan struct{}) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-h.stop:
			return
		}
		select {
		case <-hints:
		case <-h.stop:
			return
		}
		r.mu.Lock()
		h.since = time.Now()
		for f := range h.followers {
			select {
			case f.hints <- struct{}{}:
			default:
			}
		}
		cost := time.Duration(len(h.followers)) * eventCost
		for _, key := range []string{"run", "inbox", "feeds", "history"} {
			if s := r.slots[key+"\x00"+h.id]; s != nil && s.mu.TryLock() { // otherwise it is being read
				cost += min(s.took[0], s.took[1]) // one may have waited for the machine
				s.mu.Unlock()
			}
		}
		r.mu.Unlock()
		next.Reset(max(pause, share*cost))
	}
}
