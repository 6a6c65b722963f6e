package otel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/stet-run/stet"
)

// scope is the name of the instrumentation.
const scope = "github.com/stet-run/stet/observe/otel"

// Option is an option of New: Tracer, Meter, StoreGauges, Cut, or IDs.
type Option interface{ apply(*options) }

type options struct {
	tracer  trace.TracerProvider
	meter   metric.MeterProvider
	derived bool // the tracer's provider makes IDs by IDs
	store   bool
	cut     time.Duration // 0: never
}

type option func(*options)

func (f option) apply(o *options) { f(o) }

// Tracer gives the provider of tracers. Default: otel.GetTracerProvider().
func Tracer(p trace.TracerProvider) Option { return option(func(o *options) { o.tracer = p }) }

// Meter gives the provider of meters. Default: otel.GetMeterProvider().
func Meter(p metric.MeterProvider) Option { return option(func(o *options) { o.meter = p }) }

// StoreGauges adds the gauges of the store, which read it for at most one part in a hundred of
// the time. One process of a store should have them.
func StoreGauges() Option { return option(func(o *options) { o.store = true }) }

// Cut lets a run begin a new trace after a wait during which nothing has happened in it for
// longer than d, such as an hour: some backends do not show a trace that lasts for days. Its
// spans are linked with the former trace. The span of the run stays in the first one.
func Cut(d time.Duration) Option { return option(func(o *options) { o.cut = d }) }

// New returns an observer that makes spans and metrics. An error is that of the meter.
func New(opts ...Option) (*stet.Observer, error) {
	o := options{tracer: otel.GetTracerProvider(), meter: otel.GetMeterProvider()}
	for _, opt := range opts {
		opt.apply(&o)
	}
	t := &tracing{tracer: o.tracer.Tracer(scope), derived: o.derived, cut: o.cut}
	metrics, err := newMetrics(o.meter.Meter(scope), o.store)
	if err != nil {
		return nil, err
	}
	observer := stet.Observers(t.observer(), metrics.observer())
	observer.Attempt = func(ctx context.Context, s stet.StepInfo) (context.Context, func(error)) {
		begun := time.Now()
		ctx, span := t.attempt(ctx, s)
		return ctx, func(err error) {
			if span != nil {
				end(span, err)
			}
			metrics.attempted(ctx, &s, time.Since(begun), err)
		}
	}
	return observer, nil
}
