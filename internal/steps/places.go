package steps

import "sync"

// Places are those that the ended attempts of one run keep in a pool, each until its outcome
// is durable, or will not be. They are safe for concurrent use.
type Places struct {
	Pool *Pool

	mu     sync.Mutex
	kept   map[Task]struct{}
	closed bool
}

// Keep takes over the place of an attempt that has ended. After Close it gives it up.
func (p *Places) Keep(t Task) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		if p.kept == nil {
			p.kept = map[Task]struct{}{}
		}
		p.kept[t] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		p.Pool.Release(t)
	}
}

// Release gives up the places of attempts.
func (p *Places) Release(attempts []Task) {
	p.mu.Lock()
	for _, t := range attempts {
		delete(p.kept, t)
	}
	p.mu.Unlock()
	for _, t := range attempts {
		p.Pool.Release(t)
	}
}

// Close gives up all places, as the run leaves memory.
func (p *Places) Close() {
	p.mu.Lock()
	kept := p.kept
	p.kept, p.closed = nil, true
	p.mu.Unlock()
	for t := range kept {
		p.Pool.Release(t)
	}
}
