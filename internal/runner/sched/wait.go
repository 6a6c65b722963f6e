package sched

import (
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Source is something that settles once and can be waited for: an operation or a
// future.
type Source struct {
	Op Operation // nil: of a future

	settled bool
	waiters []*Wait  // in the order of waiting
	one     [1]*Wait // room for the first
}

// Operation is a source that is no branch.
type Operation interface {
	// Awaited is called when a branch begins to wait for the operation.
	Awaited()
	// Abandoned is called when the branch that waits for the operation is cancelled.
	// It reports whether the branch waits for the operation all the same.
	Abandoned() (stays bool)
}

// Settled reports whether the outcome is there.
func (s *Source) Settled() bool { return s.settled }

// IsAwaited reports whether some branch waits for the source.
func (s *Source) IsAwaited() bool {
	for _, w := range s.waiters {
		if !w.filled {
			return true
		}
	}
	return false
}

// Late reports whether what was sent at that time has lost against the deadline of
// a branch that waits for the source. The deadline is handed over first.
func (s *Source) Late(sent store.Time) bool {
	for _, w := range s.waiters {
		if !w.filled && w.Deadline != 0 && sent > w.Deadline {
			return true
		}
	}
	return false
}

// Waits returns how many waits for the source are kept.
func (s *Source) Waits() int { return len(s.waiters) }

// forget removes a wait that is over, so that a source that many have waited for in
// vain does not grow. The newest are last.
func (s *Source) forget(w *Wait) {
	for i := len(s.waiters) - 1; i >= 0; i-- {
		if s.waiters[i] == w {
			s.waiters = slices.Delete(s.waiters, i, i+1)
			return
		}
	}
}

// Wait is a one-shot cell in which one branch is blocked. It is filled by the first
// of its sources, by a cancel, or by the end of the code it waits for.
type Wait struct {
	// Deadline is that of the earliest timer beside the sources that come by the
	// inbox: what was sent later has lost. 0: none.
	Deadline store.Time

	branch  *Branch
	sources []*Source
	ops     int // of the sources that are operations
	group   *group
	forCode bool // waits only for the code of the branch's own branches
	shield  bool

	oneSource [1]*Source // room for the sources of most waits

	filled bool
	winner *Source // nil: cancelled, or the code has ended
	err    error
}

// NewWait returns the branch's wait, empty. A branch is in one wait at a time, and
// nothing refers to one that is over.
func (b *Branch) NewWait(call Call) *Wait {
	w := &b.ownWait
	*w = Wait{branch: b, shield: call.Shield}
	w.sources = w.oneSource[:0]
	return w
}

// Add adds a source to those that are waited for.
func (w *Wait) Add(s *Source) {
	w.sources = append(w.sources, s)
	if s.Op != nil {
		w.ops++
	}
}

// fill wakes the branch. A wake once given is not taken back.
func (w *Wait) fill(winner *Source, err error) {
	if w.filled {
		return
	}
	w.filled, w.winner, w.err = true, winner, err
	s := w.branch.sched
	if w.ops > 0 {
		s.open--
	}
	if !w.branch.dropped {
		s.ready.Push(w.branch)
	}
}

// cancel is the cancel of the waiting branch, or of the scope from in it. An operation that must be seen to its
// end keeps the branch waiting; one that waits for code is woken by its end.
func (w *Wait) cancel(from *Scope) {
	if w.shield || w.branch.shielded || w.forCode {
		return
	}
	if w.group != nil {
		w.group.cancelled(from)
		return
	}
	for _, src := range w.sources {
		if src.Op != nil && src.Op.Abandoned() {
			return
		}
	}
	w.fill(nil, ErrCancelled)
}

// Block waits for the first of the sources. The one that is settled already and
// first in the order of arguments wins at once. A nil winner comes with an error.
func (b *Branch) Block(w *Wait) (*Source, error) {
	for _, src := range w.sources {
		if src.settled {
			return src, nil
		}
	}
	for _, src := range w.sources {
		if src.waiters == nil {
			src.waiters = src.one[:0]
		}
		src.waiters = append(src.waiters, w)
	}
	if w.ops > 0 {
		b.sched.open++
		for _, src := range w.sources {
			if src.Op != nil {
				src.Op.Awaited()
			}
		}
	}
	b.wait = w
	b.park()
	b.wait = nil
	for _, src := range w.sources {
		src.forget(w)
	}
	return w.winner, w.err
}

// Future is the outcome of a branch, or a failure to begin one.
type Future struct {
	Source
	branch *Branch // nil: never begun
	value  any
	err    error
	taken  bool // something has looked at the error

	watchers []watcher // composites, and what gives futures as they settle
}

// watcher is notified when a future settles.
type watcher interface{ settledOne(f *Future) }

// Failed returns the future of a branch that could not be begun.
func Failed(err error) *Future {
	return &Future{Source: Source{settled: true}, err: err}
}

// Owns makes sure that a future is of a branch of this run, in this activation. Otherwise
// it fails the run, because nothing would wake it at the other one's end.
func (b *Branch) Owns(f *Future) {
	if owner := f.branch; owner != nil && owner.sched != b.sched {
		b.NotOwn("the future of branch "+owner.loc.String(), owner.sched.Name)
	}
}

// NotOwn fails the run for something that another one, or a former activation, has made.
// It does not return.
func (b *Branch) NotOwn(what, run string) {
	whose := fmt.Sprintf("run %q, and was used by run %q", run, b.sched.Name)
	if run == b.sched.Name {
		whose = "a former activation of this run"
	}
	b.Fail(&stored.Failure{Code: stored.CodeMisuse, Stack: stored.Stack(), Message: fmt.Sprintf(
		"%s belongs to %s: use it in the code that has made it, and keep none outside of it", what, whose)})
}

// Result returns the outcome of a settled future.
func (f *Future) Result() (any, error) {
	f.taken = true
	return f.value, f.err
}

// Outcome returns the branch of the future and the error with which it
// has ended.
func (f *Future) Outcome() (b *Branch, err error) { return f.branch, f.err }

// Await waits for a future's value. A settled one gives it also in a cancelled
// branch.
func (b *Branch) Await(call Call, f *Future) (any, error) {
	if err := b.Check(call); err != nil {
		return nil, err
	}
	b.Owns(f)
	if f.settled {
		return f.Result()
	}
	if err := b.Refuse(call); err != nil {
		return nil, err
	}
	b.RefuseInPanic(b.Location().Name(call.Name, 1))
	w := b.NewWait(call)
	w.Add(&f.Source)
	if _, err := b.Block(w); err != nil {
		return nil, err
	}
	return f.Result()
}
