// Package box runs programs for wasip1/wasm as the machines of a world. The world decides
// all that a program sees of its outside: time, sleep, randomness, messages, and when it
// dies. Go runs there on one thread without preemption, so the same decisions give the
// same bytes: a world is a function of its programs and its seed.
//
// One machine executes at a time, until it waits. Time passes when all wait, and a little
// with each look at a clock. A World and its machines are for one goroutine; several
// worlds may run at the same time and share a Program.
package box

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/stet-run/stet/internal/heap"
)

// World is a number of machines with one time.
type World struct {
	Rand *rand.Rand // of the world's decisions; machines have randomness of their own
	// Send decides what becomes of a message; it calls Deliver, at once or in a later event,
	// or does not. Deliver at once: the message is there, without delay.
	Send func(Message)
	// Note gets what machines say of what they do, in the order in which they say it.
	Note func(from *Machine, note []byte)
	// Begins is what its clocks show at first.
	Begins time.Time
	// Log gets lines of what the machines print, and of what happens to them. nil: nothing.
	Log func(line string)

	program  *Program
	now      time.Duration // since the world's beginning
	seq      int64
	events   heap.Min[event]
	machines []*Machine
	running  *Machine
	err      error
}

// Message is a message between machines.
type Message struct {
	From, To int
	Kind     byte
	Call     uint32 // of the request that this belongs to
	Body     []byte
}

// Begin is what the clocks of a world show at first, if nothing else is said.
var Begin = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// New returns a world without machines.
func New(p *Program, seed uint64) *World {
	return &World{
		program: p, Begins: Begin, Rand: rand.New(rand.NewPCG(seed, 0x73746574)),
		events: heap.Min[event]{Before: event.before},
	}
}

// Now returns the time since the world's beginning.
func (w *World) Now() time.Duration { return w.now }

// Time returns the time of day of a clock that is right.
func (w *World) Time() time.Time { return w.Begins.Add(w.now) }

// After calls do at a time from now on. What is due at the same time happens in the order
// of the calls of After.
func (w *World) After(d time.Duration, do func()) {
	w.seq++
	w.events.Push(event{at: w.now + max(d, 0), seq: w.seq, do: do})
}

// Logf writes a line to the log.
func (w *World) Logf(format string, args ...any) {
	if w.Log != nil {
		w.Log(fmt.Sprintf("%12.6f  ", w.now.Seconds()) + fmt.Sprintf(format, args...))
	}
}

// Deliver gives a message to its machine, if that lives.
func (w *World) Deliver(m Message) {
	if to := w.Machine(m.To); to != nil && !to.dead {
		to.receive(m)
	}
}

// Machine returns a machine by its number, dead or alive; nil: there was none yet.
func (w *World) Machine(id int) *Machine {
	if id < 0 || id >= len(w.machines) {
		return nil
	}
	return w.machines[id]
}

// Run lets time pass until the given time, until nothing will happen any more, or
// until done returns true, which it asks between events. It returns the first failure of
// the world itself: a program that cannot be begun, or a panic in one.
func (w *World) Run(until time.Duration, done func() bool) error {
	for w.events.Len() > 0 && w.err == nil && !done() {
		if w.events.Peek().at > until {
			w.now = max(w.now, until)
			return nil
		}
		e := w.events.Pop()
		w.now = max(w.now, e.at)
		e.do()
	}
	return w.err
}

// Close ends all machines.
func (w *World) Close() {
	for _, m := range w.machines {
		m.Kill()
	}
}

// Begin starts a machine, with arguments for its program. It executes its first
// instructions at once or, called by an event of another machine, after that.
func (w *World) Begin(name string, args ...string) *Machine {
	return w.BeginOn(nil, w.program, name, args...)
}

// BeginOn is Begin for a machine that executes another program, on a disk.
func (w *World) BeginOn(d *Disk, p *Program, name string, args ...string) *Machine {
	m := &Machine{
		ID: len(w.machines), Name: name, w: w, program: p, disk: d, rate: 1, clockAt: w.now, clock: w.now,
		args: append([]string{name}, args...),
	}
	w.machines = append(w.machines, m)
	if d != nil {
		d.call = m.call
	}
	m.random = rand.NewChaCha8(seedOf(w.Rand))
	w.Logf("%s begins", name)
	w.After(0, func() {
		if m.dead {
			return
		}
		m.begun = true
		m.next, _ = iter.Pull(func(yields func(struct{}) bool) {
			m.yields = yields
			m.execute()
		})
		m.step()
	})
	return m
}

func seedOf(r *rand.Rand) (seed [32]byte) {
	for i := 0; i < len(seed); i += 8 {
		for j, v := 0, r.Uint64(); j < 8; j++ {
			seed[i+j] = byte(v >> (8 * j))
		}
	}
	return seed
}

type event struct {
	at  time.Duration
	seq int64
	do  func()
}

// before: by time, then by their number.
func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.seq < other.seq
}
