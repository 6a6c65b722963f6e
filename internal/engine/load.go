package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// loadChunk is how many runs are loaded in one call, and loaders how many calls a lane makes at a time.
const loadChunk, loaders = 64, 4

// take brings a claimed run into memory.
func (x *executor) take(h *ownership.Shard, no store.RunNo) { x.takeSince(h, no, 0) }

// takeSince is take for a run that was claimed at a time; 0: that is not known.
func (x *executor) takeSince(h *ownership.Shard, no store.RunNo, claimed store.Time) {
	if a := x.memory.Expect(h, no); a != nil {
		a.claimed = claimed
		x.load(a)
	}
}

// isFirst reports whether no process has executed the loaded run before: its claim was its first. Virtual
// times may be equal; then a former owner that has not ended cleanly has left a suspicion.
func (a *activation) isFirst(run *store.Run) bool {
	return a.claimed != 0 && run.Started >= a.claimed && run.Suspect == 0 && run.Incarnation == 0 && run.Generation == 0
}

// load reads the run of an expected activation, with others that wait for that.
func (x *executor) load(a *activation) { x.of(a.shard).loads.Add(a) }

// beginLoading begins a worker of dispatcher.loads.
func (x *executor) beginLoading(work func()) {
	x.drivers.Add()
	go func() {
		defer x.drivers.Done()
		work()
	}()
}

// loadChunk reads runs, and returns those that the store has left, because the others are large.
func (x *executor) loadChunk(expected []*activation) (rest []*activation) {
	runs := make([]store.RunNo, len(expected))
	byNo := make(map[store.RunNo]*activation, len(expected))
	for i, a := range expected {
		runs[i], byNo[a.no] = a.no, a
	}
	limited, done := x.limited(x.held)
	snapshots, left, closed, err := x.e.view.LoadOwned(limited, runs)
	silent := limited.Err() != nil
	done()
	for _, no := range left {
		rest = append(rest, byNo[no])
		delete(byNo, no)
	}
	for i := range snapshots {
		x.admit(byNo[snapshots[i].Run.No], &snapshots[i])
		delete(byNo, snapshots[i].Run.No)
	}
	pause := x.e.cfg.Poll
	if err != nil && !silent && !errors.Is(err, store.ErrUnavailable) {
		pause = unreadable
	}
	for no, a := range byNo {
		if c := closed[no]; c != nil {
			delete(byNo, no)
			if a.expected {
				x.suspects.Arrived(a.shard)
			}
			a.id = c.ID
			a.post(dismissed{})
			a.dispatcher().lack(a, c.Err)
			continue
		}
		a.post(dismissed{})
		if a.expected { // no run waits for one that cannot be read
			x.suspects.Arrived(a.shard)
		}
		if err != nil && x.held.Err() == nil {
			x.reloadAfter(a.shard, no, a.claimed, pause)
		}
	}
	if err != nil && x.held.Err() == nil {
		x.log().Error("loading runs; trying again", "error", err, "runs", len(byNo))
	}
	return rest
}

// reload loads a run again after a pause.
func (x *executor) reload(h *ownership.Shard, no store.RunNo) { x.reloadAfter(h, no, 0, x.e.cfg.Poll) }

// reloadUnrun is reload for a run that this activation did not execute: if its claim was the first, it still is.
func (x *executor) reloadUnrun(a *activation) { x.reloadAfter(a.shard, a.no, a.claimed, x.e.cfg.Poll) }

func (x *executor) reloadAfter(h *ownership.Shard, no store.RunNo, claimed store.Time, pause time.Duration) {
	if !x.memory.BeginDriver() {
		return
	}
	go func() {
		defer x.drivers.Done()
		defer x.drivers.Rest(time.Now().Add(pause))()
		select {
		case <-time.After(pause):
			x.takeSince(h, no, claimed)
		case <-x.stop.Done():
		case <-h.Context().Done():
		}
	}()
}

// reloadClaimed loads the runs that may have been claimed by a claim whose answer was lost: they are claimed, and no
// activation has them. A claim has been answered since. It reports false if that is to be repeated.
func (x *executor) reloadClaimed(d *dispatcher, in *ownership.Shards) bool {
	active := map[store.RunNo]*activation{}
	for _, a := range x.memory.All() {
		active[a.no] = a
	}
	claimed, err := committer.Claimed(in, func(f store.Filter) (store.Page, error) {
		ctx, done := x.limited(x.held)
		defer done()
		return d.store.List(ctx, f)
	})
	if err != nil || !x.committer.All[d.lane].Settle(x.held, x.e.cfg.LeaseTTL/8) {
		return false // the answers to commands that have claimed runs may be on their way
	}
	all := true
	for no, h := range claimed {
		if a := active[no]; a != nil {
			all = a.post(claimUncertain{}) && all // one that has left since is looked for again
		} else if x.memory.Find(no) == nil {
			x.log().Warn("a claimed run is taken into memory: the answer to its claim was lost", "run_no", no)
			x.take(h, no)
		}
	}
	return all
}

