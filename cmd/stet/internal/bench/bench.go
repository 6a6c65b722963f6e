// Package bench measures a store under the engine with a few fixed workloads. Beside it, it measures the store's driver
// with the same rows and no engine, so that figures of different machines can be compared by their ratio.
//
// The workloads carry values of about 100 bytes of JSON, unless they are told to carry others. They use the store they
// are given and leave their runs there; the names of their workflows begin with "bench-". A store that holds other runs
// is refused.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// Config says what to measure. DB, Open and Workload are needed.
type Config struct {
	// DB names the store in the report.
	DB string
	// Open opens the store. It is called once for each workload.
	Open func(context.Context) (store.Store, error)
	// File is the path of an SQLite store; "" for others. Raw measures in its
	// folder.
	File string
	// Postgres is the address of the server of a store in Postgres; "" for others.
	// Raw measures in its database.
	Postgres string
	// Redis is the URL of the server of a store in Redis; "" for others. Raw
	// measures on it.
	Redis string
	// Server is the URL of the store's only server, and OpenVia opens a store at other ones: several are the
	// databases of one store. Workloads unusual and databases need them.
	Server  string
	OpenVia func(ctx context.Context, urls ...string) (store.Store, error)
	// Workload is one of Workloads, or "all".
	Workload string
	// Runs, Steps and Concurrency size the workload; 0: its defaults.
	Runs        int
	Steps       int
	Concurrency int
	// Nodes is the number of processes of workload failover, 0: two, and the largest of nodes, 0: three. Work is the
	// computing time of each step of nodes when it is alone; each process then uses one processor.
	Nodes int
	Work  time.Duration
	// LeaseTTL is the length of the engine's leases; 0: its default.
	LeaseTTL time.Duration
	// ValueSize is the size of the values of workload throughput, in bytes of JSON, about; 0: 100.
	ValueSize int
	// Raw measures the driver too.
	Raw bool
	// Curves measures how throughput changes with the number of runs at a time and with the size of values.
	Curves bool
	// Child makes a command that calls Child with the role in a process of its
	// own, on the same store and with the same Steps. Workloads replay, foreign,
	// nodes and failover need it.
	Child func(ctx context.Context, role string) *exec.Cmd
	// In is the input of a child, which ends when In does.
	In io.Reader
	// Log gets the engine's messages. Default: nothing.
	Log *slog.Logger

	kind string // of the store
}

// ErrConfig: the Config asks for something that cannot be measured.
var ErrConfig = errors.New("cannot be measured")

// workload measures with the config and adds its figures to the report.
type workload struct {
	measure     func(context.Context, *Config, *Report) error
	repeats     int // how often it is measured, for the medians
	runs        int // defaults; 0: the workload has no such size
	steps       int
	concurrency int
}

const (
	latencySteps = 10 // of a run to which the gate applies
	replaySteps  = 1000
	defaultNodes = 3
)

var workloads = map[string]workload{
	"throughput": {measureThroughput, 3, 5000, 10, 100}, // fewer take so short that the figures spread by 1.6
	"latency":    {measureLatency, 3, 100, latencySteps, 0},
	"fanout":     {measureFanout, 3, 0, 0, 0}, // both of its shapes, unless it is given one
	"message":    {measureMessage, 3, 200, 0, 0},
	"foreign":    {measureForeign, 3, 200, 0, 0},
	"nodes":      {measureNodes, 1, 200, 5, 50},
	"failover":   {measureFailover, 1, 30, 0, 0},
	"broadcast":  {measureBroadcast, 3, 10_000, 0, 0},
	"permits":    {measurePermits, 1, 50, 100, 0},
	"loop":       {measureLoop, 1, 0, 20_000, 0}, // the mark is for a million
	"replay":     {measureReplay, 1, 3, replaySteps, 0},
	"watched":    {measureWatched, 1, 1000, 10, 100},
	"sleepers":   {measureSleepers, 1, 50_000, 0, 100}, // with 10,000 the noise of resident memory is above the gate
	"idle":       {measureIdle, 1, 0, 0, 0},
	"timers":     {measureTimers, 1, 1000, 0, 100},
	"databases":  {measureDatabases, 1, 1000, 10, 300},
	"retention":  {measureRetention, 1, 2000, 10, 100},
	"pass":       {measurePass, 1, 2000, 10, 100},
	"backlog":    {measureBacklog, 1, 10_000, 0, 0},
	"jobs":       {measureJobs, 3, 10_000, 0, 100},
	"growth":     {measureGrowth, 1, 9000, 0, 100},
	"unusual":    {measureUnusual, 3, 500, 10, 100},
}

// Workloads returns the names of the workloads, sorted.
func Workloads() []string { return slices.Sorted(maps.Keys(workloads)) }

