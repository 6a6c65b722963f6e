package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/stet-run/stet/store"
)

// state is the visible state of a store.
type state struct {
	Runs      []store.Run // oldest first
	Entries   map[store.RunNo][]store.Entry
	Items     map[store.RunNo][]store.Item // consumed ones of known IDs too
	Feeds     map[store.RunNo][]store.Feed
	Streams   map[store.RunNo]map[string][]store.StreamItem // their last items, as many as one reading gives
	Audits    map[store.RunNo][]store.Audit
	Lines     map[string][]store.Waiter // the waiting runs, by the ID of an entity
	Admitted  map[string][]store.Waiter
	Counts    []store.Tally
	Workflows []string
	Nodes     []store.Node
	Leases    []store.Lease
	Now       store.Time
}

// view reads the state: all of it. Consumed items are found by their IDs.
func view(ctx context.Context, s store.Store, ids map[string]bool) (*state, error) {
	return (&reader{store: s}).read(ctx, ids, func(store.RunNo) bool { return true })
}

// reader reads the state of a store again and again. Most runs are unchanged. Of such a run it takes the parts that
// need calls for the run alone (consumed and dead items, the audit) from the reading before.
type reader struct {
	store  store.Store
	former *state
	loaded map[store.RunNo]store.Snapshot // of the reading before
	asked  map[store.RunNo]bool           // the runs that the last reading asked for all of theirs
}

// read reads the state, and again all of a run that has changed or that again
// reports true for.
func (r *reader) read(ctx context.Context, ids map[string]bool, again func(no store.RunNo) bool) (*state, error) {
	st := &state{Entries: map[store.RunNo][]store.Entry{}, Items: map[store.RunNo][]store.Item{},
		Audits: map[store.RunNo][]store.Audit{},
		Feeds:  map[store.RunNo][]store.Feed{}, Streams: map[store.RunNo]map[string][]store.StreamItem{}}
	runs, err := r.runs(ctx, true)
	if err != nil {
		return nil, err
	}
	st.Runs = runs
	known := slices.Sorted(maps.Keys(ids))
	loaded, asked := map[store.RunNo]store.Snapshot{}, map[store.RunNo]bool{}
	if len(st.Runs) > 0 {
		if loaded, err = snapshotsOf(ctx, r.store, st.numbers()); err != nil {
			return nil, err
		}
	}
	for i := range st.Runs {
		no := st.Runs[i].No
		snap, before := loaded[no], r.loaded[no]
		if again(no) || !reflect.DeepEqual(snap, before) {
			asked[no] = true
			if err := st.readRun(ctx, r.store, &st.Runs[i], r.known(no, known)); err != nil {
				return nil, err
			}
			continue
		}
		st.Entries[no], st.Audits[no], st.Items[no] = r.former.Entries[no], r.former.Audits[no], r.former.Items[no]
	}
	st.tidy()
	if err := st.readFeeds(ctx, r.store); err != nil {
		return nil, err
	}
	if err := st.readLines(ctx, r.store); err != nil {
		return nil, err
	}
	for _, workflows := range [][]string{nil, {entityWorkflow}} {
		tallies, err := r.store.Count(ctx, store.Filter{Workflows: workflows})
		if err != nil {
			return nil, err
		}
		st.Counts = append(st.Counts, tallies...)
	}
	d, err := r.store.Describe(ctx)
	st.Workflows, st.Nodes, st.Leases, st.Now = d.Workflows, d.Nodes, d.Leases, d.Now
	r.former, r.loaded, r.asked = st, loaded, asked
	return st, err
}

// runs returns all runs, the oldest first.
func (r *reader) runs(ctx context.Context, values bool) (all []store.Run, err error) {
	for _, workflows := range [][]string{nil, {entityWorkflow}} {
		runs, err := pages(ctx, r.store, store.Filter{Workflows: workflows, Values: values, Limit: store.MaxPage})
		if err != nil {
			return nil, err
		}
		all = append(all, slices.Concat(runs...)...)
	}
	slices.SortFunc(all, func(a, b store.Run) int { return cmp.Compare(a.No, b.No) })
	return all, nil
}

