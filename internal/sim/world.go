// Package sim executes stet in a simulated world: several processes on a store that is
// reached over a network, clients, operators, and faults, all decided by one number. See
// docs/simulation.md.
package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/sim/box"
	"github.com/stet-run/stet/internal/sim/judge"
	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/internal/sim/wire"
)

// Result is what one world showed.
type Result struct {
	Violations []string       // of promises; none: all were kept
	Reached    map[string]int // how often each rare situation was reached
	Lasted     time.Duration  // in the world
	Messages   int
}

// world is a world with its machines and its faults.
type world struct {
	*box.World
	plan     plan.Plan
	store    *box.Machine
	client   *box.Machine
	nodes    []*node
	of       map[int]*node // by machine, dead ones too
	healed   bool
	messages int
	judge    *judge.Judge

	program *box.Program
	disk    *box.Disk // of the store; nil: it is in memory
	files   int       // lives of its machine

	away    time.Duration // until then the store answers nothing
	aimed   []plan.Fault  // power cuts that wait for a request
	clients fate          // of the client's connection
}

// node is a process of the plan, in its lives.
type node struct {
	plan.Node
	machine *box.Machine // nil: it does not live
	lives   int
	calm    bool // it was asked to stop when the world was healed
	// stopping is the life that was asked to stop last.
	stopping *box.Machine
	gone     bool // for good
	fate
}

// fate is what happens to a connection until certain times.
type fate struct {
	cut, mute, slow, hints, lose, unheard, refuse, linger time.Duration
	share                                                 float64 // of what is hit
	method                                                string
}

// Run executes a plan, until it has ended or a promise is broken. log gets a line for all that happens; nil: nobody.
func Run(p *box.Program, of plan.Plan, log func(string)) (Result, error) { return run(p, of, log, nil) }

// Tell is Run for a person: line gets what happens in words.
func Tell(p *box.Program, of plan.Plan, line func(string)) (Result, error) {
	return run(p, of, nil, line)
}

func run(p *box.Program, of plan.Plan, log, line func(string)) (Result, error) {
	w := &world{World: box.New(p, of.Seed), plan: of, of: map[int]*node{}, program: p}
	w.Begins = judge.Begin(of)
	defer w.Close()
	w.Log = log
	w.judge = judge.New(judge.World{
		Plan: of, Now: w.Now, Name: func(id int) string { return w.Machine(id).Name }, Log: w.Logf, Tell: line,
	})
	w.Send, w.Note = w.send, w.note
	w.beginStore(p)
	for _, n := range of.Nodes {
		w.nodes = append(w.nodes, &node{Node: n})
	}
	for _, n := range w.nodes {
		w.enters(n)
	}
	text, err := json.Marshal(of)
	if err != nil {
		return Result{}, err
	}
	w.client = w.Begin("client", "client", string(text))
	for _, f := range of.Faults {
		w.After(f.At, func() { w.fault(f) })
	}
	w.After(of.Length, w.heal)
	ended := func() bool {
		_, dead := w.client.Dead()
		return dead || len(w.judge.Violations()) > 0
	}
	err = w.World.Run(of.Length+judge.Limit, ended)
	if err == nil && !ended() {
		w.judge.Endless()
	}
	if err == nil {
		w.judge.Ended()
	}
	return Result{w.judge.Violations(), w.judge.Reached(), w.Now(), w.messages}, err
}

// beginStore begins a life of the store's machine.
func (w *world) beginStore(p *box.Program) {
	if !w.plan.Disk {
		w.store = w.Begin("store", "store", fmt.Sprint(w.plan.Slots))
		return
	}
	if w.disk == nil {
		w.disk = box.NewDisk()
	}
	w.files++
	w.store = w.BeginOn(w.disk, p.Store, fmt.Sprintf("store-%d", w.files))
	m := w.store
	var again func()
	again = func() { // one that could not open its file has ended by itself
		switch code, dead := m.Dead(); {
		case !dead:
			w.After(10*time.Millisecond, again)
		case code == 0:
			w.disk.Unlock()
			w.beginStore(p)
		}
	}
	w.After(10*time.Millisecond, again)
}

// cutPower ends the store's machine in one of its next calls, with what its disk has not synced,
// and begins another one later.
func (w *world) cutPower(f plan.Fault, p *box.Program) {
	m := w.store
	if _, dead := m.Dead(); dead {
		return
	}
	w.judge.Count("power cut")
	m.KillWithin(f.Calls + 1)
	var down func()
	down = func() {
		code, dead := m.Dead()
		switch {
		case !dead:
			w.After(time.Millisecond, down)
			return
		case code == 0:
			return // it has ended by itself before
		}
		if w.judge.Asks("Commit") {
			w.judge.Count("power cut in a commit")
		}
		w.judge.Cut()
		lost := w.disk.Cut(w.Rand)
		w.Logf("the power is cut: %d writes are lost", lost)
		if lost > 0 {
			w.judge.Count("power cut that has lost writes")
		}
		w.After(f.Lasts, func() { w.beginStore(p) })
	}
	w.After(time.Millisecond, down)
}

