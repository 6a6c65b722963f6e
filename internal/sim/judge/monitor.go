package judge

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/internal/sim/wire"
	"github.com/stet-run/stet/store"
)

// monitor sees every act at the store in the order in which it happened, and judges
// those that clocks, retries and takeovers could spoil.
type monitor struct {
	*oracle
	log     func(format string, args ...any)
	name    func(machine int) string
	open    map[call]asking // requests that the store has not answered
	epochs  map[store.Shard]int64
	batches map[batch]string // that were written, with their answers
	ids     map[store.RunNo]string
	final   map[place]string // what is recorded of steps
	items   *items
	undos   *undos
	shards  map[string]store.Shard // of runs
	numbers map[string]store.RunNo
	holders map[store.Shard]holder
	pruned  map[store.RunNo]bool
	begins  map[string]store.RunNo // runs, when they were started
	unheard map[store.RunNo]int    // machines that have claimed a run, and have not heard of it
}

type call struct {
	from int
	no   uint32
}

// asking is a request that has no answer yet.
type asking struct {
	request []byte
	at      time.Duration
}

type batch struct {
	boot string
	no   int64
}

// holder is the machine that was last told that it holds a lease, and when it had asked: the
// answer may have taken so long that nobody waited for it.
type holder struct {
	machine int
	at      time.Duration
}

type place struct {
	run         store.RunNo
	incarnation int
	loc         string
}

func newMonitor(o *oracle, log func(format string, args ...any), name func(machine int) string) *monitor {
	return &monitor{
		oracle: o, log: log, name: name,
		open: map[call]asking{}, epochs: map[store.Shard]int64{}, batches: map[batch]string{},
		ids: map[store.RunNo]string{}, final: map[place]string{}, items: o.items,
		undos:  &undos{o, map[store.RunNo]*undoing{}},
		shards: map[string]store.Shard{}, numbers: map[string]store.RunNo{},
		holders: map[store.Shard]holder{}, pruned: map[store.RunNo]bool{},
		begins: map[string]store.RunNo{}, unheard: map[store.RunNo]int{},
	}
}

// asked takes a request on its way to the store.
func (m *monitor) asked(from int, no uint32, body []byte) {
	m.open[call{from, no}] = asking{body, m.now()}
}

// asks says whether a request for a method has no answer.
func (m *monitor) asks(method string) bool {
	for _, a := range m.open {
		if name, _ := wire.Method(a.request); name == method {
			return true
		}
	}
	return false
}

// cut takes the end of a store that was committing: what it was asked to write may be there afterwards, and nobody may
// ask again.
func (m *monitor) cut() {
	for _, a := range m.open {
		if name, _ := wire.Method(a.request); name != "Commit" {
			continue
		}
		b, err := wire.Batch(a.request)
		if err != nil {
			continue
		}
		for _, t := range b.Turns {
			m.items.examined(t, store.Committed)
			for _, e := range t.Entries {
				for _, exec := range executed.FindAllString(string(e.Value), -1) {
					if body := m.bodies[exec]; body != nil && e.State == store.Done {
						m.perhaps[body.operation] = true
					}
				}
			}
		}
	}
}

