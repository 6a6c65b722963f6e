package steps

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/runner"
)

// ErrEnded says that the body of an attempt has returned, or that its time is over.
var ErrEnded = errors.New("the body of the step has ended")

const (
	// emitSoon is how long the first item after a rest waits for others that are emitted with it.
	emitSoon = 5 * time.Millisecond
	// emitEvery is how long an item that was emitted waits for others at most: what an emission
	// costs depends little on how many items it has.
	emitEvery = 100 * time.Millisecond
	// emitEarly is by how much an item may end that waiting that comes shortly before its end. A
	// body that emits all the time needs no timer.
	emitEarly = 10 * time.Millisecond
	// emitBytes is how many bytes wait for others, or are on their way to the store.
	emitBytes = 64 << 10
	// emitCosts are the bytes that an item counts besides its value.
	emitCosts = 64
)

// Emitted is an item of a stream.
type Emitted = runner.Emission

// Emission is a part of what an attempt has emitted, in its order.
type Emission struct {
	ID      int64 // of the operation
	Attempt int
	Items   []Emitted
	Settled func() // to be called once when the items are durable, or will not be
}

// emitter gathers what an attempt emits. At most one emission of it is on its way.
type emitter struct {
	attempt *Attempt

	mu     sync.Mutex
	items  []Emitted     // not on their way
	sends  int           // how many were sent last
	size   int           // of these, in bytes
	flying bool          // an emission is on its way
	first  time.Time     // when the first of them was emitted
	sent   time.Time     // when an emission was sent last; zero: none was
	due    *time.Timer   // nil: none is set
	late   bool          // the items have waited for long enough
	room   chan struct{} // closed when items leave; nil: nobody waits
	closed bool
}

// Emit adds an item to a stream of the run. It waits while as much as fits is on its way
// to the store, until ctx or the attempt ends. ErrEnded: it has.
func (a *Attempt) Emit(ctx context.Context, item Emitted) error {
	e := a.emits()
	if e == nil {
		return ErrEnded
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		switch cost := len(item.Value) + emitCosts; {
		case e.closed:
			return ErrEnded
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case a.context().Err() != nil:
			return context.Cause(a.context())
		case e.size == 0 || e.size+cost <= emitBytes:
			if e.items == nil { // about as many as before
				e.items = make([]Emitted, 0, max(e.sends, 1))
			}
			e.items = append(e.items, item)
			e.size += cost
			now := time.Now()
			if len(e.items) == 1 {
				e.first = now
			}
			early := now.Sub(e.sent) >= emitEvery-emitEarly
			if e.due == nil {
				e.due = time.AfterFunc(max(emitSoon, emitEvery-now.Sub(e.sent)), e.expire)
			}
			if early && now.Sub(e.first) >= emitSoon {
				e.late = true
				e.send()
			} else if e.size >= emitBytes {
				e.send()
			}
			return nil
		}
		e.late = true // there is no room
		e.send()
		if len(e.items) == 0 {
			continue
		}
		if e.room == nil {
			e.room = make(chan struct{})
		}
		room := e.room
		e.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		case <-a.context().Done():
		}
		e.mu.Lock()
	}
}

// Emitting reports whether the attempt has emitted something.
func (a *Attempt) Emitting() bool { return a.emitter.Load() != nil }

// emits returns the attempt's emitter; nil: it has ended.
func (a *Attempt) emits() *emitter {
	if e := a.emitter.Load(); e != nil {
		return e
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.emitter.Load() == nil && !a.ended.Load() {
		a.emitter.Store(&emitter{attempt: a})
	}
	return a.emitter.Load()
}

// endEmitter sends what is left, before the end of the attempt is delivered.
func (a *Attempt) endEmitter() {
	a.mu.Lock()
	e := a.emitter.Load()
	a.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flying = false // nobody waits any more
	e.send()
	e.closed = true
	e.leave()
}

// expire sends items that have waited for long enough.
func (e *emitter) expire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.due, e.late = nil, true
	e.send()
}

// send sends the items, unless others are on their way. e.mu must be held.
func (e *emitter) send() {
	if e.flying || e.closed || len(e.items) == 0 {
		return
	}
	a := e.attempt
	items := e.items
	e.sends = len(items)
	e.items, e.size, e.flying, e.late, e.sent = nil, 0, true, false, time.Now()
	if e.due != nil {
		e.due.Stop()
		e.due = nil
	}
	e.leave()
	a.Run.Emit(Emission{ID: a.body.ID, Attempt: a.body.Attempt, Items: items, Settled: e.settled})
}

// leave lets those go on that wait for room. e.mu must be held.
func (e *emitter) leave() {
	if e.room != nil {
		close(e.room)
		e.room = nil
	}
}

// settled notes that what was on its way has arrived.
func (e *emitter) settled() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flying = false
	if e.late || e.size >= emitBytes {
		e.send()
	}
}
