package memory

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Store is a handle on a store in memory. It is safe for concurrent use.
type Store struct {
	*data
	wake   chan struct{} // capacity 1: another handle has changed the store
	closed chan struct{}
}

// data is shared by all handles.
type data struct {
	id    string
	slots int
	clock func() time.Time
	given bool // somebody has given the clock
	next  func(id string) store.RunNo

	mu        sync.Mutex
	handles   map[*Store]bool
	now       store.Time // of the latest act
	lastRun   store.RunNo
	lastItem  store.ItemNo
	runs      map[store.RunNo]*run
	ids       map[string]*run
	dirty     map[*run]bool // has unexamined items
	nodes     map[boot]*node
	leases    map[store.Shard]*lease
	workflows map[string]bool
}

// condition says whether a run is to be worked on, or is being worked on.
type condition uint8

const (
	idle condition = iota
	ready
	claimed
)

type run struct {
	store.Run
	condition condition
	entries   map[entryKey]*store.Entry
	items     []*store.Item // by number
	itemIDs   map[string]*store.Item
	feeds     map[feedKey]*feed
	audit     []store.Audit
	line      *store.Line // nil: it is in none
	waitsFrom store.Time  // in its line
}

type entryKey struct {
	incarnation int
	loc         string
}

// boot is one life of a node.
type boot struct{ node, boot string }

type node struct {
	store.Node
	listed   bool // registered, and no later boot of its node is
	batch    int64
	verdicts []store.TurnResult
}

type lease struct {
	store.Lease
	held   bool
	clean  bool // given back
	holder *Store
}

// Option is an option of New.
type Option func(*data)

// Clock makes the store read the time from now, which is safe for concurrent
// use. What it returns may go back; the store's time does not.
func Clock(now func() time.Time) Option { return func(d *data) { d.clock, d.given = now, true } }

// Slots gives the store n slots; the default is 1.
func Slots(n int) Option { return func(d *data) { d.slots = n } }

// Numbers makes the store take the numbers of runs from next, which gets the ID of a new run and returns a number
// that no run has had. It is called while the store is locked. It is for tests that compare the store with another
// one, which numbers runs that are made together in an order of its own.
func Numbers(next func(id string) store.RunNo) Option { return func(d *data) { d.next = next } }

// New returns an empty store.
func New(opts ...Option) *Store {
	begun := time.Now()
	steady := storekit.Monotonic(time.Now, func() time.Duration { return time.Since(begun) })
	d := &data{
		id: "memory", slots: 1, clock: func() time.Time { return steady().Time() }, handles: map[*Store]bool{},
		runs: map[store.RunNo]*run{}, ids: map[string]*run{}, dirty: map[*run]bool{},
		nodes: map[boot]*node{}, leases: map[store.Shard]*lease{}, workflows: map[string]bool{},
	}
	d.next = func(string) store.RunNo { return d.lastRun + 1 }
	for _, opt := range opts {
		opt(d)
	}
	return d.open()
}

// Join returns another handle on the same data, as another process would have.
func (s *Store) Join() *Store { return s.open() }

func (d *data) open() *Store {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &Store{data: d, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	d.handles[s] = true
	return s
}

// Close closes the handle. The leases that a node took through it are then those of a dead
// process.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handles[s] {
		delete(s.handles, s)
		close(s.closed)
		s.changed(s)
	}
	return nil
}