// readLines reads the lines of all entities.
func (st *state) readLines(ctx context.Context, s store.Store) (err error) {
	for i := range st.Runs {
		id := st.Runs[i].ID
		if !store.IsEntity(st.Runs[i].Workflow) {
			continue
		}
		for into, admitted := range map[*map[string][]store.Waiter]bool{&st.Lines: false, &st.Admitted: true} {
			found, err := s.Waiting(ctx, store.WaitingQuery{Queue: id, Admitted: admitted})
			if err != nil {
				return err
			}
			if len(found) > 0 {
				if *into == nil {
					*into = map[string][]store.Waiter{}
				}
				(*into)[id] = found
			}
		}
	}
	return nil
}

// numbers returns the numbers of the runs.
func (st *state) numbers() (nos []store.RunNo) {
	for i := range st.Runs {
		nos = append(nos, st.Runs[i].No)
	}
	return nos
}

// tidy removes empty values, so that states can be compared.
func (st *state) tidy() {
	for i := range st.Runs {
		no := st.Runs[i].No
		if len(st.Entries[no]) == 0 {
			delete(st.Entries, no)
		}
		if len(st.Items[no]) == 0 {
			delete(st.Items, no)
		}
		if len(st.Audits[no]) == 0 {
			delete(st.Audits, no)
		}
	}
}

// loadAll loads runs with as many calls as it takes.
func loadAll(ctx context.Context, s store.Store, nos []store.RunNo) ([]store.Snapshot, error) {
	snapshots, left, err := s.Load(ctx, nos)
	for err == nil && len(left) > 0 {
		var more []store.Snapshot
		before := len(left)
		if more, left, err = s.Load(ctx, left); err == nil && len(left) >= before {
			err = fmt.Errorf("of %d runs none was looked at", before)
		}
		snapshots = append(snapshots, more...)
	}
	return snapshots, err
}

// snapshotsOf returns the snapshots of runs by their numbers.
func snapshotsOf(ctx context.Context, s store.Store, nos []store.RunNo) (map[store.RunNo]store.Snapshot, error) {
	snapshots, err := loadAll(ctx, s, nos)
	loaded := make(map[store.RunNo]store.Snapshot, len(snapshots))
	for _, snap := range snapshots {
		loaded[snap.Run.No] = snap
	}
	return loaded, err
}

// known adds to the IDs of items that were sent those that a run's resolutions may have got
// since.
func (r *reader) known(no store.RunNo, sent []string) []string {
	if r.former == nil {
		return sent
	}
	known := slices.Clip(sent)
	for _, it := range r.former.Items[no] {
		if it.Kind == store.ItemResolution {
			known = append(known, store.RefusedID(it.No))
		}
	}
	return known
}

// readRun reads the parts of a run.
func (st *state) readRun(ctx context.Context, s store.Store, r *store.Run, known []string) (err error) {
	if st.Entries[r.No], err = s.History(ctx,
		store.HistoryQuery{Run: r.No, Incarnation: r.Incarnation, Values: true}); err != nil {
		return err
	}
	items, err := s.Inbox(ctx, r.No)
	if err == nil {
		_, err = store.FillItems(ctx, s, r.No, items)
	}
	if err != nil {
		return err
	}
	if len(known) > 0 {
		byID, err := s.Inbox(ctx, r.No, known...)
		if err != nil {
			return err
		}
		for _, it := range byID {
			if it.State == store.Consumed || it.State == store.Dead {
				items = append(items, it)
			}
		}
		slices.SortFunc(items, func(a, b store.Item) int { return int(a.No - b.No) })
	}
	st.Items[r.No] = items
	st.Audits[r.No], err = s.Audit(ctx, r.No)
	return err
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
