package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stet-run/stet/observe"
)

// The keys. Names are free, the other fields are of a fixed set.
type (
	name  struct{ name string }
	run   struct{ workflow, word string } // a status, or a cause
	step  struct{ workflow, step, outcome string }
	fixed struct{ word string }
)

func (k name) labels() []string  { return []string{k.name} }
func (k name) other() name       { return name{observe.Other} }
func (k run) labels() []string   { return []string{k.workflow, k.word} }
func (k run) other() run         { return run{observe.Other, k.word} }
func (k step) labels() []string  { return []string{k.workflow, k.step, k.outcome} }
func (k step) other() step       { return step{observe.Other, observe.Other, k.outcome} }
func (k fixed) labels() []string { return []string{k.word} }
func (k fixed) other() fixed     { return fixed{observe.Other} }

// key is what all keys can do.
type key[K any] interface {
	comparable
	labels() []string
	other() K
}

// counters registers counters by labels.
func counters[K key[K]](reg *registrar, metric, help string, labels ...string) *observe.Sets[K, prometheus.Counter] {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metric, Help: help}, labels)
	reg.add(c)
	return &observe.Sets[K, prometheus.Counter]{
		Make: func(k K) prometheus.Counter { return c.WithLabelValues(k.labels()...) }, Rest: K.other,
	}
}

// histograms registers histograms by labels.
func histograms[K key[K]](
	reg *registrar, metric, help string, buckets []float64, labels ...string,
) *observe.Sets[K, prometheus.Observer] {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: metric, Help: help, Buckets: buckets}, labels)
	reg.add(h)
	return &observe.Sets[K, prometheus.Observer]{
		Make: func(k K) prometheus.Observer { return h.WithLabelValues(k.labels()...) }, Rest: K.other,
	}
}

// registrar registers collectors, and keeps the first error.
type registrar struct {
	to  prometheus.Registerer
	err error
}

func (r *registrar) add(c prometheus.Collector) {
	if r.err == nil {
		r.err = r.to.Register(c)
	}
}
