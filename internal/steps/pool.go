package steps

import (
	"context"
	"sync"
)

// Task is something that a pool executes.
type Task interface {
	// Execute does the work. The pool then calls next, unless it is nil: after the
	// task has made room for another one, and on the same goroutine unless a task
	// waits for it. next returns a task that follows, or nil.
	Execute() (next func() Task)
	// Cancel asks the task to end soon. It may be called at any time.
	Cancel(cause error)
	// String says to a person where the task stands.
	String() string
}

// Pool executes tasks, at most so many at once; the others wait in the order in which
// they came. A goroutine that has executed a task takes the next one that waits. It is
// safe for concurrent use.
type Pool struct {
	max int

	mu      sync.Mutex
	running map[Task]struct{}
	waiting []Task
	stopped bool
	drained chan struct{} // closed when stopped and nothing runs
}

// NewPool returns a pool that executes at most limit tasks at once.
func NewPool(limit int) *Pool {
	return &Pool{max: limit, running: map[Task]struct{}{}, drained: make(chan struct{})}
}

// Start executes a task on another goroutine as soon as there is room.
func (p *Pool) Start(t Task) {
	if p.admit(t) {
		go p.work(t)
	}
}

// Follow calls next and, on the same goroutine, executes the task that it returns. If
// there is no room for the task it waits, and Follow returns.
func (p *Pool) Follow(next func() Task) {
	if t := next(); t != nil && p.admit(t) {
		p.work(t)
	}
}

// admit reports whether the caller is to execute the task now.
func (p *Pool) admit(t Task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped:
		return false
	case len(p.running) < p.max:
		p.running[t] = struct{}{}
		return true
	}
	p.waiting = append(p.waiting, t)
	return false
}

// work executes an admitted task, then those that wait and those that follow.
func (p *Pool) work(t Task) {
	for {
		next := p.execute(t)
		waiting := p.done(t)
		switch {
		case waiting != nil && next != nil:
			go p.Follow(next)
		case waiting != nil:
		case next == nil:
			return
		default:
			if waiting = next(); waiting == nil || !p.admit(waiting) {
				return
			}
		}
		t = waiting
	}
}

// execute executes a task. If the task ends its goroutine (runtime.Goexit), another one
// takes its place.
func (p *Pool) execute(t Task) (next func() Task) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if waiting := p.done(t); waiting != nil {
			go p.work(waiting)
		}
	}()
	next = t.Execute()
	returned = true
	return next
}

// done makes room for another task. It returns the one that has waited longest, admitted;
// nil: none.
func (p *Pool) done(t Task) (waiting Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, t)
	if len(p.waiting) > 0 && !p.stopped {
		waiting = p.waiting[0]
		p.waiting[0] = nil
		p.waiting = p.waiting[1:]
		p.running[waiting] = struct{}{}
		return waiting
	}
	if p.stopped && len(p.running) == 0 {
		p.closeDrained()
	}
	return nil
}

// Stop makes the pool begin no task from now on; those that wait are dropped. The
// returned channel is closed when no task runs.
func (p *Pool) Stop() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.waiting = nil
	if len(p.running) == 0 {
		p.closeDrained()
	}
	return p.drained
}

func (p *Pool) closeDrained() {
	select {
	case <-p.drained:
	default:
		close(p.drained)
	}
}

// CancelAll cancels the tasks that are being executed and returns where they stand, in
// any order.
func (p *Pool) CancelAll() []string {
	var places []string
	for _, t := range p.Running() {
		t.Cancel(context.Canceled)
		places = append(places, t.String())
	}
	return places
}

// Running returns the tasks that are being executed, in any order.
func (p *Pool) Running() []Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := make([]Task, 0, len(p.running))
	for t := range p.running {
		running = append(running, t)
	}
	return running
}
