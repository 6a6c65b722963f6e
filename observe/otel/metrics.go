package otel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/observe"
)

// metrics counts what prom does, under the names of OpenTelemetry.
type metrics struct {
	runsStarted, runsEnded, runsStalled, leaseEvents, fenced, storeErrors metric.Int64Counter

	runDuration, attemptDuration, wakeLag, claimLag, commitDuration metric.Float64Histogram

	commitTurns, commitSize, valueSize metric.Int64Histogram

	ofWorkflow observe.Sets[string, metric.MeasurementOption]
	ofRun      observe.Sets[runKey, metric.MeasurementOption]
	ofStall    observe.Sets[runKey, metric.MeasurementOption]
	ofStep     observe.Sets[stepKey, metric.MeasurementOption]
	ofGroup    observe.Sets[string, metric.MeasurementOption]
	ofAct      observe.Sets[string, metric.MeasurementOption]
	ofKind     observe.Sets[string, metric.MeasurementOption]
	ofEvent    observe.Sets[string, metric.MeasurementOption]

	store observe.Store

	mu      sync.Mutex
	engines []*stet.Engine
}

type (
	runKey  struct{ workflow, word string } // a status, or a cause
	stepKey struct{ workflow, step, outcome string }
)

// words makes sets of one attribute.
func words(of string) observe.Sets[string, metric.MeasurementOption] {
	return observe.Sets[string, metric.MeasurementOption]{
		Make: func(s string) metric.MeasurementOption {
			return metric.WithAttributeSet(attribute.NewSet(attribute.String(of, s)))
		},
		Rest: func(string) string { return observe.Other },
	}
}

// runs makes sets of a workflow and another attribute.
func runs(of string) observe.Sets[runKey, metric.MeasurementOption] {
	return observe.Sets[runKey, metric.MeasurementOption]{
		Make: func(k runKey) metric.MeasurementOption {
			return metric.WithAttributeSet(attribute.NewSet(
				attribute.String("stet.workflow", k.workflow), attribute.String(of, k.word)))
		},
		Rest: func(k runKey) runKey { return runKey{observe.Other, k.word} },
	}
}

// instruments makes instruments, and keeps the errors.
type instruments struct {
	meter metric.Meter
	errs  []error
}

func (i *instruments) counter(name, unit, what string) metric.Int64Counter {
	c, err := i.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
	i.errs = append(i.errs, err)
	return c
}

func (i *instruments) seconds(name, what string, bounds ...float64) metric.Float64Histogram {
	h, err := i.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(bounds...))
	i.errs = append(i.errs, err)
	return h
}

func (i *instruments) sizes(name, unit, what string, bounds ...float64) metric.Int64Histogram {
	h, err := i.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(bounds...))
	i.errs = append(i.errs, err)
	return h
}

func (i *instruments) gauge(name, unit, what string) metric.Float64ObservableGauge {
	g, err := i.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
	i.errs = append(i.errs, err)
	return g
}

// The bounds of buckets: as those of prom.
var (
	fast   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	slow   = []float64{.005, .025, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86400, 7 * 86400}
	lags   = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	counts = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4000}
	bytes  = []float64{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
)

func newMetrics(meter metric.Meter, store bool) (*metrics, error) {
	i := &instruments{meter: meter}
	m := &metrics{
		runsStarted:     i.counter("stet.runs.started", "{run}", "Runs that have begun in this process."),
		runsEnded:       i.counter("stet.runs.ended", "{run}", "Runs that have ended."),
		runsStalled:     i.counter("stet.runs.stalled", "{run}", "Runs that were stalled: each needs a person."),
		leaseEvents:     i.counter("stet.lease.events", "{lease}", "Leases taken, released, lost or fenced."),
		fenced:          i.counter("stet.fenced", "{shard}", "Shards in which the store has refused to write."),
		storeErrors:     i.counter("stet.store.errors", "{call}", "Calls of the store that have failed."),
		runDuration:     i.seconds("stet.run.duration", "Time of runs from their begin to their end.", slow...),
		attemptDuration: i.seconds("stet.attempt.duration", "Time of attempts of steps.", slow...),
		wakeLag:         i.seconds("stet.wake.lag", "How much later than due runs go on because of the time.", lags...),
		claimLag: i.seconds("stet.claim.lag",
			"How long runs with a start or an item were ready before they were claimed.", lags...),
		commitDuration: i.seconds("stet.commit.duration", "Time of the store for one batch.", fast...),
		commitTurns:    i.sizes("stet.commit.turns", "{turn}", "Turns in one batch.", counts...),
		commitSize:     i.sizes("stet.commit.size", "By", "Bytes of values in one batch.", bytes...),
		valueSize:      i.sizes("stet.value.size", "By", "Bytes of values that were written.", bytes...),
		ofWorkflow:     words("stet.workflow"), ofGroup: words("stet.group"), ofAct: words("stet.act"),
		ofKind: words("stet.kind"), ofEvent: words("stet.event"),
		ofRun: runs("stet.status"), ofStall: runs("stet.cause"),
		ofStep: observe.Sets[stepKey, metric.MeasurementOption]{
			Make: func(k stepKey) metric.MeasurementOption {
				return metric.WithAttributeSet(attribute.NewSet(attribute.String("stet.workflow", k.workflow),
					attribute.String("stet.step", k.step), attribute.String("stet.outcome", k.outcome)))
			},
			Rest: func(k stepKey) stepKey { return stepKey{observe.Other, observe.Other, k.outcome} },
		},
	}
	m.addProcess(i)
	if store {
		m.addStore(i)
	}
	if err := errors.Join(i.errs...); err != nil {
		return nil, fmt.Errorf("make the instruments of stet: %w", err)
	}
	return m, nil
}

