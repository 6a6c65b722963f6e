package steps

import (
	"context"
	"sync"

	"github.com/stet-run/stet/internal/fifo"
)

// Task is something that a pool executes. It embeds a [Place].
type Task interface {
	// Execute does the work. The pool then calls next, unless it is nil: after the
	// task has made room for another one, and on the same goroutine unless a task
	// waits for it. next returns a task that follows, or nil.
	Execute() (next func() Task)
	// Cancel asks the task to end soon. It may be called at any time.
	Cancel(cause error)
	// String says to a person where the task stands.
	String() string

	held() *Place
}

// Place is what a pool notes of a task that has a place in it. Its zero value is of one that
// has had none yet.
type Place struct {
	at        int  // in the pool's list, from 1
	executing bool // the task
	kept      bool // although it is not executed any more, or will not be
}

func (p *Place) held() *Place { return p }

// Limited is a task of which only so many of its kind have a place at a time, whatever the
// others of the kind say of themselves. limit is above 0; of kind "" are all that are not
// limited.
type Limited interface {
	Limit() (kind string, limit int)
}

func limitOf(t Task) (kind string, limit int) {
	if l, ok := t.(Limited); ok {
		return l.Limit()
	}
	return "", 0
}

// Shared is a task of one of several parties that share the places, such as a workflow. of "" are
// those of none.
type Shared interface {
	Party() (of string)
}

func partyOf(t Task) string {
	if s, ok := t.(Shared); ok {
		return s.Party()
	}
	return ""
}

// party is the tasks of one party that have a place, and wait for nothing but a place, in their
// order.
type party struct {
	taken   int
	waiting []Task
	turn    int64 // when it got its last place after waiting
}

// kind is the limited tasks of one kind. There is one as long as any of them is there.
type kind struct {
	taken   int // by those that have a place, or wait for nothing but a place
	waiting []Task
}

// Pool executes tasks. It has so many places; of the tasks that find none, parties take turns, and
// those of one party go in the order in which they came. A task has its place while it is
// executed, and longer if it is kept: a step, until its outcome is durable. A goroutine that has
// executed a task takes the next one that waits; some that find none stay for later ones, until
// Stop. It is safe for concurrent use.
type Pool struct {
	max int

	mu      sync.Mutex
	tasks   []Task            // that have a place
	running int               // of these, are executed
	parties map[string]*party // every party that has had a task
	waiting int               // tasks of all parties, for a place
	turns   int64             // places that were given to tasks which had waited
	fair    bool              // a party leaves places free for others
	kinds   map[string]*kind  // of limited tasks
	stopped bool
	begun   int64            // tasks
	ready   fifo.Queue[work] // waits for a goroutine; then one is called
	called  bool             // a goroutine is on its way
	idle    []chan struct{}  // call goroutines that have nothing to do; each has room for one call
	next    chan struct{}    // closed when the next task begins; nil: nobody waits for that
	drained chan struct{}    // closed when stopped and nothing runs
}

// NewPool returns a pool with so many places. fair: a party may take a place only while it has
// fewer than shareOf times as many as are free, so that another one finds some.
func NewPool(limit int, fair bool) *Pool {
	return &Pool{max: limit, fair: fair, parties: map[string]*party{}, drained: make(chan struct{})}
}

// shareOf leaves a ninth of the places to others if there is one party, and less if there are more.
const shareOf = 8

// work is what a goroutine of a pool does: it executes a task that has a place, or calls a
// function and executes the task that it returns.
type work struct {
	task Task
	next func() Task
}

// maxIdle is how many goroutines wait for work. A goroutine that has worked has a stack that
// has grown; that of a new one is copied twice before it is large enough for a step.
const maxIdle = 128

// Start executes a task on another goroutine as soon as there is room.
func (p *Pool) Start(t Task) {
	if p.admit(t) {
		p.dispatch(work{task: t})
	}
}

// Follow calls next on another goroutine, which then executes the task that it returns. If
// there is no room for the task it waits.
func (p *Pool) Follow(next func() Task) { p.dispatch(work{next: next}) }

// Crowded reports whether there is work that no goroutine has begun yet.
func (p *Pool) Crowded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready.Len() > 0
}

