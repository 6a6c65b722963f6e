package entity

import "github.com/stet-run/stet/store"

// Lined is implemented by rules that admit the runs of a line (laws 31 to 34 of package store). The line is stored in
// the rows of its runs, not in entries. The rules learn of it in two ways: from looks, which read those rows, and from
// what this process writes.
type Lined interface {
	// NoLine says that the store has no lines. Nothing else is called then.
	NoLine()
	// Forget says that the line may have changed without a word to the rules: it is unknown until the next look.
	Forget()
	// LookBegins is called before the line is read. What the rules are told after it may be newer than what is read.
	LookBegins()
	// Look brings what was read: the first waiting runs, in their order, and all admitted runs. If more is false, no
	// other run waits.
	Look(waiting []store.Waiter, more bool, admitted []store.Waiter)
	// Joined says that a run waits in the line.
	Joined(w store.Waiter)
	// Answered brings the outcome of an Admit that a turn has sent.
	Answered(run store.RunNo, outcome store.Outcome)
	// Left says that a run is no longer admitted.
	Left(run store.RunNo)
	// Wants reports which parts of the line are worth reading after another process may have changed it.
	Wants() (waiting, admitted bool)
	// Short reports whether runs wait that the last look did not read, and fewer than half of those it read are left.
	Short() bool
	// Known reports whether a look has ended since the entity was loaded, and since Forget. Until then the entity does
	// nothing.
	Known() bool
	// Stays reports whether the entity stays in memory while it has nothing to do: a run waits or is admitted.
	Stays() bool
}

// Window is the largest number of waiting runs that a look reads.
const Window = 10_000

// Line returns the rules if they admit runs of a line; nil: they do not.
func (m *Machine) Line() Lined {
	l, _ := m.cfg.Rules.(Lined)
	return l
}

// Hear tells the rules of their line. They act on it at the next Advance.
func (m *Machine) Hear(news func(l Lined)) {
	if l := m.Line(); l != nil && m.stall == "" && m.broken == nil {
		m.guard(func() { news(l) })
		m.ticked = false
	}
}

// Stays reports whether the entity is in memory because of its line, and has nothing to do before the time that
// NextTimer returns.
func (m *Machine) Stays() bool {
	return !m.closed && m.ticked && len(m.items) == 0 && m.w.empty() && m.stays()
}

func (m *Machine) stays() bool {
	l := m.Line()
	return l != nil && l.Stays()
}

// looks reports whether the entity waits for its first look.
func (m *Machine) looks() bool {
	l := m.Line()
	return l != nil && !l.Known()
}
