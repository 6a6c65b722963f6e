package sched

import (
	"slices"

	"github.com/stet-run/stet/internal/fifo"
)

// Settled gives futures in the order in which they settle. Its zero value is empty. What
// it does for one future does not depend on how many there are.
type Settled struct {
	first   *Future // that has a branch: whose run it belongs to
	foreign *Future // of another run than first; nil: none
	ready   fifo.Queue[*Future]
	pending int      // added and not settled
	takers  []*Taker // in the order of waiting
	looked  int
}

// Taker is a place in the queue of those that wait for the next future of a Settled.
type Taker struct {
	Source
	of     *Settled
	future *Future // nil: none is left
}

// Future returns what the taker was given. nil: nothing is left to wait for.
func (t *Taker) Future() *Future { return t.future }

// Add adds a future. One that has settled is given next after those that have settled
// before. The future of another run is not waited for: Next fails the run for it.
func (s *Settled) Add(f *Future) {
	if f.branch != nil {
		if s.first == nil {
			s.first = f
		}
		if f.branch.sched != s.first.branch.sched {
			s.foreign = f
			return
		}
	}
	s.pending++
	if f.settled {
		s.settledOne(f)
		return
	}
	f.watchers = append(f.watchers, s)
}

// settledOne gives a future that has settled to the taker that has waited for longest, or
// keeps it. Takers for which none is left are given none.
func (s *Settled) settledOne(f *Future) {
	s.pending--
	s.looked++
	if t := s.nextTaker(); t != nil {
		t.give(f)
	} else {
		s.ready.Push(f)
	}
	if s.pending > 0 {
		return
	}
	for t := s.nextTaker(); t != nil; t = s.nextTaker() {
		t.give(nil)
	}
}

// nextTaker removes and returns the first taker that still waits.
func (s *Settled) nextTaker() *Taker {
	for len(s.takers) > 0 {
		t := s.takers[0]
		s.takers = s.takers[1:]
		s.looked++
		if t.IsAwaited() {
			return t
		}
	}
	return nil
}

func (t *Taker) give(f *Future) {
	t.future = f
	t.settled = true
	for _, w := range t.waiters { // one: a taker belongs to one wait
		w.fill(&t.Source, nil)
	}
	t.waiters = nil
}

// Take begins to wait for the next future. The taker is settled if it has one already, or
// if none is left. Leave ends the wait of one that is not. b is the branch that waits.
func (b *Branch) Take(s *Settled) *Taker {
	b.OwnsSettled(s)
	t := &Taker{of: s}
	switch {
	case s.ready.Len() > 0:
		t.settled, t.future = true, s.ready.Pop()
	case s.pending == 0:
		t.settled = true
	default:
		s.takers = append(s.takers, t)
	}
	return t
}

// OwnsSettled makes sure that the futures of s are of branches of this run, as Owns does.
func (b *Branch) OwnsSettled(s *Settled) {
	for _, f := range [...]*Future{s.first, s.foreign} {
		if f != nil {
			b.Owns(f)
		}
	}
}

// Leave ends the wait of a taker that was given nothing.
func (t *Taker) Leave() {
	s := t.of
	if i := slices.Index(s.takers, t); i >= 0 {
		s.takers = slices.Delete(s.takers, i, i+1)
	}
}

// HasNext reports whether a Take is settled at once.
func (s *Settled) HasNext() bool { return s.ready.Len() > 0 || s.pending == 0 }

// Looked returns how many futures and takers were looked at so far: what it has done.
func (s *Settled) Looked() int { return s.looked }

// Next waits for the next future that settles. One that has settled is given also in a
// cancelled branch. The error is ErrEmpty if none is left, or ErrCancelled.
func (b *Branch) Next(call Call, s *Settled) (*Future, error) {
	if err := b.Check(call); err != nil {
		return nil, err
	}
	if !s.HasNext() {
		if err := b.Refuse(call); err != nil {
			return nil, err
		}
	}
	t := b.Take(s)
	if !t.settled {
		w := b.NewWait(call)
		w.Add(&t.Source)
		if _, err := b.Block(w); err != nil {
			t.Leave()
			return nil, err
		}
	}
	if t.future == nil {
		return nil, ErrEmpty
	}
	return t.future, nil
}

// CancelFuture cancels the branch of a future, with all that it has begun. It does not
// wait for the end of its code. A branch that has ended, or was never begun, stays as it is.
func (b *Branch) CancelFuture(call Call, f *Future) {
	if err := b.Check(call); err != nil {
		return // the run fails for it
	}
	b.Owns(f)
	if f.branch != nil {
		b.sched.Cancel(f.branch)
	}
}
