package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// fleet returns processes that have yet to be launched. name begins their names.
func (h *harness) fleet(name string, starts bool, poisonLimit int) *fleet {
	return &fleet{
		build: func() string { return lastBuild },
		cfg:   h.cfg, report: h.report, dir: filepath.Dir(h.effects),
		orders: orders{
			Name: name, Seed: h.cfg.Seed, Effects: h.effects, Acks: h.acks, PoisonLimit: poisonLimit, Starts: starts,
			Plants:  h.cfg.Plants,
			LeaseMS: h.cfg.Lease.Milliseconds(), Defaults: h.cfg.Defaults,
		},
	}
}

// storm keeps runs going while it strikes at the processes that execute them.
func (h *harness) storm(ctx context.Context, random *rand.Rand) error {
	ctx, stop := context.WithCancel(ctx)
	f := h.fleet("storm", true, stet.None)
	var deploy atomic.Bool
	var spawned atomic.Int64
	f.build = func() string {
		if deploy.Load() || plants(h.cfg.Plants).has(plantBuilds) && spawned.Add(1)%2 == 0 {
			return nextBuild
		}
		return firstBuild
	}
	wait := f.launch(ctx)
	defer wait()
	defer stop()
	if err := h.ready(ctx); err != nil {
		return err
	}
	h.cfg.Log.Info("striking", "for", h.cfg.For, "strikes", h.cfg.Strikes)
	ctx, done := context.WithTimeout(ctx, h.cfg.For)
	defer done()
	started := make(chan error, 7)
	go func() { started <- h.keepStarting(ctx, "", h.cfg.Live) }()
	go func() { started <- h.keepBrief(ctx) }()
	go func() { started <- h.queuesAndSchedules(ctx) }()
	go func() { started <- h.keepListening(ctx) }()
	go func() { started <- h.keepPaying(ctx) }()
	go func() { started <- h.keepStartingOf(ctx, tripRef, 300*time.Millisecond, 6, nil, &h.trips) }()
	go func() { started <- h.keepReading(ctx) }()
	later := time.AfterFunc(h.cfg.For/2, func() { deploy.Store(true) })
	defer later.Stop()
	h.strikeAtRandom(ctx, f, random)
	var problems []error
	for range cap(started) {
		problems = append(problems, <-started)
	}
	return errors.Join(problems...)
}

