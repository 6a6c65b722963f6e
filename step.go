package stet

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/plain"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
)

// StepOption is an option of Step and Do: a Retry, a Key, an Undo, a Permit, or PerNode.
type StepOption interface{ applyStep(*stepOptions) }

type stepOptions struct {
	retry  Retry
	key    string
	undo   *undo
	permit *Permit
	local  *PerNode
	result reflect.Type // nil: none

	transaction func() transaction // of an attempt of a TxStep; nil: none
}

// Key makes an operation known by a key instead of by its position among equal
// names, so that calls whose order may change keep their records. 1 to 128
// bytes; the pair of name and key is unique in its scope.
type Key string

func (k Key) applyStep(o *stepOptions)       { o.key = string(k) }
func (k Key) applyGo(o *goOptions)           { o.key = string(k) }
func (k Key) applyChild(o *childOptions)     { o.key = string(k) }
func (k Key) applyWait(o *waitOptions)       { o.key = string(k) }
func (k Key) applyPublish(o *publishOptions) { o.key = string(k) }

// Step executes fn outside the journal and records what it returns. Once its
// success is durable fn is never executed for this operation again; before that
// it is executed at least once per attempt, so make it safe to repeat with
// IdempotencyKey.
//
// fn gets a context that ends when the attempt's time is over, when the branch
// is cancelled, and when this node must stop. An error that fn returns after the node has
// stopped it counts for nothing, also a Permanent one: fn is executed again elsewhere.
// A success counts. The value that Step returns has
// passed the codec, live as in a replay. An error is a *StepError with the
// causes, or ErrCancelled.
func Step[T any](ctx Context, name string, fn func(context.Context) (T, error), opts ...StepOption) (T, error) {
	ctx.needs(fn != nil, "step", name)
	o := stepOptionsOf(opts)
	o.result = reflect.TypeFor[T]()
	data, made, err := ctx.step(ctx.call(name, o.key), o, bodyOf(fn))
	if err != nil {
		var zero T
		return zero, err
	}
	if v, ok := made.(T); ok {
		return v, nil
	}
	return decodeResult[T](ctx, name, data)
}

// Do is Step for a function without a value.
func Do(ctx Context, name string, fn func(context.Context) error, opts ...StepOption) error {
	ctx.needs(fn != nil, "step", name)
	o := stepOptionsOf(opts)
	body := &doBody{fn: fn}
	body.is = body
	_, _, err := ctx.step(ctx.call(name, o.key), o, &body.stepBody)
	return err
}

func stepOptionsOf(opts []StepOption) stepOptions {
	if len(opts) == 0 {
		return stepOptions{} // that which options change is on the heap
	}
	var o stepOptions
	for _, opt := range opts {
		opt.applyStep(&o)
	}
	return o
}

// step is the untyped part of Step. It returns the encoded result and, if the body ran in
// this process and its value survives a round trip unchanged, the value itself; otherwise
// nil, and the caller decodes.
func (c Context) step(call runner.Call, o stepOptions, body *stepBody) ([]byte, any, error) {
	e := c.env.engine
	retry := o.retry.over(c.env.retry)
	if err := retry.check("Retry"); err != nil {
		return nil, nil, err
	}
	compensation, err := c.compensation(o.undo, "step", call.Name, o.result)
	if err != nil {
		return nil, nil, err
	}
	place, err := o.permit.place()
	if err != nil {
		return nil, nil, err
	}
	if err := o.local.check(); err != nil {
		return nil, nil, err
	}
	body.engine, body.name, body.transaction, body.result, body.worth = e, call.Name, o.transaction, o.result, retry.If
	spec := runner.Step{Call: call, Func: body.execute, Policy: retry.policy(e.errors), Undo: compensation,
		Whole: o.transaction != nil, Permit: place}
	if o.local != nil {
		spec.Kind, spec.Limit = o.local.Name, o.local.Limit
	}
	data, err := c.branch.Step(spec)
	if value := body.madeAs(data); value != nil && err == nil {
		return data, value, nil
	}
	return data, nil, c.seen(err)
}

