package stet

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Message is a kind of message that is sent to one run, by name, and received by
// its code; elsewhere this is called a signal. It is declared once and used by
// both sides:
//
//	var Approved = stet.Message[Decision]("approved")
//
// A message is kept until it is received, also when it was sent before the run
// waits. Messages of one name are received in the order in which one process has sent
// them, each after the one before had returned. Those of two processes may overtake each
// other, also if one had sent its message before the other began to.
type Message[T any] string

// WaitOption is an option of a wait: Within, Named or a Key.
type WaitOption interface{ applyWait(*waitOptions) }

type waitOptions struct {
	within    time.Duration
	hasWithin bool
	as        string
	key       string
}

// Within gives a wait a deadline, counted from Now. A message that was sent by
// then wins over it. A deadline that wins is ErrTimeout.
type Within time.Duration

func (w Within) applyWait(o *waitOptions) { o.within, o.hasWithin = time.Duration(w), true }

// Named gives an operation a name of its own, instead of that of its message, topic or
// workflow: for two places in one scope that wait for the same, or start the same.
type Named string

func (n Named) applyWait(o *waitOptions) { o.as = string(n) }

func waitOptionsOf(name string, opts []WaitOption) (waitOptions, error) {
	o := waitOptions{as: name}
	for _, opt := range opts {
		opt.applyWait(&o)
	}
	if o.within < 0 {
		return o, fmt.Errorf("wait %q: expected a duration of 0 or more, found %s: %w", name, o.within, ErrInvalid)
	}
	return o, nil
}

// receive describes a wait for messages of the name.
func (o waitOptions) receive(
	ctx Context, call runner.Call, name string, most int, check runner.Check,
) runner.Receive {
	r := runner.Receive{Call: call, Names: []string{name}, Max: most, Check: check}
	if o.hasWithin {
		r.Deadline = ctx.branch.Now().Add(o.within)
	}
	return r
}

// Receive waits for a message and returns its value. One that does not decode into a T
// becomes a dead letter with the reason, is logged, and Receive waits for the next one.
// The error is ErrTimeout if a deadline given with Within wins, and ErrCancelled if the
// branch is cancelled.
func (m Message[T]) Receive(ctx Context, opts ...WaitOption) (T, error) {
	var zero T
	o, err := waitOptionsOf(string(m), opts)
	if err != nil {
		return zero, err
	}
	d := decodingOf[T](ctx)
	got, err := ctx.branch.Receive(o.receive(ctx, ctx.call(o.as, o.key), string(m), 1, d.check))
	if err != nil {
		return zero, ctx.seen(err)
	}
	return d.result(ctx, string(m), got[0].Value)
}

