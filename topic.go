package stet

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Topic is a kind of event that is published to the runs that wait for it. It is
// declared once and used by both sides:
//
//	var Orders = stet.Topic[Order]{Name: "orders", Mode: stet.Consumed}
//
// An event is not addressed to a run: runs wait for it with Receive, before it is
// published or after, and the topic decides which of them get it. An event that no
// run got stays with the topic, up to its Expiry and Retention.
//
// The settings count as they are where an event is published; Visible counts where
// it is received. In every field but Name 0 is the default.
type Topic[T any] struct {
	// Name is the topic's, 1 to 64 bytes. All topics of one name are one.
	Name string
	// Mode says which runs get an event. Default: Broadcast.
	Mode TopicMode
	// Expiry is how long an event may be given to a run after it was published.
	// Default: as long as it is retained.
	Expiry time.Duration
	// Retention is how long events are kept, whatever their Expiry: of broadcast
	// ones all, of consumed ones those that nobody has got. Default 7 days; None:
	// for ever.
	Retention time.Duration
	// Cap bounds the events that some run may still want: while there are so many,
	// Publish is refused. A broadcast event that all runs have had that receive from
	// the topic does not count; while more than Cap are kept, the oldest of these is
	// dropped. Default 10,000; None: without limit.
	Cap int
	// CapBytes bounds the same events by their bytes, as they are stored, with their
	// headers, and those with them that are on their way to a run. It bounds the memory that
	// the topic needs in the process that owns it: while there is as much, Publish is
	// refused, and the oldest broadcast event that all runs have had is dropped while more is
	// kept. One event may exceed it. With Payloads.Objects a large value counts as its
	// reference. Default 64 MiB; None: without limit.
	CapBytes int64
	// Visible says which events a wait may get. Default: SinceRun.
	Visible Visibility
}

// TopicMode says which runs get an event.
type TopicMode uint8

const (
	// Broadcast: every run that may see it, each once and in order. Two waits of one
	// run get different events.
	Broadcast TopicMode = iota
	// Consumed: exactly one run, that which waits longest of those that may see it.
	// The event is consumed with the commit in which the run takes it; if the run's
	// wait ends otherwise, it takes its old place at the topic.
	Consumed
)

// String returns "broadcast" or "consumed".
func (m TopicMode) String() string { return m.inner().String() }

// ParseTopicMode is the inverse of String. The error wraps ErrInvalid.
func ParseTopicMode(name string) (TopicMode, error) {
	var m TopicMode
	err := m.UnmarshalText([]byte(name))
	return m, err
}

func (m TopicMode) inner() event.Mode { return event.Mode(m) + event.Broadcast }

// Visibility says which events a wait may get, besides that a run gets no event
// twice.
type Visibility uint8

const (
	// SinceRun: those that were published since the run was started, whatever its
	// incarnation. A fork counts from when the run that it was forked from first ran.
	SinceRun Visibility = iota
	// SinceWait: those that were published since the wait began, by Now.
	SinceWait
	// Retained: all that the topic keeps.
	Retained
)

var visibilities = map[Visibility]runner.Visibility{SinceRun: runner.SinceRun, SinceWait: runner.SinceWait,
	Retained: runner.Retained}

const (
	defaultTopicRetention = 7 * 24 * time.Hour
	defaultTopicCap       = 10_000
	defaultTopicCapBytes  = 64 << 20
)

