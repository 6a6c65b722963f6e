package otel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stet-run/stet/observe"
)

// HTTP has the metrics of a server of the API and the dashboard: stet.http.requests,
// stet.http.duration and stet.followers. Its methods are for server.Options:
//
//	m, err := otel.NewHTTP()
//	…
//	h, err := server.New(engine, server.Options{Access: …, Requested: m.Requested, Following: m.Following})
type HTTP struct {
	requests  metric.Int64Counter
	duration  metric.Float64Histogram
	followers metric.Int64UpDownCounter
	of        observe.Sets[request, metric.MeasurementOption]
}

// request is what requests are counted by.
type request struct {
	method, route string
	status        int
}

// NewHTTP makes the metrics; of the options Meter counts. An error is that of the meter.
func NewHTTP(opts ...Option) (*HTTP, error) {
	o := options{meter: otel.GetMeterProvider()}
	for _, opt := range opts {
		opt.apply(&o)
	}
	i := &instruments{meter: o.meter.Meter(scope)}
	h := &HTTP{
		requests: i.counter("stet.http.requests", "{request}", "Requests to the server."),
		duration: i.seconds("stet.http.duration",
			"Time of requests to the server, without those that follow events.", fast...),
		of: observe.Sets[request, metric.MeasurementOption]{
			Make: func(k request) metric.MeasurementOption {
				return metric.WithAttributeSet(attribute.NewSet(attribute.String("http.request.method", k.method),
					attribute.String("http.route", k.route), attribute.Int("http.response.status_code", k.status)))
			},
			Rest: func(k request) request { return request{observe.Other, observe.Other, k.status} },
		},
	}
	var err error
	h.followers, err = i.meter.Int64UpDownCounter("stet.followers", metric.WithUnit("{follower}"),
		metric.WithDescription("Followers of the server's stream of events."))
	if err := errors.Join(append(i.errs, err)...); err != nil {
		return nil, fmt.Errorf("metrics of stet's server: %w", err)
	}
	return h, nil
}

// methods are the methods of HTTP. Clients may send others, without end.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}

// events is the route that is answered for as long as somebody looks.
const events = "/api/v1/events"

// Requested counts a request. It is safe for concurrent use.
func (h *HTTP) Requested(method, route string, status int, took time.Duration) {
	if !slices.Contains(methods, method) {
		method = observe.Other
	}
	of := h.of.Of(request{method, route, status})
	h.requests.Add(context.Background(), 1, of)
	if route != events || status != 200 {
		h.duration.Record(context.Background(), took.Seconds(), of)
	}
}

// Following counts followers: 1 for one that begins, -1 for one that ends. It is safe for
// concurrent use.
func (h *HTTP) Following(change int) { h.followers.Add(context.Background(), int64(change)) }
