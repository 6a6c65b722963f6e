package sched

import (
	"errors"

	"github.com/stet-run/stet/internal/location"
)

// Mode says when a composite is decided.
type Mode uint8

const (
	Join Mode = iota + 1 // when all have settled
	All                  // at the first failure, or when all have succeeded
	Any                  // at the first success, or when all have failed
	Race                 // at the first that settles
)

// ErrEmpty is the outcome of Any and Race without branches, and of Next when none is left.
var ErrEmpty = errors.New("no branches")

// group is a composite at work. It returns when it is decided and the code of
// all its branches has ended; what still runs when it is decided is cancelled.
type group struct {
	mode    Mode
	members []*Future
	pending map[*Future]int // index of those not looked at yet
	decided bool
	winner  int // index of the decisive member; -1: none
	err     error
	wait    *Wait
	more    func(i int) *Future // begins the next member; nil: there are no more
	total   int                 // members in the end
}

// Compose waits for futures in the given mode. It returns the index of the member
// that decided, or -1: of Join none, of All none if all have succeeded, of Any none if
// all have failed. The error is ErrCancelled or ErrEmpty.
func (b *Branch) Compose(call Call, mode Mode, futures []*Future) (int, error) {
	if err := b.Enter(call); err != nil {
		return -1, err
	}
	if len(futures) == 0 && (mode == Any || mode == Race) {
		return -1, ErrEmpty
	}
	g := &group{mode: mode, total: len(futures), winner: -1, pending: map[*Future]int{}}
	for _, f := range futures {
		b.Owns(f)
		g.add(f)
	}
	return g.run(b, call)
}

// Map begins up to limit branches at a time for the indexes below n, each in the keyed
// scope of its own, and waits like All. key returns the key of an index; equal ones are
// told apart by their order. begin begins the branch of an index at a location. The
// results are in the order of indexes.
func (b *Branch) Map(
	call Call, n, limit int, key func(i int) string, begin func(i int, loc location.Loc) *Future,
) ([]*Future, int, error) {
	if err := b.Enter(call); err != nil {
		return nil, -1, err
	}
	b.RefuseInPanic(b.Location().Name(call.Name, 1))
	s := &Scope{owner: b, loc: b.Locate(call), value: b.Scope().value, cancelled: b.Scope().cancelled}
	places := b.places(s, call, n, key)
	b.scopes = append(b.scopes, s)
	g := &group{mode: All, total: n, winner: -1, pending: map[*Future]int{}}
	g.more = func(i int) *Future { return begin(i, places[i]) }
	for len(g.members) < min(n, limit) {
		g.add(g.more(len(g.members)))
	}
	winner, err := g.run(b, call)
	b.endScope()
	return g.members, winner, err
}

// places returns the locations of a Map's branches. They are made before the first
// begins, in the author's own code: key may panic.
func (b *Branch) places(s *Scope, call Call, n int, key func(i int) string) []location.Loc {
	counter := s
	if outer := b.Scope(); s.loc == outer.loc.Name(call.Name, 1) {
		counter = outer // calls with this name and a key of their own stand there too
	}
	places := make([]location.Loc, n)
	for i := range places {
		k := key(i)
		if err := location.CheckKey(k); err != nil {
			b.Misnamed(err)
		}
		places[i] = b.Bounded(s.loc.Key(k, b.count(counter, keyed(call.Name, k), call)))
	}
	return places
}

func (g *group) run(b *Branch, call Call) (int, error) {
	for _, f := range g.members {
		if f.settled {
			g.settledOne(f)
		}
	}
	if g.total == 0 {
		g.decided = true
	}
	if !g.decided || len(g.pending) > 0 {
		b.RefuseInPanic(b.Location().Name(call.Name, 1))
		g.wait = b.NewWait(call)
		g.wait.group = g
		b.wait = g.wait
		b.park()
		b.wait, g.wait = nil, nil
	}
	return g.winner, g.err
}

func (g *group) add(f *Future) {
	f.taken = true
	if _, twice := g.pending[f]; !twice {
		g.pending[f] = len(g.members)
		f.watchers = append(f.watchers, g)
	}
	g.members = append(g.members, f)
}

// settledOne looks at a member that has settled.
func (g *group) settledOne(f *Future) {
	index, ok := g.pending[f]
	if !ok {
		return
	}
	delete(g.pending, f)
	switch {
	case g.decided:
	case g.mode == Race, g.mode == All && f.err != nil, g.mode == Any && f.err == nil:
		g.decide(index)
	case len(g.members) < g.total:
		g.add(g.more(len(g.members)))
	case len(g.pending) == 0:
		g.decide(-1)
	}
	g.wake()
}

// wake ends the wait once the outcome is fixed and all code has ended.
func (g *group) wake() {
	if g.decided && len(g.pending) == 0 && g.wait != nil {
		g.wait.fill(nil, nil)
	}
}

// decide fixes the outcome and cancels the others.
func (g *group) decide(winner int) {
	g.decided, g.winner = true, winner
	for _, m := range g.members {
		if !m.settled && m.branch != nil {
			m.branch.sched.Cancel(m.branch)
		}
	}
}

// cancelled is the cancel of the branch that waits here, from a scope of it inwards. The
// branches that were begun there are cancelled with it and end the wait; it does not wait
// for others.
func (g *group) cancelled(from *Scope) {
	if !g.decided {
		g.decided, g.err = true, ErrCancelled
	}
	for _, m := range g.members {
		if !m.settled && !from.holds(m.branch) {
			delete(g.pending, m)
		}
	}
	g.wake()
}