// ready waits until the workers have made their workflows known.
func (h *harness) ready(ctx context.Context) error {
	limit := h.cfg.longest()
	for until := time.Now().Add(limit); ; {
		about, err := h.db.Describe(ctx)
		switch {
		case err != nil && !indefinite(err):
			return err
		case slices.Contains(about.Workflows, treeRef.Name()):
			return nil
		case time.Now().After(until):
			return fmt.Errorf("no worker has come to life within %s", limit)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// keepStarting starts runs whenever fewer than so many live, until ctx ends. kind
// is part of their IDs.
func (h *harness) keepStarting(ctx context.Context, kind string, most int) error {
	for i := 0; ctx.Err() == nil; i++ {
		for h.alive() >= most && ctx.Err() == nil {
			_ = pause(ctx, 10*time.Millisecond) // its end is seen by the loop
		}
		if err := h.begin(ctx, fmt.Sprintf("%s%016x-%s%d", prefix, h.cfg.Seed, kind, i)); err != nil {
			return err
		}
		_ = pause(ctx, rand.N(20*time.Millisecond))
	}
	return nil
}

// begin starts a run and attends to it.
func (h *harness) begin(ctx context.Context, id string) error {
	p, err := h.client.start(ctx, id)
	if err == nil && p != nil {
		h.meet(id)
	}
	return err
}

// strikeAtRandom does the strikes at random moments until ctx ends, more often
// than not at the process that owns the store. The first is an outage if there are any.
func (h *harness) strikeAtRandom(ctx context.Context, f *fleet, random *rand.Rand) {
	end, _ := ctx.Deadline()
	var strikes sync.WaitGroup
	defer strikes.Wait()
	for left := h.cfg.Strikes; left > 0; left-- {
		share := time.Until(end) / time.Duration(left+1)
		if pause(ctx, time.Duration(random.Float64()*2*float64(share))) != nil {
			return
		}
		if n := len(h.cfg.Outages); n > 0 && (left == h.cfg.Strikes || random.IntN(3) == 0) {
			o := h.cfg.Outages[random.IntN(n)]
			strikes.Go(func() { h.outage(ctx, o) })
			continue
		}
		what := h.cfg.Faults[min(random.IntN(len(h.cfg.Faults)), random.IntN(len(h.cfg.Faults)))] // the first more often
		at := f.sites[random.IntN(len(f.sites))]
		if random.IntN(3) > 0 {
			at = h.owner(ctx, f, at)
		}
		strikes.Go(func() { h.strike(ctx, f, at, what) })
	}
	<-ctx.Done()
}

// owner returns the place of the process that owns the store, or other.
func (h *harness) owner(ctx context.Context, f *fleet, other *site) *site {
	about, err := h.db.Describe(ctx)
	if err != nil {
		return other
	}
	if len(about.Leases) == 0 {
		return other
	}
	lease := about.Leases[rand.IntN(len(about.Leases))] // where several own it, any
	for _, at := range f.sites {
		if p := at.get(); p != nil && p.name == lease.Node {
			return at
		}
	}
	return other
}

func (h *harness) strike(ctx context.Context, f *fleet, at *site, what string) {
	p := at.get()
	if p == nil {
		return // it is being replaced
	}
	h.cfg.Log.Info("strike", "process", p.name, "fault", what)
	from := time.Now()
	if err := f.strike(ctx, p, what); err != nil {
		h.report.troubled("%s of %s: %v", what, p.name, err)
	}
	h.report.count("strikes: "+what, 1)
	if what == faultPause {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pauses = append(h.pauses, stay{p.name, from.UnixMicro(), time.Now().UnixMicro()})
	}
}

// outage takes the store away. It comes back also when the strikes are over.
func (h *harness) outage(ctx context.Context, o Outage) {
	h.outages.Lock()
	defer h.outages.Unlock()
	h.cfg.Log.Info("outage", "of", o.Name)
	if err := o.Do(context.WithoutCancel(ctx)); err != nil {
		h.report.troubled("outage %s: %v", o.Name, err)
	}
	h.report.count("outages: "+o.Name, 1)
}

// settle lets all runs end, on processes that are not struck at.
func (h *harness) settle(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	wait := h.fleet("calm", false, stet.None).launch(ctx)
	defer wait()
	defer stop()
	h.cfg.Log.Info("waiting for the runs to end", "live", h.alive())
	if err := h.until(ctx, "find the runs", func(ctx context.Context) error { return h.discover(ctx, true) }); err != nil {
		return err
	}
	if err := h.pauseSchedules(ctx); err != nil {
		return err
	}
	return h.untilAllEnd(ctx)
}

// until repeats an act until its outcome is known. An act whose answer is lost may have been carried out: so it is one
// that may be carried out again. It gives up, with an error, after a time that no machine needs.
func (h *harness) until(ctx context.Context, what string, act func(context.Context) error) error {
	ctx, done := context.WithTimeout(ctx, h.cfg.longest())
	defer done()
	_, err := patiently(ctx, func() (any, error) {
		once, done := context.WithTimeout(ctx, max(h.cfg.Patience, usualPatience))
		defer done()
		return nil, act(once)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// untilAllEnd waits until all runs have ended, or nothing has happened for a while.
func (h *harness) untilAllEnd(ctx context.Context) error {
	h.mu.Lock()
	h.ended = time.Now()
	h.mu.Unlock()
	executed := int64(0) // size of the log of effects
	end := time.Now().Add(h.cfg.longest())
	for {
		size, err := h.watched.effects.size()
		if err != nil {
			return err
		}
		h.mu.Lock()
		if size > executed {
			executed, h.ended = size, time.Now()
		}
		ended, patience := h.live == 0 && !h.deciding, time.Since(h.ended) < h.cfg.Patience
		h.mu.Unlock()
		if patience && time.Now().After(end) {
			h.unsettled("the runs have not ended within %s, and steps are executed still", h.cfg.longest())
			return nil
		}
		over := !patience
		if ended && patience {
			children, err := h.liveChildren(ctx)
			if err != nil && !indefinite(err) {
				return err
			}
			rest := false
			if err == nil && children == 0 {
				if rest, err = h.recordsRest(ctx); err != nil && !indefinite(err) {
					return err
				}
			}
			over = rest
		}
		if over {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// unsettled notes that runs live though nothing is wrong with them but the time that they take: that they have not
// ended is no violation then.
func (h *harness) unsettled(format string, args ...any) {
	h.report.troubled(format, args...)
	h.report.forgive(stuck, poisonAlive)
}

// recordsRest reports whether nothing is on its way to a topic or a queue any more: what
// a run has given back with its end comes there a moment later.
func (h *harness) recordsRest(ctx context.Context) (bool, error) {
	rest, err := h.topicsRest(ctx)
	if err != nil || !rest {
		return false, err
	}
	return h.queuesRest(ctx)
}

const (
	poisonFleet = "poison" // begins the names of the processes that execute them
	poisonRuns  = 3
	poisonLimit = 2
	besideRuns  = 15 // that are kept going beside them
)

// poison starts runs that kill their process, one after the other, and keeps
// others going beside them. Each has the blame to itself: it begins when no run
// is suspected any more for the ends that the one before has caused.
func (h *harness) poison(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	f := h.fleet(poisonFleet, false, poisonLimit)
	f.mayDie = true
	wait := f.launch(ctx)
	defer wait()
	defer stop()
	h.cfg.Log.Info("starting runs that kill their process", "runs", poisonRuns)
	beside, enough := context.WithCancel(ctx)
	started := make(chan error, 1)
	go func() { started <- h.keepStarting(beside, "beside-", besideRuns) }()
	err := h.poisonInTurn(ctx)
	enough()
	if err := errors.Join(err, <-started); err != nil {
		return err
	}
	return h.untilAllEnd(ctx)
}

func (h *harness) poisonInTurn(ctx context.Context) error {
	for i := range poisonRuns {
		id := fmt.Sprintf("%s%016x-poison-%d", prefix, h.cfg.Seed, i)
		err := h.until(ctx, "start "+id, func(ctx context.Context) error {
			_, err := poisonRef.Start(ctx, h.client.engine, input{Seed: h.cfg.Seed}, stet.ID(id))
			return err
		})
		if err != nil {
			return err
		}
		h.mu.Lock()
		h.runs[id] = &run{program: &program{runID: id}, poison: true}
		h.live++
		h.mu.Unlock()
		for until := time.Now().Add(h.cfg.longest()); ; {
			suspected, err := h.suspected(ctx, id)
			if err != nil && !indefinite(err) {
				return err
			}
			if err == nil && !suspected {
				break
			}
			if time.Now().After(until) {
				h.unsettled("run %s is not yet stalled, or others are suspects for its acts, after %s", id, h.cfg.longest())
				return nil
			}
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// suspected reports whether a poison run has yet to end, or any run that lives is a suspect: a child, or one of another
// workflow, as well as those that the harness attends to. What the next poison run does would be held against it.
func (h *harness) suspected(ctx context.Context, poison string) (bool, error) {
	h.mu.Lock()
	ended := h.runs[poison].ended
	h.mu.Unlock()
	if !ended {
		return true, nil
	}
	f := store.Filter{
		Workflows: ownWorkflows, Statuses: []store.Status{store.Queued, store.Running, store.Suspended}, Limit: store.MaxPage,
	}
	for {
		page, err := h.db.List(ctx, f)
		if err != nil {
			return true, err
		}
		if slices.ContainsFunc(page.Runs, func(r store.Run) bool { return r.Suspect > 0 }) {
			return true, nil
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return false, nil
		}
	}
}
