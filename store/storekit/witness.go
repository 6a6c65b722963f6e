package storekit

import (
	"context"
	"sync"
	"time"
)

// The server of a store knows when a process has died: its kernel closes the connection. So a
// process that takes leases has one connection more, its witness. The shards of a process whose
// witness is gone are taken at once; without it they would rest until their leases end.
//
// Safety does not depend on it. As at the end of a lease, whoever takes over raises the epochs:
// a process that was wrongly believed to be dead can write nothing, and loses its shards. To
// make that rare
//
//   - a boot counts as dead when two looks at an interval of WitnessGrace have not found its
//     witness; one that was cut is made again long before;
//   - a process that loses its witness takes it back first: then only its lease counts.
//
// A server that was started, or promoted, since a witness was noted says nothing: all witnesses
// are gone then. A process that stands still keeps its connection, so its lease counts.

const (
	// WitnessLook is the interval at which a process looks for others that have died.
	WitnessLook = 800 * time.Millisecond
	// WitnessGrace is how long a witness may be gone.
	WitnessGrace = 300 * time.Millisecond
	// WitnessRetry is how long a witness that cannot be made rests.
	WitnessRetry = time.Second
	// WitnessAnswer bounds the wait for an answer.
	WitnessAnswer = 5 * time.Second
)

// Boot names one life of a node.
type Boot struct{ Node, Boot string }

// Witnesses are the witnesses of this process's boots, and what it knows of others'. The zero
// Witnesses is ready for use; its methods are safe for concurrent use.
type Witnesses struct {
	mu     sync.Mutex
	closed bool
	own    map[Boot]context.CancelFunc
	gone   map[Boot]absence
	done   sync.WaitGroup
}

// absence is that of a witness.
type absence struct {
	number int64 // of the connection
	since  time.Time
	dead   bool // two looks at an interval of WitnessGrace have found it
}

// Keep has a boot's witness executed until End or Close, unless it is.
func (w *Witnesses) Keep(b Boot, witness func(context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.own[b] != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	if w.own == nil {
		w.own = map[Boot]context.CancelFunc{}
	}
	w.own[b] = cancel
	w.done.Go(func() { witness(ctx) })
}

// End ends the witness of a boot that has given everything back.
func (w *Witnesses) End(b Boot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cancel := w.own[b]; cancel != nil {
		cancel()
		delete(w.own, b)
	}
}

// Close ends all witnesses, and waits for that.
func (w *Witnesses) Close() {
	w.mu.Lock()
	w.closed = true
	for _, cancel := range w.own {
		cancel()
	}
	w.mu.Unlock()
	w.done.Wait()
}

// Look notes which witnesses a look has not found, with the number of each connection if the
// server has said it. It returns when to look again, and whether a boot has died since the last
// look.
func (w *Witnesses) Look(gone map[Boot]int64) (next time.Duration, died bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	next = WitnessLook
	former := w.gone
	w.gone = map[Boot]absence{}
	for b, number := range gone {
		a, ok := former[b]
		if !ok || a.number != number {
			a = absence{number: number, since: now}
		}
		if dead := now.Sub(a.since) >= WitnessGrace; dead && !a.dead {
			a.dead, died = true, true
		}
		if !a.dead {
			next = WitnessGrace
		}
		w.gone[b] = a
	}
	return next, died
}

// Blind forgets who was gone, because nobody looks.
func (w *Witnesses) Blind() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = nil
}

// Dead reports whether a boot has died.
func (w *Witnesses) Dead(b Boot) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone[b].dead
}

// AllDead returns the boots that have died, in any order.
func (w *Witnesses) AllDead() (dead []Boot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for b, a := range w.gone {
		if a.dead {
			dead = append(dead, b)
		}
	}
	return dead
}
