package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// RunFuture is another run whose end this run may await: a child that Go has
// started, or any run by its ID, with Watch. It belongs to the run that has made
// it and is used in its code only.
type RunFuture[Out any] struct {
	inner *runner.RunFuture
	name  string
}

// ChildOption is an option of Go, Call and Detach: Named, a Key, an ID, a ParentClose, a
// ChildFailure (Go only), OnQueue; Tags of the child, and Headers, which replace inherited
// ones by key; MaxRunTime, MaxSuspension, OnFailure or OnBug, which count for the child in
// place of those of its definition; and a Compensation (Undo, UndoDo), but not of Detach.
type ChildOption interface{ applyChild(*childOptions) }

type childOptions struct {
	as    string
	key   string
	id    string // "": as IDFrom says, or derived
	leave bool
	undo  *undo
	fails ChildFailure // 0: as the definition says
	queue *OnQueue     // nil: as the definition says
	tags  []store.Pair
	heads Headers
	err   error // of tags

	policies policies
}

func (n Named) applyChild(o *childOptions) { o.as = string(n) }

func (id ID) applyChild(o *childOptions) {
	o.id = string(id)
	if err := checkRunID(o.id); o.err == nil {
		o.err = err
	}
}

// ParentClose says what becomes of a child when the function that has started it
// returns, or its branch or run is cancelled or ends.
type ParentClose uint8

const (
	// CancelChild cancels the child. It is the default of Go and Call.
	CancelChild ParentClose = iota
	// LeaveChild lets the child go on. Detach always does.
	LeaveChild
)

func (p ParentClose) applyChild(o *childOptions) { o.leave = p == LeaveChild }

// Go starts a run of the workflow as a child of this one and goes on at once. The
// start is part of the commit that records it, so no crash and no replay starts a
// second one. Await gives the result. The name of the workflow is that of the operation: give
// Named, or a Key, where one scope starts several.
//
// The child's ID is that of an option ID, or of IDFrom, and otherwise derived. If a run has a
// chosen ID, the rule is that of Start with UseExisting: the child is that run, even if another caller has
// started it, if it has the same workflow and input; otherwise the error is ErrExists. A run that
// another has started is not cancelled with this scope. Only where this run itself has started
// it, at the same place, before it was rewound or has continued as new, a new child takes the
// ID, and waits before for the end of the former one.
//
// A child ends with the function that has started it, like a branch: if that
// returns, or is cancelled, the child is cancelled too, unless it was started with
// LeaveChild or under WithoutCancel.
//
// The child's failure is the error of those that await it, and otherwise nobody's; with
// FailScope it fails the code that has started it.
//
// Errors: ErrCancelled, ErrExists, and ErrUnknownWorkflow if no process ever had its code. An input that
// does not encode or is too large stalls the run (see OnBug); with FailOnBug it is ErrInvalid
// or ErrTooLarge. So are bad options.
func (w *Workflow[In, Out]) Go(ctx Context, input In, opts ...ChildOption) (*RunFuture[Out], error) {
	inner, err := w.child(ctx, ctx.call(w.name, ""), input, opts, byGo)
	if err != nil {
		return nil, err
	}
	return &RunFuture[Out]{inner, w.name}, nil
}

// Call starts a run of the workflow as a child of this one, waits for its end and
// returns its result. Errors are those of Go and RunFuture.Await.
func (w *Workflow[In, Out]) Call(ctx Context, input In, opts ...ChildOption) (Out, error) {
	var zero Out
	call := ctx.call(w.name, "")
	inner, err := w.child(ctx, call, input, opts, byCall)
	if err != nil {
		return zero, err
	}
	other := &RunFuture[Out]{inner, w.name}
	return other.await(ctx, call)
}

// Detach starts a run of the workflow that is independent of this one and returns
// its ID. The start is part of the commit that records it. The run is shown as a
// child, goes on when this run ends, and its end notifies nobody; Await waits for
// it all the same. Errors are those of Go.
func (w *Workflow[In, Out]) Detach(ctx Context, input In, opts ...ChildOption) (runID string, err error) {
	inner, err := w.child(ctx, ctx.call(w.name, ""), input, opts, byDetach)
	if err != nil {
		return "", err
	}
	return ctx.branch.RunID(inner), nil
}

// usage is how a child is started.
type usage uint8

