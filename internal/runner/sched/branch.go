package sched

import (
	"fmt"
	"iter"
	"runtime"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
)

// Code is what a branch executes.
type Code interface {
	Execute() (value any, err error)
}

// Branch is a thread of a run's code: the workflow's function, or one that was begun
// beside it. Its methods are called by its own code only: [Branch.Check] refuses
// another caller.
type Branch struct {
	sched  *Scheduler
	id     int64
	loc    location.Loc
	parent *Scope
	place  int // in parent.children
	code   Code
	future *Future

	// The branch's coroutine: next gives it the baton, yield the driver. nil: it has not started.
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	exited bool // its code has not returned, and its goroutine is still to end

	ended     bool
	stack     stack
	cancelled bool
	shielded  bool // begun under WithoutCancel: an ancestor's cancel does not reach it
	unwound   bool // its code was ended because it went on calling operations
	dropped   bool // it gets the baton no more
	reached   location.Loc
	wait      *Wait
	scopes    []*Scope // outer to inner
	exits     []func()

	// What every branch has, in the same piece of memory.
	ownFuture Future
	ownScope  Scope
	ownScopes [2]*Scope
	ownWait   Wait
}

// Call says where and how an operation is called.
type Call struct {
	Name   string
	Key    string  // "": none
	Site   uintptr // 0: it may share its name with another place
	Shield bool    // under WithoutCancel
}

// Begin begins b, which is empty, as a branch of a scope, or with nil as one without
// a parent. It is queued; the caller goes on.
func (s *Scheduler) Begin(b *Branch, parent *Scope, loc location.Loc, shielded bool, code Code) *Future {
	b.sched, b.id, b.loc, b.parent, b.code, b.shielded = s, s.NextID(), loc, parent, code, shielded
	b.ownFuture.branch, b.future = b, &b.ownFuture
	b.ownScope.owner, b.ownScope.loc = b, loc
	b.scopes = append(b.ownScopes[:0], &b.ownScope)
	if parent != nil {
		b.ownScope.value = parent.value
		b.place = len(parent.children)
		parent.children = append(parent.children, b)
		parent.running++
	}
	s.branches[b] = struct{}{}
	s.ready.Push(b)
	return b.future
}

// Future returns the branch's outcome.
func (b *Branch) Future() *Future { return b.future }

// Scope returns the innermost scope in which the branch's code is.
func (b *Branch) Scope() *Scope { return b.scopes[len(b.scopes)-1] }

// Location returns the scope in which the branch's next operation stands.
func (b *Branch) Location() location.Loc { return b.Scope().loc }

// Shielded reports whether a cancel of the branch that has begun this one does not
// reach it.
func (b *Branch) Shielded() bool { return b.shielded }

// Cancelled reports whether the branch was cancelled.
func (b *Branch) Cancelled() bool { return b.cancelled }

// ScopeFailure returns the error that was given to Fail for the innermost scope, or nil.
func (b *Branch) ScopeFailure() error { return b.Scope().failure }

// At returns the location at which the branch was begun.
func (b *Branch) At() location.Loc { return b.loc }

// Dropped reports whether the branch was dropped.
func (b *Branch) Dropped() bool { return b.dropped }

// Reach notes where the operation stands whose outcome the branch's code is about to get.
func (b *Branch) Reach(loc location.Loc) { b.reached = loc }

// Reached returns the location that was given to Reach last.
func (b *Branch) Reached() location.Loc { return b.reached }

// Title returns the branch's location, in text form.
func (b *Branch) Title() string {
	if b.loc == "" {
		return "the workflow's function"
	}
	return b.loc.String()
}

// OnExit registers fn to be called when the branch's code, or the loop iteration in
// which it stands, has ended, in whichever way, eviction included. The last one
// registered is called first.
func (b *Branch) OnExit(fn func()) { b.exits = append(b.exits, fn) }

// Exit calls the functions given to OnExit.
func (b *Branch) Exit() { b.exit(0) }

// exit calls the functions given to OnExit, except the first n.
func (b *Branch) exit(n int) {
	for i := len(b.exits) - 1; i >= n; i-- {
		func() {
			defer func() {
				if p := recover(); p != nil {
					b.sched.owner.Note(b.loc, "closing a local resource", stored.PanicFailure(p))
				}
			}()
			b.exits[i]()
		}()
	}
	b.exits = b.exits[:n]
}

// Enter begins an operation. It returns ErrCancelled in a cancelled branch.
func (b *Branch) Enter(call Call) error {
	if err := b.Check(call); err != nil {
		return err
	}
	return b.Refuse(call)
}

// Check makes sure that the operation is called by the branch's own code. In a branch
// that is being unwound it does not return.
func (b *Branch) Check(call Call) error {
	s := b.sched
	current := s.current.Load()
	if current != b || !b.stack.own() || b.ended {
		return s.misused(b, current, call)
	}
	if s.unwinding || b.unwound {
		runtime.Goexit()
	}
	return nil
}

