package otel

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// tracing makes spans.
type tracing struct {
	tracer  trace.Tracer
	derived bool
	cut     time.Duration
}

// w3c writes and reads traceparent and tracestate.
var w3c propagation.TraceContext

func (t *tracing) observer() *stet.Observer {
	return &stet.Observer{
		LongPause: t.cut,
		Start:     t.start,
		Send:      t.send,
		RunEnded:  t.runEnded,
		Waited:    t.waited,
		Sent:      t.sent,
	}
}

// injected returns the headers by which what is started or sent belongs to the span of ctx.
func injected(ctx context.Context) stet.Headers {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	if len(carrier) == 0 {
		return nil
	}
	return stet.Headers(carrier)
}

// contextOf returns the span that headers name; it is not valid if they name none.
func contextOf(h stet.Headers) trace.SpanContext {
	if sc, ok := plainContext(h["traceparent"]); ok && h["tracestate"] == "" || h["traceparent"] == "" {
		return sc
	}
	return trace.SpanContextFromContext(w3c.Extract(context.Background(), propagation.MapCarrier(h)))
}

// plainContext reads a traceparent of the first version, which is what there is, in a part of
// the time. ok is false of anything else.
func plainContext(text string) (sc trace.SpanContext, ok bool) {
	if len(text) != 55 || text[:3] != "00-" || text[35] != '-' || text[52] != '-' || text[53] != '0' ||
		text[54] != '0' && text[54] != '1' {
		return sc, false
	}
	id, err := trace.TraceIDFromHex(text[3:35])
	if err != nil {
		return sc, false
	}
	span, err := trace.SpanIDFromHex(text[36:52])
	if err != nil {
		return sc, false
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(text[54] - '0'), Remote: true,
	}), true
}

// end ends a span, with an error if there is one.
func end(span trace.Span, err error, options ...trace.SpanEndOption) {
	if err != nil && span.IsRecording() {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End(options...)
}

func workflowOf(name, runID string) trace.SpanStartEventOption {
	return trace.WithAttributes(attribute.String("stet.workflow", name), attribute.String("stet.run.id", runID))
}

func (t *tracing) start(ctx context.Context, s stet.StartInfo) (stet.Headers, func(error)) {
	ctx, span := t.tracer.Start(ctx, "start "+s.Workflow, trace.WithSpanKind(trace.SpanKindProducer),
		workflowOf(s.Workflow, s.RunID))
	return injected(ctx), func(err error) { end(span, err) }
}

func (t *tracing) send(ctx context.Context, s stet.SendInfo) (stet.Headers, func(error)) {
	ctx, span := t.tracer.Start(ctx, "send "+s.Name, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.String("stet.run.id", s.RunID)))
	return injected(ctx), func(err error) { end(span, err) }
}

// within returns a context whose span is that of the run with the headers and key: of its
// start, if the provider does not make IDs by IDs. A run that was started without a trace has
// one that follows from its key.
//
// After a cut it is that of the new trace, and the link names the former one; otherwise there
// is no link.
func (t *tracing) within(
	ctx context.Context, h stet.Headers, key func() [16]byte, resumed time.Time,
) (context.Context, []trace.Link) {
	parent := contextOf(h)
	switch {
	case !parent.IsValid() && !t.derived:
		return trace.ContextWithSpanContext(ctx, trace.SpanContext{}), nil
	case !parent.IsValid():
		// No parent, so that the provider's sampler decides: by the ID of the trace.
		ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
		id := trace.TraceID(key())
		if t.cut > 0 && !resumed.IsZero() {
			id = cutAt(key(), resumed).TraceID()
		}
		return context.WithValue(ctx, wantedKey{}, wanted{trace: id}), nil
	case t.derived && parent.IsSampled():
		parent = parent.WithSpanID(runSpan(key()))
	}
	if t.cut == 0 || resumed.IsZero() {
		return trace.ContextWithRemoteSpanContext(ctx, parent), nil
	}
	former := parent
	parent = cutAt(key(), resumed).WithTraceFlags(parent.TraceFlags()).WithTraceState(parent.TraceState())
	return trace.ContextWithRemoteSpanContext(ctx, parent), []trace.Link{{SpanContext: former}}
}