// answered takes an answer on its way back, and returns the method's name.
func (m *monitor) answered(to int, no uint32, body []byte) string {
	key := call{to, no}
	asked := m.open[key]
	request := asked.request
	delete(m.open, key)
	name, _ := wire.Method(request)
	switch name {
	case "Acquire", "Renew":
		taken := 0
		acquired, err := wire.Leases(body)
		if err != nil {
			return name
		}
		for _, a := range acquired {
			if !a.Held {
				m.log("%s gets no lease of %v: %s has it in epoch %d", m.name(to), a.Lease.Shard, a.Lease.Node, a.Lease.Epoch)
				continue
			}
			m.log("%s has the lease of %v in epoch %d", m.name(to), a.Lease.Shard, a.Lease.Epoch)
			was := m.epochs[a.Lease.Shard]
			m.holders[a.Lease.Shard] = holder{to, asked.at}
			m.lates.held(a.Lease.Shard, to, asked.at)
			switch {
			case name == "Acquire" && a.Lease.Epoch == was:
				m.violated("8: Acquire gives epoch %d of shard %v again", was, a.Lease.Shard)
			case name == "Acquire" && a.Lease.Epoch > was:
				if was > 0 {
					m.count("takeover")
					taken++
					m.spins.moved[a.Lease.Shard]++
				}
				m.epochs[a.Lease.Shard] = a.Lease.Epoch
				m.lates.left(a.Lease.Shard, false)
				for run, shard := range m.shards {
					if shard == a.Lease.Shard {
						m.limits.moved(run)
						m.undos.moved(m.numbers[run])
					}
				}
			case a.Lease.Epoch < was:
				m.violated("8: %s gives epoch %d of shard %v, which has had %d", name, a.Lease.Epoch, a.Lease.Shard, was)
			}
		}
		if taken > 0 {
			m.story.Tell("%s takes %d shards over", m.name(to), taken)
		}
	case "Release":
		m.released(wire.Released(request, body))
	case "Commit":
		m.committed(to, request, body)
	case "Apply":
		commands, answers := wire.Applied(request, body)
		m.items.answered(commands, answers)
		m.sent(0, commands, answers)
		for _, a := range answers {
			m.ids[a.Run.No] = a.Run.ID
		}
	case "Discard":
		for _, no := range wire.Discarded(request, body) {
			m.items.remove(no)
			m.count("dead letter removed")
		}
	case "Claim":
		for _, c := range wire.Claimed(body) {
			if c.New {
				delete(m.unheard, c.Run.No)
				m.spins.claimed(c.Run.ID, c.Run.Shard)
				m.lates.claimed(c.Run)
			}
		}
	case "Load":
		for _, s := range wire.Snapshots(body) {
			m.ids[s.Run.No] = s.Run.ID
		}
	}
	return name
}

// released takes leases that were given back. One of a former epoch, of a process that was replaced meanwhile, is that
// of nobody.
func (m *monitor) released(leases []store.Lease) {
	for _, l := range leases {
		if l.Epoch == m.epochs[l.Shard] {
			delete(m.holders, l.Shard)
			m.lates.left(l.Shard, true)
		}
	}
}

// stopped takes the end of a machine that was asked to stop, in a world without faults: it has
// given back what it held, and nobody waits for the end of its leases. What it could not renew for
// half of their time it may have dropped, and an answer to what it asked under faults may have come too late for it.
func (m *monitor) stopped(machine int, name string, ttl time.Duration) {
	for shard, h := range m.holders {
		heard := len(m.plan.Faults) == 0 || h.at >= m.plan.Length
		if h.machine == machine && heard && m.now() < h.at+ttl/2 {
			m.violated("28: %s has stopped, and has not given back %v", name, shard)
			return
		}
	}
	m.count("stopped and gave back")
}

// lost takes the loss of an answer that was answered before.
func (m *monitor) lost(to int, method string, body []byte) {
	m.count("answer lost: " + method)
	m.spins.lost++
	if method != "Claim" {
		return
	}
	for _, c := range wire.Claimed(body) {
		if c.New {
			m.unheard[c.Run.No] = to
		}
	}
}

// apart looks at the kinds of turns in a batch, where the store writes some apart.
func (m *monitor) apart(b *store.Batch) {
	kinds := map[bool]int{}
	for _, t := range b.Turns {
		kinds[m.plan.Apart && wire.Apart(t)]++
	}
	switch {
	case kinds[true] > 0 && kinds[false]+len(b.Commands) > 0:
		m.violated("batch %d of %s has turns that are written apart, and others", b.No, b.Boot)
	case kinds[true] > 0:
		m.count("batch of turns written apart")
	}
}

