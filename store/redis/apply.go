package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/stet-run/stet/store"
)

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	if err := store.ValidateCommands(commands); err != nil {
		return nil, 0, err
	}
	if err := s.check(commands); err != nil {
		return nil, 0, err
	}
	c := committing{Store: s, b: &store.Batch{Commands: commands}}
	if err := c.resolve(ctx); err != nil {
		return nil, 0, err
	}
	if err := c.commit(ctx); err != nil {
		return nil, 0, fmt.Errorf("apply: %w", err)
	}
	s.hints.tell()
	return c.result.Commands, c.result.Now, nil
}

// resolve finds the numbers of runs that are addressed by the name of a replaced run,
// ID@N: these are not in the part of their name but in that of their number.
func (c *committing) resolve(ctx context.Context) error {
	if c.parts == 1 {
		return nil
	}
	names := map[string]store.RunNo{}
	look := func(list []store.Command) {
		for i := range list {
			id := list[i].RunID
			if list[i].Start != nil {
				id = list[i].Start.ID
			}
			if no := replaced(id); no > 0 {
				names[id] = no
			}
		}
	}
	look(c.b.Commands)
	for _, t := range c.b.Turns {
		for _, sends := range t.Sent(store.Committed) {
			look(sends)
		}
	}
	if len(names) == 0 {
		return nil
	}
	var calls []call
	var ids []string
	for id, no := range names {
		ids = append(ids, id)
		calls = append(calls, call{c.partOfRun(no), []string{"d", "0", "1", id}})
	}
	replies, err := c.run(ctx, listScript, "find replaced runs", calls...)
	if err != nil {
		return err
	}
	var r reader
	c.named = map[string]store.RunNo{}
	for i, m := range replies {
		for _, row := range r.list(m) {
			if run := r.run(row, c.slots); run.No == names[ids[i]] {
				c.named[ids[i]] = run.No
			}
		}
	}
	return r.err
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
