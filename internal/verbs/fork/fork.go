// Package fork makes the start of a run that is forked from another one. What a fork keeps
// of a history is decided by package history; this one reads the run.
package fork

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

// Source is where a run is read from. All fields are required.
type Source struct {
	Store store.Store // with values as they are used
	Now   func() store.Time

	// Values returns entries with their values, or an error if one of them cannot be read.
	Values func(ctx context.Context, run store.RunNo, incarnation int, locs []string) ([]store.Entry, error)
}

// Start returns the start of a run that is forked from another before a location,
// except for its ID, seed and shard. A history.Refusal says why it cannot be. ok is
// false if there is no such run.
func (src *Source) Start(
	ctx context.Context, runID string, at location.Loc, act store.Audit,
) (start *store.Start, ok bool, err error) {
	for range 5 {
		page, err := src.Store.List(ctx, store.Filter{IDs: []string{runID}, Limit: 1})
		if err != nil || len(page.Runs) == 0 {
			return nil, false, err
		}
		run := &page.Runs[0]
		if r := verbs.JudgeFork(run); r.Refused != "" {
			return nil, true, history.Refusal(r.Refused)
		}
		start, err = src.startOf(ctx, run, at, act)
		if !errors.Is(err, errMoved) {
			return start, true, err
		}
	}
	return nil, true, errMoved
}

func (src *Source) startOf(
	ctx context.Context, run *store.Run, at location.Loc, act store.Audit,
) (*store.Start, error) {
	s, err := src.whole(ctx, run.No)
	if err != nil {
		return nil, err
	}
	ids, err := history.Consumed(s.Entries)
	if err != nil {
		return nil, err
	}
	kinds := map[string]store.ItemKind{}
	if len(ids) > 0 {
		rows, err := src.Store.Inbox(ctx, run.No, ids...)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			kinds[rows[i].ID] = rows[i].Kind
		}
	}
	fork, back, err := history.Fork(s, at, kinds, src.Now())
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
		start.Queue = &store.QueueEntry{Data: s.Run.Queue} // as it was: the caller queues it again
	}
	return start, nil
}

// whole reads a run with all values and with its dead letters, which are pending for
// a fork as they would be after a rewind; those that it has refused are not.
func (src *Source) whole(ctx context.Context, no store.RunNo) (*store.Snapshot, error) {
	snapshots, _, err := src.Store.Load(ctx, []store.RunNo{no})
	if err != nil {
		return nil, err
	}
	if len(snapshots) == 0 {
		return nil, errMoved
	}
	s := &snapshots[0]
	if r := verbs.JudgeFork(&s.Run); r.Ended {
		return nil, history.Refusal(r.Refused)
	}
	large := map[string]*store.Entry{}
	var locs []string
	for i := range s.Entries {
		if x := &s.Entries[i]; x.Value == nil && x.Size > 0 {
			large[x.Loc], locs = x, append(locs, x.Loc)
		}
	}
	if len(locs) > 0 {
		values, err := src.Values(ctx, no, s.Run.Incarnation, locs)
		if err != nil {
			return nil, err
		}
		for i := range values {
			if x := large[values[i].Loc]; x.Size == values[i].Size && x.State == values[i].State && x.Seq == values[i].Seq {
				x.Value = values[i].Value
				delete(large, values[i].Loc)
			}
		}
		if len(large) > 0 {
			return nil, errMoved
		}
	}
	switch complete, err := store.FillItems(ctx, src.Store, no, s.Items); {
	case err != nil:
		return nil, err
	case !complete:
		return nil, errMoved
	case !s.Run.Status.Terminal():
		return s, nil
	}
	f := store.DeadFilter{RunIDs: []string{s.Run.ID}, Values: true, Limit: store.MaxPage}
	for {
		page, err := src.Store.DeadLetters(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page.Letters {
			if l := &page.Letters[i]; l.Run == no && l.Item.Verdict == nil && !l.Item.Outdated(s.Run.Incarnation) {
				s.Items = append(s.Items, l.Item)
			}
		}
		if f.Cursor = page.Next; page.Next == "" {
			return s, nil
		}
	}
}
