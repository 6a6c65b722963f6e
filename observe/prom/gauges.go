package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stet-run/stet/observe"
)

var (
	storeRuns = prometheus.NewDesc("stet_runs", "Runs of the store that have not succeeded and were not cancelled.",
		[]string{"workflow", "status"}, nil)
	readyOldest = prometheus.NewDesc("stet_ready_oldest_seconds",
		"How long the oldest queued run has waited that waits for nothing but a process, at least.", nil, nil)
	deadLetters = prometheus.NewDesc("stet_dead_letters", "Dead letters, up to 10,000.", nil, nil)
	queueWaits  = prometheus.NewDesc("stet_queue_waiting", "Runs and attempts that wait for a permit of the queue.",
		[]string{"queue"}, nil)
	queueHeld    = prometheus.NewDesc("stet_queue_held", "Permits of the queue that are held.", []string{"queue"}, nil)
	scheduleLate = prometheus.NewDesc("stet_schedule_late_seconds", "By how much the latest schedule is late.", nil, nil)
)

// storeGauges collects how the store of the first engine stands.
type storeGauges struct {
	engines *engines
	store   observe.Store
}

// Describe implements prometheus.Collector.
func (g *storeGauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{storeRuns, readyOldest, deadLetters, queueWaits, queueHeld, scheduleLate} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *storeGauges) Collect(to chan<- prometheus.Metric) {
	list := g.engines.all()
	if len(list) == 0 {
		return
	}
	r, ok := g.store.Read(list[0])
	if !ok {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for of, n := range r.Runs {
		gauge(storeRuns, float64(n), of.Workflow, of.Status.String())
	}
	gauge(readyOldest, r.ReadyOldest.Seconds())
	gauge(deadLetters, float64(r.DeadLetters))
	for queue, n := range r.QueueWaiting {
		gauge(queueWaits, float64(n), queue)
		gauge(queueHeld, float64(r.QueueHeld[queue]), queue)
	}
	gauge(scheduleLate, r.ScheduleLate.Seconds())
}
