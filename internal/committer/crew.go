package committer

import "sync"

// Crew is goroutines that an owner waits for at its end. Unlike a WaitGroup it may be given work
// while it is waited for: the committer delivers its last results then.
type Crew struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when closed and n is 0; nil: not closed
}

// Go calls f on a goroutine of the crew; on this one if the crew is closed. Contexts have
// ended then, so that f returns at once.
func (c *Crew) Go(f func()) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		f()
		return
	}
	c.n++
	c.mu.Unlock()
	go func() {
		defer c.leave()
		f()
	}()
}

func (c *Crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.closed {
		close(c.idle)
	}
}

// Close lets no goroutine begin. The returned channel is closed when all have ended.
func (c *Crew) Close() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed, c.idle = true, make(chan struct{})
		if c.n == 0 {
			close(c.idle)
		}
	}
	return c.idle
}
