package queue

import (
	"slices"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// expect adds a request to those that wait.
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
	if !q.head.Exists || q.head.Paused || !q.ancestorsHold() {
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

// ancestorsHold reports whether an ancestor of a run that waits holds a permit.
func (q *Rules) ancestorsHold() bool {
	if len(q.above) == 0 {
		return false
	}
	for _, h := range q.held {
		if q.above[h.RunID] > 0 {
			return true
		}
	}
	return false
}

// block is a request that has ancestors, and a limit that lets it wait.
type block struct {
	request *request
	key     string   // of the limit; "": it is that of the queue
	holders []string // of the limit's permits
}

// blockedHere returns the requests with ancestors that a limit lets wait, for each limit that does.
func (q *Rules) blockedHere() []block {
	s := q.head.settings()
	var all []string
	of := map[string][]string{}
	for _, h := range q.held {
		all, of[h.Key] = append(all, h.RunID), append(of[h.Key], h.RunID)
	}
	slices.Sort(all)
	for _, ids := range of {
		slices.Sort(ids)
	}
	full := s.Concurrency > 0 && len(q.held) >= s.Concurrency
	var blocked []block
	for _, r := range q.waiting {
		if !r.queued || len(r.Above) == 0 {
			continue
		}
		if full {
			blocked = append(blocked, block{r, "", all})
		}
		if s.PerKey > 0 && r.Key != "" && len(of[r.Key]) >= s.PerKey {
			blocked = append(blocked, block{r, r.Key, of[r.Key]})
		}
	}
	return blocked
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