// cutAt returns what the spans of a run are children of that has resumed at a time: a span that
// nobody emits, in a trace of its own.
func cutAt(key [16]byte, resumed time.Time) trace.SpanContext {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(append([]byte("cut:"), key[:]...), uint64(resumed.UnixMicro())))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]), Remote: true,
	})
}

// released returns a context in which spans get any IDs again.
func released(ctx context.Context) context.Context {
	if ctx.Value(wantedKey{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, wantedKey{}, wanted{})
}

// attempt begins the span of an attempt; nil: it would be dropped, and spans of the body are
// with it.
func (t *tracing) attempt(ctx context.Context, s stet.StepInfo) (context.Context, trace.Span) {
	ctx, links := t.within(ctx, s.Headers, s.RunKey, s.Resumed)
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() && !sc.IsSampled() {
		return ctx, nil
	}
	ctx, span := t.tracer.Start(ctx, "attempt "+s.Name, trace.WithLinks(links...))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("stet.workflow", s.Workflow), attribute.String("stet.run.id", s.RunID),
			attribute.String("stet.location", s.Location), attribute.Int("stet.attempt", s.Attempt),
			attribute.String("stet.node", s.Node))
	}
	return released(ctx), span
}

func (t *tracing) runEnded(r stet.RunEvent) {
	began := r.Started
	if began.IsZero() {
		began = r.Created // it was cancelled before it was executed
	}
	options := []trace.SpanStartOption{
		trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindConsumer), workflowOf(r.Workflow, r.ID),
	}
	ctx := context.Background()
	parent := contextOf(r.Headers())
	if parent.IsValid() {
		if !parent.IsSampled() {
			return // its provider would drop it
		}
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	if t.derived {
		w := wanted{span: runSpan(r.Key())}
		if !parent.IsValid() {
			w.trace = r.Key()
		}
		ctx = context.WithValue(ctx, wantedKey{}, w)
		if former, ok := r.FormerKey(); ok {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: formerSpan(parent, former)}))
		}
	}
	_, span := t.tracer.Start(ctx, "run "+r.Workflow, options...)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("stet.status", r.Status.String()), attribute.String("stet.node", r.Node))
		if r.Status == store.Failed {
			span.SetStatus(codes.Error, r.Err().Error())
		}
	}
	span.End(trace.WithTimestamp(r.Ended))
}

// formerSpan returns the span that a run had before it was rewound.
func formerSpan(parent trace.SpanContext, key [16]byte) trace.SpanContext {
	if !parent.IsValid() {
		parent = parent.WithTraceID(key)
	}
	return parent.WithSpanID(runSpan(key))
}

func (t *tracing) waited(r stet.RunEvent, w stet.WaitEnded) {
	parent := r.Headers()
	if sc := contextOf(parent); sc.IsValid() && !sc.IsSampled() {
		return
	}
	ctx, links := t.within(context.Background(), parent, r.Key, r.Resumed)
	for _, h := range w.Received() {
		if sc := contextOf(h); sc.IsValid() {
			links = append(links, trace.Link{SpanContext: sc})
		}
	}
	_, span := t.tracer.Start(ctx, "wait "+w.Name,
		trace.WithTimestamp(w.Since), trace.WithLinks(links...), workflowOf(r.Workflow, r.ID),
		trace.WithAttributes(attribute.String("stet.location", w.Location), attribute.String("stet.wait", w.Kind),
			attribute.String("stet.node", r.Node)))
	span.End(trace.WithTimestamp(w.Until))
}

func (t *tracing) sent(r stet.RunEvent, s stet.SentInfo) {
	ctx, links := t.within(context.Background(), r.Headers(), r.Key, r.Resumed)
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() && !sc.IsSampled() {
		return
	}
	_, span := t.tracer.Start(ctx, "send "+s.Name, trace.WithLinks(links...),
		trace.WithSpanKind(trace.SpanKindProducer), workflowOf(r.Workflow, r.ID))
	span.End()
}
