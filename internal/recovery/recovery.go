// Package recovery counts what a process has found when it took shards over: how many runs
// live, and how many were due. Recovering needs none of it: it is for people.
//
// What was due is what the first claims in these shards find, until there is no more. All
// counts end at a bound, and the rest is counted while the runs execute.
package recovery

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// Most is the bound of the counts of a Report. A count of Most+1 says that there are more.
const Most = 10_000

// within is how long after a takeover the claims may take to find all that is due.
const within = 10 * time.Second

// Found is what the store has said when shards were acquired.
type Found struct {
	Clean    bool          // the former owners ended cleanly, or there were none
	Suspects int           // runs that were claimed by those that did not
	Shards   []store.Shard // that were taken over
}

// FoundIn returns the leases that were acquired, and what was found.
func FoundIn(acquired []store.Acquired) (leases []store.Lease, f Found) {
	f.Clean = true
	for i := range acquired {
		a := &acquired[i]
		leases = append(leases, a.Lease)
		f.Shards = append(f.Shards, a.Lease.Shard)
		f.Clean = f.Clean && a.Clean
		f.Suspects += a.Suspects
	}
	return leases, f
}

// Report is what was found, and counts.
type Report struct {
	Found
	At   store.Time             // when Live was counted
	Due  int                    // runs of the shards that the first claims have found
	Live map[store.Status]int64 // runs of the whole store that have not ended
}

// live are the statuses that are counted.
var live = []store.Status{store.Queued, store.Running, store.Suspended, store.Stalled}

// Recorder makes reports. It is safe for concurrent use. All exported fields but Hook and First are required.
type Recorder struct {
	First *Found      // for Begin; nil: shards are taken later
	Hook  func(Found) // is called with what was found, before it is counted; nil: nothing is
	Brief bool        // the process is about to stop again: nothing is counted
	Count func(context.Context, store.Filter) ([]store.Tally, error)
	Go    func(func()) // begins a goroutine that its caller waits for
	Now   func() store.Time
	Log   *slog.Logger

	mu    sync.Mutex
	since time.Time            // when the first of what is open was found
	open  *Report              // not yet counted; nil: there is none
	taken map[store.Shard]bool // the shards of open
	parts [][]store.Shard      // of these, as they were found, which no last claim has covered
	last  *Report
}

// Begin adds First, if there is one.
func (r *Recorder) Begin() {
	if r.First != nil {
		r.Found(*r.First)
	}
}

// Found begins a report, or adds to the one that is open. Call it before a claim can be made in
// the shards.
func (r *Recorder) Found(f Found) {
	if r.Hook != nil {
		r.Hook(f)
	}
	if r.Brief {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.since, r.open, r.taken = time.Now(), &Report{Found: Found{Clean: true}}, map[store.Shard]bool{}
	}
	r.open.Clean = r.open.Clean && f.Clean
	r.open.Suspects += f.Suspects
	for _, shard := range f.Shards {
		if !r.taken[shard] {
			r.open.Shards = append(r.open.Shards, shard)
		}
		r.taken[shard] = true
	}
	r.parts = append(r.parts, f.Shards)
}

// Claimed adds the answer to a claim in the shards that were held when it was requested. The
// context bounds the count that follows the last claim of a report.
func (r *Recorder) Claimed(ctx context.Context, in *ownership.Shards, claims *store.Claims) {
	if report := r.claimed(in, claims); report != nil {
		r.Go(func() { r.count(ctx, report) })
	}
}

// claimed returns the report that the answer to a claim completes; nil: there is none.
func (r *Recorder) claimed(in *ownership.Shards, claims *store.Claims) *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		return nil
	}
	for i := range claims.Runs {
		c := &claims.Runs[i]
		if c.New && r.taken[c.Run.Shard] && !store.IsEntity(c.Run.Workflow) {
			r.open.Due = min(r.open.Due+1, Most+1)
		}
	}
	if !claims.More {
		// A claim that was requested before shards were taken says nothing of them.
		r.parts = slices.DeleteFunc(r.parts, func(part []store.Shard) bool {
			return slices.ContainsFunc(part, func(s store.Shard) bool { return in.Of(s) != nil })
		})
	}
	switch late := time.Since(r.since) > within; {
	case len(r.parts) == 0:
	case late && claims.More:
		r.open.Due = Most + 1
	case late: // they are lost again, or their server is away
	default:
		return nil
	}
	report := r.open
	r.open, r.taken, r.parts = nil, nil, nil
	return report
}

// count completes a report.
func (r *Recorder) count(ctx context.Context, report *Report) {
	limited, done := context.WithTimeout(ctx, within)
	defer done()
	tallies, err := r.Count(limited, store.Filter{Statuses: live, Most: Most})
	if ctx.Err() != nil {
		return // the process stops
	}
	about := []any{"clean", report.Clean, "shards", len(report.Shards), "suspects", report.Suspects,
		"due", bounded(int64(report.Due))}
	if err != nil {
		about = append(about, "error", err)
	} else {
		report.Live = map[store.Status]int64{}
		for _, t := range tallies {
			report.Live[t.Status] = min(report.Live[t.Status]+t.Runs, Most+1)
		}
		for _, status := range live {
			about = append(about, status.String(), bounded(report.Live[status]))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	report.At = r.Now()
	r.last = report
	r.Log.Info("recovered", about...)
}

// bounded returns a count for the log.
func bounded(n int64) any {
	if n > Most {
		return fmt.Sprintf("over %d", Most)
	}
	return n
}

// Last returns the last complete report; nil: there is none. It is not changed any more. Live is
// nil if the runs could not be counted.
func (r *Recorder) Last() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
