package stet

import (
	"context"
	"fmt"
	"reflect"

	"github.com/stet-run/stet/internal/runner"
)

// Undo gives a step or a child its compensation: what takes its effect back. fn gets what
// the step has returned, as it was recorded.
//
// When the run fails or is cancelled, and its code has ended, the compensations
// of all steps that have succeeded are executed, newest first, one after the
// other; see UndoOn and Rollback, and Saga for a part of the run. Each is recorded at the step's location and the
// name "undo", retried by its own policy (default: that of the workflow's steps),
// and executed again after a crash that came before its success was durable. It
// has an idempotency key of its own, and all that a step body has: heartbeats,
// timeouts, Config.Around. It cannot be cancelled. If it fails for good the run
// stalls; Resume tries it again, with all its attempts.
//
// The run has the mark undoing from the commit on in which this begins. That
// commit also fixes the outcome: a cancel that comes later is refused.
//
// A step with a compensation is not forgotten when it is cancelled: its branch
// gets ErrCancelled only when the body has returned, so that a late success is
// known, and undone. A step that has failed is not undone, even if an attempt had
// an effect: fn of the step itself sees to that. If the process died while the body
// was executed, nobody knows whether it had an effect: a cancel that comes then lets
// the body be executed again, with the same idempotency key and its retries, and
// undoes it if it succeeds.
//
// A child (Call, Go) may have one too: it is undone, with its result, if it has succeeded. A
// child that nobody awaits is cancelled with its scope as ever, but the scope then waits for
// its end, because it may succeed all the same; one that goes on without its parent
// (LeaveChild, WithoutCancel) is undone only if its end was awaited. A child that has failed
// or was cancelled has undone its own steps.
//
// A variable that fn has captured has the value of the end of the code, not that
// of the call: use what fn is given. T is the type of the step's result; another
// one panics in Step, Call and Go.
func Undo[T any](fn func(context.Context, T) error, opts ...UndoOption) Compensation {
	u := undoOf(fn == nil, opts)
	u.takes = reflect.TypeFor[T]()
	u.call = func(ctx context.Context, e *Engine, value []byte) error {
		v, err := decodeAs[T](e.codecs, value)
		if err != nil {
			return Permanent(&misfit{undecodable[T]("what the step has returned", value, err), err})
		}
		return fn(ctx, v)
	}
	return u
}

// UndoDo is Undo for a compensation that does not need what the step has
// returned: for Do, and for any Step.
func UndoDo(fn func(context.Context) error, opts ...UndoOption) Compensation {
	u := undoOf(fn == nil, opts)
	u.call = func(ctx context.Context, _ *Engine, _ []byte) error { return fn(ctx) }
	return u
}

// Undo returns the compensation that a worker executes: this task, offered on the queue of a
// Permit (default: DefaultTaskQueue), with what the step has returned as its input. Its result is
// not used. What Undo says of a compensation holds for it, and what Run says of a task: leases,
// heartbeats, a lost worker. Nothing cancels it. If it fails for good the run stalls, and Resume
// offers it again.
//
//	charge.Run(ctx, order, refund.Undo())
//
// In is the type of the step's result; another one panics in Step, Run, Call and Go, whose error
// is ErrInvalid if the name, the Permit or the Retry is none. A result that cannot be given to a
// worker stalls the run when it is to be undone. Where Config.Tasks has a function for the name,
// that is executed.
func (t Task[In, Out]) Undo(opts ...UndoOption) Compensation {
	u := undoOf(false, opts)
	u.takes, u.task = reflect.TypeFor[In](), string(t)
	u.input = func(e *Engine, value []byte) ([]byte, error) {
		in, err := decodeAs[In](e.codecs, value)
		if err != nil {
			return nil, Permanent(&misfit{undecodable[In]("what the step has returned", value, err), err})
		}
		input, err := codecs{JSON}.encode(in)
		if err == nil {
			err = e.checkSize("input of task "+string(t), input)
		}
		if err != nil {
			return nil, Permanent(fmt.Errorf("task %q: %w", string(t), err))
		}
		return input, nil
	}
	u.call = func(ctx context.Context, e *Engine, value []byte) error {
		input, err := u.input(e, value)
		if err != nil {
			return err
		}
		f := e.tasks[string(t)]
		if f == nil {
			return Permanent(fmt.Errorf("task %q has no function here, and was not offered: %w", string(t), ErrInvalid))
		}
		_, err = f(ctx, input)
		return err
	}
	return u
}

// UndoOption is an option of Undo and UndoDo: a Retry, or a Permit that each attempt needs.
type UndoOption interface{ applyUndo(*undo) }

func (r Retry) applyUndo(u *undo)  { u.retry = r }
func (p Permit) applyUndo(u *undo) { u.permit = &p }

// undo is a compensation as an option.
type undo struct {
	retry  Retry
	permit *Permit
	takes  reflect.Type // nil: any
	call   func(ctx context.Context, e *Engine, value []byte) error
	task   string                                        // that workers execute in place of call, if there is an input
	input  func(e *Engine, value []byte) ([]byte, error) // of the task; nil: there is none
}

