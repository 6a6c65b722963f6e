package prom

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/observe"
)

// Options say what New registers. The zero value is that of a process that executes workflows.
type Options struct {
	// Store adds the gauges of the store: stet_runs, stet_ready_oldest_seconds,
	// stet_dead_letters, stet_queue_waiting, stet_queue_held and stet_schedule_late_seconds.
	Store bool
}

// The buckets of durations of what is fast, and of what may take days; and of counts and bytes.
var (
	fast  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	slow  = []float64{.005, .025, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86400, 7 * 86400}
	lag   = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	count = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4000}
	size  = []float64{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
)

// metrics are those that the observer counts.
type metrics struct {
	runsStarted    *observe.Sets[name, prometheus.Counter]
	runsEnded      *observe.Sets[run, prometheus.Counter]
	runsStalled    *observe.Sets[run, prometheus.Counter]
	runSeconds     *observe.Sets[run, prometheus.Observer]
	attemptSeconds *observe.Sets[step, prometheus.Observer]
	wakeLag        *observe.Sets[name, prometheus.Observer]
	claimLag       *observe.Sets[name, prometheus.Observer]
	commitSeconds  prometheus.Histogram
	commitTurns    prometheus.Histogram
	commitBytes    prometheus.Histogram
	leaseEvents    *observe.Sets[fixed, prometheus.Counter]
	fenced         prometheus.Counter
	storeErrors    *observe.Sets[fixed, prometheus.Counter]
	valueBytes     *observe.Sets[fixed, prometheus.Observer]
}

// New registers the metrics of a process, and returns the observer that counts them. One
// observer may be given to several engines; their metrics are those of all together. An error
// is that of the registerer: a second New with one registerer is refused.
func New(to prometheus.Registerer, options Options) (*stet.Observer, error) {
	reg := &registrar{to: to}
	m := newMetrics(reg)
	engines := &engines{}
	reg.add(engines)
	if options.Store {
		reg.add(&storeGauges{engines: engines})
	}
	if reg.err != nil {
		return nil, fmt.Errorf("register the metrics of stet: %w", reg.err)
	}
	o := m.observer()
	o.Attached = engines.add
	return o, nil
}

func newMetrics(reg *registrar) *metrics {
	single := func(metric, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: metric, Help: help, Buckets: buckets})
		reg.add(h)
		return h
	}
	m := &metrics{
		runsStarted: counters[name](reg, "stet_runs_started_total", "Runs that have begun in this process.", "workflow"),
		runsEnded:   counters[run](reg, "stet_runs_ended_total", "Runs that have ended.", "workflow", "status"),
		runsStalled: counters[run](reg, "stet_runs_stalled_total", "Runs that were stalled: each needs a person.",
			"workflow", "cause"),
		runSeconds: histograms[run](reg, "stet_run_seconds", "Time of runs from their begin to their end.", slow,
			"workflow", "status"),
		attemptSeconds: histograms[step](reg, "stet_attempt_seconds", "Time of attempts of steps.", slow,
			"workflow", "step", "outcome"),
		wakeLag: histograms[name](reg, "stet_wake_lag_seconds",
			"How much later than due runs go on because of the time.", lag, "group"),
		claimLag: histograms[name](reg, "stet_claim_lag_seconds",
			"How long runs with a start or an item were ready before they were claimed.", lag, "group"),
		commitSeconds: single("stet_commit_seconds", "Time of the store for one batch.", fast),
		commitTurns:   single("stet_commit_turns", "Turns in one batch.", count),
		commitBytes:   single("stet_commit_bytes", "Bytes of values in one batch.", size),
		leaseEvents: counters[fixed](reg, "stet_lease_events_total", "Leases taken, released, lost or fenced.",
			"event"),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stet_fenced_total", Help: "Shards in which the store has refused to write: another process has the lease.",
		}),
		storeErrors: counters[fixed](reg, "stet_store_errors_total", "Calls of the store that have failed.", "act"),
		valueBytes:  histograms[fixed](reg, "stet_value_bytes", "Bytes of values that were written.", size, "kind"),
	}
	reg.add(m.fenced)
	return m
}

func (m *metrics) observer() *stet.Observer {
	return &stet.Observer{
		Attempt: func(ctx context.Context, s stet.StepInfo) (context.Context, func(error)) {
			begun := time.Now()
			return ctx, func(err error) {
				m.attemptSeconds.Of(step{s.Workflow, s.Name, observe.Outcome(err)}).Observe(time.Since(begun).Seconds())
			}
		},
		RunBegan: func(r stet.RunEvent) { m.runsStarted.Of(name{r.Workflow}).Inc() },
		RunEnded: func(r stet.RunEvent) {
			k := run{r.Workflow, r.Status.String()}
			m.runsEnded.Of(k).Inc()
			if !r.Started.IsZero() {
				m.runSeconds.Of(k).Observe(r.Ended.Sub(r.Started).Seconds())
			}
		},
		RunStalled: func(r stet.RunEvent) { m.runsStalled.Of(run{r.Workflow, string(r.Cause())}).Inc() },
		Woken: func(r stet.RunEvent, late time.Duration) {
			m.wakeLag.Of(name{r.Group}).Observe(late.Seconds())
		},
		Committed: func(c stet.CommitInfo) {
			m.commitSeconds.Observe(c.Took.Seconds())
			m.commitTurns.Observe(float64(c.Turns))
			m.commitBytes.Observe(float64(c.Bytes))
		},
		Claimed: func(c stet.ClaimInfo) {
			for _, lag := range c.Lags {
				m.claimLag.Of(name{lag.Group}).Observe(lag.Lag.Seconds())
			}
		},
		Lease: func(l stet.LeaseInfo) {
			m.leaseEvents.Of(fixed{string(l.Event)}).Add(float64(len(l.Shards)))
			if l.Event == stet.LeaseFenced {
				m.fenced.Add(float64(len(l.Shards)))
			}
		},
		Value:      func(kind string, bytes int) { m.valueBytes.Of(fixed{kind}).Observe(float64(bytes)) },
		StoreError: func(act string, _ error) { m.storeErrors.Of(fixed{act}).Inc() },
	}
}
