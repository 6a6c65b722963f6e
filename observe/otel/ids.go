package otel

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// IDs makes the IDs of spans: random ones, and for the spans of runs those that follow from the
// run. It is an sdktrace.IDGenerator, and an option of New, which must know that the provider
// uses it.
type IDs struct{}

func (IDs) apply(o *options) { o.derived = true }

// wanted are the IDs that a span is to have: zero is any.
type wanted struct {
	trace trace.TraceID
	span  trace.SpanID
}

type wantedKey struct{}

func wantedOf(ctx context.Context) wanted {
	w, _ := ctx.Value(wantedKey{}).(wanted)
	return w
}

// NewIDs returns the IDs of a span without a parent.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	w := wantedOf(ctx)
	if !w.trace.IsValid() {
		for !w.trace.IsValid() {
			binary.NativeEndian.PutUint64(w.trace[:8], rand.Uint64())
			binary.NativeEndian.PutUint64(w.trace[8:], rand.Uint64())
		}
	}
	return w.trace, spanOr(w.span)
}

// NewSpanID returns the ID of a span with a parent.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return spanOr(wantedOf(ctx).span)
}

func spanOr(id trace.SpanID) trace.SpanID {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// runSpan returns the ID of the span of the run with the key.
func runSpan(key [16]byte) trace.SpanID {
	sum := sha256.Sum256(append([]byte("span:"), key[:]...))
	return trace.SpanID(sum[:8])
}