const (
	byGo usage = iota
	byCall
	byDetach
)

func (w *Workflow[In, Out]) child(
	ctx Context, call runner.Call, input In, opts []ChildOption, by usage,
) (*runner.RunFuture, error) {
	e, detached := ctx.env.engine, by == byDetach
	o := childOptions{as: w.name}
	for _, opt := range opts {
		opt.applyChild(&o)
	}
	data, err := ctx.encode("input of child "+o.as, input)
	if err != nil {
		return nil, err
	}
	headers := stored.Headers(ctx.env.run.Headers)
	if len(o.heads) > 0 {
		headers, err = o.heads.encode(headers)
	}
	if err == nil {
		headers, err = o.withPolicy(ctx.env.run, headers, detached)
	}
	if err = cmp.Or(o.policies.err, o.err, err); err != nil {
		return nil, fmt.Errorf("child %s: %w", o.as, err)
	}
	if o.id == "" && w.runID != nil {
		if o.id, err = w.RunID(input); err != nil {
			return nil, fmt.Errorf("child %s: %w", o.as, err)
		}
	}
	if o.id == ctx.env.run.ID {
		return nil, fmt.Errorf("child %s: expected an ID other than that of its parent, found %q: %w", o.as, o.id, ErrInvalid)
	}
	if detached && o.undo != nil {
		return nil, fmt.Errorf("child %s: Undo needs the child's end, and Detach does not wait for it: %w", o.as, ErrInvalid)
	}
	fails, err := o.fails.over(w.options.childFailure, by)
	if err != nil {
		return nil, fmt.Errorf("child %s: %w", o.as, err)
	}
	undo, err := ctx.compensation(o.undo, "child", o.as, reflect.TypeFor[Out]())
	if err != nil {
		return nil, err
	}
	call.Name, call.Key = o.as, o.key
	child := runner.Child{Call: call, Workflow: w.name, Input: data, Headers: headers, Tags: o.tags, Leave: o.leave,
		Detached: detached, Fails: fails, Undo: undo, ID: o.id, Find: e.findRun}
	if q := o.queue.over(w.options.queue); q != nil {
		if err := q.check(); err != nil {
			return nil, fmt.Errorf("child %s: %w", o.as, err)
		}
		child.Place = func(start *store.Start) error {
			p := q.place()
			p.Above = o.policies.Ancestors()
			return e.inner.Queues().EnqueueChild(start, p)
		}
	}
	inner, err := ctx.branch.StartChild(child)
	if err != nil {
		return nil, ctx.seen(err)
	}
	return inner, nil
}

// withPolicy returns the headers of a child with its policy. That has the ancestors of the child that are on a queue
// and may wait for it, unless the headers leave no room for them.
func (o *childOptions) withPolicy(parent *store.Run, headers []byte, detached bool) ([]byte, error) {
	if !detached {
		id := ""
		if parent.Queue != nil {
			id = parent.ID
		}
		o.policies.Above = stored.AboveChild(parent.Headers, id)
	}
	data, err := withPolicy(headers, o.policies.Policy)
	if o.policies.Above != "" && errors.Is(err, ErrTooLarge) {
		o.policies.Above = ""
		data, err = withPolicy(headers, o.policies.Policy)
	}
	return data, err
}

// findRun returns the run with the ID and its input, or nil.
func (e *Engine) findRun(ctx context.Context, runID string) (*store.Run, error) {
	run, ok, err := e.inner.Get(ctx, runID)
	if err != nil || !ok {
		return nil, err
	}
	return &run, nil
}

// Watch subscribes this run to the end of the run with the given ID and returns
// immediately. Await gives its result, of type Out, also if it has ended long ago; a
// run that does not exist gives ErrNotFound there. The name is that of the operation.
// A key tells it from others of the name; of several keys the last one counts.
//
// Errors: ErrCancelled, and ErrInvalid for an impossible ID or that of this run.
func Watch[Out any](ctx Context, name, runID string, key ...Key) (*RunFuture[Out], error) {
	return watch[Out](ctx, ctx.call(name, lastKey(key)), runID)
}

// lastKey returns the key that counts; "" is none.
func lastKey(keys []Key) string {
	if len(keys) == 0 {
		return ""
	}
	return string(keys[len(keys)-1])
}

