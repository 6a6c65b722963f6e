package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// errMoved says that a run has changed while it was read.
var errMoved = errors.New("the run goes on while it is read")

// Fork returns the start of a run that is forked from another before a location,
// except for its ID, seed and shard. A history.Refusal says why it cannot be. ok is
// false if there is no such run.
func (e *Engine) Fork(ctx context.Context, runID string, at location.Loc, act store.Audit) (start *store.Start, ok bool, err error) {
	for range 5 {
		run, ok, err := e.Get(ctx, runID)
		if err != nil || !ok {
			return nil, ok, err
		}
		if r := verbs.JudgeFork(&run); r.Refused != "" {
			return nil, true, history.Refusal(r.Refused)
		}
		start, err = e.forkOf(ctx, &run, at, act)
		if !errors.Is(err, errMoved) {
			return start, true, err
		}
	}
	return nil, true, errMoved
}

func (e *Engine) forkOf(ctx context.Context, run *store.Run, at location.Loc, act store.Audit) (*store.Start, error) {
	s, err := e.whole(ctx, run.No)
	if err != nil {
		return nil, err
	}
	ids, err := history.Consumed(s.Entries)
	if err != nil {
		return nil, err
	}
	kinds := map[string]store.ItemKind{}
	if len(ids) > 0 {
		rows, err := e.cfg.Store.Inbox(ctx, run.No, ids...)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			kinds[rows[i].ID] = rows[i].Kind
		}
	}
	fork, back, err := history.Fork(s, at, kinds, e.time.now())
	if err != nil {
		return nil, err
	}
	from := strings.TrimSuffix(s.Run.ID, fmt.Sprintf("@%d", s.Run.No))
	act.Detail = fmt.Sprintf("from run %s (number %d) before %s, without %s", from, s.Run.No, at.Path(), back)
	fork.Audit = []store.Audit{act}
	start := &store.Start{
		Workflow: s.Run.Workflow, Input: s.Run.Input, Headers: s.Run.Headers, Tags: s.Run.Tags,
		Shard: s.Run.Shard, Fork: fork,
	}
	if s.Run.Queue != nil {
		start.Queue = &store.QueueEntry{Data: s.Run.Queue} // as it was: see PlaceFork
	}
	return start, nil
}
