package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// input is what each job and each run is given, and what a run returns.
type input struct {
	Number int    `json:"number"`
	Steps  int    `json:"steps"`
	Size   int    `json:"size,omitempty"` // of the value that each step returns, in bytes; 0: that of its input
	Text   string `json:"text"`
}

func (input) Kind() string { return jobName } // for River

// The names of what is registered with each system.
const (
	jobName   = "bench_job"
	runName   = "bench_run"
	sleepName = "bench_sleep"
	queueName = "bench"
)

// restartID is the ID of the run that the workload restart interrupts.
const restartID = "bench-restart"

// subject is a system that is measured. Its methods but done are called by one goroutine, and putOne, later and
// execute by many.
type subject interface {
	// serve begins to execute what is put in, of jobs at most so many at a time. stop waits for what executes.
	serve(ctx context.Context, atATime int) (stop func() error, err error)
	// put puts jobs in by one call, or in one transaction if the system has no such call. They are executed by a serve
	// of so many at a time.
	put(ctx context.Context, jobs []input, atATime int) error
	putOne(ctx context.Context, job input, atATime int) error
	// later starts a run that sleeps so long, or puts in a job that is due then, and does not wait for it.
	later(ctx context.Context, number int, d time.Duration) error
	// done returns how many jobs and runs have succeeded, as the store has it.
	done(ctx context.Context) (int, error)
	close() error
}

// runner is a subject whose runs have durable steps.
type runner interface {
	subject
	// execute starts a run and returns its result. id may be "".
	execute(ctx context.Context, id string, in input) (input, error)
	// await returns the result of a run that a former process has started.
	await(ctx context.Context, id string) (input, error)
}

// entry is a subject with settings.
type entry struct {
	Name     string
	Settings string // that differ from the defaults
	tuned    bool
	stores   []string
	does     []string // workloads
	open     func(ctx context.Context, s *spec, w *work) (subject, error)
}

const stetName = "stet"

var (
	onlyPostgres = []string{"postgres"}
	bothStores   = []string{"postgres", "sqlite"}
)

// entries are in the order of the turns. The first one is what the others are compared with.
var entries = []entry{
	{Name: stetName, Settings: "defaults", stores: bothStores, does: workloadNames, open: openStet},
	{Name: "stet, named", tuned: true, stores: bothStores, does: []string{"restart"}, open: openStet,
		Settings: `Node: "bench", Replaces: true, as for a process that keeps its name`},
	{Name: "River", stores: onlyPostgres, does: []string{"queue", "timers"}, open: openRiver,
		Settings: "defaults, MaxWorkers as many as are worked off at a time, InsertMany"},
	{Name: "River, tuned", tuned: true, stores: onlyPostgres, does: []string{"queue", "timers"}, open: openRiver,
		Settings: "FetchCooldown 2 ms and FetchPollInterval 20 ms, as its own benchmark has them; InsertManyFast"},
	{Name: "DBOS", stores: bothStores, does: workloadNames, open: openDBOS,
		Settings: "defaults, WithWorkerConcurrency as many as are worked off at a time"},
	{Name: "DBOS, tuned", tuned: true, stores: bothStores, does: []string{"queue", "restart"}, open: openDBOS,
		Settings: "WithQueueBasePollingInterval(10 ms), ApplicationVersion given"},
}

// entryOf returns the entry of a name.
func entryOf(name string) (entry, error) {
	for _, e := range entries {
		if e.Name == name {
			return e, nil
		}
	}
	return entry{}, fmt.Errorf("expected a subject, found %q", name)
}

// takesPart reports whether the entry has what a workload needs.
func (e entry) takesPart(workload, store string, only []string) bool {
	return slices.Contains(e.does, workload) && slices.Contains(e.stores, store) &&
		(e.Name == stetName || len(only) == 0 || slices.ContainsFunc(only, func(name string) bool {
			return strings.EqualFold(name, e.Name) || strings.EqualFold(name, e.family())
		}))
}

// family is the name of the system: "River" of "River, tuned".
func (e entry) family() string { name, _, _ := strings.Cut(e.Name, ","); return name }

// quiet returns a logger of nothing, for the others: they log each query that a stop interrupts as an error. What is
// really missing the counts show.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
