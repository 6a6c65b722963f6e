package observe

import (
	"context"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

const (
	// share is the part of the time for which the store may be read: one in so many.
	share = 100
	// patience bounds one reading.
	patience = 5 * time.Second
	// tooOld is the age from which on a reading does not count any more that could not be
	// made again.
	tooOld = 10 * time.Minute
	// mostLetters bounds how many dead letters are counted.
	mostLetters = 10_000
)

// RunsOf is a set of runs.
type RunsOf struct {
	Workflow string
	Status   store.Status
}

// Reading is how a store stood at a moment.
type Reading struct {
	At time.Time

	// Runs counts those that have not succeeded and were not cancelled. Of more than MostSets
	// sets the workflow is Other.
	Runs map[RunsOf]int64
	// ReadyOldest is how long the oldest queued run has waited that waits for nothing but a
	// process, at least.
	ReadyOldest time.Duration
	// DeadLetters counts dead letters, up to 10,000.
	DeadLetters int
	// QueueWaiting and QueueHeld count what waits for a permit, and the permits that are held.
	QueueWaiting, QueueHeld map[string]int
	// ScheduleLate is by how much the latest schedule is late.
	ScheduleLate time.Duration
}

// Store reads how the store of an engine stands. It is safe for concurrent use.
type Store struct {
	mu   sync.Mutex
	last Reading   // At is zero: there is none
	next time.Time // when the store may be read again
}

// Read returns how the store stands, or stood: it reads it for at most one part in a hundred of
// the time, and for 5 s at once. ok is false if the last reading is older than ten minutes,
// because the store could not be read since: stet.Observer.StoreError has said so.
func (s *Store) Read(e *stet.Engine) (r Reading, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begun := time.Now(); !begun.Before(s.next) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		read, err := readStore(ctx, e, begun)
		cancel()
		ended := time.Now()
		s.next = ended.Add(ended.Sub(begun) * (share - 1))
		if err == nil {
			read.At = ended
			s.last = read
		}
	}
	return s.last, !s.last.At.IsZero() && time.Since(s.last.At) <= tooOld
}

func readStore(ctx context.Context, e *stet.Engine, now time.Time) (Reading, error) {
	r := Reading{Runs: map[RunsOf]int64{}, QueueWaiting: map[string]int{}, QueueHeld: map[string]int{}}
	for _, part := range []func(context.Context, *stet.Engine, time.Time) error{
		r.readRuns, r.readReady, r.readLetters, r.readQueues, r.readSchedules,
	} {
		if err := part(ctx, e, now); err != nil {
			return Reading{}, err
		}
	}
	return r, nil
}

func (r *Reading) readRuns(ctx context.Context, e *stet.Engine, _ time.Time) error {
	tallies, err := e.Runs().Count(ctx, store.Filter{Statuses: []store.Status{
		store.Queued, store.Running, store.Suspended, store.Failed, store.Stalled,
	}})
	for _, t := range tallies {
		of := RunsOf{t.Workflow, t.Status}
		if _, known := r.Runs[of]; !known && len(r.Runs) >= MostSets {
			of.Workflow = Other
		}
		r.Runs[of] += t.Runs
	}
	return err
}

// ages are those of which it is asked whether a queued run is older, the greatest first.
var ages = []time.Duration{
	24 * time.Hour, 4 * time.Hour, time.Hour, 30 * time.Minute, 10 * time.Minute, 5 * time.Minute, 2 * time.Minute,
	time.Minute, 30 * time.Second, 10 * time.Second, 2 * time.Second,
}

// readReady looks at a hundred queued runs beyond each age: those that wait for a permit, for
// their time, or for an operator are not ready.
func (r *Reading) readReady(ctx context.Context, e *stet.Engine, now time.Time) error {
	for _, age := range ages {
		list, _, err := e.Runs().List(ctx, store.Filter{
			Statuses: []store.Status{store.Queued}, CreatedBefore: store.TimeOf(now.Add(-age)), Limit: 100,
		})
		if err != nil {
			return err
		}
		for i := range list {
			if q := &list[i]; q.Marks&(store.Held|store.Paused) == 0 && !q.Wake.After(now) {
				r.ReadyOldest = max(r.ReadyOldest, now.Sub(q.Created))
			}
		}
		if r.ReadyOldest > 0 {
			return nil
		}
	}
	return nil
}

func (r *Reading) readLetters(ctx context.Context, e *stet.Engine, _ time.Time) error {
	f := store.DeadFilter{Limit: 1000}
	for {
		list, next, err := e.DeadLetters().List(ctx, f)
		if err != nil {
			return err
		}
		r.DeadLetters = min(r.DeadLetters+len(list), mostLetters)
		if f.Cursor = next; next == "" || r.DeadLetters == mostLetters {
			return nil
		}
	}
}

func (r *Reading) readQueues(ctx context.Context, e *stet.Engine, _ time.Time) error {
	list, err := e.Queues().List(ctx)
	for i := range list {
		name := list[i].Name
		if len(r.QueueHeld) >= MostSets {
			name = Other
		}
		r.QueueWaiting[name] += list[i].Waiting
		r.QueueHeld[name] += list[i].Held
	}
	return err
}

func (r *Reading) readSchedules(ctx context.Context, e *stet.Engine, now time.Time) error {
	list, err := e.Schedules().List(ctx)
	for _, s := range list {
		if len(s.Next) > 0 {
			r.ScheduleLate = max(r.ScheduleLate, now.Sub(s.Next[0]))
		}
	}
	return err
}
