package stet

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Update is a message to one run that expects an answer. It is declared once and
// used by both sides:
//
//	var SetLimit = stet.Update[Limit, Limit]("set-limit")
//
// The caller waits for the answer with Call. The run receives requests like
// messages, first in, first out, checks each, and answers or rejects it; the
// answer is durable before the caller sees it.
type Update[Req, Resp any] string

// Request is an update that a run has received.
type Request[Req, Resp any] struct {
	Value Req

	name string
	no   store.ItemNo
}

// Receive waits for a request. One that cannot be decoded is rejected, and the
// next one waited for. Options and other errors are those of Message.Receive.
// Answer, Reject or Fail each request: one that is not answered when the run ends,
// or continues as new, fails with ErrUnanswered.
func (u Update[Req, Resp]) Receive(ctx Context, opts ...WaitOption) (*Request[Req, Resp], error) {
	o, err := waitOptionsOf(string(u), opts)
	if err != nil {
		return nil, err
	}
	return u.receive(ctx, o.receive(ctx, ctx.call(o.as, o.key), runner.UpdateBox(string(u)), 1, nil))
}

func (u Update[Req, Resp]) receive(ctx Context, wait runner.Receive) (*Request[Req, Resp], error) {
	for {
		got, err := ctx.branch.Receive(wait)
		if err != nil {
			return nil, ctx.seen(err)
		}
		if r, err := u.request(ctx, &got[0]); err == nil {
			return r, nil
		}
	}
}

// request decodes what was received. What cannot be decoded is rejected.
func (u Update[Req, Resp]) request(ctx Context, m *stored.Message) (*Request[Req, Resp], error) {
	r := &Request[Req, Resp]{name: string(u), no: m.No}
	value, err := decodeAs[Req](ctx.env.engine.codecs, m.Value)
	if err != nil {
		ctx.branch.Misread(undecodable[Req]("request of update "+string(u), m.Value, err))
		err = &Failure{Code: stored.CodeEncoding, Message: "result of " + string(u) + ": " + err.Error(), Cause: err}
		return nil, errors.Join(err, r.Reject(ctx, err))
	}
	r.Value = value
	return r, nil
}

// Case waits for a request in a Select and stores it in into if it wins. If it
// loses no request is consumed. One that cannot be decoded wins too: it is
// rejected, into is nil, and Select returns the error.
func (u Update[Req, Resp]) Case(into **Request[Req, Resp], opts ...WaitOption) Case {
	return Case{
		build: func(ctx Context) (runner.Case, error) {
			o, err := waitOptionsOf(string(u), opts)
			if err != nil {
				return runner.Case{}, err
			}
			call := runner.Call{Name: o.as, Key: o.key, Shield: ctx.shield}
			r := o.receive(ctx, call, runner.UpdateBox(string(u)), 1, nil)
			return runner.Case{Receive: &r}, nil
		},
		won: func(ctx Context, s runner.Selected) (err error) {
			*into, err = u.request(ctx, &s.Messages[0])
			return err
		},
	}
}

// Serve receives requests and answers each with what fn returns, one after the
// other, until the branch is cancelled; it returns ErrCancelled then. Begin it in
// a branch of its own (Go): it ends with the function that has begun that branch.
// A request for which accept returns an error is rejected with it; nil accepts
// all. An error of fn fails the request, except ErrCancelled, which ends Serve.
func (u Update[Req, Resp]) Serve(
	ctx Context, accept func(Context, Req) error, fn func(Context, Req) (Resp, error),
) error {
	call := ctx.call(string(u), "")
	for {
		r, err := u.receive(ctx, runner.Receive{Call: call, Names: []string{runner.UpdateBox(string(u))}, Max: 1})
		if err != nil {
			return err
		}
		if err := r.serve(ctx, accept, fn); err != nil {
			return err
		}
	}
}

func (r *Request[Req, Resp]) serve(
	ctx Context, accept func(Context, Req) error, fn func(Context, Req) (Resp, error),
) error {
	if accept != nil {
		if err := accept(ctx, r.Value); isCancelled(err) {
			return err
		} else if err != nil {
			return r.Reject(ctx, err)
		}
	}
	resp, err := fn(ctx, r.Value)
	switch {
	case isCancelled(err):
		return err
	case err != nil:
		return r.Fail(ctx, err)
	}
	if err := r.Answer(ctx, resp); err != nil {
		return r.Fail(ctx, err)
	}
	return nil
}