// dispatch gives work to a goroutine that has none.
func (p *Pool) dispatch(w work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dispatchLocked(w)
}

// dispatchLocked is dispatch for a caller that holds p.mu.
func (p *Pool) dispatchLocked(w work) {
	p.ready.Push(w)
	p.call()
}

// call makes one more goroutine come for work, unless one is on its way: as soon as that has
// taken some it calls the next, so that nothing waits for a task that blocks. Of many short
// tasks each goroutine does several, and to wake one for each would cost more than they do.
// p.mu must be held.
func (p *Pool) call() {
	if p.called {
		return
	}
	p.called = true
	if last := len(p.idle) - 1; last >= 0 {
		p.idle[last] <- struct{}{}
		p.idle[last] = nil
		p.idle = p.idle[:last]
		return
	}
	go p.goroutine()
}

// goroutine works as long as there is something to do, or may be soon.
func (p *Pool) goroutine() {
	calls := make(chan struct{}, 1)
	for called := true; called; called = p.await(calls) {
		for w, more := p.take(called); more; w, more = p.take(false) {
			t := w.task
			if t == nil {
				if t = w.next(); t != nil && !p.admit(t) {
					t = nil
				}
			}
			if t != nil {
				p.work(t)
			}
		}
	}
}

// take returns the work that has waited longest. called: the goroutine was called for it.
func (p *Pool) take(called bool) (w work, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if called {
		p.called = false
	}
	if p.ready.Len() == 0 {
		return work{}, false
	}
	w = p.ready.Pop()
	if p.ready.Len() > 0 {
		p.call()
	}
	return w, true
}

// await returns when the goroutine is called; false: it is not needed any more.
func (p *Pool) await(calls chan struct{}) (called bool) {
	p.mu.Lock()
	if p.stopped || len(p.idle) == maxIdle {
		p.mu.Unlock()
		return false // what is ready is for the one that was called for it
	}
	p.idle = append(p.idle, calls)
	p.mu.Unlock()
	_, called = <-calls
	return called
}

// admit reports whether the caller is to execute the task now.
func (p *Pool) admit(t Task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped, !p.enter(t):
		return false
	}
	of := p.party(t)
	if len(of.waiting) == 0 && p.allows(of) {
		p.begin(t)
		return true
	}
	p.wait(of, t)
	return false
}

// party returns that of a task. p.mu must be held.
func (p *Pool) party(t Task) *party {
	name := partyOf(t)
	of := p.parties[name]
	if of == nil {
		of = &party{}
		p.parties[name] = of
	}
	return of
}

// allows reports whether there is a place for a task of a party. p.mu must be held.
func (p *Pool) allows(of *party) bool {
	free := p.max - len(p.tasks)
	return free > 0 && (!p.fair || of.taken < shareOf*free)
}

// wait lets a task wait for a place. p.mu must be held.
func (p *Pool) wait(of *party, t Task) {
	of.waiting = append(of.waiting, t)
	p.waiting++
}

// enter reports whether a task waits for nothing but a place: fewer than its limit of its kind
// are there. Otherwise it waits. p.mu must be held.
func (p *Pool) enter(t Task) bool {
	name, limit := limitOf(t)
	if name == "" {
		return true
	}
	k := p.kinds[name]
	if k == nil {
		if p.kinds == nil {
			p.kinds = map[string]*kind{}
		}
		k = &kind{}
		p.kinds[name] = k
	}
	if k.taken < limit && len(k.waiting) == 0 {
		k.taken++
		return true
	}
	k.waiting = append(k.waiting, t)
	return false
}

// exit lets the tasks wait for a place that waited for one of their kind, which has left. p.mu
// must be held.
func (p *Pool) exit(t Task) {
	name, _ := limitOf(t)
	k := p.kinds[name]
	if k == nil {
		return
	}
	for k.taken--; len(k.waiting) > 0; k.waiting = k.waiting[1:] {
		first := k.waiting[0]
		if _, limit := limitOf(first); k.taken >= limit {
			return
		}
		k.taken++
		p.wait(p.party(first), first)
		k.waiting[0] = nil
	}
	if k.taken == 0 {
		delete(p.kinds, name)
	}
}

