package runner

import (
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/store"
)

// Branch is a thread of a run's code: the workflow's function or what Go began.
// Its methods are called by its own code only; another caller gets a failure
// that says so, and the run fails.
type Branch struct {
	sched.Branch
	run *Interpreter
	fn  func(*Branch) (any, error)
}

// The words of package sched that are those of an operation's caller too.
type (
	// Call says where and how an operation is called.
	Call = sched.Call
	// Future is the outcome of a branch, or a failure to begin one.
	Future = sched.Future
	// Settled gives futures in the order in which they settle.
	Settled = sched.Settled
	// Mode says when a composite is decided.
	Mode = sched.Mode
)

// The modes of a composite.
const (
	Join = sched.Join
	All  = sched.All
	Any  = sched.Any
	Race = sched.Race
)

var (
	// ErrCancelled is what every operation of a cancelled branch returns.
	ErrCancelled = sched.ErrCancelled
	// ErrTimeout is the outcome of a wait whose deadline won.
	ErrTimeout = journal.ErrTimeout
	// ErrEmpty is the outcome of Any and Race without branches, and of a Settled in which
	// none is left.
	ErrEmpty = sched.ErrEmpty
)

// Stacks returns the stacks of the goroutines of this process that execute the code of runs
// and are not parked.
func Stacks() string { return sched.Stacks() }

// Execute calls the branch's function, for the scheduler.
func (b *Branch) Execute() (any, error) { return b.fn(b) }

// Go begins a branch. The new branch is queued; the caller goes on.
func (b *Branch) Go(call Call, fn func(*Branch) (any, error)) *Future {
	if err := b.Enter(call); err != nil {
		return sched.Failed(err)
	}
	b.RefuseInPanic(b.Location().Name(call.Name, 1))
	return b.begin(b.Locate(call), call.Shield, fn)
}

func (b *Branch) begin(loc location.Loc, shield bool, fn func(*Branch) (any, error)) *Future {
	child := &Branch{run: b.run, fn: fn}
	return b.run.sched.Begin(&child.Branch, b.Scope(), loc, shield || b.Shielded(), child)
}

// begin begins a branch of the run that has no parent.
func (r *Interpreter) begin(fn func(*Branch) (any, error)) *Branch {
	b := &Branch{run: r, fn: fn}
	r.sched.Begin(&b.Branch, nil, "", false, b)
	return b
}

// Map begins up to limit branches at a time for the indexes below n, each in the
// keyed scope of its own, and waits like All. key returns the key of an index;
// equal ones are told apart by their order. Its results are in the order of
// indexes.
func (b *Branch) Map(
	call Call, n, limit int, key func(i int) string, fn func(b *Branch, i int) (any, error),
) ([]*Future, int, error) {
	return b.Branch.Map(call, n, limit, key, func(i int, loc location.Loc) *Future {
		return b.begin(loc, call.Shield, func(child *Branch) (any, error) { return fn(child, i) })
	})
}

// Now returns the run's time: the store's, at the last hand-over.
func (b *Branch) Now() store.Time { return b.run.j.Now() }

// Replaying reports whether the code that runs now has run before: the run is not
// live, and something of it has been committed. It is for the branch's own code.
func (b *Branch) Replaying() bool { return b.run.j.Repeats() }

// Derive returns 32 bytes that are the same in every replay and different at
// every call. It makes no entry.
func (b *Branch) Derive(call Call, purpose string) ([32]byte, error) {
	if err := b.Check(call); err != nil {
		return [32]byte{}, err
	}
	s := b.Scope()
	return b.run.j.Random(purpose, s.Location(), s.NextDerived()), nil
}