// Refuse returns ErrCancelled in a cancelled branch, or a scope that has failed.
func (b *Branch) Refuse(call Call) error {
	if !b.cancelled && !b.Scope().cancelled || call.Shield || b.shielded {
		return nil
	}
	s := b.sched
	if s.refused++; s.refused > maxRefused {
		s.owner.Note(b.loc, "code of a cancelled run went on asking and was ended", nil)
		b.unwound = true
		runtime.Goexit()
	}
	return ErrCancelled
}

func (s *Scheduler) misused(b, current *Branch, call Call) error {
	caller := "a step body or a foreign goroutine"
	if current != nil && current != b {
		caller = "the code of " + current.Title()
	}
	f := &stored.Failure{Code: stored.CodeMisuse, Stack: stored.Stack(), Message: fmt.Sprintf(
		"operation %q was called through the context of %s by %s: "+
			"use the context that the branch's own function was given, only in it, and none inside a step",
		call.Name, b.Title(), caller)}
	s.misuse.CompareAndSwap(nil, f)
	return f
}

// Fail ends the run with f and does not return.
func (b *Branch) Fail(f *stored.Failure) {
	b.sched.owner.Fail(f)
	b.Halt()
}

// Halt blocks until the run is unwound.
func (b *Branch) Halt() {
	for {
		b.park()
	}
}

// park passes the baton on and returns when it is back.
func (b *Branch) park() {
	s := b.sched
	if next := s.next(); next != b {
		s.chosen = next
		b.yield(struct{}{})
	}
	if s.unwinding {
		runtime.Goexit()
	}
}

// main is the coroutine of a branch.
func (b *Branch) main(yield func(struct{}) bool) {
	b.yield = yield
	b.stack.grow()
	returned := false
	defer func() {
		if b.ended && returned {
			return
		}
		if !b.ended { // unwound: the driver waits
			_ = recover() // a panic of a deferred function that ran while unwinding
			b.ended = true
			b.Exit()
		}
		// By a panic, or by runtime.Goexit, which would end the driver's goroutine as well: see resume.
		b.exited = true
		yield(struct{}{})
	}()
	defer func() {
		if b.sched.unwinding {
			return
		}
		switch p := recover(); {
		case p != nil:
			b.panicked(stored.PanicFailure(p))
		case !returned && b.unwound:
			b.future.err = ErrCancelled
		case !returned:
			b.panicked(&stored.Failure{Code: stored.CodePanic, Message: "workflow code called runtime.Goexit"})
		}
		b.finish()
	}()
	b.future.value, b.future.err = b.code.Execute()
	returned = true
}

func (b *Branch) panicked(f *stored.Failure) {
	b.future.err = f
	b.sched.owner.Panicked(b, f)
}

// finish ends the branch's scopes, settles its future and passes the baton on.
func (b *Branch) finish() {
	s := b.sched
	if s.owner.Stopped() {
		b.Halt() // nothing of the run ends or is cancelled any more
	}
	for len(b.scopes) > 0 {
		b.endScope()
	}
	delete(s.branches, b)
	if b.parent == nil {
		runtime.Gosched() // a goroutine that the code has just begun may misuse its context
		s.owner.Returned(b)
	} else {
		b.Exit()
		s.ended(b)
	}
	b.ended = true
	s.chosen = s.next()
}

// ended settles the future of b: the branches that await it wake first, then its
// composites decide, then its scope ends if b was the last.
func (s *Scheduler) ended(b *Branch) {
	f := b.future
	s.Settle(&f.Source)
	for _, w := range f.watchers {
		w.settledOne(f)
	}
	scope := b.parent
	if f.err != nil && f.err != ErrCancelled {
		scope.failed = append(scope.failed, f)
	}
	scope.children[b.place] = nil
	scope.running--
	if scope.running == 0 {
		scope.children = scope.children[:0]
		if scope.end != nil {
			scope.end.fill(nil, nil)
		}
	}
}

// CloseOwned closes what the branch's scopes own.
func (b *Branch) CloseOwned() {
	for _, s := range b.scopes {
		s.closeOwned()
	}
}

// Lingering returns what the branch's scopes wait for behind the end of their code.
func (b *Branch) Lingering() []*Source {
	var list []*Source
	for _, s := range b.scopes {
		list = append(list, s.lingering()...)
	}
	return list
}

// AwaitedOperations yields the operations in which the branch is blocked.
func (b *Branch) AwaitedOperations() iter.Seq[Operation] {
	return func(yield func(Operation) bool) {
		if b.wait == nil || b.wait.filled {
			return
		}
		for _, src := range b.wait.sources {
			if src.Op != nil && !yield(src.Op) {
				return
			}
		}
	}
}

// Size returns how many scopes, and places for branches of its own, are kept for it.
func (b *Branch) Size() int { return len(b.scopes) + len(b.ownScope.children) }
