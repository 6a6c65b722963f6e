package observe

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/stet-run/stet"
)

const (
	// MostSets is how many sets of labels a metric has, before names become Other.
	MostSets = 1000
	// Other stands for the names of workflows, steps, groups and queues that have no set of
	// labels of their own.
	Other = "other"
)

// The outcomes of attempts.
const (
	Done      = "done"
	Failed    = "failed"
	TimedOut  = "timeout"
	Panicked  = "panic"
	Cancelled = "cancelled" // by its process, its run, or itself
)

// Outcome returns the word for the end of an attempt with the error, as stet.Observer.Attempt
// has it.
func Outcome(err error) string {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, stet.ErrTimeout):
		return TimedOut
	case errors.Is(err, stet.ErrPanic):
		return Panicked
	case errors.Is(err, context.Canceled), errors.Is(err, stet.ErrCancelled):
		return Cancelled
	}
	return Failed
}

// Sets is what belongs to sets of labels, by a key that has the labels as fields: at most
// MostSets of them, and those of Rest beside. It is safe for concurrent use. Reading takes no
// lock.
type Sets[K comparable, M any] struct {
	Make func(K) M // makes what belongs to a key, once. Required
	Rest func(K) K // returns the key with Other for its names. Required

	known atomic.Pointer[map[K]M]

	mu sync.Mutex // serializes the replacement of known
}

// Of returns what belongs to a key, or to its Rest if there is no room for it.
func (s *Sets[K, M]) Of(key K) M {
	if known := s.known.Load(); known != nil {
		if m, ok := (*known)[key]; ok {
			return m
		}
	}
	return s.add(key)
}

func (s *Sets[K, M]) add(key K) M {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[K]M{}
	if now := s.known.Load(); now != nil {
		known = *now
	}
	m, ok := known[key]
	if !ok && len(known) >= MostSets {
		key = s.Rest(key)
		m, ok = known[key]
	}
	if ok {
		return m
	}
	known = maps.Clone(known)
	m = s.Make(key)
	known[key] = m
	s.known.Store(&known)
	return m
}