// Await waits until the run with the ID has ended and returns its result, of type
// Out: any run of the store, of whatever workflow, before or after its end. The
// name is that of the operation. The error is a *RunError if the run has failed or
// was cancelled, ErrNotFound if there is none, and those of Watch.
func Await[Out any](ctx Context, name, runID string, opts ...WaitOption) (Out, error) {
	var zero Out
	o, err := waitOptionsOf(name, opts)
	if err != nil {
		return zero, err
	}
	call := ctx.call(o.as, o.key)
	other, err := watch[Out](ctx, call, runID)
	if err != nil {
		return zero, err
	}
	return other.wait(ctx, call, o)
}

func watch[Out any](ctx Context, call runner.Call, runID string) (*RunFuture[Out], error) {
	if err := store.CheckRunID(runID); err != nil {
		return nil, fmt.Errorf("await: %w: %w", err, ErrInvalid)
	}
	if err := checkNotEntity(runID); err != nil {
		return nil, fmt.Errorf("await: %w", err)
	}
	if runID == ctx.env.run.ID {
		return nil, fmt.Errorf("await run %q: a run cannot await its own end: %w", runID, ErrInvalid)
	}
	inner, err := ctx.branch.Watch(call, runID)
	if err != nil {
		return nil, ctx.seen(err)
	}
	return &RunFuture[Out]{inner, call.Name}, nil
}

// RunID returns the ID of the other run.
func (o *RunFuture[Out]) RunID(ctx Context) string {
	ctx.mustBeGiven()
	return ctx.branch.RunID(o.inner)
}

// Await waits until the run has ended and returns its result. Further calls
// return the same at once. The error is a *RunError if it has failed or was
// cancelled, ErrNotFound if a watched run does not exist, ErrCancelled if the
// branch is cancelled, or the child with the function that has started it. With
// Within a deadline that wins is ErrTimeout; the run goes on, and can be awaited
// again.
func (o *RunFuture[Out]) Await(ctx Context, opts ...WaitOption) (Out, error) {
	w, err := waitOptionsOf(o.name, opts)
	if err != nil {
		var zero Out
		return zero, err
	}
	return o.wait(ctx, ctx.call(w.as, w.key), w)
}

func (o *RunFuture[Out]) wait(ctx Context, call runner.Call, w waitOptions) (Out, error) {
	if !w.hasWithin {
		return o.await(ctx, call)
	}
	var zero Out
	call.Name, call.Key, call.Site = w.as, "deadline", 0
	won, err := ctx.branch.Select(call, []runner.Case{
		{Run: o.inner},
		{Timer: &runner.Timer{Call: call, At: ctx.branch.Now().Add(w.within)}},
	})
	switch {
	case err != nil:
		return zero, ctx.seen(err)
	case won.Index == 1:
		return zero, ErrTimeout
	}
	return o.await(ctx, call)
}

func (o *RunFuture[Out]) await(ctx Context, call runner.Call) (Out, error) {
	data, err := ctx.branch.AwaitRun(call, o.inner)
	if err != nil {
		var zero Out
		return zero, ctx.seen(err)
	}
	return decodeResult[Out](ctx, o.name, data)
}

// Case waits for the run to end; Await then returns at once.
func (o *RunFuture[Out]) Case() Case {
	return Case{build: func(Context) (runner.Case, error) { return runner.Case{Run: o.inner}, nil }}
}

// recordRun returns the error of a run that has not succeeded as it is stored.
func (t *recording) recordRun(e *RunError, depth int) *stored.Failure {
	end := stored.End{RunID: e.RunID, Status: e.Status, Reason: e.Reason}
	if e.Status == store.Failed {
		end.Output = stored.EncodeFailure(t.record(e.Err, depth))
	}
	return stored.RunFailure(&end)
}

// restoreRun is the inverse of recordRun.
func (t *errorTable) restoreRun(f *stored.Failure) error {
	link, err := f.Link()
	if err != nil {
		return &Failure{Code: f.Code, Message: f.Message, Cause: t.restore(f.Cause)}
	}
	out := &RunError{RunID: link.RunID, Status: link.Status, Reason: link.Reason, Err: t.restore(f.Cause)}
	switch link.Status {
	case store.Cancelled:
		out.Err = ErrCancelled
	case store.Stalled:
		out.Err = ErrStalled
	}
	return out
}