// Answer answers the request. The caller sees it once the commit that records
// what led to it is durable. It waits for nothing and works in a cancelled branch.
// Only the first of Answer, Reject and Fail counts. An answer that does not encode or is too
// large stalls the run (see OnBug); with FailOnBug it is ErrInvalid or ErrTooLarge, and the
// request is still unanswered.
func (r *Request[Req, Resp]) Answer(ctx Context, resp Resp) error {
	ctx.mustBeGiven()
	data, err := ctx.env.engine.codecs.encode(resp)
	if err != nil {
		return ctx.unencodable(fmt.Errorf("answer to update %q: %w: %w", r.name, err, ErrInvalid))
	}
	return r.reply(ctx, stored.EncodeAnswer(data, nil, false))
}

// Reject says that the request is not accepted and that nothing was done. The
// caller gets an error that wraps ErrRefused and the reason. A nil reason is
// ErrInvalid. Otherwise it is like Answer.
func (r *Request[Req, Resp]) Reject(ctx Context, reason error) error {
	return r.failed(ctx, reason, true)
}

// Fail says that carrying out the request has failed. The caller gets the reason,
// as it crosses the journal. A nil reason is ErrInvalid. Otherwise it is like
// Answer.
func (r *Request[Req, Resp]) Fail(ctx Context, reason error) error {
	return r.failed(ctx, reason, false)
}

func (r *Request[Req, Resp]) failed(ctx Context, reason error, rejected bool) error {
	if reason == nil {
		return fmt.Errorf("answer to update %q: expected an error, found nil: %w", r.name, ErrInvalid)
	}
	ctx.mustBeGiven()
	return r.reply(ctx, stored.EncodeAnswer(nil, ctx.env.engine.errors.record(reason), rejected))
}

func (r *Request[Req, Resp]) reply(ctx Context, answer []byte) error {
	return ctx.seen(ctx.branch.AnswerUpdate(runner.Call{Name: r.name}, r.no, answer))
}

// Call sends a request to a run and waits for the answer. The request is durable
// at once. With a SendKey equal keys to one run are one request: a second Call
// with an equal request gets the same answer, also after the run has ended; with
// another request it is ErrKeyUsed.
//
// Errors: what the run has failed the request with; ErrRefused with the reason if
// it has rejected it; ErrUnanswered if the run has ended without an answer, or continued as
// new after it had received the request and before it answered, with the *RunError of a run
// that has failed; ErrPending if ctx ends before, the request standing; ErrNotFound,
// ErrTerminal, ErrTooLarge, and those of the store.
func (u Update[Req, Resp]) Call(
	ctx context.Context, e *Engine, runID string, req Req, opts ...SendOption,
) (Resp, error) {
	var zero Resp
	raw, err := e.Runs().Update(ctx, runID, string(u), req, opts...)
	if err != nil {
		return zero, err
	}
	resp, err := decodeAs[Resp](e.codecs, raw.data)
	if err != nil {
		return zero, fmt.Errorf("answer to update %q of run %q: %w", string(u), runID, err)
	}
	return resp, nil
}

// SendFrom sends a request from the code of a workflow to another run. Like a message that
// Message.SendFrom sends it is part of the commit that records it, has the run's headers, and
// is dropped and logged if the other run does not exist or has ended. The name of the operation
// is "send " and the update's, if Named does not say otherwise; give a Key where one scope sends
// several.
//
// SendFrom waits for no answer. It returns the key of the request: Call with that key and an equal
// request gives the answer, whenever it is made. So a run that needs the answer calls from a step
// later, with EngineOf. Errors: ErrCancelled, ErrInboxFull, ErrInvalid and ErrTooLarge.
func (u Update[Req, Resp]) SendFrom(ctx Context, runID string, req Req, opts ...PublishOption) (SendKey, error) {
	ctx.mustBeGiven()
	o := publishOptions{as: "send " + string(u)}
	for _, opt := range opts {
		opt.applyPublish(&o)
	}
	if err := checkName("update", string(u)); err != nil {
		return "", err
	}
	if err := checkReceiver("update", string(u), runID); err != nil {
		return "", err
	}
	data, err := ctx.encode("update "+string(u), req)
	if err != nil {
		return "", err
	}
	key, err := ctx.send(&o, runID, store.Item{
		Kind: store.ItemUpdate, Name: string(u), ID: itemID("u", ""), Origin: requestOrigin(string(u), data), Value: data,
	})
	return SendKey(key), err
}

