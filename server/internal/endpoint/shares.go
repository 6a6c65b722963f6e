package endpoint

import (
	"context"
	"sync"
)

// Shares bounds what is under way at a time: in all, and for each identity. One identity leaves a half to others.
// Make one with NewShares. It is safe for concurrent use.
type Shares struct {
	all, each int

	mu      sync.Mutex
	sum     int
	held    map[string]int // by identity, if it has any
	changed chan struct{}  // closed when a place was given back
}

// NewShares returns so many places in all. One identity gets half of them.
func NewShares(all int) *Shares {
	return &Shares{all: all, each: all / 2, held: map[string]int{}, changed: make(chan struct{})}
}

// Take takes a place for an identity, if there is one. leave gives it back, and is nil if there is none.
func (s *Shares) Take(who string) (leave func()) {
	leave, _ = s.take(who)
	return leave
}

// take returns how to give a place back, or what is closed when to try again.
func (s *Shares) take(who string) (leave func(), changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum >= s.all || s.held[who] >= s.each {
		return nil, s.changed
	}
	s.sum++
	s.held[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sum--
		if s.held[who]--; s.held[who] == 0 {
			delete(s.held, who)
		}
		close(s.changed)
		s.changed = make(chan struct{})
	}, nil
}

// Enter waits for a place for an identity. leave gives it back, and is nil if the context ended before.
func (s *Shares) Enter(ctx context.Context, who string) (leave func()) {
	for {
		leave, changed := s.take(who)
		if leave != nil {
			return leave
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Distinct bounds how many different things each identity has under way: several requests for one thing cost one.
// Make one with NewDistinct. It is safe for concurrent use.
type Distinct struct {
	each int

	mu   sync.Mutex
	held map[string]map[string]int // by identity and thing: the requests; none is empty
}

// NewDistinct lets each identity have so many things under way.
func NewDistinct(each int) *Distinct { return &Distinct{each: each, held: map[string]map[string]int{}} }

// Take adds things of an identity, if it may have all of them. leave takes them away, and is nil if it may not.
func (d *Distinct) Take(who string, things []string) (leave func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := d.held[who]
	added := map[string]bool{}
	for _, thing := range things {
		if held[thing] == 0 {
			added[thing] = true
		}
	}
	if len(held)+len(added) > d.each && len(added) > 0 {
		return nil
	}
	if held == nil && len(things) > 0 {
		held = map[string]int{}
		d.held[who] = held
	}
	for _, thing := range things {
		held[thing]++
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, thing := range things {
			if held[thing]--; held[thing] == 0 {
				delete(held, thing)
			}
		}
		if len(held) == 0 {
			delete(d.held, who)
		}
	}
}
