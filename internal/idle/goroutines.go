package idle

import (
	"sync"
	"time"
)

// Goroutines counts those that work on runs, and knows which of them only wait for a time.
// It is safe for concurrent use. The zero Goroutines has none.
type Goroutines struct {
	all sync.WaitGroup

	mu      sync.Mutex
	working int
	begun   int64
	waiting map[*time.Time]struct{}
}

// Add counts one more.
func (g *Goroutines) Add() {
	g.all.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.working++
	g.begun++
}

// Done is called at the end of one that was counted.
func (g *Goroutines) Done() {
	g.mu.Lock()
	g.working--
	g.mu.Unlock()
	g.all.Done()
}

// Rest notes that one of them does nothing until a time. It calls goOn before it does
// something again, or ends.
func (g *Goroutines) Rest(until time.Time) (goOn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == nil {
		g.waiting = map[*time.Time]struct{}{}
	}
	g.working--
	g.waiting[&until] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.working++
		delete(g.waiting, &until)
	}
}

// Working reports whether any of them works, how many were ever counted, and when the first
// of those that rest goes on; zero: none rests.
func (g *Goroutines) Working() (working bool, begun int64, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for at := range g.waiting {
		next = Earlier(next, *at)
	}
	return g.working > 0, g.begun, next
}

// Wait waits until all are done.
func (g *Goroutines) Wait() { g.all.Wait() }
