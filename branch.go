package stet

import (
	"errors"
	"fmt"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
)

// Future is the outcome of a branch that Go has begun.
type Future[T any] struct {
	inner *runner.Future
	name  string
}

// Awaitable is a Future of any type.
type Awaitable interface {
	// Name returns the name of the branch.
	Name() string
	future() *runner.Future
}

// Name returns the name that the branch was given.
func (f *Future[T]) Name() string           { return f.name }
func (f *Future[T]) future() *runner.Future { return f.inner }

// GoOption is an option of Go: a Key.
type GoOption interface{ applyGo(*goOptions) }

type goOptions struct{ key string }

// Go begins a branch with fn's code and goes on at once. The steps of different
// branches run in parallel; their code takes turns, so branches share variables
// without locks. The name is part of the locations of what the branch does.
//
// A branch ends with the function that began it: what still runs when that
// returns is cancelled, and its code is waited for. fn must use the Context that
// it is given.
func Go[T any](ctx Context, name string, fn func(Context) (T, error), opts ...GoOption) *Future[T] {
	ctx.needs(fn != nil, "branch", name)
	var o goOptions
	for _, opt := range opts {
		opt.applyGo(&o)
	}
	inner := ctx.branch.Go(ctx.call(name, o.key), func(b *runner.Branch) (any, error) {
		v, err := fn(ctx.with(b))
		return v, ctx.with(b).inside("a branch "+name, err)
	})
	return &Future[T]{inner, name}
}

// Await waits until the branch has ended and returns what its function has
// returned. In a cancelled branch it gives ErrCancelled, unless the future has
// settled already.
func (f *Future[T]) Await(ctx Context) (T, error) {
	v, err := ctx.branch.Await(ctx.call("await", ""), f.inner)
	return asResult[T](ctx, v, err)
}

// Result returns the outcome of a settled future: after Join, All, Any, Race or
// a Select in which it won. One that has not settled gives ErrInvalid.
func (f *Future[T]) Result() (T, error) {
	if !f.inner.Settled() {
		var zero T
		return zero, fmt.Errorf("future %q has not settled; await it: %w", f.name, ErrInvalid)
	}
	v, err := f.inner.Result()
	return asResult[T](Context{}, v, err)
}

// asResult gives a branch's outcome its type. A panic of the branch is a *Failure.
func asResult[T any](ctx Context, v any, err error) (T, error) {
	t, _ := v.(T)
	if failure, ok := err.(*stored.Failure); ok {
		return t, (&errorTable{}).restore(failure)
	}
	return t, err
}

// BranchErrors is the error of composites that report several failures.
type BranchErrors []BranchError

// BranchError is the failure of one branch: that which has decided a Race or an All,
// or one of BranchErrors. errors.As finds it in these too.
type BranchError struct {
	Name string // of the branch
	Err  error  // that its function has returned
}

// Error names the branch before its error.
func (e BranchError) Error() string { return e.Name + ": " + e.Err.Error() }

// Unwrap returns the error of the branch.
func (e BranchError) Unwrap() error { return e.Err }

// Error lists the branches with their errors.
func (e BranchErrors) Error() string {
	text := ""
	for i, b := range e {
		if i > 0 {
			text += "; "
		}
		text += b.Error()
	}
	return text
}

// Unwrap returns the errors of the branches, each a BranchError.
func (e BranchErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, b := range e {
		errs[i] = b
	}
	return errs
}

// Join waits until all branches have ended, even when one fails. The error is a
// BranchErrors with every failure in the order of arguments, or ErrCancelled.
// Results are read from the futures.
func Join(ctx Context, futures ...Awaitable) error {
	inner := make([]*runner.Future, len(futures))
	for i, f := range futures {
		inner[i] = f.future()
	}
	if _, err := ctx.branch.Compose(ctx.call("join", ""), runner.Join, inner); err != nil {
		return err
	}
	return failures(futures)
}

func failures(futures []Awaitable) error {
	var errs BranchErrors
	for _, f := range futures {
		if _, err := asResultOf(f); err != nil {
			errs = append(errs, BranchError{f.Name(), err})
		}
	}
	if errs == nil {
		return nil
	}
	return errs
}

func asResultOf(f Awaitable) (any, error) {
	v, err := f.future().Result()
	return asResult[any](Context{}, v, err)
}

// All waits until all branches have succeeded and returns their values in the
// order of arguments. The first failure is returned, as a BranchError, and cancels
// the others. No branches give an empty result.
func All[T any](ctx Context, futures ...*Future[T]) ([]T, error) {
	index, err := compose(ctx, ctx.call("all", ""), runner.All, futures)
	if err != nil {
		return nil, err
	}
	if index >= 0 {
		_, err := outcome(futures[index])
		return nil, err
	}
	values := make([]T, len(futures))
	for i, f := range futures {
		values[i], _ = f.Result()
	}
	return values, nil
}

