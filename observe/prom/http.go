package prom

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stet-run/stet/observe"
)

// HTTP has the metrics of a server of the API and the dashboard. Its methods are for
// server.Options:
//
//	m, err := prom.NewHTTP(registry)
//	…
//	h, err := server.New(engine, server.Options{Access: …, Requested: m.Requested, Following: m.Following})
type HTTP struct {
	requests  *observe.Sets[request, prometheus.Counter]
	seconds   *observe.Sets[request, prometheus.Observer]
	followers prometheus.Gauge
}

// request is what requests are counted by.
type request struct{ method, route, code string }

func (k request) labels() []string { return []string{k.method, k.route, k.code} }
func (k request) other() request   { return request{observe.Other, observe.Other, k.code} }

// NewHTTP registers stet_http_requests_total, stet_http_seconds and stet_followers. An error is
// that of the registerer: a second NewHTTP with one registerer is refused.
func NewHTTP(to prometheus.Registerer) (*HTTP, error) {
	reg := &registrar{to: to}
	h := &HTTP{
		requests: counters[request](reg, "stet_http_requests_total", "Requests to the server.", "method", "route", "code"),
		seconds: histograms[request](reg, "stet_http_seconds",
			"Time of requests to the server, without those that follow events.", fast, "method", "route", "code"),
		followers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stet_followers", Help: "Followers of the server's stream of events.",
		}),
	}
	reg.add(h.followers)
	if reg.err != nil {
		return nil, fmt.Errorf("register the metrics of stet's server: %w", reg.err)
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
	k := request{method, route, strconv.Itoa(status)}
	h.requests.Of(k).Inc()
	if route != events || status != 200 {
		h.seconds.Of(k).Observe(took.Seconds())
	}
}

// Following counts followers: 1 for one that begins, -1 for one that ends. It is safe for
// concurrent use.
func (h *HTTP) Following(change int) { h.followers.Add(float64(change)) }
