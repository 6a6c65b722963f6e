package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/stet-run/stet/store"
)

// resolve addresses runs that were replaced, and are named ID@N since, by their number:
// they are not in the part of their name but in that of their number.
//
// A batch of a lane does not wait for other lanes. If one does not answer, a name of that form is
// taken to be that of a replaced run, and the name that a run would get to be free.
func (c *committing) resolve(ctx context.Context) error {
	if c.parts == 1 {
		return nil
	}
	names := map[string]store.RunNo{}
	replaces := map[string]store.ExistingPolicy{}
	look := func(list []store.Command) {
		for i := range list {
			if no := replaced(list[i].RunID); no > 0 {
				names[list[i].RunID] = no
			}
			st := list[i].Start
			if st != nil && st.Existing != store.KeepExisting {
				replaces[st.ID] = max(replaces[st.ID], st.Existing)
			}
			if st != nil && st.Queue != nil {
				if no := replaced(st.Queue.Ask.RunID); no > 0 {
					names[st.Queue.Ask.RunID] = no
				}
			}
		}
	}
	for i := range c.b.Commands {
		if !c.undecided(&c.b.Commands[i]) {
			look(c.b.Commands[i : i+1])
		}
	}
	for _, t := range c.b.Turns {
		for _, sends := range t.Sent(store.Committed) {
			look(sends)
		}
	}
	taken, err := c.takenSoon(ctx, replaces)
	if err != nil || len(names)+len(taken) == 0 {
		return err
	}
	if err := c.find(ctx, names); err != nil {
		return err
	}
	b := *c.b
	b.Turns = slices.Clone(b.Turns)
	for i, t := range b.Turns {
		turn := *t
		if t.Update != nil {
			update := *t.Update
			turn.Update = &update
		}
		b.Turns[i] = &turn
	}
	number := func(list []store.Command) []store.Command {
		list = slices.Clone(list)
		for i := range list {
			if no, ok := names[list[i].RunID]; ok {
				list[i].RunID, list[i].RunNo = "", no
			}
			st := list[i].Start
			if st == nil {
				continue
			}
			start := *st
			if taken[st.ID] {
				start.Existing = store.KeepExisting
			}
			if start.Queue != nil {
				if no, ok := names[st.Queue.Ask.RunID]; ok {
					queue := *st.Queue
					queue.Ask.RunID, queue.Ask.RunNo = "", no
					start.Queue = &queue
				}
			}
			list[i].Start = &start
		}
		return list
	}
	b.Commands = number(b.Commands)
	for _, t := range b.Turns {
		t.Sends = number(t.Sends)
		if t.Update != nil {
			t.Update.Sends = number(t.Update.Sends)
		}
	}
	c.b = &b
	return nil
}

// find deletes the names that are not those of replaced runs. What another lane than the batch's
// would have to say is guessed if it does not answer.
func (c *committing) find(ctx context.Context, names map[string]store.RunNo) error {
	byLane := map[int][]string{} // -1: not by lanes
	for id, no := range names {
		lane := -1
		if c.lane != nil {
			lane = c.laneOf[c.partOfRun(no)]
		}
		byLane[lane] = append(byLane[lane], id)
	}
	for lane, ids := range byLane {
		elsewhere := c.lane != nil && lane != c.lane.index
		limited, cancel := ctx, context.CancelFunc(func() {})
		if elsewhere {
			limited, cancel = context.WithTimeout(ctx, otherLanes)
		}
		err := c.findOf(limited, ids, names)
		cancel()
		switch {
		case err == nil:
		case !elsewhere || ctx.Err() != nil:
			return err
		default:
			for _, id := range ids {
				if c.guessed == nil {
					c.guessed = map[string]store.RunNo{}
				}
				c.guessed[id] = names[id]
				delete(names, id)
			}
		}
	}
	return nil
}

// findOf is find for some of the names.
func (c *committing) findOf(ctx context.Context, ids []string, names map[string]store.RunNo) error {
	calls := make([]call, len(ids))
	for i, id := range ids {
		calls[i] = call{c.partOfRun(names[id]), append(listing(byIDs, &store.Filter{}), "1", id)}
	}
	replies, err := c.run(ctx, listScript, "find replaced runs", calls...)
	if err != nil {
		return err
	}
	var r reader
	for i, m := range replies {
		rows := r.list(m)
		if len(rows) == 0 || r.run(rows[0], c.slots).No != names[ids[i]] {
			delete(names, ids[i])
		}
	}
	return r.err
}

// takenSoon is taken. For a lane it waits for others for a moment alone.
func (c *committing) takenSoon(ctx context.Context, ids map[string]store.ExistingPolicy) (map[string]bool, error) {
	if c.lane == nil {
		return c.taken(ctx, ids)
	}
	limited, cancel := context.WithTimeout(ctx, otherLanes)
	defer cancel()
	taken, err := c.taken(limited, ids)
	if err != nil && ctx.Err() == nil {
		return nil, nil
	}
	return taken, err
}

// taken returns the IDs of runs that cannot be replaced, because a run has the name
// that they would then have.
func (c *committing) taken(ctx context.Context, ids map[string]store.ExistingPolicy) (map[string]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	old, err := c.List(ctx, store.Filter{IDs: slices.Collect(maps.Keys(ids)), Limit: store.MaxPage})
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for i := range old.Runs {
		if r := &old.Runs[i]; ids[r.ID].Replaces(r.Status) {
			names[fmt.Sprintf("%s@%d", r.ID, r.No)] = r.ID
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	there, err := c.List(ctx, store.Filter{IDs: slices.Collect(maps.Keys(names)), Limit: store.MaxPage})
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for i := range there.Runs {
		taken[names[there.Runs[i].ID]] = true
	}
	return taken, nil
}

// replaced returns the number in the name of a run that may have been replaced, or 0.
func replaced(id string) store.RunNo {
	for i := len(id) - 1; i > 0; i-- {
		if id[i] == '@' {
			no, err := strconv.ParseInt(id[i+1:], 10, 64)
			if err != nil || strconv.FormatInt(no, 10) != id[i+1:] {
				return 0
			}
			return store.RunNo(no)
		}
		if id[i] < '0' || id[i] > '9' {
			return 0
		}
	}
	return 0
}