// act begins an act: it locks the store and returns the time. The caller
// unlocks, also after an error.
func (s *Store) act(ctx context.Context) (store.Time, error) {
	s.mu.Lock()
	if !s.handles[s] {
		return 0, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if now := store.TimeOf(s.clock()); now > s.now {
		s.now = now
	}
	return s.now, nil
}

// changed notifies the other handles.
func (d *data) changed(from *Store) {
	for h := range d.handles {
		if h != from {
			select {
			case h.wake <- struct{}{}:
			default:
			}
		}
	}
}

// Changed implements store.Store.
func (s *Store) Changed(ctx context.Context) (store.Change, error) {
	select {
	case <-s.wake:
		return store.Anything(), nil
	case <-s.closed:
		return store.Change{}, store.ErrClosed
	case <-ctx.Done():
		return store.Change{}, ctx.Err()
	}
}

// Describe implements store.Store.
func (s *Store) Describe(ctx context.Context) (store.Description, error) {
	now, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return store.Description{}, err
	}
	d := store.Description{
		ID: s.id, Kind: "memory", Schema: 1, Slots: s.slots, Durable: "nothing survives the process", Now: now,
		OwnClock: !s.given, Lines: true,
		Workflows: slices.Sorted(maps.Keys(s.workflows)),
	}
	for _, n := range s.nodes {
		if n.listed {
			d.Nodes = append(d.Nodes, cloneNode(n.Node))
		}
	}
	slices.SortFunc(d.Nodes, func(a, b store.Node) int { return cmp.Compare(a.ID, b.ID) })
	for _, l := range s.leases {
		if l.held {
			d.Leases = append(d.Leases, l.Lease)
		}
	}
	slices.SortFunc(d.Leases, func(a, b store.Lease) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Shard.Slot, b.Shard.Slot))
	})
	return d, nil
}

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	var snapshots []store.Snapshot
	bytes := 0
	for i, no := range runs {
		if bytes >= store.LoadBytes {
			return snapshots, runs[i:], nil
		}
		r := s.runs[no]
		if r == nil {
			continue
		}
		snap := store.Snapshot{Run: r.snapshot()}
		for key, e := range r.entries {
			if key.incarnation != r.Incarnation {
				continue
			}
			entry := cloneEntry(e)
			if entry.Size >= store.LargeValue {
				entry.Value = nil
			}
			snap.Entries = append(snap.Entries, entry)
		}
		slices.SortFunc(snap.Entries, func(a, b store.Entry) int { return cmp.Compare(a.Loc, b.Loc) })
		for _, it := range r.items {
			if pending(it) || it.Kind == store.ItemUpdate && it.Verdict == nil {
				snap.Items = append(snap.Items, headOf(it))
			}
		}
		snapshots = append(snapshots, snap)
		bytes += snap.Bytes()
	}
	return snapshots, nil, nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, f store.Filter) (store.Page, error) {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return store.Page{}, err
	}
	if f.ByEnded {
		return s.listEnded(&f)
	}
	limit, below, err := f.Bounds()
	if err != nil {
		return store.Page{}, err
	}
	var page store.Page
	for _, no := range slices.Backward(slices.Sorted(s.selected(&f))) {
		r := s.runs[no]
		if below != 0 && no >= below || !matches(r, &f) {
			continue
		}
		if len(page.Runs) == limit {
			page.Next = store.EncodeCursor(page.Runs[limit-1].No)
			break
		}
		listed := r.snapshot()
		f.Trim(&listed)
		page.Runs = append(page.Runs, listed)
	}
	return page, nil
}

// listEnded returns runs by their ends.
func (d *data) listEnded(f *store.Filter) (store.Page, error) {
	limit, after, err := f.After()
	if err != nil {
		return store.Page{}, err
	}
	var ended []*run
	for no := range d.selected(f) {
		if r := d.runs[no]; r.Ended > 0 && after.Before(store.PlaceOf(&r.Run)) && matches(r, f) {
			ended = append(ended, r)
		}
	}
	slices.SortFunc(ended, func(a, b *run) int {
		return cmp.Or(cmp.Compare(b.Ended, a.Ended), cmp.Compare(b.No, a.No))
	})
	var page store.Page
	for _, r := range ended[:min(limit, len(ended))] {
		listed := r.snapshot()
		f.Trim(&listed)
		page.Runs = append(page.Runs, listed)
	}
	if len(ended) > limit {
		page.Next = store.PlaceOf(&page.Runs[limit-1]).Encode()
	}
	return page, nil
}

// selected yields the numbers of the runs that may match a filter. It does not look at all
// runs if the filter has IDs.
func (d *data) selected(f *store.Filter) iter.Seq[store.RunNo] {
	if len(f.IDs) == 0 {
		return maps.Keys(d.runs)
	}
	found := make(map[store.RunNo]bool, len(f.IDs))
	for _, id := range f.IDs {
		if r := d.ids[id]; r != nil {
			found[r.No] = true
		}
	}
	return maps.Keys(found)
}

// Count implements store.Store.
func (s *Store) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if _, _, err := f.Bounds(); err != nil {
		return nil, err
	}
	counts := storekit.Counts{}
	for _, r := range s.runs {
		if matches(r, &f) {
			counts[storekit.Counted{Workflow: r.Workflow, Status: r.Status}]++
		}
	}
	return counts.Tallies(f.Most), nil
}