// stepBody is what the attempts of a step have in common.
type stepBody struct {
	is interface { // what the body is a part of
		call(context.Context) (any, error)
	}
	engine      *Engine
	name        string
	transaction func() transaction // nil: none
	result      reflect.Type       // nil: none
	worth       func(error) bool   // of another attempt; nil: any error is

	mu   sync.Mutex
	last made // by the attempt that has ended last, which may not be the one that counts
}

// bodyOf returns the body of a step that calls fn, in one piece of memory.
func bodyOf[T any](fn func(context.Context) (T, error)) *stepBody {
	b := &typedBody[T]{fn: fn}
	b.is = b
	return &b.stepBody
}

type typedBody[T any] struct {
	stepBody
	fn func(context.Context) (T, error)
}

func (b *typedBody[T]) call(ctx context.Context) (any, error) { return b.fn(ctx) }

// doBody is the body of a step without a value.
type doBody struct {
	stepBody
	fn func(context.Context) error
}

func (b *doBody) call(ctx context.Context) (any, error) { return none{}, b.fn(ctx) }

// made is a value that a body has made, and its encoding.
type made struct {
	value any
	data  []byte
}

// madeAs returns the value that the last attempt has encoded as data; nil: it has made other data.
func (s *stepBody) madeAs(data []byte) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(data) > 0 && len(s.last.data) > 0 && &data[0] == &s.last.data[0] {
		return s.last.value
	}
	return nil
}

// execute is one attempt.
func (s *stepBody) execute(ctx context.Context, _ *runner.Body) runner.BodyResult {
	e := s.engine
	var tx transaction
	if s.transaction != nil {
		tx = s.transaction()
		ctx = context.WithValue(ctx, transactionKey{}, tx)
		defer func() {
			if err := tx.undo(ctx); err != nil {
				e.log.Warn("rolling back a step's transaction", "step", s.name, "error", err)
			}
		}()
	}
	value, err := s.callAround(ctx)
	if v, ok := steps.AttemptOf(ctx).Replaced(); ok {
		value = v
	}
	if err != nil {
		return e.stepFailed(err, s.worth)
	}
	data, err := e.codecs.encode(value)
	if err != nil {
		return runner.BodyResult{Failure: encodingFailure(err), Final: true, Unrecorded: true}
	}
	if tx != nil {
		result, err := tx.record(ctx, data)
		if err != nil {
			return e.stepFailed(err, s.worth)
		}
		return result
	}
	if e.codecs[0] == JSON && reflect.TypeOf(value) == s.result && plain.SurvivesJSON(value) {
		s.mu.Lock()
		s.last = made{value, data}
		s.mu.Unlock()
	}
	return runner.BodyResult{Value: data}
}

// callAround calls the function inside Config.Around.
func (s *stepBody) callAround(ctx context.Context) (value any, err error) {
	if s.engine.wrap == nil {
		return s.is.call(ctx)
	}
	err = around(ctx, s.engine, func(ctx context.Context) (err error) {
		value, err = s.is.call(ctx)
		return err
	})
	return value, err
}

// stepFailed is failed for the body of a step, which may request to undo the run.
func (e *Engine) stepFailed(err error, worth func(error) bool) runner.BodyResult {
	result := e.failed(err, worth)
	if asksRollback(err) {
		marked := *result.Failure
		marked.Rollback = true
		result.Failure, result.Final, result.Marked = &marked, true, true
	}
	return result
}

// isPermanent reports whether err is marked as not worth a retry, or an error that it wraps or joins.
func isPermanent(err error) bool {
	return anyError(err, func(err error) bool {
		switch err.(type) {
		case *permanent, *continuation:
			return true
		}
		return false
	})
}

// decodeResult decodes a recorded value for workflow code. One that is no T stops the run;
// with FailOnBug it is an error of the operation.
func decodeResult[T any](ctx Context, name string, data []byte) (T, error) {
	v, err := decodeAs[T](ctx.env.engine.codecs, data)
	if err != nil {
		ctx.branch.Undecodable(undecodable[T]("result of "+name, data, err), false)
		return v, &Failure{Code: stored.CodeEncoding, Message: "result of " + name + ": " + err.Error(), Cause: err}
	}
	return v, nil
}

