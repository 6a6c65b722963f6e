package prom

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stet-run/stet"
)

// engines collects what the engines of a process have in memory.
type engines struct {
	mu     sync.Mutex
	list   []*stet.Engine
	groups map[string]int // of which a shard was held: without one they count 0
}

var (
	bodies = prometheus.NewDesc("stet_bodies",
		"Bodies of steps: executing; waiting for a place; committing, until their outcome is durable.", []string{"state"}, nil)
	inMemory = prometheus.NewDesc("stet_runs_in_memory", "Runs in memory: running, or parked while they are suspended.",
		[]string{"state"}, nil)
	shards = prometheus.NewDesc("stet_shards", "Shards whose lease this process holds.", []string{"group"}, nil)
)

func (e *engines) add(engine *stet.Engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, engine)
}

// all returns the engines.
func (e *engines) all() []*stet.Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

// known returns a count of 0 for each group of which a shard was held.
func (e *engines) known() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	groups := make(map[string]int, len(e.groups))
	for group := range e.groups {
		groups[group] = 0
	}
	return groups
}

func (e *engines) know(groups map[string]int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.groups = groups
}

// Describe implements prometheus.Collector.
func (e *engines) Describe(to chan<- *prometheus.Desc) { to <- bodies; to <- inMemory; to <- shards }

// Collect implements prometheus.Collector.
func (e *engines) Collect(to chan<- prometheus.Metric) {
	total := stet.Stats{Shards: e.known()}
	for _, engine := range e.all() {
		s := engine.Stats()
		total.Executing += s.Executing
		total.Waiting += s.Waiting
		total.Committing += s.Committing
		total.Running += s.Running
		total.Parked += s.Parked
		for group, n := range s.Shards {
			total.Shards[group] += n
		}
	}
	e.know(total.Shards)
	gauge := func(d *prometheus.Desc, n int, label string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), label)
	}
	gauge(bodies, total.Executing, "executing")
	gauge(bodies, total.Waiting, "waiting")
	gauge(bodies, total.Committing, "committing")
	gauge(inMemory, total.Running, "running")
	gauge(inMemory, total.Parked, "parked")
	for _, group := range slices.Sorted(maps.Keys(total.Shards)) {
		gauge(shards, total.Shards[group], group)
	}
}