// Any waits for the first branch that succeeds, returns its index among the arguments
// with its value, and cancels the others. If all fail the winner is -1 and the error a
// BranchErrors. No branches are ErrEmpty. Branches of different types can be waited for
// with Select, by their cases: it cancels none of them.
func Any[T any](ctx Context, futures ...*Future[T]) (winner int, value T, err error) {
	winner, err = compose(ctx, ctx.call("any", ""), runner.Any, futures)
	if err != nil {
		return -1, value, err
	}
	if winner >= 0 {
		value, err = outcome(futures[winner])
		return winner, value, err
	}
	all := make([]Awaitable, len(futures))
	for i, f := range futures {
		all[i] = f
	}
	return -1, value, failures(all)
}

// Race waits for the first branch that settles, in success or failure, returns its
// index among the arguments with its outcome, and cancels the others. A failure that
// wins is a BranchError. The winner is -1 if the race itself was cancelled, which is
// ErrCancelled, or had no branches, which is ErrEmpty. Branches of different types can
// race with Select, by their cases: it cancels none of them.
func Race[T any](ctx Context, futures ...*Future[T]) (winner int, value T, err error) {
	winner, err = compose(ctx, ctx.call("race", ""), runner.Race, futures)
	if err != nil {
		return -1, value, err
	}
	value, err = outcome(futures[winner])
	return winner, value, err
}

// outcome returns the outcome of a settled branch. Its error carries its name.
func outcome[T any](f *Future[T]) (T, error) {
	v, err := f.Result()
	if err != nil {
		err = BranchError{f.name, err}
	}
	return v, err
}

func compose[T any](ctx Context, call runner.Call, mode runner.Mode, futures []*Future[T]) (int, error) {
	inner := make([]*runner.Future, len(futures))
	for i, f := range futures {
		inner[i] = f.inner
	}
	return ctx.branch.Compose(call, mode, inner)
}

// MapOption is an option of Map: MapLimit or KeyBy.
type MapOption interface{ applyMap(*mapOptions) }

type mapOptions struct {
	limit int
	key   any // func(In) string
}

// MapLimit bounds how many branches of a Map run at a time. 0 and None: all at once.
// It is part of the code: a run that has recorded with a larger limit may stall
// under a smaller one.
type MapLimit int

func (l MapLimit) applyMap(o *mapOptions) { o.limit = int(l) }

// KeyBy makes the branches of a Map known by a key of their item instead of its
// position, so that items may come in another order.
func KeyBy[In any](key func(In) string) MapOption { return keyBy{key} }

type keyBy struct{ key any }

func (k keyBy) applyMap(o *mapOptions) { o.key = k.key }

// Map calls fn for every item in a branch of its own, at most MapLimit at a time,
// and returns the results in the order of items. The first failure is returned
// and cancels the others.
func Map[In, Out any](
	ctx Context, name string, items []In, fn func(Context, In) (Out, error), opts ...MapOption,
) ([]Out, error) {
	ctx.needs(fn != nil, "map", name)
	var o mapOptions
	for _, opt := range opts {
		opt.applyMap(&o)
	}
	if o.limit < None {
		return nil, fmt.Errorf("map %q: expected a limit of 1 or more, found %d: %w", name, o.limit, ErrInvalid)
	}
	if o.limit <= 0 {
		o.limit = max(len(items), 1)
	}
	key := func(i int) string { return fmt.Sprint(i) }
	if o.key != nil {
		by, ok := o.key.(func(In) string)
		if !ok {
			return nil, fmt.Errorf("map %q: KeyBy takes a function of another type than the items: %w", name, ErrInvalid)
		}
		key = func(i int) string { return by(items[i]) }
	}
	futures, failed, err := ctx.branch.Map(ctx.call(name, ""), len(items), o.limit, key,
		func(b *runner.Branch, i int) (any, error) {
			v, err := fn(ctx.with(b), items[i])
			return v, ctx.with(b).inside("a branch of map "+name, err)
		})
	if err != nil {
		return nil, err
	}
	if failed >= 0 {
		v, err := futures[failed].Result()
		_, err = asResult[Out](ctx, v, err)
		return nil, err
	}
	results := make([]Out, len(items))
	for i, f := range futures {
		v, err := f.Result()
		if results[i], err = asResult[Out](ctx, v, err); err != nil {
			return nil, errors.Join(err)
		}
	}
	return results, nil
}