// begin gives a task a place. p.mu must be held.
func (p *Pool) begin(t Task) {
	p.tasks = append(p.tasks, t)
	p.party(t).taken++
	*t.held() = Place{at: len(p.tasks), executing: true}
	p.running++
	p.begun++
	if p.next != nil {
		close(p.next)
		p.next = nil
	}
}

// Begun returns how many tasks have begun so far.
func (p *Pool) Begun() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

// More returns a channel that is closed as soon as more than n tasks have begun.
func (p *Pool) More(n int64) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = make(chan struct{})
	}
	more := p.next
	if p.begun > n {
		close(p.next)
		p.next = nil
	}
	return more
}

// work executes an admitted task, then those that wait and those that follow.
func (p *Pool) work(t Task) {
	for {
		next := p.execute(t)
		waiting := p.done(t)
		switch {
		case waiting != nil && next != nil:
			p.Follow(next)
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
			p.dispatch(work{task: waiting})
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
	t.held().executing = false
	p.running--
	if p.stopped && p.running == 0 {
		p.closeDrained()
	}
	return p.leave(t)
}

// leave gives up the place of a task that is neither executed nor kept. It returns the one
// that has waited longest, admitted; nil: none. p.mu must be held.
func (p *Pool) leave(t Task) (waiting Task) {
	place := t.held()
	if place.executing || place.kept {
		return nil
	}
	last := len(p.tasks) - 1
	p.tasks[place.at-1] = p.tasks[last]
	p.tasks[last].held().at = place.at
	p.tasks[last] = nil
	p.tasks = p.tasks[:last]
	p.exit(t)
	p.party(t).taken--
	if p.stopped {
		return nil
	}
	waiting = p.first()
	for next := waiting; next != nil; { // that exit, or the share of a party, has let in as well
		if next = p.first(); next != nil {
			p.dispatchLocked(work{task: next})
		}
	}
	return waiting
}

// first gives a place to the first task of the party whose turn it is, and returns it; nil: nothing waits that
// may have one. p.mu must be held.
func (p *Pool) first() Task {
	if p.waiting == 0 || len(p.tasks) >= p.max {
		return nil
	}
	var next *party
	for _, of := range p.parties {
		if len(of.waiting) > 0 && (next == nil || of.turn < next.turn) && p.allows(of) {
			next = of
		}
	}
	if next == nil {
		return nil
	}
	t := next.waiting[0]
	next.waiting[0] = nil
	next.waiting = next.waiting[1:]
	p.waiting--
	p.turns++
	next.turn = p.turns
	p.begin(t)
	return t
}

// Keep lets a task that is being executed have its place until Release.
func (p *Pool) Keep(t Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if place := t.held(); place.executing {
		place.kept = true
	}
}

// Release ends Keep. It does nothing for a task that is not kept.
func (p *Pool) Release(t Task) {
	p.mu.Lock()
	var waiting Task
	if place := t.held(); place.kept {
		place.kept = false
		waiting = p.leave(t)
	}
	p.mu.Unlock()
	if waiting != nil {
		p.dispatch(work{task: waiting})
	}
}

// Stop makes the pool begin no task from now on; those that wait are dropped. The
// returned channel is closed when no task runs.
func (p *Pool) Stop() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	for _, of := range p.parties {
		of.waiting = nil
	}
	p.waiting, p.kinds = 0, nil
	for _, inbox := range p.idle {
		close(inbox)
	}
	p.idle = nil
	if p.running == 0 {
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

// Counts returns how many tasks are being executed, how many wait for a place, and how many
// have been executed and keep theirs.
func (p *Pool) Counts() (executing, waiting, kept int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting = p.waiting
	for _, k := range p.kinds {
		waiting += len(k.waiting)
	}
	return p.running, waiting, len(p.tasks) - p.running
}

// Running returns the tasks that are being executed, in any order.
func (p *Pool) Running() []Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := make([]Task, 0, p.running)
	for _, t := range p.tasks {
		if t.held().executing {
			running = append(running, t)
		}
	}
	return running
}
