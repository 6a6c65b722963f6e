// Package sweep deletes what has outlived its retention, in small parts with rests in
// between, so that nothing else waits for it. What a part is the store decides.
package sweep

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/stet-run/stet/store"
)

const (
	// itemsEvery is how often a pass looks for consumed items as well, which means more
	// rows to read.
	itemsEvery = 15 * time.Minute
	// collectEvery is how often objects are collected, and collectFirst how long after
	// the begin for the first time.
	collectEvery, collectFirst = 24 * time.Hour, 30 * time.Minute
	// shortest is the shortest rest.
	shortest = 10 * time.Millisecond
)

// pace is how a pass sweeps that has lasted for a while. If it does not end, more becomes due than a gentle
// one deletes. But a pass over a large backlog lasts for as long: while runs are executed it has a tenth of
// the time, so that they lose no more, and after an hour a fifth.
type pace struct {
	from time.Duration // since the pass has begun
	rest float64       // after a part, by the time that it took
	most int           // rows of a part; 0: store.SweepRows
}

var (
	paces  = []pace{{10 * time.Minute, 0.25, 2000}, {time.Minute, 1, 2000}, {0, 4, 0}}
	beside = []pace{{time.Hour, 4, 0}, {0, 9, 0}} // runs that are executed
)

// paceOf returns the pace of a pass that has lasted for so long.
func (s *Sweeper) paceOf(lasted time.Duration) pace {
	list := paces
	if s.Working != nil && s.Working() {
		list = beside
	}
	i := slices.IndexFunc(list, func(p pace) bool { return lasted >= p.from })
	return list[i]
}

// after returns how long to rest after a part.
func (p pace) after(took time.Duration) time.Duration {
	return max(shortest, time.Duration(p.rest*float64(took)))
}

// Sweeper is what a sweep needs. All fields are required, except for Working.
type Sweeper struct {
	Store interface {
		Sweep(context.Context, store.SweepRequest) (store.Swept, error)
	}
	Rules  func() []store.Retention
	Pause  time.Duration        // from the end of one pass to the next
	Leases func() []store.Lease // of the shards that are held now
	Log    *slog.Logger
	// Working reports whether runs are being executed, which share the store; nil: none are.
	Working func() bool

	// Collect deletes the objects outside of the store that nothing refers to, and
	// returns how many. Mine reports whether this process is the one of all that does so.
	Collect func(context.Context) (int, error)
	Mine    func() bool
	// Look looks for what nobody serves, after each pass of that process.
	Look func(context.Context) error
}

// Run sweeps until stop or ctx ends. A call of the store ends with ctx.
func (s *Sweeper) Run(ctx context.Context, stop <-chan struct{}) {
	timer := time.NewTimer(s.Pause)
	defer timer.Stop()
	req := store.SweepRequest{Rules: s.Rules()}
	itemsAt, collectAt := time.Now().Add(itemsEvery), time.Now().Add(collectFirst)
	var since time.Time // the begin of the pass
	for {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begun := time.Now()
		req.Leases = s.Leases()
		if req.From == (store.SweepPlace{}) {
			req.Items, since = begun.After(itemsAt), begun
		}
		now := s.paceOf(begun.Sub(since))
		req.Most = now.most
		swept, err := s.Store.Sweep(ctx, req)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				s.Log.Warn("sweeping; trying again later", "error", err)
			}
			req.From = store.SweepPlace{}
			timer.Reset(s.Pause)
		case swept.Done:
			req.From = store.SweepPlace{}
			if req.Items {
				itemsAt = begun.Add(itemsEvery)
			}
			if begun.After(collectAt) {
				if s.Mine() {
					s.collect(ctx)
				}
				collectAt = begun.Add(collectEvery)
			}
			if s.Mine() {
				if err := s.Look(ctx); err != nil && ctx.Err() == nil {
					s.Log.Warn("looking for runs whose code no process has; trying again later", "error", err)
				}
			}
			timer.Reset(s.Pause)
		default:
			req.From = swept.Next
			timer.Reset(now.after(time.Since(begun)))
		}
	}
}

// Pass sweeps once, items as well. It returns early if ctx ends, or the store returns an
// error, which it logs.
func (s *Sweeper) Pass(ctx context.Context) {
	req := store.SweepRequest{Rules: s.Rules(), Items: true, Leases: s.Leases()}
	since := time.Now()
	for {
		begun := time.Now()
		now := s.paceOf(begun.Sub(since))
		req.Most = now.most
		swept, err := s.Store.Sweep(ctx, req)
		switch {
		case err != nil && ctx.Err() == nil:
			s.Log.Warn("sweeping; trying again the next time", "error", err)
			return
		case err != nil, swept.Done:
			return
		}
		req.From = swept.Next
		select {
		case <-ctx.Done():
			return
		case <-time.After(now.after(time.Since(begun))):
		}
	}
}

func (s *Sweeper) collect(ctx context.Context) {
	n, err := s.Collect(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		s.Log.Warn("deleting objects that nothing refers to; trying again tomorrow", "error", err, "deleted", n)
	case n > 0:
		s.Log.Info("deleted objects that nothing refers to", "deleted", n)
	}
}
