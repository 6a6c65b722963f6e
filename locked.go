package stet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// lock is what a queue says of a run that waits for a permit that ancestors hold.
type lock struct {
	queue, key string
	held       int      // permits that there are
	holders    []string // IDs, of the first ones
}

// text says it of the operation, as "for step call"; "": of the run itself.
func (l *lock) text(operation string) string {
	return fmt.Sprintf("waits for a permit of queue %s%s; %s", l.queue, operation, l.heldBy("its only permit", "all its"))
}

// String says who holds the permits and who waits for them.
func (l QueueLock) String() string {
	wait, waiting := "waits", strings.Join(l.Waiting, ", ")
	if len(l.Waiting) > 1 {
		wait = "wait"
	}
	if len(l.Waiting) == permit.MaxLockWaiting {
		waiting += " and perhaps others"
	}
	held := lock{key: l.Key, held: l.Held, holders: l.Holders}
	return fmt.Sprintf("%s, for which %s %s", held.heldBy("the only permit", "all"), waiting, wait)
}

// heldBy says who holds the permits, by the words for one permit and for several.
func (l *lock) heldBy(one, all string) string {
	permits, are, wait := one, "is", "waits"
	if l.held > 1 {
		permits, are = fmt.Sprintf("%s %d permits", all, l.held), "are"
	}
	if l.key != "" {
		permits += " of key " + l.key
	}
	holders := strings.Join(l.holders, ", ")
	if len(l.holders) > 1 {
		wait = "wait"
	}
	if len(l.holders) == permit.MaxLockHolders && l.held > len(l.holders) {
		holders += " and others"
	}
	return fmt.Sprintf("%s %s held by %s, which only %s", permits, are, holders, wait)
}

// lockedRuns adds to the children among runs that wait for a permit that their ancestors hold what their queues say.
func (e *Engine) lockedRuns(ctx context.Context, infos []RunInfo) error {
	var ids []string
	for i := range infos {
		if infos[i].Parent == 0 || infos[i].Status.Terminal() {
			continue
		}
		if q := infos[i].OnQueue; q != nil && q.Waits {
			ids = append(ids, permit.EntityID(q.Name))
		}
		for k := range infos[i].WaitsFor {
			if name := infos[i].WaitsFor[k].Queue; name != "" {
				ids = append(ids, permit.EntityID(name))
			}
		}
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		return nil
	}
	locks, err := e.locks(ctx, store.Filter{IDs: ids, Limit: len(ids)})
	if err != nil {
		return err
	}
	for i := range infos {
		if l := locks[infos[i].ID]; l != nil {
			infos[i].Marks |= store.Locked
			infos[i].lock = l
		}
	}
	return nil
}

// locks returns, by ID, the runs that wait for permits of queues which are all held by ancestors of theirs that only
// wait. f selects the records of the queues.
func (e *Engine) locks(ctx context.Context, f store.Filter) (map[string]*lock, error) {
	locks := map[string]*lock{}
	for {
		page, err := e.store.List(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("read queues: %w", err)
		}
		states, err := e.inner.Queues().States(ctx, page.Runs)
		if err != nil {
			return nil, fmt.Errorf("read queues: %w", err)
		}
		for i := range states {
			name, _ := permit.Queue(page.Runs[i].ID)
			for _, l := range states[i].Locks {
				one := &lock{name, l.Key, l.Held, l.Holders}
				for _, id := range l.Waiting {
					if locks[id] == nil {
						locks[id] = one
					}
				}
			}
		}
		if f.Cursor = page.Next; page.Next == "" {
			return locks, e.onlyWaiting(ctx, locks)
		}
	}
}

// queueLocksOf returns the locks of a queue as its state has them.
func queueLocksOf(s *permit.State) []QueueLock {
	var list []QueueLock
	for _, l := range s.Locks {
		list = append(list, QueueLock{Key: l.Key, Held: l.Held, Holders: l.Holders, Waiting: l.Waiting})
	}
	return list
}

// queueLocks removes from the queues the locks that onlyWaiting removes.
func (e *Engine) queueLocks(ctx context.Context, infos ...*QueueInfo) error {
	place := func(q *QueueInfo, l QueueLock) string { return q.Name + "\x00" + l.Key }
	locks := map[string]*lock{}
	for _, q := range infos {
		for _, l := range q.Locks {
			locks[place(q, l)] = &lock{q.Name, l.Key, l.Held, l.Holders}
		}
	}
	if len(locks) == 0 {
		return nil
	}
	if err := e.onlyWaiting(ctx, locks); err != nil {
		return err
	}
	for _, q := range infos {
		q.Locks = slices.DeleteFunc(q.Locks, func(l QueueLock) bool { return locks[place(q, l)] == nil })
	}
	return nil
}

// onlyWaiting removes a lock if one of its holders executes, is paused, or has a wake time.
func (e *Engine) onlyWaiting(ctx context.Context, locks map[string]*lock) error {
	ids := map[string]bool{} // true: it only waits
	for _, l := range locks {
		for _, id := range l.holders {
			ids[id] = false
		}
	}
	var all []string
	for id := range ids {
		all = append(all, id)
	}
	for chunk := range slices.Chunk(all, store.DefaultPage) {
		page, err := e.store.List(ctx, store.Filter{IDs: chunk, Limit: len(chunk)})
		if err != nil {
			return fmt.Errorf("read the holders of permits: %w", err)
		}
		for i := range page.Runs {
			run := &page.Runs[i]
			ids[run.ID] = run.Status == store.Suspended && run.Marks&(store.Paused|store.Held) == 0 && run.WakeAt == 0
		}
	}
	for waiting, l := range locks {
		if slices.ContainsFunc(l.holders, func(id string) bool { return !ids[id] }) {
			delete(locks, waiting)
		}
	}
	return nil
}

// resolve returns the filter as a store takes it. It has the number of the parent in place of its ID. It has the IDs of
// the runs that have the mark Locked in place of that mark, which no store knows. none: there are no such runs.
func (e *Engine) resolve(ctx context.Context, f store.Filter) (out store.Filter, none bool, err error) {
	found, err := f.ResolveParent(func(id string) (store.RunNo, error) {
		run, err := e.find(ctx, id)
		if err != nil {
			if errors.Is(err, ErrNotFound) {
				return 0, nil
			}
			return 0, err
		}
		return run.No, nil
	})
	if err == nil && !found {
		err = fmt.Errorf("parent: expected the ID or number of a run, found %q: %w", f.ParentID, ErrNotFound)
	}
	if err != nil || f.Marks&store.Locked == 0 {
		return f, false, err
	}
	locks, err := e.locks(ctx, store.Filter{Workflows: []string{permit.Workflow}})
	if err != nil {
		return f, false, err
	}
	var ids []string
	for id := range locks {
		if len(f.IDs) == 0 || slices.Contains(f.IDs, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	f.Marks, f.IDs = f.Marks&^store.Locked, ids
	return f, len(ids) == 0, nil
}
