package queue

import (
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// expect adds a request to the waiting ones.
func (q *Rules) expect(r *request) {
	q.waiting[r.ticket] = r
	for _, id := range r.Above {
		q.above[id]++
	}
}

// unexpect is the inverse of expect.
func (q *Rules) unexpect(r *request) {
	delete(q.waiting, r.ticket)
	for _, id := range r.Above {
		if q.above[id]--; q.above[id] == 0 {
			delete(q.above, id)
		}
	}
}

// noteLock notes, every minute, that ancestors hold what their descendants wait for. The queue does not know
// whether the holders only wait.
func (q *Rules) noteLock(now store.Time, w *entity.Writer) {
	if len(q.locks) == 0 {
		q.locked = 0
		return
	}
	l := &q.locks[0]
	switch {
	case q.lockedAt+missEvery > now: // it may pass
		q.locked = q.lockedAt + missEvery
	case q.locked <= now: // 0 where the queue has just come into memory
		q.locked = now + missEvery
		w.Note("the permits of a queue are held by runs whose children wait for them: if these runs wait for the children "+
			"nothing goes on; set ReleaseWhileSuspended, raise the limit, or give the children another queue",
			"queue", q.name, "key", l.Key, "run_id", l.Waiting[0], "holders", l.Holders)
	}
}

// findLocks finds the limits whose permits are all held by ancestors of runs that wait for them.
func (q *Rules) findLocks() {
	q.locks = nil
	if !q.head.Exists || q.head.Paused || len(q.above) == 0 {
		return
	}
	blocked := q.blockedHere()
	for n := -1; n != len(blocked); { // until what is left is blocked by ancestors of what is left
		n = len(blocked)
		above := map[string]bool{}
		for _, b := range blocked {
			for _, id := range b.request.Above {
				above[id] = true
			}
		}
		blocked = slices.DeleteFunc(blocked, func(b block) bool {
			return slices.ContainsFunc(b.holders, func(id string) bool { return !above[id] })
		})
	}
	slices.SortFunc(blocked, func(a, b block) int { return a.request.compare(b.request) })
	for _, b := range blocked {
		q.addLock(b)
	}
	if len(blocked) > 0 {
		q.lockedAt = blocked[0].request.Due
	}
}

// block is a request that has ancestors, and a limit that lets it wait.
type block struct {
	request *request
	key     string   // of the limit; "": it is that of the queue
	holders []string // of the limit's permits
}

// blockedHere returns the requests with ancestors that a limit lets wait, for each limit that only ancestors of
// requests hold. Other limits cost nothing for each request: a queue may have many.
func (q *Rules) blockedHere() []block {
	limits := q.heldByAncestors()
	if len(limits) == 0 {
		return nil
	}
	var blocked []block
	for _, r := range q.waiting {
		if !r.queued || len(r.Above) == 0 {
			continue
		}
		if holders := limits[""]; holders != nil {
			blocked = append(blocked, block{r, "", holders})
		}
		if holders := limits[r.Key]; r.Key != "" && holders != nil {
			blocked = append(blocked, block{r, r.Key, holders})
		}
	}
	return blocked
}

// heldByAncestors returns the holders of each limit that is reached, and whose holders are all ancestors of runs that
// wait; by key, and "" for the limit of the queue.
func (q *Rules) heldByAncestors() map[string][]string {
	s, limits := q.head.settings(), map[string][]string{}
	for _, h := range q.held {
		limits[""] = append(limits[""], h.RunID)
		if h.Key != "" {
			limits[h.Key] = append(limits[h.Key], h.RunID)
		}
	}
	maps.DeleteFunc(limits, func(key string, ids []string) bool {
		limit := s.PerKey
		if key == "" {
			limit = s.Concurrency
		}
		return limit <= 0 || len(ids) < limit || slices.ContainsFunc(ids, func(id string) bool { return q.above[id] == 0 })
	})
	for _, ids := range limits {
		slices.Sort(ids)
	}
	return limits
}

// addLock enters a request in the lock of its limit.
func (q *Rules) addLock(b block) {
	i := slices.IndexFunc(q.locks, func(l permit.Lock) bool { return l.Key == b.key })
	if i < 0 {
		if len(q.locks) == permit.MaxLocks {
			return
		}
		i = len(q.locks)
		holders := slices.Compact(slices.Clone(b.holders))
		q.locks = append(q.locks, permit.Lock{Key: b.key, Held: len(b.holders),
			Holders: holders[:min(len(holders), permit.MaxLockHolders)]})
	}
	if l := &q.locks[i]; len(l.Waiting) < permit.MaxLockWaiting && !slices.Contains(l.Waiting, b.request.RunID) {
		l.Waiting = append(l.Waiting, b.request.RunID)
	}
}