// IdempotencyKey returns the key for outbound calls of the step that ctx belongs
// to: the same in every attempt, replay and retry, on every node, and new after
// a rewind or continue-as-new. It is 32 hexadecimal digits. Outside a step it
// returns "".
func IdempotencyKey(ctx context.Context) string {
	if a := steps.AttemptOf(ctx); a != nil {
		return a.Key()
	}
	return ""
}

// Attempt returns the number of the attempt that ctx belongs to, from 1. Outside
// a step it returns 0.
func Attempt(ctx context.Context) int {
	if a := steps.AttemptOf(ctx); a != nil {
		return a.Number()
	}
	return 0
}

// StepInfo identifies the attempt that a step's context belongs to.
type StepInfo struct {
	RunID    string
	Workflow string
	Location string
	// Name is that of the step, without the scopes that it stands in, its key and its
	// occurrence. That of a compensation is "undo " and the name of its step.
	Name    string
	Attempt int     // from 1
	Node    string  // of the process that executes it: see Config.Node
	Headers Headers // of the run
	// Resumed is as in RunEvent.
	Resumed time.Time `json:",omitzero"`

	attempt *steps.Attempt
}

// RunKey returns the Key of the step's run: see RunEvent. It is zero if the StepInfo is not
// from the engine.
func (s StepInfo) RunKey() (key [16]byte) {
	if s.attempt == nil {
		return key
	}
	return s.attempt.RunKey()
}

// StepOf returns what ctx belongs to; ok is false outside a step.
func StepOf(ctx context.Context) (info StepInfo, ok bool) {
	a := steps.AttemptOf(ctx)
	if a == nil {
		return StepInfo{}, false
	}
	return stepInfo(a), true
}

func stepInfo(a *steps.Attempt) StepInfo {
	return StepInfo{
		RunID: a.RunID, Workflow: a.Workflow, Location: a.Location(), Name: a.Name(), Attempt: a.Number(),
		Node: a.Node(), Headers: decodedHeaders(a.Headers), Resumed: a.Resumed().Time(), attempt: a,
	}
}

// EngineOf returns the engine that executes the step to which ctx belongs, so that a body
// can start, send and read without a variable that is set after the definition. It is nil
// outside a step.
func EngineOf(ctx context.Context) *Engine {
	if steps.AttemptOf(ctx) == nil {
		return nil
	}
	e, _ := ctx.Value(engineKey{}).(*Engine)
	return e
}

// engineKey is the key of the engine in the contexts that it makes.
type engineKey struct{}

// Heartbeat says that the step is alive: the attempt's timeout begins again. A
// non-nil detail is recorded, once a second the last one, and with the end of an attempt
// that fails, and is there in the next attempt (LastDetail). It is encoded as JSON; an error
// is that of the encoding, for which the run stalls if the step returns it (see OnBug).
// Outside a step it does nothing.
func Heartbeat(ctx context.Context, detail any) error {
	if steps.AttemptOf(ctx) == nil {
		return nil
	}
	var data []byte
	if detail != nil {
		var err error
		if data, err = (codecs{JSON}).encode(detail); err != nil {
			return &unrecorded{fmt.Errorf("detail of a heartbeat: %w", err)}
		}
	}
	steps.Beat(ctx, data)
	return nil
}

// LastDetail decodes the last recorded heartbeat detail of the former attempts.
// ok is false if there is none. A detail that is no T is an error; the run stalls if the
// step returns it (see OnBug).
func LastDetail[T any](ctx context.Context) (detail T, ok bool, err error) {
	a := steps.AttemptOf(ctx)
	if a == nil || a.Detail() == nil {
		return detail, false, nil
	}
	if detail, err = decodeAs[T](codecs{JSON}, a.Detail()); err != nil {
		err = &misfit{undecodable[T]("detail of the last heartbeat", a.Detail(), err), err}
	}
	return detail, err == nil, err
}
