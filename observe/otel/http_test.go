package otel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/stet-run/stet/observe/otel"
)

// TestRequestsAreCounted by route and code; methods that nobody knows, and those who follow
// for hours, do not spoil the counts.
func TestRequestsAreCounted(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	h, err := otel.NewHTTP(otel.Meter(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	if err != nil {
		t.Fatal(err)
	}
	h.Requested("GET", "/api/v1/runs", 200, time.Second)
	h.Requested("GET", "/api/v1/runs", 200, time.Second)
	h.Requested("GET", "/api/v1/events", 200, time.Hour)
	h.Requested("BREW", "", 405, time.Second)
	h.Following(1)
	h.Following(1)
	h.Following(-1)
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var got []string
	add := func(name string, of attribute.Set, n any) {
		var values []string
		for _, kv := range of.ToSlice() {
			values = append(values, kv.Value.String())
		}
		got = append(got, strings.Join(append([]string{name, fmt.Sprint(n)}, values...), " "))
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Sum)
				}
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"stet.followers 1",
		"stet.http.duration 1 other 405 ",
		"stet.http.duration 2 GET 200 /api/v1/runs",
		"stet.http.requests 1 GET 200 /api/v1/events",
		"stet.http.requests 1 other 405 ",
		"stet.http.requests 2 GET 200 /api/v1/runs",
	}
	if !slices.Equal(got, want) {
		t.Errorf("expected\n%s\nfound\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}
