package entity

import "github.com/stet-run/stet/store"

// Lined is implemented by rules that admit runs of a line (laws 31 to 34 of package store). The line is no entry: the
// rows of the runs are what is stored. The rules know it by looks, and by what this process writes.
type Lined interface {
	// NoLine says that the store has no lines. Nothing else is called then.
	NoLine()
	// Forget says that the line may have changed unheard: it is unknown until the next look.
	Forget()
	// LookBegins is called before the line is read. Of what is heard from then on the look may know or not.
	LookBegins()
	// Look gives what was read: those that wait, the first ones, all unless more, and those that are admitted.
	Look(waiting []store.Waiter, more bool, admitted []store.Waiter)
	// Joined says that a run waits in the line.
	Joined(w store.Waiter)
	// Answered gives the outcome of an Admit that a turn has sent.
	Answered(run store.RunNo, outcome store.Outcome)
	// Left says that a run is admitted no more.
	Left(run store.RunNo)
	// Wants reports what of the line is to be read, if others may have changed it.
	Wants() (waiting, admitted bool)
	// Short reports whether more wait than were read, and of those that were read few are left.
	Short() bool
	// Known reports whether there was a look since the entity was loaded, and since Forget. Before it the entity does
	// nothing.
	Known() bool
	// Stays reports whether the entity stays in memory although it has nothing to do now: a run waits or is admitted.
	Stays() bool
}

// Window is how many of those that wait a look reads.
const Window = 10_000

// Line returns the rules if they admit runs of a line; nil: they do not.
func (m *Machine) Line() Lined {
	l, _ := m.cfg.Rules.(Lined)
	return l
}

// Hear lets the rules hear of their line, and act on it at the next Advance.
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
