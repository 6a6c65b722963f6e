package stet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/recovery"
	"github.com/stet-run/stet/store"
)

// Stats is what an Engine has in memory at one moment.
type Stats struct {
	Executing  int // bodies of steps
	Waiting    int // bodies that wait for a place: see Config.MaxSteps and PerNode
	Committing int // bodies that have returned and whose outcome is not durable

	Running int // runs
	Parked  int // suspended runs

	Shards map[string]int // that this process holds, by group

	// Recovered is what this process has found when it last took over the store, or some of its
	// shards, counted while runs execute: some milliseconds later, or up to some 10 seconds while
	// memory is full. nil: there is none yet, or this is RunOnce. The log has it as "recovered".
	Recovered *Recovered
}

// Recovered is what was found at taking over a store, or some of its shards, in numbers.
type Recovered struct {
	Recovery
	// At is when it was counted, by the clock of the store.
	At time.Time `json:",omitzero"`
	// Due counts the runs of the shards that this process could execute at once: those that were
	// executing when the former owner ended, whose sleep was over, or with something new in their
	// inbox. Above MostRecovered it is MostRecovered+1.
	Due int
	// Live counts the runs of the whole store, all shards included, that are queued, running,
	// suspended or stalled, by status. A count above MostRecovered is MostRecovered+1; a status
	// without runs is missing. nil: they could not be counted, and the log says why.
	Live map[store.Status]int64
}

// MostRecovered is where the counts of a Recovered end.
const MostRecovered = recovery.Most

// Stats returns what the engine has in memory now. It asks no store.
func (e *Engine) Stats() Stats {
	s := e.inner.Stats()
	stats := Stats{
		Executing: s.Executing, Waiting: s.Waiting, Committing: s.Committing,
		Running: s.Running, Parked: s.Parked, Shards: s.Shards,
	}
	if r := s.Recovered; r != nil {
		stats.Recovered = &Recovered{Recovery: Recovery(r.Found), At: r.At.Time(), Due: r.Due, Live: r.Live}
	}
	return stats
}

// ErrNotReady says that a process should get no work: see Engine.Ready.
var ErrNotReady = errors.New("not ready")

// readyWithin bounds how long the store may take to answer Ready.
const readyWithin = time.Second

// Ready returns nil if this process does what it is there for, for a load balancer or an
// orchestrator. Otherwise the error wraps ErrNotReady and says all that is wrong:
//
//   - the store has not answered within a second, or has an error;
//   - its schema is not the one that New has found: another version of stet has migrated it;
//   - the engine has workflows, and neither Run nor RunOnce is under way;
//   - it holds leases, and one was not renewed within two thirds of its time.
//
// A process that stands by, or holds nothing because others hold it, is ready. The texts are
// for operators, not for strangers. It reads the store once.
func (e *Engine) Ready(ctx context.Context) error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrNotReady}, args...)...))
	}
	if len(e.definitions) > 0 && !e.inner.Running() {
		bad("expected Run to be under way, which executes workflows; it is not")
	}
	limited, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	d, err := e.store.Describe(limited)
	switch {
	case err != nil:
		bad("read the store within %s: %w", readyWithin, err)
	case d.Schema != e.schema:
		bad("expected a store of schema %d, as New has found it, found %d: restart this process", e.schema, d.Schema)
	default:
		if late := lateLease(&d, e.inner.Boot(), e.leaseTTL); late != nil {
			bad("expected leases that were renewed within %s, found one of shard %s that ends at %s, by the store's clock %s",
				e.leaseTTL*2/3, late.Shard, late.Until, d.Now)
		}
	}
	return errors.Join(problems...)
}

// lateLease returns a lease of a process that was not renewed within two thirds of its time;
// nil: there is none.
func lateLease(d *store.Description, boot string, ttl time.Duration) *store.Lease {
	for i := range d.Leases {
		if l := &d.Leases[i]; l.Boot == boot && l.Until.Sub(d.Now) < ttl/3 {
			return l
		}
	}
	return nil
}