// enters lets a node join, and leave.
func (w *world) enters(n *node) {
	if n.Until > 0 {
		w.After(n.Until, func() {
			w.Logf("%s leaves", n.Name)
			w.judge.Tell("%s leaves for good", n.Name)
			w.judge.Count("node left for good")
			n.gone = true
			if n.machine != nil {
				w.stop(n, 0)
			}
		})
	}
	if n.From == 0 {
		w.begin(n)
		return
	}
	w.After(n.From, func() {
		w.judge.Count("node joined later")
		w.begin(n)
	})
}

// begin begins a life of a node.
func (w *world) begin(n *node) {
	if n.gone {
		return
	}
	if n.machine != nil {
		if _, dead := n.machine.Dead(); !dead {
			return
		}
	}
	n.lives++
	works := time.Duration(-1)
	if w.plan.Workers {
		works = max(0, w.plan.Length-w.Now())
	}
	text, err := json.Marshal(struct {
		plan.Node
		Sealed bool
		Apart  bool
		Sweep  time.Duration
		Works  time.Duration // for so long its workers do wrong; negative: it has none
	}{n.Node, w.plan.Sealed, w.plan.Apart, w.plan.Sweep, works})
	if err != nil {
		panic(err)
	}
	n.calm = false
	n.machine = w.Begin(fmt.Sprintf("%s-%d", n.Name, n.lives), "node", string(text))
	w.of[n.machine.ID] = n
	w.judge.Tell("%s begins", n.machine.Name)
	if n.Rate > 0 {
		n.machine.Drift(n.Rate)
		w.judge.Count("node with a clock that drifts")
	}
}

// rate is that of the node's clocks when nothing is wrong with them.
func (n *node) rate() float64 { return cmp.Or(n.Rate, 1) }

// fault lets something go wrong.
func (w *world) fault(f plan.Fault) {
	if w.healed {
		return
	}
	w.Logf("fault: %s node %d, lasts %s, share %g %s", f.Kind, f.Node+1, f.Lasts, f.Share, f.Method)
	w.judge.Fault(f)
	until := w.Now() + f.Lasts
	connection := &w.clients
	var n *node
	if f.Node >= 0 {
		n = w.nodes[f.Node]
		connection = &n.fate
		if n.machine == nil {
			return // it has not joined
		}
	}
	switch f.Kind {
	case plan.Kill:
		w.kill(n, f.Calls, f.Lasts)
	case plan.Stop, plan.Deploy:
		if f.Kind == plan.Deploy {
			n.Build++
		}
		w.stop(n, f.Lasts)
	case plan.Freeze:
		n.machine.Pause(f.Lasts)
	case plan.Twin:
		w.twin(n, f.Lasts)
	case plan.Cut:
		connection.cut = until
		if f.Period > 0 {
			w.flap(connection, f, until)
		}
	case plan.Mute:
		connection.mute = until
	case plan.Lose:
		connection.lose, connection.share, connection.method = until, f.Share, f.Method
	case plan.Unheard:
		connection.unheard, connection.share, connection.method = until, f.Share, f.Method
	case plan.Refuse:
		connection.refuse, connection.share, connection.method = until, f.Share, f.Method
	case plan.Slow:
		connection.slow, connection.share = until, f.Share
	case plan.Hints:
		connection.hints = until
	case plan.Linger:
		connection.linger = until
	case plan.Jump:
		n.machine.Jump(f.Lasts)
	case plan.Drift:
		n.machine.Drift(f.Share)
		m := n.machine
		w.After(f.Lasts, func() { m.Drift(n.rate()) })
	case plan.Away:
		w.away = until
	case plan.PowerCut:
		if f.Method != "" {
			w.aimed = append(w.aimed, f)
			return
		}
		w.cutPower(f, w.program)
	case plan.Lies:
		w.disk.Lies = true
	case plan.Full:
		w.disk.Room = 1
		w.After(f.Lasts, func() {
			w.disk.Room = 0
			if w.disk.Refused > 0 {
				w.judge.Count("disk was full")
			}
		})
	case plan.StoreLag:
		w.store.Pause(f.Lasts)
	default:
		panic("unknown fault " + f.Kind)
	}
}

