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
	look(c.b.Commands)
	for _, t := range c.b.Turns {
		for _, sends := range t.Sent(store.Committed) {
			look(sends)
		}
	}
	taken, err := c.taken(ctx, replaces)
	if err != nil || len(names)+len(taken) == 0 {
		return err
	}
	var calls []call
	var ids []string
	for id, no := range names {
		ids = append(ids, id)
		calls = append(calls, call{c.partOfRun(no), []string{byIDs, flag(false), "1", id}})
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
	return r.err
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
