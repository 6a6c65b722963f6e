package otel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/stet-run/stet"
)

// scope is the name of the instrumentation.
const scope = "github.com/stet-run/stet/observe/otel"

// Option is an option of New: Tracer, Meter, StoreGauges, or IDs.
type Option interface{ apply(*options) }

type options struct {
	tracer  trace.TracerProvider
	meter   metric.MeterProvider
	derived bool // the tracer's provider makes IDs by IDs
	store   bool
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

// New returns an observer that makes spans and metrics. An error is that of the meter.
func New(opts ...Option) (*stet.Observer, error) {
	o := options{tracer: otel.GetTracerProvider(), meter: otel.GetMeterProvider()}
	for _, opt := range opts {
		opt.apply(&o)
	}
	t := &tracing{tracer: o.tracer.Tracer(scope), derived: o.derived}
	metrics, err := newMetrics(o.meter.Meter(scope), o.store)
	if err != nil {
		return nil, err
	}
	return stet.Observers(t.observer(), metrics.observer()), nil
}