// settings returns the topic's settings as they are stored.
func (t Topic[T]) settings() (event.Settings, error) {
	bad := func(field string, expected string, found any) error {
		return fmt.Errorf("topic %q: field %s: expected %s, found %v: %w", t.Name, field, expected, found, ErrInvalid)
	}
	s := event.Settings{
		Mode: t.Mode.inner(), Cap: t.Cap, CapBytes: t.CapBytes,
		Expiry: store.Delay(t.Expiry.Microseconds()), Retention: store.Delay(t.Retention.Microseconds()),
	}
	if err := checkName("topic", t.Name); err != nil {
		return s, err
	}
	switch {
	case t.Mode > Consumed:
		return s, bad("Mode", "Broadcast or Consumed", uint8(t.Mode))
	case t.Expiry < 0 && t.Expiry != None:
		return s, bad("Expiry", "a positive duration, or None", t.Expiry)
	case t.Retention < 0 && t.Retention != None:
		return s, bad("Retention", "a positive duration, or None", t.Retention)
	case t.Cap < None:
		return s, bad("Cap", "a positive number, or None", t.Cap)
	case t.CapBytes < int64(None):
		return s, bad("CapBytes", "a positive number, or None", t.CapBytes)
	}
	if s.Cap == 0 {
		s.Cap = defaultTopicCap
	}
	if s.CapBytes == 0 {
		s.CapBytes = defaultTopicCapBytes
	}
	if t.Expiry <= 0 {
		s.Expiry = event.Never
	} else if s.Expiry == 0 {
		s.Expiry = 1 // less than the resolution
	}
	switch {
	case t.Retention == 0:
		s.Retention = store.Delay(defaultTopicRetention.Microseconds())
	case t.Retention == None:
		s.Retention = event.Never
	case s.Retention == 0:
		s.Retention = 1
	}
	return s, nil
}

// Publish publishes an event and returns its ID. It is durable when Publish
// returns. With a SendKey, equal keys to one topic give one event, whose ID is the
// key; otherwise the ID is generated. Publish is for code outside of workflows, and for
// steps, whose events have the headers of their run; code of a workflow calls
// [Publish].
//
// Errors: ErrTopicFull while runs may still want as much as Cap and CapBytes say; ErrInvalid
// for the topic's fields or a key; ErrKeyUsed if the key was used for another value; ErrTooLarge, and those of the
// store.
func (t Topic[T]) Publish(ctx context.Context, e *Engine, value T, opts ...SendOption) (eventID string, err error) {
	eventID, _, err = t.publish(ctx, e, value, opts)
	return eventID, err
}

// publish is Publish. again reports that an event with the key was published before.
func (t Topic[T]) publish(
	ctx context.Context, e *Engine, value T, opts []SendOption,
) (eventID string, again bool, err error) {
	settings, err := t.settings()
	if err != nil {
		return "", false, err
	}
	data, err := e.encodeValue("event of topic "+t.Name, value)
	if err != nil {
		return "", false, err
	}
	o, err := sendOptionsOf(ctx, opts, nil)
	if err == nil {
		err = o.neverExpires("event of topic", t.Name)
	}
	if err != nil {
		return "", false, err
	}
	origin := uuid.NewString()
	id := origin
	if o.key != nil {
		if err := o.key.check("event of topic", t.Name); err != nil {
			return "", false, err
		}
		// By its origin the store tells a repeat from another event.
		id, origin = itemID(event.KeyKind, string(*o.key)), requestOrigin(t.Name, data)
	}
	like := event.Event{Value: data, Headers: o.stored}
	if err := e.rooms.Admit(ctx, t.Name, settings, like.Size()); err != nil {
		return "", false, err
	}
	c := event.Publish(t.Name, id, origin, &event.Publication{Settings: settings, Value: data}, o.stored)
	answer, err := e.inner.Tell(ctx, c.RunID, *c.Item)
	if err != nil {
		return "", false, fmt.Errorf("publish to topic %q: %w", t.Name, err)
	}
	if answer.Outcome == store.Duplicate {
		return "", false, fmt.Errorf("publish to topic %q: %w", t.Name, ErrKeyUsed)
	}
	return event.PublicID(id), answer.Repeated, nil
}

// Receive waits for an event of the topic and returns its value. The error is
// ErrTimeout if a deadline given with Within wins, and ErrCancelled if the branch is
// cancelled. An event that does not decode into a T becomes a dead letter of the run with
// the reason, is logged, and Receive waits for the next one; a consumed one is consumed.
//
// An event that the topic has sent to the run by the deadline wins over it. One
// that the run does not take after all, because something else has won or the
// branch was cancelled meanwhile, takes its old place at the topic.
func (t Topic[T]) Receive(ctx Context, opts ...WaitOption) (T, error) {
	var zero T
	v := decodingOf[T](ctx)
	spec, err := t.wait(ctx, ctx.call(t.Name, ""), v.check, opts)
	if err != nil {
		return zero, err
	}
	d, err := ctx.branch.Event(spec)
	if err != nil {
		return zero, ctx.seen(err)
	}
	return v.result(ctx, t.Name, d.Event.Value)
}

