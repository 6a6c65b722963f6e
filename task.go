package stet

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/runner"
)

// Task is a kind of step whose body is executed elsewhere: by a worker, a program in any
// language, that leases it over HTTP (see the guide) or with Engine.Tasks. It is declared once:
//
//	var Resize = stet.Task[Image, Thumb]("resize")
//
// The name is 1 to 64 bytes, and what workers ask for. Input and result are JSON.
type Task[In, Out any] string

// DefaultTaskQueue is the queue of tasks without a Permit. It is made at first use, without
// limits.
const DefaultTaskQueue = permit.TaskQueue

// TaskOption is an option of Task.Run: a Retry, a Key, an Undo, a Permit, or Named.
type TaskOption interface{ applyTask(*taskOptions) }

type taskOptions struct {
	stepOptions
	as string
}

func (r Retry) applyTask(o *taskOptions)  { r.applyStep(&o.stepOptions) }
func (k Key) applyTask(o *taskOptions)    { k.applyStep(&o.stepOptions) }
func (p Permit) applyTask(o *taskOptions) { p.applyStep(&o.stepOptions) }
func (u *undo) applyTask(o *taskOptions)  { u.applyStep(&o.stepOptions) }
func (n Named) applyTask(o *taskOptions)  { o.as = string(n) }

// Run is a Step of the task's name, or of the one that Named gives: with its location, retries,
// Undo, Key and idempotency key. Its body is executed by whichever worker leases the attempt;
// meanwhile the run may be suspended, and costs nothing.
//
// Each attempt is offered on the queue that Permit names (default: DefaultTaskQueue), and a
// lease is a permit of it: limits, priority and fairness of the queue hold for tasks, steps and
// runs together. A worker renews its lease, and with it Retry.Timeout, by heartbeats. An expired
// lease offers the same attempt again, first in its line; the fifth is a failure with the code
// "lost". What a worker releases, or lets expire, is no attempt of Retry.Attempts.
//
// A result that is no Out is a failed attempt with the code "encoding". A cancel does not wait
// for the worker, which learns of it, unless the step has an Undo: then its outcome is awaited.
// Retry.Overall counts the time for which the task is offered and leased; Retry.If is asked on
// the run's goroutine.
//
// Where Config.Tasks has a function for the name, Run is a Step with that function, and nothing
// is offered. Errors are those of Step.
func (t Task[In, Out]) Run(ctx Context, in In, opts ...TaskOption) (Out, error) {
	var zero Out
	o := taskOptions{as: string(t)}
	for _, opt := range opts {
		opt.applyTask(&o)
	}
	call := ctx.call(o.as, o.key)
	e := ctx.env.engine
	input, err := codecs{JSON}.encode(in)
	if err == nil {
		err = e.checkSize("input of task "+string(t), input)
	}
	if err != nil {
		return zero, ctx.unencodable(fmt.Errorf("task %q: %w", string(t), err))
	}
	if err := checkName("task", string(t)); err != nil {
		return zero, fmt.Errorf("task %q: %w", string(t), err)
	}
	o.result = reflect.TypeFor[Out]()
	var data []byte
	if f := e.tasks[string(t)]; f != nil {
		data, _, err = ctx.step(call, o.stepOptions, bodyOf(func(c context.Context) (any, error) {
			return f(c, input)
		}))
	} else {
		data, err = ctx.offer(call, &o, string(t), input, func(result []byte) error {
			_, err := decodeAs[Out](codecs{JSON}, result)
			return err
		})
	}
	if err != nil {
		return zero, err
	}
	return decodeResult[Out](ctx, o.as, data)
}

// offer is the part of Run that knows no types.
func (c Context) offer(
	call runner.Call, o *taskOptions, name string, input []byte, check func([]byte) error,
) ([]byte, error) {
	e := c.env.engine
	retry := o.retry.over(c.env.retry)
	if err := retry.check("Retry"); err != nil {
		return nil, err
	}
	compensation, err := c.compensation(o.undo, "step", call.Name, o.result)
	if err != nil {
		return nil, err
	}
	if o.permit == nil {
		o.permit = &Permit{Queue: DefaultTaskQueue}
	}
	place, err := o.permit.place()
	if err != nil {
		return nil, err
	}
	data, err := c.branch.Step(runner.Step{
		Call: call, Policy: retry.policy(e.errors), Undo: compensation, Permit: place,
		Task: &runner.Task{Name: name, Input: input, Check: check, Accepts: e.errors.accepts},
	})
	return data, c.seen(err)
}

// TaskFunc is a Go function that executes a task in the process of the run: see Config.Tasks.
type TaskFunc struct {
	name string
	call func(ctx context.Context, input []byte) (any, error)
}

// Func returns the task with a function that executes it in the process of the run, for
// Config.Tasks. A nil function panics.
func (t Task[In, Out]) Func(fn func(context.Context, In) (Out, error)) TaskFunc {
	if fn == nil {
		panic(fmt.Sprintf("stet: Task(%q).Func: the function is nil", string(t)))
	}
	return TaskFunc{string(t), func(ctx context.Context, input []byte) (any, error) {
		in, err := decodeAs[In](codecs{JSON}, input)
		if err != nil {
			return nil, Permanent(err)
		}
		return fn(ctx, in)
	}}
}

// Name returns the name of the task.
func (f TaskFunc) Name() string { return f.name }

// tasksOf returns the functions of Config.Tasks by name, and what is wrong with them.
func tasksOf(funcs []TaskFunc) (byName map[string]func(context.Context, []byte) (any, error), problems []error) {
	byName = map[string]func(context.Context, []byte) (any, error){}
	for i, f := range funcs {
		switch err := checkName("task", f.name); {
		case f.call == nil:
			problems = append(problems, fmt.Errorf("config: Tasks[%d]: expected what Task.Func returns, found a zero "+
				"TaskFunc: %w", i, ErrInvalid))
		case err != nil:
			problems = append(problems, fmt.Errorf("config: Tasks[%d]: %w", i, err))
		case byName[f.name] != nil:
			problems = append(problems, fmt.Errorf("config: Tasks[%d]: task %q has a function already: %w", i, f.name,
				ErrInvalid))
		}
		byName[f.name] = f.call
	}
	return byName, problems
}

// taskNames returns the names of the tasks that have functions.
func taskNames(funcs []TaskFunc) []string {
	var names []string
	for _, f := range funcs {
		names = append(names, f.name)
	}
	slices.Sort(names)
	return names
}