func (m *monitor) committed(by int, request, body []byte) {
	b, result, err := wire.Committed(request, body)
	if err != nil {
		return
	}
	key := batch{b.Boot, b.No}
	answer := verdicts(result)
	if former, ok := m.batches[key]; ok {
		m.count("batch repeated")
		if former != answer {
			m.violated("5: batch %d of %s is answered in another way when it is repeated", b.No, b.Boot)
		}
		return
	}
	m.batches[key] = answer
	m.apart(&b)
	held := map[store.Shard]int64{}
	for _, l := range b.Leases {
		held[l.Shard] = l.Epoch
	}
	for i, t := range b.Turns {
		v := result.Turns[i].Verdict
		m.log("turn of run %d %s: %s", t.Run, m.ids[t.Run], describe(t, v))
		switch v {
		case store.Committed, store.StillReady:
		case store.Refused:
			m.violated("4: a turn of run %d %s is refused: %s", t.Run, m.ids[t.Run], result.Turns[i].Reason)
			continue
		default:
			m.count("turn " + v.String())
			continue
		}
		if held[t.Shard] != m.epochs[t.Shard] {
			m.violated("9: a turn of run %d was written with epoch %d of shard %v, which has %d",
				t.Run, held[t.Shard], t.Shard, m.epochs[t.Shard])
		}
		if t.Update != nil && t.Update.Status.Terminal() {
			m.limits.freed(m.ids[t.Run])
		}
		m.shards[m.ids[t.Run]], m.numbers[m.ids[t.Run]] = t.Shard, t.Run
		m.spins.wrote(m.ids[t.Run], t.Shard)
		if machine, ok := m.unheard[t.Run]; ok {
			delete(m.unheard, t.Run)
			if machine == by {
				m.count("adoption after a lost answer")
			}
		}
		if v == store.StillReady {
			m.count("turn still ready")
			if t.Update != nil && t.Update.Status.Terminal() {
				m.count("turn still ready at the end")
			}
		}
		if len(t.Entries) > 0 {
			m.gotFurther(m.ids[t.Run])
		}
		changed := m.changed[m.ids[t.Run]] || rewrites(t)
		m.turn(t)
		m.lates.turn(t, v)
		m.items.turn(t, v)
		m.items.looked(t, m.ids[t.Run], v)
		var sent []store.Command
		for _, c := range t.Sent(v) {
			sent = append(sent, c...)
		}
		m.items.answered(sent, result.Turns[i].Sends)
		m.sent(t.Run, sent, result.Turns[i].Sends)
		if v == store.Committed || t.Update == nil {
			m.ends.turn(t, m.ids[t.Run], changed)
		}
	}
	m.items.answered(b.Commands, result.Commands)
	m.sent(0, b.Commands, result.Commands)
}

// verdicts is what an answer says of what was written. What it says of runs is as they are now.
func verdicts(r store.BatchResult) string {
	var b strings.Builder
	for _, t := range r.Turns {
		fmt.Fprintf(&b, "%d %s;", t.Verdict, t.Reason)
	}
	for _, a := range r.Commands {
		fmt.Fprintf(&b, "%d %d %d;", a.Outcome, a.Run.No, a.Item)
	}
	return b.String()
}

// sent takes commands of a run, or of a client, and the answers to them.
func (m *monitor) sent(by store.RunNo, commands []store.Command, answers []store.Answer) {
	for i := range commands {
		m.ends.sent(&commands[i], m.ids)
		if i < len(answers) {
			m.lates.answered(&commands[i], answers[i])
		}
		if it := commands[i].Item; it != nil && i < len(answers) {
			switch {
			case by == 0:
				m.spins.sent(answers[i].Run.ID, it.Kind)
			case answers[i].Outcome == store.NotFound:
				m.dropped[commands[i].RunID] = true
			}
		}
		if c := commands[i].Start; c != nil && i < len(answers) {
			m.ids[answers[i].Run.No] = answers[i].Run.ID
			m.first(answers[i])
			m.spins.started(m.ids[by], answers[i].Run.ID)
			m.ends.started(by, c, answers[i])
			m.plans.started(c, answers[i])
		}
	}
}

// first takes the answer to a start. A start that is repeated after its run was deleted starts
// another one.
func (m *monitor) first(a store.Answer) {
	if a.Outcome != store.Applied || a.Repeated {
		return
	}
	if was, ok := m.begins[a.Run.ID]; ok && was != a.Run.No {
		if !m.acted(a.Run.ID, plan.Delete) && m.plan.Sweep == 0 {
			m.violated("17: %s is started as run %d, and was as run %d", a.Run.ID, a.Run.No, was)
		}
		m.count("started again after its deletion")
		delete(m.ends.at, a.Run.ID)
		m.rewound(a.Run.ID)
	}
	m.begins[a.Run.ID] = a.Run.No
}

