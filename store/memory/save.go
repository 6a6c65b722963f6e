package memory

import (
	"maps"
	"slices"

	"github.com/stet-run/stet/store"
)

// Save keeps the store as it is now. Restore, which may be called several times, sets it
// back to that, for all handles at once: for tests of what becomes of processes whose store
// has lost what it had acknowledged. The store's time does not go back.
func (s *Store) Save() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.data.copyOf()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c := kept.copyOf()
		s.lastRun, s.lastItem = c.lastRun, c.lastItem
		s.runs, s.ids, s.dirty, s.nodes, s.leases, s.workflows = c.runs, c.ids, c.dirty, c.nodes, c.leases, c.workflows
		s.changed(nil)
	}
}

// copyOf returns a copy of what is stored. Values are not copied: a store never changes
// them in place.
func (d *data) copyOf() *data {
	c := &data{
		lastRun: d.lastRun, lastItem: d.lastItem,
		runs: map[store.RunNo]*run{}, ids: map[string]*run{}, dirty: map[*run]bool{},
		nodes: map[boot]*node{}, leases: map[store.Shard]*lease{}, workflows: maps.Clone(d.workflows),
	}
	copies := map[*run]*run{}
	for no, r := range d.runs {
		copies[r] = r.copyOf()
		c.runs[no] = copies[r]
	}
	for id, r := range d.ids {
		c.ids[id] = copies[r]
	}
	for r, dirty := range d.dirty {
		if copies[r] != nil {
			c.dirty[copies[r]] = dirty
		}
	}
	for key, n := range d.nodes {
		of := *n
		of.Node, of.verdicts = cloneNode(n.Node), slices.Clone(n.verdicts)
		c.nodes[key] = &of
	}
	for shard, l := range d.leases {
		of := *l
		c.leases[shard] = &of
	}
	return c
}

func (r *run) copyOf() *run {
	c := *r
	c.Tags = slices.Clone(r.Tags)
	c.entries = make(map[entryKey]*store.Entry, len(r.entries))
	for key, e := range r.entries {
		of := *e
		c.entries[key] = &of
	}
	c.items, c.itemIDs = nil, make(map[string]*store.Item, len(r.items))
	for _, it := range r.items {
		of := *it
		c.items, c.itemIDs[of.ID] = append(c.items, &of), &of
	}
	c.feeds = make(map[feedKey]*feed, len(r.feeds))
	for key, f := range r.feeds {
		c.feeds[key] = &feed{f.Feed, slices.Clone(f.items)}
	}
	c.audit = slices.Clone(r.audit)
	return &c
}