// flap cuts a connection for half of a period, again and again.
func (w *world) flap(c *fate, f plan.Fault, until time.Duration) {
	if w.healed || w.Now() >= until {
		return
	}
	w.judge.Count("connection flaps")
	c.cut = min(until, w.Now()+f.Period/2)
	w.After(f.Period, func() { w.flap(c, f, until) })
}

// kill ends a life of a node, in one of its next calls, and begins another one.
func (w *world) kill(n *node, calls int64, later time.Duration) {
	m := n.machine
	if _, dead := m.Dead(); dead {
		return
	}
	if calls > 0 {
		m.KillWithin(calls)
	} else {
		m.Kill()
		w.Logf("%s is killed", m.Name)
	}
	w.buried(n, m, later)
}

// twin lets a node begin another life while the former one executes nothing. That one goes on after
// a while, and is to see that it is replaced.
func (w *world) twin(n *node, lasts time.Duration) {
	former := n.machine
	if _, dead := former.Dead(); dead || !n.Replaces || n.gone {
		return
	}
	former.Pause(lasts)
	n.machine = nil
	w.begin(n)
	w.mourned(n, former, func() {
		if code, _ := former.Dead(); code == 0 {
			w.judge.Count("replaced by a later process")
		}
		// An engine that it has opened after its pause is the later one, and has replaced the other process.
		w.After(500*time.Millisecond, func() { w.begin(n) })
	})
}

// buried waits until a machine is dead, and begins another life of its node after that.
func (w *world) buried(n *node, m *box.Machine, later time.Duration) {
	w.mourned(n, m, func() {
		if n.machine == m {
			w.After(later, func() { w.begin(n) })
		}
	})
}

// mourned waits until a machine of a node is dead, and calls then after that.
func (w *world) mourned(n *node, m *box.Machine, then func()) {
	if _, dead := m.Dead(); !dead {
		w.After(time.Millisecond, func() { w.mourned(n, m, then) })
		return
	}
	w.judge.Died(m.Name)
	if code, _ := m.Dead(); code == 0 && n.calm && n.machine == m && !w.plan.Disk {
		w.judge.Stopped(m.ID, m.Name, n.LeaseTTL)
	}
	// The server's machine sees the end of the connections, at once or much later.
	seen := time.Millisecond
	if n.linger > w.Now() {
		seen = n.linger - w.Now()
	}
	w.After(seen, func() { w.Deliver(box.Message{From: m.ID, To: w.store.ID, Kind: wire.Gone}) })
	then()
}

// stop asks a node to stop, and begins another life after that.
func (w *world) stop(n *node, later time.Duration) {
	m := n.machine
	if _, dead := m.Dead(); dead {
		return
	}
	n.calm, n.stopping = w.healed, m
	w.Deliver(box.Message{From: w.client.ID, To: m.ID, Kind: wire.Plan})
	w.buried(n, m, later)
	w.After(40*time.Second, m.Kill) // as what supervises processes does
}

// heal ends all faults.
func (w *world) heal() {
	w.Logf("the world is healed")
	w.judge.Tell("the faults are over")
	w.healed = true
	w.away, w.clients, w.aimed = 0, fate{}, nil
	w.store.Continue()
	for _, n := range w.nodes {
		n.fate = fate{}
		if n.machine != nil {
			n.machine.Continue()
			n.machine.Drift(n.rate())
		}
	}
	build := 0
	for _, n := range w.nodes {
		build = max(build, n.Build)
	}
	for _, n := range w.nodes {
		if n.Build < build && !n.gone {
			n.Build = build
			w.stop(n, time.Second)
		}
	}
	w.Deliver(box.Message{From: w.client.ID, To: w.client.ID, Kind: wire.Plan})
	w.watch()
}

// note takes what a machine says.
func (w *world) note(from *box.Machine, b []byte) {
	var n plan.Note
	if err := json.Unmarshal(b, &n); err != nil {
		panic(err)
	}
	if w.Log != nil {
		w.Logf("%s: %s", from.Name, b)
	}
	if w.judge.Note(n) {
		from.KillWithin(1)
		w.buried(w.of[from.ID], from, 500*time.Millisecond)
	}
	if n.Kind == plan.Token {
		w.After(w.latency(), func() {
			w.Deliver(box.Message{From: from.ID, To: w.client.ID, Kind: wire.Plan, Body: b})
		})
	}
}

// look is how often a healed world is looked at.
const look = 250 * time.Millisecond

// watch looks at a healed world, again and again.
func (w *world) watch() {
	wrong := false
	for _, n := range w.nodes {
		if !n.gone {
			_, dead := n.machine.Dead()
			wrong = wrong || dead || n.machine == n.stopping // it drains, for as long as its bodies take
		}
	}
	w.judge.Look(wrong)
	w.After(look, w.watch)
}
