package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// lookedAt is of how many operations of a run a list finds out which are executing.
const lookedAt = 1000

// readExecuting finds out what the running runs execute: for each the step that has
// executed for longest, of the first thousand of its operations.
func (c *cluster) readExecuting(ctx context.Context, from side, infos []*stet.RunInfo) error {
	c.executing = map[string]string{}
	for _, info := range infos {
		on := c.executor(info)
		if on == "" {
			continue
		}
		switch longest, err := from.longest(ctx, info.ID); {
		case errors.Is(err, stet.ErrNotFound): // it was deleted meanwhile
		case err != nil:
			return err
		case longest != nil:
			c.executing[info.ID] = fmt.Sprintf("executing step %s since %s on %s%s",
				longest.Location, c.since(longest.Since), on, c.mark(longest.Since))
		default: // a step in a transaction has no entry
			c.executing[info.ID] = c.body(info.ID)
		}
	}
	return nil
}

// longestStep returns the step of a run whose body has executed for longest, or nil if none
// is known to. It reads values only of steps that may be executing.
func longestStep(ctx context.Context, e *stet.Engine, runID string) (longest *stet.HistoryEntry, err error) {
	entries, err := e.Runs().History(ctx, runID, stet.HistoryQuery{Limit: lookedAt})
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if o := &entries[i]; o.Kind != store.KindStep || o.State != store.Open || !o.Wake.IsZero() {
			continue
		}
		q := stet.HistoryQuery{Values: true, Limit: 1}
		if i > 0 {
			q.After = entries[i-1].Location
		}
		now, err := e.Runs().History(ctx, runID, q)
		if err != nil {
			return nil, err
		}
		if len(now) == 0 || now[0].Executing.IsZero() {
			continue
		}
		if longest == nil || now[0].Executing.Before(longest.Executing) {
			longest = &now[0]
		}
	}
	return longest, nil
}
