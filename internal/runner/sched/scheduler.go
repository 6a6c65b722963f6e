package sched

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/stet-run/stet/internal/fifo"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
)

// Owner is the run whose branches a Scheduler runs. Its methods are called by the
// goroutine that has the baton.
type Owner interface {
	// Stopped reports whether no branch goes on, because the run is over.
	Stopped() bool
	// HandOver is called when every branch is blocked. It hands over one completion
	// and reports true, or reports false: the baton goes to the driver.
	HandOver() bool
	// Panicked is called when the code of a branch has panicked, before its scopes end.
	Panicked(b *Branch, f *stored.Failure)
	// Returned is called when the code of a branch without a parent and of all that
	// it has begun has ended. The branch's exit functions are the owner's to call.
	Returned(b *Branch)
	// Unawaited is called for a branch that has failed, when the scope ends in which
	// it was begun and nothing has looked at its error.
	Unawaited(f *Future)
	// Fail ends the run with a failure of its code.
	Fail(f *stored.Failure)
	// Note adds a line to the log of the process.
	Note(loc location.Loc, text string, err error)
}

// ErrCancelled is what every operation of a cancelled branch returns.
var ErrCancelled = errors.New("cancelled")

// maxRefused is how many operations in a row a cancelled branch may call before its
// code is unwound.
const maxRefused = 1000

// Scheduler runs the branches of one run. Its methods are called by the goroutine
// that has the baton.
type Scheduler struct {
	// Name is the run's, for messages.
	Name string
	// OnPanic is called for code that panics, before its deferred functions do what ends
	// with it. If it reports true the run is over. nil: it is not.
	OnPanic func(f *stored.Failure, at location.Loc) bool

	owner Owner

	current atomic.Pointer[Branch]         // has the baton; read by misused contexts
	misuse  atomic.Pointer[stored.Failure] // set by misused contexts, on any goroutine

	chosen    *Branch // gets the baton from the driver; nil: the driver keeps it
	ready     fifo.Queue[*Branch]
	branches  map[*Branch]struct{} // begun and not ended
	lastID    int64
	open      int // branches blocked on at least one operation
	refused   int // operations in a row
	unwinding bool
}

// New returns a scheduler without a branch.
func New(owner Owner) *Scheduler {
	return &Scheduler{owner: owner, branches: map[*Branch]struct{}{}}
}

// NextID returns a number that is higher than all before. Branches have theirs by
// it, in the order in which they were begun.
func (s *Scheduler) NextID() int64 {
	s.lastID++
	return s.lastID
}

// Misused returns the failure of a misused context since the last call, or nil.
func (s *Scheduler) Misused() *stored.Failure { return s.misuse.Swap(nil) }

// Run lets the branches go on until no more can. The caller is the driver.
func (s *Scheduler) Run() {
	for {
		for b := s.next(); b != nil; b = s.chosen {
			s.resume(b)
		}
		s.current.Store(nil)
		f := s.Misused()
		if f == nil {
			return
		}
		s.owner.Fail(f)
	}
}

// next chooses the branch that gets the baton; nil: the driver.
func (s *Scheduler) next() *Branch {
	for s.misuse.Load() == nil && !s.owner.Stopped() {
		if s.ready.Len() > 0 {
			b := s.ready.Pop()
			s.current.Store(b)
			return b
		}
		if !s.owner.HandOver() {
			break
		}
	}
	s.current.Store(nil)
	return nil
}

// resume gives the baton to b until it passes it on, see chosen. The caller is the driver.
func (s *Scheduler) resume(b *Branch) {
	s.chosen = nil
	if b.next == nil {
		b.next, b.stop = iter.Pull(b.main)
	}
	b.next()
	if b.exited { // runtime.Goexit ends the goroutine that stops it
		go b.stop()
	}
}

// AnyReady reports whether a branch is ready to go on.
func (s *Scheduler) AnyReady() bool { return s.ready.Len() > 0 }

// Deadlocked reports whether no blocked branch waits for an operation: each waits
// for another one.
func (s *Scheduler) Deadlocked() bool { return s.open == 0 }

// Accepted notes that an operation was called that is not refused.
func (s *Scheduler) Accepted() { s.refused = 0 }

// Branches returns the branches that have not ended, in the order in which they were
// begun.
func (s *Scheduler) Branches() []*Branch {
	return slices.SortedFunc(maps.Keys(s.branches), func(a, b *Branch) int { return cmp.Compare(a.id, b.id) })
}

// Alive returns how many branches have begun and not ended.
func (s *Scheduler) Alive() int { return len(s.branches) }

// Drop lets none of the present branches go on any more.
func (s *Scheduler) Drop() {
	for b := range s.branches {
		b.dropped = true
	}
	s.ready.Clear()
}

// Settle marks a source as settled and wakes the branches that wait for it, in the
// order of their waiting.
func (s *Scheduler) Settle(src *Source) {
	src.settled = true
	waiters := src.waiters
	src.waiters = nil
	for _, w := range waiters {
		w.fill(src, nil)
	}
}

// Cancel cancels a branch in pre-order: the branch, then its scopes from outer to
// inner, branches in the order in which they were begun.
func (s *Scheduler) Cancel(b *Branch) {
	if b.ended || b.cancelled {
		return
	}
	b.cancelled = true
	if w := b.wait; w != nil && !w.filled {
		w.cancel(b.scopes[0])
	}
	s.cancelIn(b.scopes)
}

// cancelIn cancels what was begun in scopes, from outer to inner.
func (s *Scheduler) cancelIn(scopes []*Scope) {
	for _, scope := range scopes {
		scope.closeOwned()
		for _, child := range scope.children {
			if child != nil && !child.shielded {
				s.Cancel(child)
			}
		}
	}
}

// Unwind ends the goroutines of all branches, the newest first: deferred functions
// run. The scheduler cannot be used afterwards. The caller is the driver.
func (s *Scheduler) Unwind() {
	s.unwinding = true
	branches := s.Branches()
	clear(s.branches)
	for _, b := range slices.Backward(branches) {
		if b.next == nil {
			continue
		}
		s.current.Store(b)
		s.resume(b)
	}
	s.current.Store(nil)
}

// Unwinding reports whether Unwind was called.
func (s *Scheduler) Unwinding() bool { return s.unwinding }

// Choose sets which of n ready branches goes on next, for tests of what depends on
// the order.
func (s *Scheduler) Choose(which func(n int) int) { s.ready.Choose = which }