// ReceiveBatch waits for up to most messages and returns their values, oldest
// first. With Within it returns when most are there, or at the deadline those
// that were sent by then; without, as soon as there is any. Errors are those of
// Receive; most below 1 is ErrInvalid.
func (m Message[T]) ReceiveBatch(ctx Context, most int, opts ...WaitOption) ([]T, error) {
	o, err := waitOptionsOf(string(m), opts)
	if err != nil {
		return nil, err
	}
	if most < 1 {
		return nil, fmt.Errorf("receive %q: expected a batch of 1 or more, found %d: %w", string(m), most, ErrInvalid)
	}
	d := decodingOf[T](ctx)
	got, err := ctx.branch.Receive(o.receive(ctx, ctx.call(o.as, o.key), string(m), most, d.check))
	if err != nil {
		return nil, ctx.seen(err)
	}
	values := make([]T, len(got))
	for i := range got {
		if values[i], err = d.result(ctx, string(m), got[i].Value); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// Send sends a message to a run. It is durable when Send returns. With a
// SendKey, equal keys and values to one run give one delivery. Errors: ErrNotFound,
// ErrTerminal, ErrInboxFull, ErrTooLarge, ErrKeyUsed, and those of the store.
func (m Message[T]) Send(ctx context.Context, e *Engine, runID string, value T, opts ...SendOption) error {
	data, err := e.encodeValue("message "+string(m), value)
	if err != nil {
		return err
	}
	_, err = e.send(ctx, runID, string(m), data, opts)
	return err
}

// SendFrom sends a message from the code of a workflow to another run. The message is part
// of the commit that records it, so no crash and no replay sends it twice; and what is
// rewound was sent all the same. It has the run's headers, and those given. The name of
// the operation is "send " and the message's, if Named does not say otherwise; give a Key
// where one scope sends several.
//
// Whether the other run takes it is not known here: a message to a run that does not
// exist, or has ended, is dropped and logged. A run that must know sends from a step, with
// Send. Only ErrInboxFull is known: it is recorded as the operation's outcome, nothing is
// sent, and the code may try again later under another name or key. Errors: ErrCancelled,
// ErrInboxFull, ErrInvalid and ErrTooLarge.
func (m Message[T]) SendFrom(ctx Context, runID string, value T, opts ...PublishOption) error {
	ctx.mustBeGiven()
	o := publishOptions{as: "send " + string(m)}
	for _, opt := range opts {
		opt.applyPublish(&o)
	}
	if err := checkName("message", string(m)); err != nil {
		return err
	}
	if err := checkReceiver("message", string(m), runID); err != nil {
		return err
	}
	data, err := ctx.encode("message "+string(m), value)
	if err != nil {
		return err
	}
	_, err = ctx.send(&o, runID, store.Item{Kind: store.ItemMessage, Name: string(m), Value: data})
	return err
}

// send sends an item with the run's headers, and those given.
func (c Context) send(o *publishOptions, runID string, it store.Item) (key string, err error) {
	it.Headers = stored.Headers(c.env.run.Headers)
	for _, h := range o.headers {
		if it.Headers, err = h.encode(it.Headers); err != nil {
			return "", err
		}
	}
	key, err = c.branch.Send(runner.Send{
		Call: c.call(o.as, o.key), To: runID, Item: it, Find: admitting(c.env.engine, runID),
	})
	return key, c.seen(err)
}

// checkReceiver refuses the ID of a run to which code sends something, if none can have it.
func checkReceiver(what, name, runID string) error {
	if err := store.CheckRunID(runID); err != nil {
		return fmt.Errorf("%s %q: %w: %w", what, name, err, ErrInvalid)
	}
	if err := checkNotEntity(runID); err != nil {
		return fmt.Errorf("%s %q: %w", what, name, err)
	}
	return nil
}

// Delivery is a message with what accompanies it.
type Delivery[T any] struct {
	Value   T
	Sent    time.Time `json:",omitzero"`
	Headers Headers   // that the sender has given, or of the run whose step has sent it
}

// ReceiveDelivery is Receive for code that wants to know more of the message than
// its value.
func (m Message[T]) ReceiveDelivery(ctx Context, opts ...WaitOption) (Delivery[T], error) {
	o, err := waitOptionsOf(string(m), opts)
	if err != nil {
		return Delivery[T]{}, err
	}
	d := decodingOf[T](ctx)
	got, err := ctx.branch.Receive(o.receive(ctx, ctx.call(o.as, o.key), string(m), 1, d.check))
	if err != nil {
		return Delivery[T]{}, ctx.seen(err)
	}
	value, err := d.result(ctx, string(m), got[0].Value)
	headers, _ := decodeHeaders(got[0].Headers) // were written by encode
	return Delivery[T]{value, got[0].Sent.Time(), headers}, err
}

// SendOption is an option of Send and of an update's Call: a SendKey, Headers, or, of Send
// and SendTx, ExpiresIn.
type SendOption interface{ applySend(*sendOptions) }

type sendOptions struct {
	key     *SendKey
	headers []Headers
	stored  []byte     // headers
	expires *ExpiresIn // nil: never
}

// ExpiresIn lets a message expire so long after it was sent, by the store's clock. One that
// has expired when its run would receive it becomes a dead letter with the reason, and the
// run waits for the next one. Until then it stays in the inbox, and counts there. It is for
// messages: a topic has an Expiry. ErrInvalid: it is not positive.
type ExpiresIn time.Duration

func (d ExpiresIn) applySend(o *sendOptions) { o.expires = &d }

// expiring adds the expiry of a message to its headers.
func (o *sendOptions) expiring(name string) (err error) {
	if o.expires == nil {
		return nil
	}
	d := time.Duration(*o.expires)
	if d <= 0 {
		return fmt.Errorf("message %q: expected an ExpiresIn of more than 0, found %s: %w", name, d, ErrInvalid)
	}
	if o.stored, err = stored.PutExpiry(o.stored, d); err == nil && len(o.stored) > store.MaxHeaders {
		err = fmt.Errorf("headers have %d bytes, more than the limit of %d: %w", len(o.stored), store.MaxHeaders, ErrTooLarge)
	}
	return err
}

// neverExpires refuses an expiry of what is no message.
func (o *sendOptions) neverExpires(what, name string) error {
	if o.expires == nil {
		return nil
	}
	return fmt.Errorf("%s %q: expected no ExpiresIn, which is for messages: %w", what, name, ErrInvalid)
}

// sendOptionsOf returns what the options say. A message that the step of a run sends has the
// run's headers, with those of the observer over them.
func sendOptionsOf(ctx context.Context, opts []SendOption, observed Headers) (sendOptions, error) {
	o := sendOptions{stored: observed.overStored(headersOf(ctx))}
	for _, opt := range opts {
		opt.applySend(&o)
	}
	for _, h := range o.headers {
		var err error
		if o.stored, err = h.encode(o.stored); err != nil {
			return o, err
		}
	}
	return o, nil
}

// SendKey is the idempotency key of a message, event or update: 1 to 255 bytes. Of a message it is unique for the name
// in the run's inbox, of an event in its topic, of an update in the run's inbox. The same key with another value is
// ErrKeyUsed.
type SendKey string

func (k SendKey) applySend(o *sendOptions) { o.key = &k }

func (k SendKey) check(what, name string) error {
	if n := len(k); n == 0 || n > 255 {
		return fmt.Errorf("%s %q: expected a key of 1 to 255 bytes, found %d: %w", what, name, n, ErrInvalid)
	}
	return nil
}

// send puts an encoded message into a run's inbox. again reports that one with its key is there,
// or was.
func (e *Engine) send(
	ctx context.Context, runID, name string, value []byte, opts []SendOption,
) (again bool, err error) {
	headers, done := e.observation.send(ctx, SendInfo{RunID: runID, Name: name})
	if done != nil {
		defer func() { done(err) }()
	}
	item, err := sendItem(ctx, name, value, opts, headers)
	if err != nil {
		return false, err
	}
	answer, err := e.put(ctx, runID, item)
	if errors.Is(err, errDuplicate) {
		return true, e.sameMessage(ctx, runID, answer.Run.No, item)
	}
	return answer.Repeated, err
}

// sameMessage returns ErrKeyUsed if the message with the ID of item is another one. A fork, and a run that was rewound
// after its inbox was swept, have messages whose origin is not known: these count as the same.
func (e *Engine) sameMessage(ctx context.Context, runID string, run store.RunNo, item *store.Item) error {
	found, err := e.store.Inbox(ctx, run, item.ID)
	if err != nil {
		return fmt.Errorf("message %q to run %q: %w", item.Name, runID, err)
	}
	if len(found) > 0 && found[0].Origin != "" && found[0].Origin != item.Origin {
		return fmt.Errorf("message %q to run %q: %w", item.Name, runID, ErrKeyUsed)
	}
	return nil
}

func sendItem(
	ctx context.Context, name string, value []byte, opts []SendOption, observed Headers,
) (*store.Item, error) {
	o, err := sendOptionsOf(ctx, opts, observed)
	if err == nil {
		err = o.expiring(name)
	}
	if err != nil {
		return nil, err
	}
	item, err := messageItem(name, value, o.key)
	if err == nil {
		item.Headers = o.stored
	}
	return item, err
}

// messageItem makes a message; a nil key is none.
func messageItem(name string, value []byte, key *SendKey) (*store.Item, error) {
	if err := checkName("message", name); err != nil {
		return nil, err
	}
	origin := uuid.NewString()
	id := origin
	if key != nil {
		if err := key.check("message", name); err != nil {
			return nil, err
		}
		// By its origin the store tells a repeat from another message.
		id, origin = itemID("m", fmt.Sprintf("%d:%s:%s", len(name), name, *key)), requestOrigin(name, value)
	}
	return &store.Item{Kind: store.ItemMessage, Name: name, ID: id, Origin: origin, Value: value}, nil
}

// itemID returns the ID of an inbox item that is known by a text: the text, or
// its hash if the store would not take it as it is.
func itemID(kind, text string) string {
	id := kind + ":" + text
	if store.CheckRunID(id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(text))
	return kind + "#" + base64.RawURLEncoding.EncodeToString(sum[:])
}