// unreadable is how long a run rests whose values cannot be read.
const unreadable = 30 * time.Second

// open opens the items of a claim. It reports false if that cannot be done: the
// activation is over then, and the run is tried again later.
func (a *activation) open(ev *runClaimed) bool {
	if !ev.sealed {
		return true
	}
	err := a.x.e.cfg.Payloads.OpenItems(a.shard.Context(), &a.run, ev.Items)
	if err == nil {
		return true
	}
	a.leave(nil)
	pause := unreadable
	switch {
	case payload.Closed(err):
		a.dispatcher().lack(a, err)
		return false
	case payload.Spoilt(err):
		pause = a.x.e.cfg.Poll // it is stalled when it is loaded, after the turn that may be under way
	case a.shard.Context().Err() == nil:
		a.x.log().Error("reading what was sent to a run; trying again later", "run_id", a.id, "error", err)
	}
	a.x.reloadAfter(a.shard, a.no, 0, pause)
	return false
}

// load makes the interpreter of a run.
func (a *activation) load(s *store.Snapshot) {
	a.phase = live
	a.run = s.Run
	a.bodies = map[int64]*steps.Attempt{}
	a.touched, a.begun = s.Run.Build >= a.x.e.cfg.Build && s.Run.Suspect == 0, len(s.Entries) > 0 || s.Run.Waits != nil
	a.former = a.begun && s.Run.Build != "" && s.Run.Build < a.x.e.cfg.Build
	if rules := a.x.e.cfg.Entities[s.Run.Workflow]; rules != nil {
		a.touched = s.Run.Suspect == 0
		m := entity.New(entity.Config{
			Run: s.Run, Rules: rules(&a.run), Entries: s.Entries, Fetch: a.fetch, FetchItem: a.fetchItem,
		})
		a.r = m
		a.beginLine(m)
	} else {
		cfg := a.workflow.Activation(s, a.x.e.cfg.Limits)
		cfg.First = a.isFirst(&s.Run)
		cfg.Code, cfg.Fetch, cfg.Knows, cfg.NewKey = a.workflow.Code(&a.run), a.fetch, a.x.knows, uuid.NewString
		cfg.FetchItem, cfg.TakenUp = a.fetchItem, a.takenUp
		cfg.Look = a.x.look
		cfg.LongPause = a.x.e.cfg.LongPause
		a.code = runner.New(cfg)
		a.releases = permit.Releases(&a.run)
		a.r = a.code
	}
	a.claimed = 0 // it is executed from here on
	a.deliver(s.Items...)
}

// fetch reads a large value for the replay.
func (a *activation) fetch(loc string) ([]byte, error) {
	ctx, done := a.x.limited(a.shard.Context())
	defer done()
	entries, err := a.x.e.view.Values(ctx, a.no, a.run.Incarnation, []string{loc})
	switch {
	case err != nil:
		return nil, err
	case len(entries) != 1:
		return nil, store.ErrDamaged
	}
	return entries[0].Value, nil
}

// fetchItem reads the value of a message that was left out.
func (a *activation) fetchItem(it *store.Item) ([]byte, error) {
	ctx, done := a.x.limited(a.shard.Context())
	defer done()
	items, err := a.x.e.base.Inbox(ctx, a.no, it.ID)
	switch {
	case err != nil:
		return nil, err
	case len(items) != 1 || items[0].Value == nil:
		return nil, fmt.Errorf("item %d, which was pending, has no value: %w", it.No, store.ErrDamaged)
	}
	err = a.x.e.cfg.Payloads.OpenItem(ctx, &a.run, &items[0])
	return items[0].Value, err
}

// takenUp returns when an operator has last made the run go on, or 0.
func (a *activation) takenUp() (store.Time, error) {
	ctx, done := a.x.limited(a.shard.Context())
	defer done()
	audit, err := a.x.e.base.Audit(ctx, a.no)
	return stored.TakenUp(audit), err
}
