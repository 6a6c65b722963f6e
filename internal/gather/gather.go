// Package gather hands work that comes one by one to a store that does much at once for little more.
package gather

import "sync"

// Gather gives what is added to a few workers. While one is free it gets an addition at once; while all work, what is
// added waits, and the next that is free gets all of it, up to a bound. So nothing waits for company, and under load
// there is much of it.
//
// Its fields are set before its first use. It is safe for concurrent use.
type Gather[T any] struct {
	// Workers is how many there are at most, and Most how much each gets at a time; both are above 0.
	Workers, Most int
	// Go begins a worker, on a goroutine of its own.
	Go func(work func())
	// Do does the work, and returns what is to be done again: the worker does that itself, next.
	Do func([]T) (again []T)

	mu      sync.Mutex
	waiting []T
	working int
}

// Add adds work, and returns at once.
func (g *Gather[T]) Add(work ...T) {
	g.mu.Lock()
	g.waiting = append(g.waiting, work...)
	begin := min(g.Workers-g.working, (len(g.waiting)+g.Most-1)/g.Most)
	parts := make([][]T, 0, max(begin, 0))
	for range begin {
		g.working++
		parts = append(parts, g.next())
	}
	g.mu.Unlock()
	for _, part := range parts {
		g.Go(func() { g.work(part) })
	}
}

// Waiting returns how much waits for a worker.
func (g *Gather[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// work does a part, and then what waits.
func (g *Gather[T]) work(part []T) {
	for len(part) > 0 {
		if part = g.Do(part); len(part) > 0 {
			continue
		}
		g.mu.Lock()
		if part = g.next(); len(part) == 0 {
			g.working--
		}
		g.mu.Unlock()
	}
}

// next takes a part of what waits. g.mu must be held.
func (g *Gather[T]) next() []T {
	n := min(len(g.waiting), g.Most)
	part := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
		g.waiting = nil
	}
	return part
}