// Event is an event with what accompanies it.
type Event[T any] struct {
	ID      string
	Value   T
	Sent    time.Time `json:",omitzero"` // when it was published
	Headers Headers   // that the publisher has given, or of the run that has published it
}

// ReceiveEvent is Receive for code that wants to know more of the event than its
// value.
func (t Topic[T]) ReceiveEvent(ctx Context, opts ...WaitOption) (Event[T], error) {
	v := decodingOf[T](ctx)
	spec, err := t.wait(ctx, ctx.call(t.Name, ""), v.check, opts)
	if err != nil {
		return Event[T]{}, err
	}
	d, err := ctx.branch.Event(spec)
	if err != nil {
		return Event[T]{}, ctx.seen(err)
	}
	value, err := v.result(ctx, t.Name, d.Event.Value)
	headers, _ := decodeHeaders(d.Event.Headers) // were written by encode
	return Event[T]{event.PublicID(d.Event.ID), value, d.Event.Sent.Time(), headers}, err
}

// wait describes a wait for an event.
func (t Topic[T]) wait(ctx Context, call runner.Call, check runner.Check, opts []WaitOption) (runner.Event, error) {
	o, err := waitOptionsOf(t.Name, opts)
	if err != nil {
		return runner.Event{}, err
	}
	if _, err := t.settings(); err != nil {
		return runner.Event{}, err
	}
	visible, known := visibilities[t.Visible]
	if !known {
		return runner.Event{}, fmt.Errorf("topic %q: field Visible: expected SinceRun, SinceWait or Retained, found %d: %w",
			t.Name, t.Visible, ErrInvalid)
	}
	call.Name, call.Key = o.as, o.key
	spec := runner.Event{Call: call, Topic: t.Name, Visible: visible, Check: check}
	if o.hasWithin {
		spec.Deadline = ctx.branch.Now().Add(o.within)
	}
	return spec, nil
}

// Case waits for an event of the topic and stores its value in into if it wins. If
// it loses no event is consumed.
func (t Topic[T]) Case(into *T, opts ...WaitOption) Case {
	var v *decoding[T]
	return Case{
		build: func(ctx Context) (runner.Case, error) {
			v = decodingOf[T](ctx)
			spec, err := t.wait(ctx, runner.Call{Shield: ctx.shield}, v.check, opts)
			return runner.Case{Event: &spec}, err
		},
		won: func(ctx Context, s runner.Selected) (err error) {
			*into, err = v.result(ctx, t.Name, s.Event.Event.Value)
			return err
		},
	}
}

// PublishOption is an option of [Publish], [Message.SendFrom] and [Update.SendFrom] in a workflow: Named, a
// Key, or Headers.
type PublishOption interface{ applyPublish(*publishOptions) }

type publishOptions struct {
	as      string
	key     string
	headers []Headers
}

func (n Named) applyPublish(o *publishOptions) { o.as = string(n) }

func (h Headers) applyPublish(o *publishOptions) { o.headers = append(o.headers, h) }

// Publish publishes an event from the code of a workflow and returns its ID. The
// event is part of the commit that records it, so no crash and no replay publishes
// it twice; and what is rewound was published all the same. It has the run's
// headers, and those given. The name of the operation is "publish " and the
// topic's, if Named does not say otherwise; give a Key where one scope publishes
// several.
//
// Cap and CapBytes do not refuse it: the run could not tell in a replay. Errors: ErrCancelled,
// ErrInvalid and ErrTooLarge.
func Publish[T any](ctx Context, t Topic[T], value T, opts ...PublishOption) (eventID string, err error) {
	ctx.mustBeGiven()
	o := publishOptions{as: "publish " + t.Name}
	for _, opt := range opts {
		opt.applyPublish(&o)
	}
	settings, err := t.settings()
	if err != nil {
		return "", err
	}
	data, err := ctx.encode("event of topic "+t.Name, value)
	if err != nil {
		return "", err
	}
	headers := stored.Headers(ctx.env.run.Headers)
	for _, h := range o.headers {
		if headers, err = h.encode(headers); err != nil {
			return "", err
		}
	}
	id, err := ctx.branch.Publish(runner.Publish{
		Call: ctx.call(o.as, o.key), Topic: t.Name, Headers: headers,
		Publication: event.Publication{Settings: settings, Value: data},
	})
	return id, ctx.seen(err)
}
