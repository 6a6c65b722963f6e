package torture

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// operation names an operation of a run.
type operation struct{ run, location string }

// sighting is a completed step as it was first seen in the store.
type sighting struct {
	result stepResult
	from   int64 // effects logged before it preceded the look
	place  int64 // effects logged behind it began later
}

// observer reads the store back while the storm goes on.
type observer struct {
	harness *harness
	effects *journal

	mu   sync.Mutex
	seen map[operation]sighting
}

// readBack looks at random live runs until ctx ends, and notes which steps are
// done. A step that was seen done must stay so, and not begin again.
func (o *observer) readBack(ctx context.Context) error {
	for {
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		id := o.harness.anyLive()
		if id == "" {
			continue
		}
		if err := o.sight(ctx, id); err != nil && !indefinite(err) {
			return err
		}
	}
}

// anyLive returns the ID of a live run, or "".
func (h *harness) anyLive() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	skip := 0
	if h.live > 0 {
		skip = rand.IntN(h.live)
	}
	for id, r := range h.runs {
		if r.ended || r.poison {
			continue
		}
		if skip == 0 {
			return id
		}
		skip--
	}
	return ""
}

// liveIDs returns the IDs of at most so many live runs, and of one that is none.
func (h *harness) liveIDs(most int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := []string{"none"} // no IDs at all would be all
	for id, r := range h.runs {
		if !r.ended && !r.poison && len(ids) <= most {
			ids = append(ids, id)
		}
	}
	return ids
}

func (o *observer) sight(ctx context.Context, id string) error {
	from, err := o.effects.size()
	if err != nil {
		return err
	}
	entries, err := o.harness.client.engine.Runs().History(ctx, id, stet.HistoryQuery{Values: true})
	if err != nil {
		return err
	}
	place, err := o.effects.size()
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range entries {
		result, ok, err := resultOf(&entries[i])
		if err != nil {
			return err
		}
		at := operation{id, entries[i].Location}
		if _, known := o.seen[at]; ok && !known {
			o.seen[at] = sighting{result, from, place}
		}
	}
	return nil
}

// resultOf returns the result of a step that is done, without its pad; ok is false for
// others.
func resultOf(e *stet.HistoryEntry) (result stepResult, ok bool, err error) {
	if e.Kind != store.KindStep || e.State != store.Done {
		return result, false, nil
	}
	err = e.Decode(&result)
	result.Pad = ""
	return result, err == nil, err
}

// probe commits with the leases of processes that have lost them, until ctx ends.
// Such a commit must be fenced.
func (o *observer) probe(ctx context.Context) error {
	held := map[store.Shard]store.Lease{} // as they were seen last
	for {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
		about, err := o.harness.db.Describe(ctx)
		if err != nil {
			if indefinite(err) {
				continue
			}
			return err
		}
		over := map[store.Shard]store.Lease{}
		for _, lease := range about.Leases {
			if former := held[lease.Shard]; former.Epoch != 0 && former.Epoch < lease.Epoch {
				over[lease.Shard] = former
			}
			held[lease.Shard] = lease
		}
		if len(over) > 0 {
			if err := o.commitStale(ctx, over); err != nil && !indefinite(err) {
				return err
			}
		}
	}
}

// commitStale tries to record something with one of the leases, which are not
// current, in a run of its shard. It does so in the name of a node that does not live,
// so that no batch is numbered twice.
func (o *observer) commitStale(ctx context.Context, over map[store.Shard]store.Lease) error {
	page, err := o.harness.db.List(ctx, store.Filter{IDs: o.harness.liveIDs(100)})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(page.Runs, func(r store.Run) bool { return over[r.Shard].Epoch != 0 })
	if i < 0 {
		return nil
	}
	held, id := over[page.Runs[i].Shard], page.Runs[i].ID
	page.Runs = page.Runs[i:]
	held.Node, held.Boot = "probe", "probe"
	batch := store.Batch{
		Node: held.Node, Boot: held.Boot, No: time.Now().UnixMicro(), Leases: []store.Lease{held},
		Turns: []*store.Turn{{
			Run: page.Runs[0].No, Shard: held.Shard, Incarnation: page.Runs[0].Incarnation,
			Entries: []store.Entry{{Loc: "probe", Kind: store.KindStep, State: store.Open}},
		}},
	}
	result, err := o.harness.db.Commit(ctx, batch)
	if err != nil {
		return err
	}
	o.harness.report.count("stale commits tried", 1)
	if v := result.Turns[0].Verdict; v != store.Fenced {
		o.harness.report.violated(staleCommits, "a commit to run %s with epoch %d, which is over, was answered %s",
			id, held.Epoch, v)
	}
	return nil
}
