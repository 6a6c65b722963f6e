package stet

import (
	"fmt"
	"reflect"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// ContinueAsNew returns an error with which the workflow's function lets its run
// go on as a new one: with an input and an empty history, and the same ID.
//
//	func serve(ctx stet.Context, s State) (Report, error) {
//		… // a day's work
//		return Report{}, stet.ContinueAsNew(s)
//	}
//
// It is for work without an end that a Loop does not fit. The input must be of
// the workflow's input type. Branches end first, and awaited children by their
// policy, as at every end. The next incarnation has what was sent to the run and
// not received, its tags, values and streams, and a cancel that was requested and
// not seen; the longest time of a run counts from the first start. Promises of
// the former incarnations have ended, their steps have other idempotency keys,
// and what they owed in compensations is forgotten.
//
// Only the workflow's function may return it, as it is or wrapped. Returned by a
// branch or an iteration of a Loop it stalls the run (see OnBug), and the step that returns it
// fails, with a message that says so. A run that is cancelled ends and does not
// continue.
func ContinueAsNew[In any](input In) error {
	return &continuation{input: input, typ: reflect.TypeFor[In]()}
}

// ContinueAs is ContinueAsNew with another workflow, which must be registered with
// the same engine. A caller that waits for the run gets the result of the last workflow,
// which should be of the type of the first one's.
func ContinueAs[In, Out any](w *Workflow[In, Out], input In) error {
	return &continuation{workflow: w.name, input: input, typ: reflect.TypeFor[In]()}
}

// continuation is the error of ContinueAsNew.
type continuation struct {
	workflow string // "": the same
	input    any
	typ      reflect.Type
}

// Error says what the value is for.
func (c *continuation) Error() string {
	return "continue as new, which only the function of a workflow may return"
}

// continuationIn returns the continuation that err is or wraps, or nil.
func continuationIn(err error) *continuation {
	return wrapped[*continuation](err)
}

func (c *continuation) misplaced(by string) *stored.Failure {
	return &stored.Failure{Code: stored.CodeMisuse, Message: fmt.Sprintf(
		"ContinueAsNew was returned by %s: only the workflow's function may return it", by)}
}

// inside returns the error of code inside a workflow's function that has returned err.
// One that wraps ContinueAsNew or Stall stops the run.
func (c Context) inside(what string, err error) error {
	if s := stallIn(err); s != nil {
		c.branch.Fail(s)
	}
	if next := continuationIn(err); next != nil {
		c.branch.Fail(next.misplaced(what))
	}
	return c.ended(err)
}

// continueAsNew lets the run continue as new, or returns why it cannot.
func (e *Engine) continueAsNew(b *runner.Branch, run *store.Run, in reflect.Type, c *continuation) *stored.Failure {
	misuse := func(format string, args ...any) *stored.Failure {
		return &stored.Failure{Code: stored.CodeMisuse, Message: "continue as new: " + fmt.Sprintf(format, args...)}
	}
	next := runner.Renewal{Workflow: c.workflow}
	if c.workflow == "" {
		next.Workflow = run.Workflow
		if c.typ != in {
			return misuse("expected an input of type %s, found %s", in, c.typ)
		}
	}
	if !e.inner.Workflows().Code.Has(next.Workflow) {
		return misuse("workflow %q is not registered with this engine; add it to Config.Workflows", next.Workflow)
	}
	data, err := e.encodeValue("input of workflow "+next.Workflow, c.input)
	if err != nil {
		return encodingFailure(err)
	}
	next.Input = data
	b.ContinueAsNew(next)
	return nil
}