// Run measures. It blocks until all is measured or ctx ends. ErrConfig: the
// config cannot be carried out; nothing was started then.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	names := []string{cfg.Workload}
	if cfg.Workload == "all" {
		names = Workloads()
	}
	if err := cfg.check(names); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	report := &Report{DB: cfg.DB, Machine: thisMachine(), Begun: time.Now()}
	if err := cfg.inspect(ctx, report); err != nil {
		return nil, err
	}
	cfg.kind = report.Kind
	var driver rawDriver
	if cfg.Raw {
		if driver, err = openRaw(ctx, &cfg); err != nil {
			return nil, fmt.Errorf("measure the driver: %w", err)
		}
		defer func() { err = errors.Join(err, driver.close()) }()
	}
	for _, name := range names {
		w := workloads[name]
		sized := cfg
		sized.Workload = name
		if name == "failover" {
			orDefault(&sized.Nodes, failoverNodes)
		}
		orDefault(&sized.Nodes, defaultNodes)
		if name == "nodes" && cfg.Work == 0 { // so many that the store is the bottleneck
			orDefault(&sized.Runs, 2000)
			orDefault(&sized.Concurrency, 400)
		}
		orDefault(&sized.Runs, w.runs)
		orDefault(&sized.Steps, w.steps)
		orDefault(&sized.Concurrency, w.concurrency)
		orDefault(&sized.ValueSize, valueSize)
		var takes []*Report
		for range w.repeats {
			t, err := take(ctx, sized, w, driver)
			if err != nil {
				return nil, fmt.Errorf("workload %s: %w", name, err)
			}
			takes = append(takes, t)
		}
		report.add(takes)
	}
	if cfg.Curves {
		if err := measureCurves(ctx, cfg, driver, report); err != nil {
			return nil, err
		}
	}
	report.Took = time.Since(report.Begun)
	return report, nil
}

// take measures a workload once, with the driver measured before and after, because the speed of a machine changes from
// second to second.
func take(ctx context.Context, cfg Config, w workload, driver rawDriver) (*Report, error) {
	report := &Report{Kind: cfg.kind}
	if driver == nil {
		err := w.measure(ctx, &cfg, report)
		report.relate(nil)
		return report, err
	}
	before, err := measureRaw(ctx, driver)
	if err != nil {
		return nil, fmt.Errorf("measure the driver: %w", err)
	}
	if err := w.measure(ctx, &cfg, report); err != nil {
		return nil, err
	}
	after, err := measureRaw(ctx, driver)
	if err != nil {
		return nil, fmt.Errorf("measure the driver: %w", err)
	}
	report.relate(&Raw{cfg.Workload, (before.Rows1 + after.Rows1) / 2, (before.Rows100 + after.Rows100) / 2,
		(before.Rows1000 + after.Rows1000) / 2})
	return report, nil
}

func orDefault(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// check reports all mistakes at once.
func (cfg *Config) check(names []string) error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...)))
	}
	for _, name := range names {
		if _, ok := workloads[name]; !ok {
			bad("workload %q: expected all or one of %s", name, strings.Join(Workloads(), ", "))
		}
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"the number of runs", cfg.Runs}, {"steps", cfg.Steps}, {"concurrency", cfg.Concurrency}, {"nodes", cfg.Nodes},
		{"the size of values", cfg.ValueSize}} {
		if f.value < 0 {
			bad("%s: expected 1 or more, found %d", f.name, f.value)
		}
	}
	if cfg.Raw && cfg.File == "" && cfg.Postgres == "" && cfg.Redis == "" {
		bad("raw: expected a store whose driver can be measured, found %s", cfg.DB)
	}
	if slices.Contains([]string{"replay", "foreign", "failover"}, cfg.Workload) && !cfg.shared() {
		bad("workload %s: expected a store that several processes can use, found %s", cfg.Workload, cfg.DB)
	}
	if (cfg.Workload == "retention" || cfg.Workload == "pass") && !cfg.onDisk() {
		bad("workload %s: expected a store that is kept, found %s", cfg.Workload, cfg.DB)
	}
	if cfg.Workload == "unusual" && cfg.OpenVia == nil {
		bad("workload unusual: expected the URL of one server, found %s", cfg.DB)
	}
	if cfg.Workload == "databases" && (cfg.OpenVia == nil || cfg.Postgres == "") {
		bad("workload databases: expected the URL of one Postgres server, found %s", cfg.DB)
	}
	if cfg.Workload == "nodes" && !cfg.many() {
		bad("workload nodes: expected a store that several processes work on, in Postgres or Redis, found %s", cfg.DB)
	}
	if cfg.Workload == "failover" && cfg.Nodes == 1 {
		bad("workload failover: expected 2 nodes or more, found 1")
	}
	if cfg.Work < 0 {
		bad("work: expected a time from 0, found %s", cfg.Work)
	}
	return errors.Join(problems...)
}

// inspect refuses a store that holds other runs.
func (cfg *Config) inspect(ctx context.Context, report *Report) error {
	db, err := cfg.Open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	about, err := db.Describe(ctx)
	if err != nil {
		return err
	}
	report.Kind, report.Durable = about.Kind, about.Durable
	tallies, err := db.Count(ctx, store.Filter{})
	if err != nil {
		return err
	}
	for _, t := range tallies {
		if !strings.HasPrefix(t.Workflow, prefix) {
			return fmt.Errorf("%w: %s holds runs of workflow %q: name a new store, "+
				"its figures would be of no use and its runs would be executed", ErrConfig, cfg.DB, t.Workflow)
		}
	}
	return nil
}
