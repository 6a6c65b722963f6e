package otel_test

import (
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/observe/otel"
)

func withTraces(exporter sdktrace.SpanExporter, meters *sdkmetric.MeterProvider) (*stet.Observer, error) {
	traces := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.01))),
		sdktrace.WithIDGenerator(otel.IDs{}), // so that attempts are children of their run
	)
	return otel.New(otel.Tracer(traces), otel.IDs{}, otel.Meter(meters), otel.Cut(time.Hour))
}

// TestGuide makes what the guide shows.
func TestGuide(t *testing.T) {
	observer, err := withTraces(tracetest.NewInMemoryExporter(), sdkmetric.NewMeterProvider())
	if err != nil || observer.Attempt == nil || observer.Attached == nil {
		t.Errorf("got %+v, %v", observer, err)
	}
}
