package stet

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Workflow is a definition: a name and a function, or (from Ref) a name alone.
// It starts runs. It is immutable and safe for concurrent use.
type Workflow[In, Out any] struct{ definition }

// Definition is a Workflow of any type, for Config.Workflows.
type Definition interface {
	Name() string
	inner() *definition
}

type definition struct {
	name    string
	site    string // where Define was called
	options defineOptions
	code    func(*environment) func(*runner.Branch) ([]byte, *stored.Failure) // nil: from Ref
	runID   func(input any) string                                            // nil: a new one for each start
}

// Name returns the workflow's name.
func (d *definition) Name() string       { return d.name }
func (d *definition) inner() *definition { return d }

// DefineOption is an option of Define: a Retry, MaxRunTime, MaxSuspension,
// PauseAfter, Footprint, IDFrom, UndoOn, OnFailure, OnBug, a Retention,
// DiscardDeadLetters, a ChildFailure, or OnQueue.
type DefineOption interface{ applyDefine(*defineOptions) }

type defineOptions struct {
	retry         Retry
	maxRunTime    time.Duration
	maxSuspension time.Duration
	pauseAfter    int
	footprint     int
	idFrom        any // func(In) string
	discard       bool
	discardNames  []string // of messages
	undoOn        UndoOn
	onFailure     OnFailure
	onBug         OnBug
	retention     Retention
	queue         *OnQueue
	childFailure  ChildFailure
}

// MaxRunTime cancels a run that has not ended this long after it began, or after an
// operator has last made it go on: by a resume, retry, rewind, edit or fork. So a repair of
// an old run does not cancel it. Given to a start, to Go, Call and Detach, or to Schedule it
// counts for these runs in place of the definition's; None is without limit, and 0 what the definition says.
type MaxRunTime time.Duration

func (d MaxRunTime) applyDefine(o *defineOptions) { o.maxRunTime = time.Duration(d) }

// MaxSuspension cancels a run that has waited this long without anything
// happening. What an operator does to make it go on counts as something. It may be given
// where MaxRunTime may.
type MaxSuspension time.Duration

func (d MaxSuspension) applyDefine(o *defineOptions) { o.maxSuspension = time.Duration(d) }

// PauseAfter pauses a run when a step of it, or a compensation, has failed this many
// times in a row and would be tried again: so that somebody looks before more is
// tried. Other bodies that are executing end before. RunInfo.Reason, Audit and stet
// show say for which step, and with which error. Resume has it tried again, when its
// delay is over; after as many failures more the run is paused again. A failure after
// which a step is not tried again does not pause the run: see OnFailure. Default and
// None: never.
type PauseAfter int

func (n PauseAfter) applyDefine(o *defineOptions) { o.pauseAfter = int(n) }

// Footprint is how many bytes of memory a run of the workflow keeps while it waits, beside its stack and what is
// recorded of it: a buffer, or an interpreter of another language. Config.MaxParkedBytes counts them. It need not be
// exact. Default and None: 0.
type Footprint int

func (n Footprint) applyDefine(o *defineOptions) { o.footprint = int(n) }

// IDFrom derives the run's ID from its input where a start gives none, so that
// concurrent equal starts give one run. The ID is the workflow's name, a slash, and what
// id returns, which must not be empty; see Workflow.RunID.
func IDFrom[In any](id func(In) string) DefineOption { return idFrom{id} }

type idFrom struct{ id any }

func (f idFrom) applyDefine(o *defineOptions) { o.idFrom = f.id }

// Define makes a workflow of a function. The name is 1 to 64 bytes and is stored
// with each run: renaming the function is free, renaming the workflow is not. A
// nil function panics; a bad name and duplicates are reported by New.
func Define[In, Out any](name string, fn func(Context, In) (Out, error), opts ...DefineOption) *Workflow[In, Out] {
	if fn == nil {
		panic(fmt.Sprintf("stet: Define(%q): the function is nil", name))
	}
	w := Ref[In, Out](name)
	for _, opt := range opts {
		opt.applyDefine(&w.options)
	}
	if by := w.options.idFrom; by != nil {
		id, ok := by.(func(In) string)
		if !ok {
			panic(fmt.Sprintf("stet: Define(%q): IDFrom takes a %s, the workflow a %s", name, reflect.TypeOf(by).In(0),
				reflect.TypeFor[In]()))
		}
		w.runID = func(input any) string { return id(input.(In)) }
	}
	_, file, line, _ := runtime.Caller(1)
	w.site = fmt.Sprintf("%s:%d", file, line)
	w.code = func(env *environment) func(*runner.Branch) ([]byte, *stored.Failure) {
		return func(b *runner.Branch) ([]byte, *stored.Failure) {
			e := env.engine
			in, err := decodeAs[In](e.codecs, env.run.Input)
			if err != nil {
				b.Undecodable(undecodable[In]("input of workflow "+name, env.run.Input, err), true)
				return nil, &stored.Failure{
					Code: stored.CodeInput, Message: fmt.Sprintf("input of workflow %s: %v%s", name, err, position(err)),
				}
			}
			ctx := Context{branch: b, env: env}
			out, err := fn(ctx, in)
			err = ctx.ended(err)
			if s := stallIn(err); s != nil {
				return nil, s
			}
			if next := continuationIn(err); next != nil {
				return nil, e.continueAsNew(b, env.run, reflect.TypeFor[In](), next)
			}
			if err != nil {
				if asksRollback(err) {
					b.Rollback()
				}
				return nil, e.errors.record(err)
			}
			data, err := e.encodeValue("result of workflow "+name, out)
			if err != nil {
				return nil, encodingFailure(err)
			}
			return data, nil
		}
	}
	return w
}

// Ref names a workflow whose code is elsewhere: it can be started and waited
// for, not executed.
func Ref[In, Out any](name string) *Workflow[In, Out] {
	return &Workflow[In, Out]{definition{name: name}}
}

// workflow returns the definition in the engine's form.
func (d *definition) workflow(e *Engine) engine.Workflow {
	undoOn, onFailure, onBug := d.options.undoOn, d.options.onFailure, d.options.onBug
	pick(&undoOn, UndoOnFailure|UndoOnCancel)
	pick(&onFailure, e.onFailure)
	pick(&onBug, e.onBug)
	return engine.Workflow{
		UndoFailed: undoOn&UndoOnFailure != 0, UndoCancelled: undoOn&UndoOnCancel != 0,
		StallFailed: onFailure == StallOnFailure, FailBugs: onBug == FailOnBug,
		MaxRun: max(d.options.maxRunTime, 0), MaxSuspended: max(d.options.maxSuspension, 0),
		PauseAfter: max(d.options.pauseAfter, 0), Footprint: max(d.options.footprint, 0),
		Discard: d.options.discard, DiscardNames: d.options.discardNames,
		Code: func(run *store.Run) func(*runner.Branch) ([]byte, *stored.Failure) {
			return d.code(d.environment(e, run))
		},
	}
}

// environment returns what the contexts of an activation share.
func (d *definition) environment(e *Engine, run *store.Run) *environment {
	return &environment{engine: e, run: run, retry: d.options.retry.over(e.retry)}
}

// around calls a step's body inside Config.Around.
func around(ctx context.Context, e *Engine, call func(context.Context) error) error {
	if e.wrap == nil {
		return call(ctx)
	}
	info, _ := StepOf(ctx)
	return e.wrap(ctx, info, call)
}
