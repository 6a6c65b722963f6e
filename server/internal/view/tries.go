package view

import (
	"context"
	"slices"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// Bounds of what is read of the failed attempts in a page of entries without values.
const (
	maxTried      = 200      // entries
	maxTriedBytes = 1 << 20  // of their stored values together
	maxTriedValue = 64 << 10 // of one; more than the causes of its attempts take
)

// fillTries completes entries that were read without values with their failed attempts,
// which are part of the values. What is beyond the bounds stays without. edit edits what is
// filled in.
func fillTries(
	ctx context.Context, engine *stet.Engine, run *stet.RunInfo, entries []*api.Entry, edit func(*api.Entry),
) error {
	tried := map[string]*api.Entry{}
	q := stet.HistoryQuery{Values: true, Run: run}
	left := maxTriedBytes
	for _, o := range entries {
		succeeded := 0
		if o.State == store.Done.String() {
			succeeded = 1
		}
		if o.Attempts > succeeded && o.Size <= min(left, maxTriedValue) && len(q.At) < maxTried {
			left -= o.Size
			tried[o.Location] = o
			q.At = append(q.At, o.Location)
		}
	}
	if len(q.At) == 0 {
		return nil
	}
	found, err := engine.Runs().History(ctx, run.ID, q)
	if err != nil {
		return err
	}
	for i := range found {
		full := &api.Entry{Tries: api.AttemptsOf(&found[i])}
		edit(full)
		if o := tried[found[i].Location]; o.Attempts == found[i].Attempts {
			o.Tries, o.Tried = slices.Clip(full.Tries), found[i].Tried
		}
	}
	return nil
}
