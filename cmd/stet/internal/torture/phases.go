package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet"
)

// fleet returns processes that have yet to be launched. name begins their names.
func (h *harness) fleet(name string, starts bool, poisonLimit int) *fleet {
	return &fleet{
		cfg: h.cfg, report: h.report.violated, dir: filepath.Dir(h.effects),
		orders: orders{
			Name: name, Seed: h.cfg.Seed, Effects: h.effects, Acks: h.acks, PoisonLimit: poisonLimit, Starts: starts,
			Plants:  h.cfg.Plants,
			LeaseMS: h.cfg.Lease.Milliseconds(),
		},
	}
}

// storm keeps runs going while it strikes at the processes that execute them.
func (h *harness) storm(ctx context.Context, random *rand.Rand) error {
	ctx, stop := context.WithCancel(ctx)
	f := h.fleet("storm", true, stet.None)
	wait := f.launch(ctx)
	defer wait()
	defer stop()
	if err := h.ready(ctx); err != nil {
		return err
	}
	h.cfg.Log.Info("striking", "for", h.cfg.For, "strikes", h.cfg.Strikes)
	ctx, done := context.WithTimeout(ctx, h.cfg.For)
	defer done()
	started := make(chan error, 5)
	go func() { started <- h.keepStarting(ctx, "", h.cfg.Live) }()
	go func() { started <- h.keepBrief(ctx) }()
	go func() { started <- h.queuesAndSchedules(ctx) }()
	go func() { started <- h.keepListening(ctx) }()
	go func() { started <- h.keepPaying(ctx) }()
	h.strikeAtRandom(ctx, f, random)
	return errors.Join(<-started, <-started, <-started, <-started, <-started)
}

// ready waits until the workers have made their workflows known.
func (h *harness) ready(ctx context.Context) error {
	limit := max(h.cfg.Patience, usualPatience)
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
		h.report.violated(unexpectedErrors, "%s of %s: %v", what, p.name, err)
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
		h.report.violated(unexpectedErrors, "%s: %v", o.Name, err)
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
	patience, done := context.WithTimeout(ctx, max(h.cfg.Patience, usualPatience))
	defer done()
	if _, err := patiently(patience, func() (any, error) { return nil, h.discover(ctx, true) }); err != nil {
		return err
	}
	if err := h.pauseSchedules(patience); err != nil {
		return err
	}
	return h.untilAllEnd(ctx)
}

// untilAllEnd waits until all runs have ended, or none has for a while.
func (h *harness) untilAllEnd(ctx context.Context) error {
	h.mu.Lock()
	h.ended = time.Now()
	h.mu.Unlock()
	for {
		h.mu.Lock()
		ended, patience := h.live == 0 && !h.deciding, time.Since(h.ended) < h.cfg.Patience
		h.mu.Unlock()
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
	poisonRuns  = 3
	poisonLimit = 2
	besideRuns  = 15 // that are kept going beside them
)

// poison starts runs that kill their process, one after the other, and keeps
// others going beside them. Each has the blame to itself: it begins when no run
// is suspected any more for the ends that the one before has caused.
func (h *harness) poison(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	f := h.fleet("poison", false, poisonLimit)
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
		if _, err := poisonRef.Start(ctx, h.client.engine, input{Seed: h.cfg.Seed}, stet.ID(id)); err != nil {
			return fmt.Errorf("start %s: %w", id, err)
		}
		h.mu.Lock()
		h.runs[id] = &run{program: &program{runID: id}, poison: true}
		h.live++
		h.mu.Unlock()
		for until := time.Now().Add(h.cfg.Patience); h.suspected(id) && time.Now().Before(until); {
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// suspected reports whether a poison run has yet to end, or another run that
// lives is a suspect.
func (h *harness) suspected(poison string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.runs[poison].ended || h.suspects > 0
}
