package stet

import "github.com/stet-run/stet/internal/runner"

// Settled gives futures one at a time, in the order in which their branches end, which
// is the same in every replay. Futures are added before and between; what one costs does
// not depend on how many there are. Its zero value is empty. It belongs to the run that
// uses it, and its branches share it without locks.
type Settled[T any] struct {
	inner   runner.Settled
	futures map[*runner.Future]*Future[T] // added and not given
}

// Add adds futures. One that has settled already is given next, after those that have
// settled before. One that is in it is not added again; one that was given may be.
func (s *Settled[T]) Add(futures ...*Future[T]) {
	for _, f := range futures {
		if s.futures == nil {
			s.futures = map[*runner.Future]*Future[T]{}
		}
		if s.futures[f.inner] == nil {
			s.futures[f.inner] = f
			s.inner.Add(f.inner)
		}
	}
}

// Len returns how many futures were added and have not been given yet.
func (s *Settled[T]) Len() int { return len(s.futures) }

// Next waits for the next future that settles, in success or failure, and removes it:
// its Result is the outcome, its Name says whose. In a cancelled branch it gives
// ErrCancelled, unless one has settled already. It is ErrEmpty if none is left. When
// several branches wait, the one that has waited for longest is given the next.
func (s *Settled[T]) Next(ctx Context) (*Future[T], error) {
	call := ctx.call("next", "")
	inner, err := ctx.branch.Next(call, &s.inner)
	if err != nil {
		return nil, ctx.seen(err)
	}
	return s.given(inner), nil
}

// Case waits like Next and stores the future in into if it wins. If it loses none is
// taken. If none is left it wins at once, and the error of Select is ErrEmpty.
func (s *Settled[T]) Case(into **Future[T]) Case {
	return Case{
		build: func(Context) (runner.Case, error) { return runner.Case{Settled: &s.inner}, nil },
		won: func(_ Context, won runner.Selected) error {
			if won.Future == nil {
				return ErrEmpty
			}
			*into = s.given(won.Future)
			return nil
		},
	}
}

func (s *Settled[T]) given(inner *runner.Future) *Future[T] {
	f := s.futures[inner]
	delete(s.futures, inner)
	return f
}

// Cancel cancels the branch, as its scope does when it ends: its operations give
// ErrCancelled, its branches and children are cancelled with it, and a step whose body
// is executing is seen to its end. Cancel waits for nothing. Await gives what the
// branch's function then returns, as a rule ErrCancelled, and steps that it has done are
// undone with the run's as ever. A branch that has ended, or was begun under
// WithoutCancel, goes on as it is.
//
// To cancel a child of the run, call it in a branch of its own and cancel that.
func (f *Future[T]) Cancel(ctx Context) {
	call := ctx.call("cancel", "")
	ctx.branch.CancelFuture(call, f.inner)
}