// addProcess adds the gauges of what the engines have in memory.
func (m *metrics) addProcess(i *instruments) {
	bodies := i.gauge("stet.bodies", "{body}", "Bodies of steps: executing, waiting for a place, or committing.")
	inMemory := i.gauge("stet.runs.in_memory", "{run}", "Runs in memory: running, or parked while they are suspended.")
	shards := i.gauge("stet.shards", "{shard}", "Shards whose lease this process holds.")
	_, err := i.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		total := stet.Stats{Shards: map[string]int{}}
		for _, e := range m.all() {
			s := e.Stats()
			total.Executing += s.Executing
			total.Waiting += s.Waiting
			total.Committing += s.Committing
			total.Running += s.Running
			total.Parked += s.Parked
			for group, n := range s.Shards {
				total.Shards[group] += n
			}
		}
		state := func(g metric.Float64ObservableGauge, n int, state string) {
			o.ObserveFloat64(g, float64(n), metric.WithAttributes(attribute.String("stet.state", state)))
		}
		state(bodies, total.Executing, "executing")
		state(bodies, total.Waiting, "waiting")
		state(bodies, total.Committing, "committing")
		state(inMemory, total.Running, "running")
		state(inMemory, total.Parked, "parked")
		for group, n := range total.Shards {
			o.ObserveFloat64(shards, float64(n), m.ofGroup.Of(group))
		}
		return nil
	}, bodies, inMemory, shards)
	i.errs = append(i.errs, err)
}

// addStore adds the gauges of the store of the first engine.
func (m *metrics) addStore(i *instruments) {
	all := i.gauge("stet.runs", "{run}", "Runs of the store that have not succeeded and were not cancelled.")
	ready := i.gauge("stet.ready.oldest", "s",
		"How long the oldest queued run has waited that waits for nothing but a process, at least.")
	letters := i.gauge("stet.dead_letters", "{letter}", "Dead letters, up to 10,000.")
	waiting := i.gauge("stet.queue.waiting", "{run}", "Runs and attempts that wait for a permit of the queue.")
	held := i.gauge("stet.queue.held", "{permit}", "Permits of the queue that are held.")
	late := i.gauge("stet.schedule.late", "s", "By how much the latest schedule is late.")
	_, err := i.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		engines := m.all()
		if len(engines) == 0 {
			return nil
		}
		r, ok := m.store.Read(engines[0])
		if !ok {
			return nil
		}
		for of, n := range r.Runs {
			o.ObserveFloat64(all, float64(n), m.ofRun.Of(runKey{of.Workflow, of.Status.String()}))
		}
		o.ObserveFloat64(ready, r.ReadyOldest.Seconds())
		o.ObserveFloat64(letters, float64(r.DeadLetters))
		for queue, n := range r.QueueWaiting {
			of := metric.WithAttributes(attribute.String("stet.queue", queue))
			o.ObserveFloat64(waiting, float64(n), of)
			o.ObserveFloat64(held, float64(r.QueueHeld[queue]), of)
		}
		o.ObserveFloat64(late, r.ScheduleLate.Seconds())
		return nil
	}, all, ready, letters, waiting, held, late)
	i.errs = append(i.errs, err)
}

// all returns the engines.
func (m *metrics) all() []*stet.Engine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.engines[:len(m.engines):len(m.engines)]
}

// attempted counts an attempt that has ended.
func (m *metrics) attempted(ctx context.Context, s *stet.StepInfo, took time.Duration, err error) {
	of := m.ofStep.Of(stepKey{s.Workflow, s.Name, observe.Outcome(err)})
	m.attemptDuration.Record(ctx, took.Seconds(), of)
}

func (m *metrics) observer() *stet.Observer {
	ctx := context.Background()
	return &stet.Observer{
		Attached: func(e *stet.Engine) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.engines = append(m.engines, e)
		},
		RunBegan: func(r stet.RunEvent) { m.runsStarted.Add(ctx, 1, m.ofWorkflow.Of(r.Workflow)) },
		RunEnded: func(r stet.RunEvent) {
			of := m.ofRun.Of(runKey{r.Workflow, r.Status.String()})
			m.runsEnded.Add(ctx, 1, of)
			if !r.Started.IsZero() {
				m.runDuration.Record(ctx, r.Ended.Sub(r.Started).Seconds(), of)
			}
		},
		RunStalled: func(r stet.RunEvent) {
			m.runsStalled.Add(ctx, 1, m.ofStall.Of(runKey{r.Workflow, string(r.Cause())}))
		},
		Woken: func(r stet.RunEvent, late time.Duration) {
			m.wakeLag.Record(ctx, late.Seconds(), m.ofGroup.Of(r.Group))
		},
		Committed: func(c stet.CommitInfo) {
			m.commitDuration.Record(ctx, c.Took.Seconds())
			m.commitTurns.Record(ctx, int64(c.Turns))
			m.commitSize.Record(ctx, int64(c.Bytes))
		},
		Claimed: func(c stet.ClaimInfo) {
			for _, lag := range c.Lags {
				m.claimLag.Record(ctx, lag.Lag.Seconds(), m.ofGroup.Of(lag.Group))
			}
		},
		Lease: func(l stet.LeaseInfo) {
			m.leaseEvents.Add(ctx, int64(len(l.Shards)), m.ofEvent.Of(string(l.Event)))
			if l.Event == stet.LeaseFenced {
				m.fenced.Add(ctx, int64(len(l.Shards)))
			}
		},
		Value:      func(kind string, n int) { m.valueSize.Record(ctx, int64(n), m.ofKind.Of(kind)) },
		StoreError: func(act string, _ error) { m.storeErrors.Add(ctx, 1, m.ofAct.Of(act)) },
	}
}
