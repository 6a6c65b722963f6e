package script

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// # Limits
//
// Code between two waits has a second, and may let the heap of the process grow by 128 MiB.
// The heap is that of all: what grows it is known of a stretch that executes alone. So a
// stretch that lasts is watched; when the heap has grown, the watch lets no other stretch
// begin until it is alone, or until the growth is twice that, and has garbage collected before
// it judges. A second counts when the process has had the processor for one: a machine that is
// busy with others stalls no run.

// maxCode is how long code between two waits may execute, of the processor's time. Tests shorten it.
var maxCode = time.Second

const (
	maxStarved = 10        // times this, of the clock
	maxGrowth  = 128 << 20 // of the heap meanwhile, in bytes
	notAlone   = 2         // times this, though others execute, too
	watchFrom  = 10 * time.Millisecond
	looks      = 5 * time.Millisecond // between two looks at the heap
)

// stretches are those of the process that execute now: each reads gate meanwhile. A watch
// that asks to write lets no other begin. It is a mutex, so that tests in bubbles of virtual
// time share it with the rest of the process.
var stretches struct {
	gate  sync.RWMutex
	count atomic.Int64
}

// places bounds the stretches that execute at once: they need nothing but a processor, and more
// would only make each of them longer.
var places = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))

// beginStretch waits for a place, and returns what gives it back. The second call of that does nothing.
func beginStretch() (leave func()) {
	places <- struct{}{}
	stretches.gate.RLock()
	stretches.count.Add(1)
	return sync.OnceFunc(func() {
		stretches.count.Add(-1)
		stretches.gate.RUnlock()
		<-places
	})
}

// shutStretches lets no stretch begin until those have ended that execute now: in a second, at
// the latest.
func shutStretches() {
	go func() {
		stretches.gate.Lock()
		defer stretches.gate.Unlock()
	}()
}

// watch interrupts stretches that exceed a limit, one after the other. One that a stretch has let begin is of no use
// any more.
type watch struct {
	ask       func() // at each look, for the place to name
	interrupt func(why string)
	leave     func()      // gives back the place of the stretch
	timer     *time.Timer // nil: no stretch has begun
	mu        sync.Mutex
	over      bool          // the stretch
	ended     chan struct{} // closed when the stretch ends; nil: the watch has not begun
	done      chan struct{} // closed when the watch does
}

// start watches a stretch, whose place leave gives back.
func (w *watch) start(leave func()) {
	w.leave = leave
	if w.timer != nil {
		w.timer.Reset(watchFrom)
		return
	}
	w.timer = time.AfterFunc(watchFrom, w.begin)
}

func (w *watch) begin() {
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	w.ended, w.done = make(chan struct{}), make(chan struct{})
	w.mu.Unlock()
	defer close(w.done)
	w.look(time.Now().Add(-watchFrom))
}

// end ends the watch of a stretch that has ended. It reports whether another one may be watched.
func (w *watch) end() (again bool) {
	if w.timer.Stop() {
		return true
	}
	w.mu.Lock()
	w.over = true
	begun := w.ended != nil
	w.mu.Unlock()
	if begun {
		close(w.ended)
		<-w.done
	}
	return false
}

func (w *watch) look(began time.Time) {
	before, spent, shut, collected := objects(), processor(), false, time.Time{}
	tick := time.NewTicker(looks)
	defer tick.Stop()
	var collecting sync.WaitGroup
	defer collecting.Wait()
	for {
		w.ask()
		select {
		case <-w.ended:
			return
		case <-tick.C:
		}
		switch took := time.Since(began); {
		case took > maxCode && processor()-spent > maxCode, took > maxStarved*maxCode:
			w.interrupt("its code has executed for " + maxCode.String() + " without a wait")
			w.abandon(exitTime, before)
			return
		case objects() < before+maxGrowth:
			continue
		case time.Since(collected) > 10*looks: // what is garbage does not count
			collected = time.Now()
			collecting.Go(runtime.GC)
		}
		grown, others := live()-min(before, live()), stretches.count.Load()-1
		switch {
		case grown < maxGrowth:
		case others == 0:
			w.interrupt(fmt.Sprintf("its code has let the heap grow by %d MiB without a wait", grown>>20))
			w.abandon(exitHeap, before)
			return
		case grown >= notAlone*maxGrowth:
			w.interrupt(fmt.Sprintf("the heap has grown by %d MiB while its code and that of %d other runs executed",
				grown>>20, others))
			w.abandon(exitHeap, before)
			return
		case !shut:
			shut = true
			shutStretches()
		}
	}
}

// endStretch ends the process with a stretch that nothing interrupts, in a child; nil: the process executes more than
// scripts. It gets exitTime or exitHeap.
var endStretch func(code int)

// abandon gives up an interrupted stretch, unless it ends soon. The interpreter looks for an interrupt between two
// instructions; a single one, a call of what is written in Go, may last. A child ends with it. Elsewhere nothing can
// end it: its place is given to another stretch, unless it lets the heap grow, for which others would be blamed.
func (w *watch) abandon(code int, before uint64) {
	patience := maxCode / 4
	if endStretch != nil {
		patience = maxCode // others wait for this child alone
	}
	soon := time.NewTimer(patience)
	defer soon.Stop()
	tick := time.NewTicker(looks)
	defer tick.Stop()
	for late := false; !late; {
		select {
		case <-w.ended:
			return
		case <-soon.C:
			late = true
		case <-tick.C:
			late = endStretch != nil && objects() >= before+notAlone*maxGrowth
		}
	}
	switch {
	case endStretch != nil:
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.over {
			endStretch(code)
		}
	case code == exitTime:
		w.leave()
		<-w.ended
	}
}

// objects returns the bytes of the objects on the heap, with those that are garbage by now.
func objects() uint64 { return measured("/memory/classes/heap/objects:bytes") }

// live returns the bytes of the objects that the last collection of garbage has found in use.
func live() uint64 { return measured("/gc/heap/live:bytes") }

func measured(name string) uint64 {
	sample := [1]metrics.Sample{{Name: name}}
	metrics.Read(sample[:])
	return sample[0].Value.Uint64()
}
