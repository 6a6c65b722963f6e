package storekit

import (
	"cmp"
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
//     witness; one that was cut is made again long before. One look is enough if the boot's process
//     was on this machine, which has it no more: a process that was killed and started again goes
//     on at once;
//   - a process that loses its witness takes it back first: then only its lease counts.
//
// A server that was started, or promoted, since a witness was noted says nothing: all witnesses
// are gone then. A process that stands still keeps its connection, so its lease counts.

const (
	// WitnessLook is the interval at which a process looks for others that have died.
	WitnessLook = 800 * time.Millisecond
	// WitnessAlone is the interval of a process that has found no other. Who has made its witness
	// says so, and then it looks at once, see Stir.
	WitnessAlone = 5 * time.Second
	// WitnessFresh is how long a boot that is gone keeps others looking: it may come back.
	WitnessFresh = time.Minute
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
	// Alone is the interval of a process that has found no other. Zero: WitnessAlone.
	Alone time.Duration

	mu     sync.Mutex
	closed bool
	own    map[Boot]kept
	gone   map[Boot]absence
	done   sync.WaitGroup
}

// kept is a boot's witness.
type kept struct {
	end     context.CancelFunc
	stirred chan struct{}
}

// Sign is what a store knows of a witness that is gone.
type Sign struct {
	Number int64 // of its connection; 0: the server does not say which one it was
	Process
}

// absence is that of a witness.
type absence struct {
	number int64 // of the connection
	since  time.Time
	dead   bool // two looks at an interval of WitnessGrace have found it, or its process has ended
}

// Keep has a boot's witness executed until End or Close, unless it is. The witness looks at once
// when it receives from stirred.
func (w *Witnesses) Keep(b Boot, witness func(ctx context.Context, stirred <-chan struct{})) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.own[b]; ok || w.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	if w.own == nil {
		w.own = map[Boot]kept{}
	}
	k := kept{cancel, make(chan struct{}, 1)}
	w.own[b] = k
	w.done.Go(func() { witness(ctx, k.stirred) })
}

// End ends the witness of a boot that has given everything back.
func (w *Witnesses) End(b Boot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k, ok := w.own[b]; ok {
		k.end()
		delete(w.own, b)
	}
}

// Close ends all witnesses, and waits for that.
func (w *Witnesses) Close() {
	w.mu.Lock()
	w.closed = true
	for _, k := range w.own {
		k.end()
	}
	w.mu.Unlock()
	w.done.Wait()
}

// Stir has the witnesses look at once, because a node may have come.
func (w *Witnesses) Stir() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.own {
		select {
		case k.stirred <- struct{}{}:
		default: // it is to look already
		}
	}
}

// Look notes which witnesses a look of the own one has not found, and whether it has found others than that. It returns
// when to look again, and whether a boot has died since the last look.
func (w *Witnesses) Look(own Life, gone map[Boot]Sign, others bool) (next time.Duration, died bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	next = cmp.Or(w.Alone, WitnessAlone)
	if others {
		next = WitnessLook
	}
	former := w.gone
	w.gone = map[Boot]absence{}
	for b, sign := range gone {
		a, ok := former[b]
		if !ok || a.number != sign.Number {
			a = absence{number: sign.Number, since: now}
		}
		dead := now.Sub(a.since) >= WitnessGrace || own.knowsDead(Life{b, sign.Process})
		if dead && !a.dead {
			a.dead, died = true, true
		}
		switch {
		case !a.dead:
			next = min(next, WitnessGrace)
		case now.Sub(a.since) < WitnessFresh:
			next = min(next, WitnessLook)
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
