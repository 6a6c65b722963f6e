package box

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/sys"
)

// Machine is a process of the world.
type Machine struct {
	ID   int
	Name string

	w       *World
	program *Program
	args    []string
	disk    *Disk // nil: it has none
	random  *rand.ChaCha8
	begun   bool
	dead    bool
	code    int // with which it ended by itself
	paused  time.Duration
	held    bool // it was to go on while it was paused

	// The clock shows clock at clockAt, and goes on at rate.
	clock, clockAt time.Duration
	rate           float64
	day            time.Duration // by how much its clock of the day is ahead

	// The machine executes on a coroutine: next lets it go on, and yields gives the world back.
	next   func() (struct{}, bool)
	yields func(struct{}) bool
	ends   bool // when it goes on, it is to die

	// What it waits for, while it waits: a message, or the event of this number.
	waiting bool
	reads   bool
	timer   int64

	inbox bytes.Buffer // of messages, framed, that it has not read
	said  bytes.Buffer // the beginning of a line

	calls int64 // of the outside, so far
	dieAt int64 // the number of the call in which it dies; 0: none

	// Its calls since a moment of a second ago or less.
	lately int64
	since  time.Duration
}

// Dead says whether the machine has ended, and with which exit code: -1 if it was killed.
func (m *Machine) Dead() (code int, dead bool) { return m.code, m.dead }

// Kill ends the machine, between two of its instructions.
func (m *Machine) Kill() {
	if m.dead {
		return
	}
	m.dead, m.code = true, -1
	if m.begun {
		m.ends = true
		m.next()
	}
}

// KillWithin ends the machine in one of its next calls of the outside, the nth, before it
// has happened.
func (m *Machine) KillWithin(n int64) { m.dieAt = m.calls + n }

// Pause lets the machine execute nothing for d. Its clock goes on.
func (m *Machine) Pause(d time.Duration) { m.paused = max(m.paused, m.w.now+d) }

// Continue ends a pause.
func (m *Machine) Continue() {
	if m.paused = 0; m.held {
		m.w.After(0, m.wake)
	}
}

// Jump sets the machine's clock of the day ahead, or back. Its steady clock goes on.
func (m *Machine) Jump(by time.Duration) { m.day += by }

// Drift makes the machine's clocks go faster or slower than time does.
func (m *Machine) Drift(rate float64) {
	m.tick()
	m.rate = rate
}

// tick brings the clock up to now.
func (m *Machine) tick() time.Duration {
	m.clock += time.Duration(float64(m.w.now-m.clockAt) * m.rate)
	m.clockAt = m.w.now
	return m.clock
}

// receive takes a message, and lets the machine go on if it waits for one.
func (m *Machine) receive(msg Message) {
	var head [13]byte
	binary.LittleEndian.PutUint32(head[0:], uint32(len(msg.Body)))
	binary.LittleEndian.PutUint32(head[4:], uint32(msg.From))
	binary.LittleEndian.PutUint32(head[8:], msg.Call)
	head[12] = msg.Kind
	m.inbox.Write(head[:13])
	m.inbox.Write(msg.Body)
	if m.waiting && m.reads && m != m.w.running {
		m.w.After(0, m.wake)
	}
}

// wake lets the machine go on, if it can.
func (m *Machine) wake() {
	switch {
	case m.dead || !m.waiting:
	case m.paused > m.w.now:
		m.held = true
		m.w.After(m.paused-m.w.now, m.wake)
	default:
		m.waiting, m.held = false, false
		m.step()
	}
}

// step lets the machine execute until it waits or ends.
func (m *Machine) step() {
	m.w.running = m
	m.next()
	m.w.running = nil
}

// execute is what the coroutine of the machine does.
func (m *Machine) execute() {
	err := m.program.run(context.WithValue(context.Background(), machineKey{}, m), m)
	exit := new(sys.ExitError)
	switch {
	case m.dead:
	case errors.As(err, &exit):
		m.code = int(exit.ExitCode())
		if m.code == killed {
			m.code = -1
		}
	case err != nil:
		m.w.err = fmt.Errorf("machine %s: %w", m.Name, err)
	}
	if !m.dead {
		m.dead = true
		m.w.Logf("%s ends with %d", m.Name, m.code)
		if m.code > 0 && m.w.err == nil {
			m.w.err = fmt.Errorf("machine %s: exit code %d", m.Name, m.code)
		}
	}
}

const killed = 137

// spinning is how many calls of the outside, looks at a clock included, are too many in a
// second.
const spinning = 1_000_000

// call counts a call of the outside, in which the machine may die.
func (m *Machine) call() {
	m.calls++
	if m.lately++; m.w.now-m.since > time.Second {
		m.lately, m.since = 0, m.w.now
	}
	if m.lately > spinning {
		panic(fmt.Errorf("machine %s does not rest: %d calls of the outside within a second", m.Name, spinning))
	}
	if m.calls == m.dieAt {
		m.w.Logf("%s is killed in its call %d", m.Name, m.calls)
		panic(sys.NewExitError(killed))
	}
}

// Write takes what the program prints.
func (m *Machine) Write(b []byte) (int, error) {
	m.said.Write(b)
	for {
		line, rest, ok := strings.Cut(m.said.String(), "\n")
		if !ok {
			return len(b), nil
		}
		m.said.Reset()
		m.said.WriteString(rest)
		m.w.Logf("%s: %s", m.Name, line)
	}
}
