package storetest

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/stet-run/stet/store"
)

// state is all that can be seen of a store.
type state struct {
	Runs      []store.Run // oldest first
	Entries   map[store.RunNo][]store.Entry
	Items     map[store.RunNo][]store.Item // consumed ones of known IDs too
	Feeds     map[store.RunNo][]store.Feed
	Streams   map[store.RunNo]map[string][]store.StreamItem // their last items, as many as one reading gives
	Audits    map[store.RunNo][]store.Audit
	Counts    []store.Tally
	Workflows []string
	Nodes     []store.Node
	Leases    []store.Lease
	Now       store.Time
}

// view reads the state. Consumed items are found by their IDs.
func view(ctx context.Context, s store.Store, ids map[string]bool) (*state, error) {
	st := &state{Entries: map[store.RunNo][]store.Entry{}, Items: map[store.RunNo][]store.Item{}, Audits: map[store.RunNo][]store.Audit{},
		Feeds: map[store.RunNo][]store.Feed{}, Streams: map[store.RunNo]map[string][]store.StreamItem{}}
	for _, workflows := range [][]string{nil, {recordWorkflow}} {
		runs, err := pages(ctx, s, store.Filter{Workflows: workflows, Values: true, Limit: store.MaxPage})
		if err != nil {
			return nil, err
		}
		st.Runs = append(st.Runs, slices.Concat(runs...)...)
	}
	slices.SortFunc(st.Runs, func(a, b store.Run) int { return cmp.Compare(a.No, b.No) })
	known := slices.Sorted(maps.Keys(ids))
	for _, r := range st.Runs {
		entries, err := s.History(ctx, store.HistoryQuery{Run: r.No, Incarnation: r.Incarnation, Values: true})
		if err != nil {
			return nil, err
		}
		items, err := s.Inbox(ctx, r.No)
		if err != nil {
			return nil, err
		}
		if len(known) > 0 {
			byID, err := s.Inbox(ctx, r.No, known...)
			if err != nil {
				return nil, err
			}
			for _, it := range byID {
				if it.State == store.Consumed || it.State == store.Dead {
					items = append(items, it)
				}
			}
			slices.SortFunc(items, func(a, b store.Item) int { return int(a.No - b.No) })
		}
		audit, err := s.Audit(ctx, r.No)
		if err != nil {
			return nil, err
		}
		if len(audit) > 0 {
			st.Audits[r.No] = audit
		}
		if len(entries) > 0 {
			st.Entries[r.No] = entries
		}
		if len(items) > 0 {
			st.Items[r.No] = items
		}
	}
	if err := st.readFeeds(ctx, s); err != nil {
		return nil, err
	}
	for _, workflows := range [][]string{nil, {recordWorkflow}} {
		tallies, err := s.Count(ctx, store.Filter{Workflows: workflows})
		if err != nil {
			return nil, err
		}
		st.Counts = append(st.Counts, tallies...)
	}
	d, err := s.Describe(ctx)
	st.Workflows, st.Nodes, st.Leases, st.Now = d.Workflows, d.Nodes, d.Leases, d.Now
	return st, err
}

// note remembers the IDs of the items that a command sends.
func note(ids map[string]bool, c store.Command) {
	if c.Item != nil {
		ids[c.Item.ID] = true
	}
	if c.Start != nil {
		for i := range c.Start.Items {
			ids[c.Start.Items[i].ID] = true
		}
		if p := c.Start.Queue; p != nil && p.Ask.Item != nil {
			ids[p.Ask.Item.ID] = true
		}
		if f := c.Start.Fork; f != nil {
			for i := range f.Items {
				ids[f.Items[i].ID] = true
			}
		}
	}
}
