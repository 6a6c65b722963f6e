package stet

import "github.com/stet-run/stet/internal/runner"

// SagaOption is an option of Saga: an UndoOn, or a Key.
type SagaOption interface{ applySaga(*sagaOptions) }

type sagaOptions struct {
	undoOn UndoOn
	key    string
}

func (u UndoOn) applySaga(o *sagaOptions) { o.undoOn = u }
func (k Key) applySaga(o *sagaOptions)    { o.key = string(k) }

// Saga executes fn in a scope of its own. If fn returns an error, the completed steps of
// the scope that carry a compensation (Undo, UndoDo) are undone, newest first, one after
// the other; then Saga returns that error, and the code may go another way. The
// compensations are executed as at the end of a run: each is recorded, is retried by its
// policy, survives crashes, cannot be cancelled, and stalls the run if it fails for good.
//
// All that fn has begun ends with the scope, before its undoing begins: branches are
// cancelled, and a step with a compensation is seen to its end. Names of operations are
// counted anew in the scope; its own name is part of their locations.
//
// UndoOn says which errors undo the scope. The default is UndoOnFailure|UndoOnCancel,
// whatever Define says: UndoOnCancel is for a branch that is being cancelled, with its run
// or because it has lost a race; UndoOnFailure is for any other error. An error that is
// marked by Rollback always undoes it, and keeps its mark: if the workflow's function
// returns it, the run is undone too.
//
// What a saga has undone is owed no more. What it has not, because fn has succeeded or
// because of UndoOn, is as if there were no saga: one around it undoes it, or the run. A
// panic of fn undoes nothing here, also if the code around the saga recovers it.
//
// Saga returns what fn returns, or ErrCancelled, without calling fn, in a branch that is
// cancelled. To continue as new in fn is misuse.
func Saga[T any](ctx Context, name string, fn func(Context) (T, error), opts ...SagaOption) (T, error) {
	ctx.needs(fn != nil, "saga", name)
	o := sagaOptions{undoOn: UndoOnFailure | UndoOnCancel}
	for _, opt := range opts {
		opt.applySaga(&o)
	}
	var value T
	var failed error
	err := ctx.branch.Saga(runner.Saga{
		Call: ctx.call(name, o.key),
		Func: func() (undo bool) {
			value, failed = fn(ctx)
			failed = ctx.inside("saga "+name, failed)
			on := UndoOnFailure
			if ctx.branch.Cancelled() {
				on = UndoOnCancel
			}
			return failed != nil && (o.undoOn&on != 0 || asksRollback(failed))
		},
	})
	if err != nil {
		return value, ctx.seen(err)
	}
	return value, failed
}