func undoOf(missing bool, opts []UndoOption) *undo {
	if missing {
		panic("stet: Undo: the function is nil")
	}
	u := new(undo)
	for _, opt := range opts {
		opt.applyUndo(u)
	}
	return u
}

func (u *undo) applyStep(o *stepOptions)   { o.undo = u }
func (u *undo) applyChild(o *childOptions) { o.undo = u }

// Compensation is what takes back the effect of a step, as an option of Step and Do, or
// that of a child, as an option of Call and Go. Undo and UndoDo make one.
type Compensation interface {
	StepOption
	TaskOption
	ChildOption
}

// compensation returns the runner's form of u for a step or child, as what says, whose
// result is of type result, or nil.
func (c Context) compensation(u *undo, what, name string, result reflect.Type) (*runner.Undo, error) {
	if u == nil {
		return nil, nil
	}
	if u.takes != nil && u.takes != result {
		returns := "nothing"
		if result != nil {
			returns = "a " + result.String()
		}
		panic(fmt.Sprintf("stet: %s %q: Undo takes a %s, the %s returns %s", what, name, u.takes, what, returns))
	}
	e := c.env.engine
	retry := u.retry.over(c.env.retry)
	if err := retry.check("Retry"); err != nil {
		return nil, fmt.Errorf("undo of %s %q: %w", what, name, err)
	}
	permit, task := u.offered(e)
	place, err := permit.place()
	if err == nil && task != nil {
		err = checkName("task", u.task)
	}
	if err != nil {
		return nil, fmt.Errorf("undo of %s %q: %w", what, name, err)
	}
	return &runner.Undo{
		Policy: retry.policy(e.errors), Permit: place, Task: task,
		Func: func(ctx context.Context, b *runner.Body, value []byte) runner.BodyResult {
			err := around(ctx, e, func(ctx context.Context) error { return u.call(ctx, e, value) })
			if err != nil {
				return e.failed(err, retry.If)
			}
			return runner.BodyResult{}
		},
	}, nil
}

// offered returns the permit that each attempt needs, and what makes the task of it that workers execute; nil: none.
func (u *undo) offered(e *Engine) (*Permit, func(value []byte) *runner.Task) {
	if u.input == nil || e.tasks[u.task] != nil {
		return u.permit, nil
	}
	permit := u.permit
	if permit == nil {
		permit = &Permit{Queue: DefaultTaskQueue}
	}
	return permit, func(value []byte) *runner.Task {
		input, err := u.input(e, value)
		if err != nil {
			return nil // call says the same
		}
		return &runner.Task{
			Name: u.task, Input: input, Check: func([]byte) error { return nil }, Accepts: e.errors.accepts,
		}
	}
}

// Rollback returns err marked as a request to undo the run: returned by the
// workflow's function, alone or wrapped, it has the compensations of the completed
// steps executed before the run ends as failed with err, whatever UndoOn says. A
// nil err gives nil: a run that succeeds is not undone. Returned by the function of a Saga
// it has the scope of that undone.
//
// A step may return it too: it is not tried again, and its error keeps the mark, also in a
// replay. It undoes the run when the function returns that error, alone or wrapped.
func Rollback(err error) error {
	if err == nil {
		return nil
	}
	return &rollback{err}
}

type rollback struct{ err error }

func (r *rollback) Error() string { return r.err.Error() }
func (r *rollback) Unwrap() error { return r.err }

// asksRollback reports whether err asks for undoing.
func asksRollback(err error) bool { return wrapped[*rollback](err) != nil }

// UndoOn says at which ends a run is undone without being asked by Rollback. It
// is an option of Define; the values are combined with |. The default is
// UndoOnFailure|UndoOnCancel, which is nothing for a run without compensations. A
// run that succeeds or is terminated is never undone; terminate lists what was
// owed, in RunError.Owed. Continuing as new is a success: the new incarnation owes
// nothing of the former one.
type UndoOn uint8

const (
	// UndoOnFailure: the workflow's function returns an error, or the run is failed
	// by the engine, for example because its history has outgrown
	// its budget.
	UndoOnFailure UndoOn = 1 << iota
	// UndoOnCancel: the run is cancelled, by a request or a policy.
	UndoOnCancel
	// UndoOnRollback: only by Rollback. It is part of each other value.
	UndoOnRollback
)

func (u UndoOn) applyDefine(o *defineOptions) { o.undoOn = u }

// OnFailure says what becomes of a run that fails. It is an option of Define and
// a field of Config, which is the default of all workflows.
type OnFailure uint8

const (
	// EndOnFailure: the run ends as failed, and is undone before, if there is
	// anything to undo. It is the default.
	EndOnFailure OnFailure = 1
	// StallOnFailure: the run stalls for a person instead, with a reason that
	// begins with "failure:", and nothing is undone. Only a Rollback ends it.
	StallOnFailure OnFailure = 2
)

func (f OnFailure) applyDefine(o *defineOptions) { o.onFailure = f }