// requestOrigin is the Origin of a request that has a key: it tells it from another request.
func requestOrigin(name string, value []byte) string {
	sum := sha256.Sum256(append([]byte(name+"\x00"), value...))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Update is Update.Call for an update whose types are not known.
func (r Runs) Update(
	ctx context.Context, runID, name string, req any, opts ...SendOption,
) (raw RawValue, err error) {
	data, err := r.engine.encodeValue("update "+name, req)
	if err != nil {
		return RawValue{}, err
	}
	headers, done := r.engine.observation.send(ctx, SendInfo{RunID: runID, Name: name, Update: true})
	if done != nil {
		defer func() { done(err) }()
	}
	item, err := r.engine.updateItem(ctx, name, data, opts, headers)
	if err != nil {
		return RawValue{}, err
	}
	answer, err := r.engine.put(ctx, runID, item)
	if errors.Is(err, errDuplicate) {
		return RawValue{}, fmt.Errorf("update %q of run %q: %w", name, runID, ErrKeyUsed)
	}
	if err != nil {
		return RawValue{}, err
	}
	verdict, err := r.engine.inner.Waiters().Answer(ctx, answer.Run.No, item.ID)
	if err != nil {
		return RawValue{}, fmt.Errorf("update %q of run %q: %w", name, runID, err)
	}
	raw, err = r.engine.answered(ctx, runID, verdict)
	if err != nil {
		return RawValue{}, fmt.Errorf("update %q of run %q: %w", name, runID, err)
	}
	return raw, nil
}

// updateItem makes a request. One with a key is recognised by the request.
func (e *Engine) updateItem(
	ctx context.Context, name string, value []byte, opts []SendOption, observed Headers,
) (*store.Item, error) {
	if err := checkName("update", name); err != nil {
		return nil, err
	}
	o, err := sendOptionsOf(ctx, opts, observed)
	if err == nil {
		err = o.neverExpires("update", name)
	}
	if err != nil {
		return nil, err
	}
	id := uuid.NewString()
	item := &store.Item{Kind: store.ItemUpdate, Name: name, ID: id, Origin: id, Value: value, Headers: o.stored}
	if o.key != nil {
		if err := o.key.check("update", name); err != nil {
			return nil, err
		}
		item.ID, item.Origin = itemID("u", string(*o.key)), requestOrigin(name, value)
	}
	return item, nil
}

// answered returns what the answer to an update says.
func (e *Engine) answered(ctx context.Context, runID string, verdict []byte) (RawValue, error) {
	if verdict == nil {
		return RawValue{}, fmt.Errorf("it is no longer kept: %w", ErrNotFound)
	}
	if err := payload.Readable(verdict); err != nil {
		return RawValue{}, err
	}
	value, failure, rejected, answered, err := stored.DecodeAnswer(verdict)
	switch {
	case err != nil:
		return RawValue{}, err
	case !answered:
		return RawValue{}, unanswered(ctx, e, runID)
	case rejected:
		return RawValue{}, fmt.Errorf("%w: %w", ErrRefused, e.errors.recorded(failure))
	case failure != nil:
		return RawValue{}, e.errors.recorded(failure)
	}
	return RawValue{value, e.codecs}, nil
}

// unanswered is the error of a request that nobody will answer.
func unanswered(ctx context.Context, e *Engine, runID string) error {
	run, ok, err := e.inner.Get(ctx, runID)
	switch {
	case err != nil || !ok:
		return ErrUnanswered
	case !run.Status.Terminal():
		return fmt.Errorf("%w: the run continued as new", ErrUnanswered)
	}
	if cause := e.runError(&run); cause != nil {
		return fmt.Errorf("%w: %w", ErrUnanswered, cause)
	}
	return fmt.Errorf("%w: run %q is %s", ErrUnanswered, runID, run.Status)
}
