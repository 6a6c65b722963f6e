package stet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/entity/queue"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// taskWaits adds to runs that wait for tasks where those tasks are in their queues.
func (e *Engine) taskWaits(ctx context.Context, infos []RunInfo) error {
	locs := map[string][]string{} // of the entries of queues, by the IDs of these
	for i := range infos {
		if !slices.ContainsFunc(infos[i].WaitsFor, func(w WaitInfo) bool { return w.Task != "" }) {
			continue
		}
		var waits []struct{ Queue, Task, Ticket string }
		if json.Unmarshal(infos[i].waits, &waits) != nil {
			continue // only shown
		}
		for _, w := range waits {
			if w.Task != "" && w.Ticket != "" {
				id := permit.EntityID(w.Queue)
				locs[id] = append(locs[id], queue.TaskLocs(w.Ticket)...)
			}
		}
	}
	standing := map[string]*queue.TaskStanding{} // by run and location
	unasked := map[string]func(string) bool{}    // by the IDs of queues
	err := e.readTasks(ctx, locs, func(id string, entries []store.Entry, tasks []queue.TaskStanding) {
		unasked[id] = queue.Unasked(entries)
		for k := range tasks {
			standing[tasks[k].RunID+"\x00"+location.Loc(tasks[k].Loc).String()] = &tasks[k]
		}
	})
	if err != nil {
		return err
	}
	for i := range infos {
		for k := range infos[i].WaitsFor {
			w := &infos[i].WaitsFor[k]
			if s := standing[infos[i].ID+"\x00"+w.Location]; s != nil && w.Task != "" {
				w.Worker, w.TaskSince, w.LeaseUntil = s.Worker, s.Since.Time(), s.Until.Time()
				w.TaskUnasked = s.Until == 0 && unasked[permit.EntityID(w.Queue)](w.Task)
			}
		}
	}
	return nil
}

// readTasks calls each with what stands at locations of queues, by the IDs of their entities. A queue that this process
// has no key for is left out: nobody can say how its tasks stand.
func (e *Engine) readTasks(ctx context.Context, locs map[string][]string,
	each func(id string, entries []store.Entry, tasks []queue.TaskStanding)) error {
	if len(locs) == 0 {
		return nil
	}
	ids := slices.Collect(maps.Keys(locs))
	page, err := e.store.List(ctx, store.Filter{IDs: ids, Limit: len(ids)})
	if err != nil {
		return fmt.Errorf("read the queues of tasks: %w", err)
	}
	for i := range page.Runs {
		run := &page.Runs[i]
		entries, err := e.store.History(ctx, store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation,
			Locs: locs[run.ID], Values: true})
		if err != nil {
			return fmt.Errorf("read queue %q: %w", run.ID, err)
		}
		if payload.ReadableEntries(entries) != nil {
			continue
		}
		tasks, err := queue.ReadTasks(entries)
		if err != nil {
			return fmt.Errorf("read queue %q: %w", run.ID, err)
		}
		each(run.ID, entries, tasks)
	}
	return nil
}

// begunTasks returns when workers have begun tasks last, by their tickets. It reads the queues.
func (e *Engine) begunTasks(ctx context.Context, withdrawn []permit.Withdrawn) (map[string]store.Time, error) {
	begun := map[string]store.Time{}
	for some := range slices.Chunk(withdrawn, 1000) { // at most three locations of each are read
		locs := map[string][]string{}
		for _, w := range some {
			id := permit.EntityID(w.Queue)
			locs[id] = append(locs[id], queue.TaskLocs(w.Ticket)...)
		}
		err := e.readTasks(ctx, locs, func(_ string, _ []store.Entry, tasks []queue.TaskStanding) {
			for k := range tasks {
				begun[tasks[k].Ticket] = tasks[k].Begun
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return begun, nil
}
