package memory

import (
	"bytes"
	"context"
	"fmt"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	now, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, 0, err
	}
	if err := storekit.ValidateCommands(commands); err != nil {
		return nil, 0, err
	}
	answers := make([]store.Answer, len(commands))
	for i := range commands {
		answers[i] = s.apply(&commands[i], now, nil, false)
	}
	s.changed(s)
	return answers, now, nil
}

// apply carries out one command. A run may be claimed if its shard has a lease in leases
// that is current. repeat: the command was applied before in the same batch.
func (d *data) apply(c *store.Command, now store.Time, leases []store.Lease, repeat bool) store.Answer {
	adopt := func(r *run) bool {
		if !c.Claim || !d.leads(leases, r.Shard) {
			return false
		}
		if repeat {
			return r.condition == claimed
		}
		if r.Marks&store.Paused != 0 || c.Item != nil && c.Item.Kind == store.ItemPause {
			return false
		}
		if r.condition == claimed || !storekit.Claimable(&r.Run, r.condition == ready, c.Item, now) {
			return false
		}
		d.claim(r, false)
		return true
	}
	if c.Start != nil {
		return d.start(c.Start, now, adopt)
	}
	r := d.ids[c.RunID]
	if c.RunNo != 0 {
		r = d.runs[c.RunNo]
	}
	if r == nil {
		return store.Answer{Outcome: store.NotFound}
	}
	if c.Admit != "" {
		return d.admit(r, c, leases, repeat)
	}
	if it := r.itemIDs[c.Item.ID]; it != nil {
		a := store.Answer{Outcome: store.Duplicate, Run: r.answer()}
		if it.Origin == c.Item.Origin {
			a.Outcome, a.Item, a.Repeated = store.Applied, it.No, true
			a.Claimed = repeat && adopt(r)
		}
		return a
	}
	if r.Status.Terminal() && (!c.Item.Kind.Verb() || r.Marks&store.Expiring != 0) {
		return store.Answer{Outcome: store.Ended, Run: r.answer()}
	}
	no := d.insert(r, c.Item, now)
	adopted := adopt(r)
	return store.Answer{Outcome: store.Applied, Run: r.answer(), Item: no, Claimed: adopted}
}

func (d *data) leads(leases []store.Lease, shard store.Shard) bool {
	for i := range leases {
		if leases[i].Shard == shard && d.current(&leases[i]) != nil {
			return true
		}
	}
	return false
}

func (d *data) start(start *store.Start, now store.Time, adopt func(*run) bool) store.Answer {
	if r := d.ids[start.ID]; r != nil {
		switch {
		case r.FirstSeed() == start.Seed:
			adopted := adopt(r)
			return store.Answer{Outcome: store.Applied, Run: r.answer(), Claimed: adopted}
		case start.Existing.Replaces(r.Status) && d.rename(r):
		default:
			return store.Answer{Outcome: store.Exists, Run: r.answer()}
		}
	}
	no := d.next(start.ID)
	d.lastRun = max(d.lastRun, no)
	r := &run{
		Run: store.Run{
			No: no, ID: start.ID, Shard: start.Shard, Workflow: start.Workflow, Status: store.Queued, Seed: start.Seed,
			Parent: start.Parent, ParentLoc: start.ParentLoc, Created: now, Input: bytes.Clone(start.Input),
			Tags: store.MergeTags(nil, start.Tags), Headers: bytes.Clone(start.Headers),
		},
		condition: ready, entries: map[entryKey]*store.Entry{}, itemIDs: map[string]*store.Item{}, feeds: map[feedKey]*feed{},
	}
	due := start.Due(now)
	switch {
	case start.Queue != nil:
		r.Marks, r.Queue = store.Held, bytes.Clone(start.Queue.Data)
		if l := start.Queue.Line; l != nil {
			r.line, r.waitsFrom = new(*l), due
		}
	case due > now:
		r.WakeAt, r.condition = due, idle
	}
	d.runs[r.No], d.ids[r.ID] = r, r
	if start.Fork != nil {
		d.fork(r, start.Fork, now)
	}
	for i := range start.Items {
		d.insert(r, &start.Items[i], now)
	}
	adopted := adopt(r)
	if adopted {
		r.Build = start.Build
	}
	if start.Queue != nil && start.Queue.Line == nil {
		ask := start.Queue.Ask
		ask.Claim = false
		d.apply(&ask, now, nil, false)
	}
	return store.Answer{Outcome: store.Applied, Run: r.answer(), Claimed: adopted}
}

// fork gives a new run the state that it begins with.
func (d *data) fork(r *run, f *store.Fork, now store.Time) {
	r.Random, r.Started = f.Random, f.Started
	for i := range f.Entries {
		e := cloneEntry(&f.Entries[i])
		e.Size = len(e.Value)
		r.entries[entryKey{0, e.Loc}] = &e
	}
	for i := range f.Items {
		d.insert(r, &f.Items[i], now)
		it := r.items[len(r.items)-1]
		it.State, it.Sent = f.Items[i].State, f.Items[i].Sent
	}
	r.examine(d)
	r.note(f.Audit, now)
}

// rename frees the run's ID. It reports false if the name that the run would get instead
// is taken or too long.
func (d *data) rename(r *run) bool {
	id := fmt.Sprintf("%s@%d", r.ID, r.No)
	if d.ids[id] != nil || len(id) > store.MaxRunID {
		return false
	}
	r.ID, d.ids[id] = id, r
	return true
}

func (d *data) insert(r *run, item *store.Item, now store.Time) store.ItemNo {
	d.lastItem++
	it := cloneItem(item)
	it.No, it.State, it.Sent, it.Verdict = d.lastItem, store.New, now, nil
	r.items = append(r.items, &it)
	r.itemIDs[it.ID] = &it
	d.dirty[r] = true
	return it.No
}

// answer returns the run as an Answer holds it.
func (r *run) answer() store.Run {
	c := r.snapshot()
	c.Output = nil
	return c
}
