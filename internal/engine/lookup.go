package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/stet-run/stet/store"
)

// maxLookup bounds the runs of one read.
const maxLookup = 100

// lookups reads runs for those who wait for their ends. Who comes while nobody reads
// reads at once; those who come meanwhile are served by the next read together, which
// one of them makes. So a thousand that wait for runs of other processes ask some ten
// times, and one that is alone is not held up.
type lookups struct {
	get func(context.Context, string) (store.Run, bool, error) // one
	all func(context.Context, []string) ([]store.Run, error)   // those that are there, in any order

	mu      sync.Mutex
	reading bool
	waiting []*lookup
}

// lookup is one who waits to be served.
type lookup struct {
	id    string
	next  chan role // capacity 1
	found store.Run
	ok    bool
}

// role is what becomes of one who waits.
type role int

const (
	served role = iota // the answer is there
	reads              // it reads, for all who wait
	alone              // it reads for itself: something was wrong with one of several
)

// read returns a run as get does. It is safe for concurrent use.
func (s *lookups) read(ctx context.Context, id string) (store.Run, bool, error) {
	l := &lookup{id: id, next: make(chan role, 1)}
	s.mu.Lock()
	if s.reading {
		s.waiting = append(s.waiting, l)
		s.mu.Unlock()
		select {
		case r := <-l.next:
			switch r {
			case served:
				return l.found, l.ok, nil
			case alone:
				return s.get(ctx, id)
			}
		case <-ctx.Done():
			s.withdraw(l)
			return store.Run{}, false, context.Cause(ctx)
		}
		s.mu.Lock()
	}
	s.reading = true
	with := s.waiting[:min(len(s.waiting), maxLookup-1)]
	s.waiting = slices.Clone(s.waiting[len(with):])
	s.mu.Unlock()
	defer s.pass()
	if len(with) == 0 {
		return s.get(ctx, id)
	}
	ids := []string{id}
	for _, other := range with {
		ids = append(ids, other.id)
	}
	slices.Sort(ids)
	runs, err := s.all(ctx, slices.Compact(ids))
	byID := make(map[string]store.Run, len(runs))
	for _, run := range runs {
		byID[run.ID] = run
	}
	for _, other := range with {
		if err != nil {
			other.next <- alone
			continue
		}
		other.found, other.ok = byID[other.id]
		other.next <- served
	}
	if err != nil {
		return s.get(ctx, id)
	}
	run, ok := byID[id]
	return run, ok, nil
}

// pass has the next one read, if somebody waits.
func (s *lookups) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.reading = false
		return
	}
	s.waiting[0].next <- reads
	s.waiting = s.waiting[1:]
}

// withdraw takes one off who waits no more. Who was to read passes that on.
func (s *lookups) withdraw(l *lookup) {
	s.mu.Lock()
	if i := slices.Index(s.waiting, l); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	select {
	case r := <-l.next:
		if r == reads {
			s.pass()
		}
	default: // another reads for it just now
	}
}