// executed finds which execution of a body, or of a task, has given a value.
var executed = regexp.MustCompile(`(?:node\d+-\d+|client)\.t?\d+`)

// published finds which act has published an event.
var published = regexp.MustCompile(`act \d+`)

func (m *monitor) turn(t *store.Turn) {
	again := rewrites(t)
	m.undos.turn(t, m.ids[t.Run], again)
	if again {
		m.count("history changed by an operator")
		if m.pruned[t.Run] {
			m.count("history changed after a loop was pruned")
		}
		m.rewound(m.ids[t.Run])
		for p := range m.final {
			if p.run == t.Run {
				delete(m.final, p)
			}
		}
	}
	if len(t.Prune) > 0 && !again {
		m.count("loop pruned")
		m.pruned[t.Run] = true
	}
	for p := range m.final {
		for _, span := range t.Prune {
			if p.run == t.Run && span.Contains(p.loc) {
				delete(m.final, p)
			}
		}
	}
	if u := t.Update; u != nil && u.Continue != nil { // the entries of what it has received are dropped
		for _, value := range published.FindAllString(string(u.Continue.Input), -1) {
			m.got[value] = true
		}
	}
	for _, e := range t.Entries {
		if e.Kind == store.KindEvent && e.State == store.Open {
			m.waits[m.ids[t.Run]] = m.now()
		}
		if e.Kind == store.KindEvent && e.State == store.Done {
			m.got[published.FindString(string(e.Value))] = true
		}
		if e.Kind != store.KindStep || e.State != store.Done {
			continue
		}
		p := place{t.Run, t.Incarnation, e.Loc}
		bodies := executed.FindAllString(string(e.Value), -1)
		if len(bodies) == 0 {
			continue // it has no body of the plan
		}
		by := bodies[len(bodies)-1] // before it are the causes of failed attempts
		task := strings.Contains(by, ".t")
		if m.plan.Sealed {
			m.violated("34: the result of %s is not encrypted", by)
		}
		if was, ok := m.final[p]; ok && was != by {
			m.violated("3: run %d has two results of a step: of %s, and of %s", t.Run, was, by)
		}
		m.final[p] = by
		if !task {
			m.recorded(by)
		}
	}
}

// rewrites says whether a turn carries out an act that changes what its run has done. A pause, a resume and a nudge
// change nothing of that, nor does an act that ends the run.
func rewrites(t *store.Turn) bool {
	return len(t.Rewrites) > 0 || t.Rewound || len(t.Returned) > 0 || t.Update != nil && t.Update.Generation > 0 ||
		slices.ContainsFunc(t.Audit, func(a store.Audit) bool {
			return slices.Contains([]string{"retry", "rewind", "edit"}, a.Verb)
		})
}

// describe says in a line what a turn does.
func describe(t *store.Turn, v store.Verdict) string {
	s := v.String()
	for _, e := range t.Entries {
		s += fmt.Sprintf(", entry %q kind %d state %d %.60q", e.Loc, e.Kind, e.State, e.Value)
	}
	for _, c := range t.ConsumedBy(v) {
		s += fmt.Sprintf(", consumes %d %.20q", c.Item, c.Verdict)
	}
	if len(t.Seen) > 0 {
		s += fmt.Sprintf(", has seen %v", t.Seen)
	}
	if len(t.Prune) > 0 {
		s += fmt.Sprintf(", prunes %q", t.Prune)
	}
	for _, c := range t.Sends {
		s += sends(c)
	}
	if u := t.Update; u != nil {
		s += fmt.Sprintf(", becomes %s %s wake %d", u.Status, u.Marks, u.WakeAt)
		for _, c := range u.Sends {
			s += sends(c)
		}
	}
	return s
}

func sends(c store.Command) string {
	switch {
	case c.Start != nil:
		return fmt.Sprintf(", starts %s", c.Start.ID)
	case c.Admit != "":
		return fmt.Sprintf(", admits %d", c.RunNo)
	}
	return fmt.Sprintf(", sends %d %s to %s%d", c.Item.Kind, c.Item.Name, c.RunID, c.RunNo)
}