func matches(r *run, f *store.Filter) bool {
	in := func(n int, contains bool) bool { return n == 0 || contains }
	return !(f.HidesEntities() && store.IsEntity(r.Workflow)) &&
		in(len(f.IDs), slices.Contains(f.IDs, r.ID)) &&
		in(len(f.Nos), slices.Contains(f.Nos, r.No)) &&
		len(r.ID) >= len(f.IDPrefix) && r.ID[:len(f.IDPrefix)] == f.IDPrefix &&
		in(len(f.Workflows), slices.Contains(f.Workflows, r.Workflow)) &&
		in(len(f.Statuses), slices.Contains(f.Statuses, r.Status)) &&
		r.Marks&f.Marks == f.Marks &&
		(f.Parent == 0 || r.Parent == f.Parent) &&
		tagged(r, f.TagValues()) &&
		r.Created >= f.CreatedFrom && (f.CreatedBefore == 0 || r.Created < f.CreatedBefore) &&
		r.Ended >= f.EndedFrom && (f.EndedBefore == 0 || r.Ended > 0 && r.Ended < f.EndedBefore) &&
		in(len(f.Claimed), r.condition == claimed && slices.Contains(f.Claimed, r.Shard))
}

// tagged reports whether a run's tags have the values, by key.
func tagged(r *run, values map[string][]string) bool {
	for key, want := range values {
		if !slices.ContainsFunc(r.Tags, func(tag store.Pair) bool {
			return tag.Key == key && slices.Contains(want, tag.Value)
		}) {
			return false
		}
	}
	return true
}

// History implements store.Store.
func (s *Store) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r := s.runs[q.Run]
	if r == nil {
		return nil, nil
	}
	var entries []store.Entry
	for key, e := range r.entries {
		if key.incarnation != q.Incarnation || key.loc <= q.After || q.Locs != nil && !slices.Contains(q.Locs, key.loc) {
			continue
		}
		entry := cloneEntry(e)
		if !q.Values {
			entry.Value = nil
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b store.Entry) int { return cmp.Compare(a.Loc, b.Loc) })
	if q.Limit > 0 && len(entries) > q.Limit {
		entries = entries[:q.Limit]
	}
	return entries, nil
}

// Inbox implements store.Store.
func (s *Store) Inbox(ctx context.Context, no store.RunNo, ids ...string) ([]store.Item, error) {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r := s.runs[no]
	if r == nil {
		return nil, nil
	}
	var items []store.Item
	for _, it := range r.items {
		switch {
		case len(ids) == 0 && pending(it):
			items = append(items, headOf(it))
		case slices.Contains(ids, it.ID):
			items = append(items, cloneItem(it))
		}
	}
	return items, nil
}

// Pending implements store.Store.
func (s *Store) Pending(ctx context.Context, q store.PendingQuery) (sum store.Pending, err error) {
	_, err = s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return sum, err
	}
	r := s.runs[q.Run]
	if r == nil {
		return sum, nil
	}
	for _, it := range r.items {
		if pending(it) && (q.Kinds == nil || slices.Contains(q.Kinds, it.Kind)) && (q.Name == "" || q.Name == it.Name) {
			sum.Items, sum.Bytes, sum.Last = sum.Items+1, sum.Bytes+int64(len(it.Value)), it.ID
		}
	}
	return sum, nil
}

// Audit implements store.Store.
func (s *Store) Audit(ctx context.Context, no store.RunNo) ([]store.Audit, error) {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r := s.runs[no]
	if r == nil {
		return nil, nil
	}
	return slices.Clone(r.audit), nil
}

// snapshot returns a copy that belongs to the caller.
func (r *run) snapshot() store.Run {
	c := r.Run
	c.Claimed = r.condition == claimed
	c.Input, c.Output, c.Waits = bytes.Clone(r.Input), bytes.Clone(r.Output), bytes.Clone(r.Waits)
	c.Tags, c.Headers, c.Queue = slices.Clone(r.Tags), bytes.Clone(r.Headers), bytes.Clone(r.Queue)
	c.InputSize, c.OutputSize = len(r.Input), len(r.Output)
	return c
}

func cloneEntry(e *store.Entry) store.Entry {
	c := *e
	c.Value = bytes.Clone(e.Value)
	return c
}

func cloneItem(it *store.Item) store.Item {
	c := *it
	c.Value, c.Headers, c.Verdict = bytes.Clone(it.Value), bytes.Clone(it.Headers), bytes.Clone(it.Verdict)
	return c
}

// headOf returns an item as Load and Claim do.
func headOf(it *store.Item) store.Item {
	c := *it
	c.LeaveOut()
	return cloneItem(&c)
}

func cloneNode(n store.Node) store.Node {
	n.Workflows, n.Groups, n.Requirements = slices.Clone(n.Workflows), slices.Clone(n.Groups), slices.Clone(n.Requirements)
	n.Bodies, n.Tasks, n.Lost = slices.Clone(n.Bodies), slices.Clone(n.Tasks), slices.Clone(n.Lost)
	n.Lacks = slices.Clone(n.Lacks)
	return n
}
