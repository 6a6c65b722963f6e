package bench_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/cmd/stet/internal/bench"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

// TestMain makes the test binary a child of workload replay when it is asked to.
func TestMain(m *testing.M) {
	if role := os.Getenv("STET_BENCH_ROLE"); role != "" {
		cfg := onFile(os.Getenv("STET_BENCH_FILE"))
		cfg.Steps, cfg.In = 20, os.Stdin
		if err := bench.Child(context.Background(), cfg, role, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func onFile(file string) bench.Config {
	return bench.Config{
		DB: file, File: file,
		Open: func(ctx context.Context) (store.Store, error) { return sqlite.Open(ctx, file) },
	}
}

func inTempDir(t *testing.T) bench.Config {
	t.Helper()
	cfg := onFile(filepath.Join(t.TempDir(), "bench.db"))
	cfg.Child = func(ctx context.Context, role string) *exec.Cmd {
		self, err := os.Executable()
		if err != nil {
			t.Error(err)
		}
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), "STET_BENCH_ROLE="+role, "STET_BENCH_FILE="+cfg.File)
		return cmd
	}
	return cfg
}

// figuresOf are the figures that each workload gives.
var figuresOf = map[string][]string{
	"throughput": {"runs", "steps", "rows"},
	"latency":    {"run p50", "run p99"},
	"fanout":     {"steps"},
	"message":    {"send to end p50", "send to end p99"},
	"foreign":    {"send to end p50", "send to end p99"},
	"broadcast":  {"started and waiting", "resumed and ended"},
	"replay":     {"process start to end of run p50", "opening the store to end of run p100"},
	"idle":       {"store calls"},
	"retention":  {"made", "deleted"},
	"pass": {"runs, no pass", "runs beside a pass", "single run p50, no pass", "single run p50 beside a pass",
		"due runs that no pass has reached"},
	"jobs":    {"put in and worked off at once", "put in, 1,000 in a call", "worked off"},
	"backlog": {"fresh run", "due runs that it has overtaken", "until none is left"},
	"growth":  {"starts on a queue, first", "starts on a queue, last", "messages, first", "messages, last"},
	"failover": {"the only node is killed and started again: longest pause of a run, waiting p100",
		"the only node is killed and started again: longest pause of a run, executing p100"},
	"watched": {"alone", "mounted", "open", "followed", "memory of a follower",
		"commit to event p99, the same process"},
	"sleepers": {"started", "started and asleep", "heap per run", "store calls when idle", "opening the store to owning it"},
	"loop":     {"iterations", "steps of one run without a loop", "heap early", "heap at the end"},
	"permits": {"steps, no permits", "steps, limit never reached", "share, limit never reached",
		"steps, rate of 400/s each", "share, rate of 400/s each", "errors logged", "leases lost"},
	"timers": {"lateness mean", "lateness p99", "lateness earliest"},
}

func TestEachWorkload(t *testing.T) {
	for _, name := range bench.Workloads() {
		if name == "nodes" || name == "unusual" || name == "databases" {
			continue // they need a server; see TestPostgresScripts of the command line
		}
		t.Run(name+" on SQLite", func(t *testing.T) {
			t.Parallel()
			inBubble(t, name, func(t *testing.T) {
				cfg := inTempDir(t)
				checkReport(t, cfg, name)
			})
		})
		if name == "replay" || name == "foreign" || name == "failover" || name == "retention" || name == "pass" {
			continue // in memory it is refused, see below
		}
		t.Run(name+" in memory", func(t *testing.T) {
			t.Parallel()
			inBubble(t, name, func(t *testing.T) {
				db := memory.New()
				checkReport(t, bench.Config{DB: "memory:",
					Open: func(context.Context) (store.Store, error) { return db.Join(), nil }}, name)
			})
		})
	}
}

// inBubble calls test under virtual time, if the workload needs no other process and no socket.
func inBubble(t *testing.T, workload string, test func(*testing.T)) {
	t.Helper()
	if workload == "replay" || workload == "foreign" || workload == "failover" || workload == "watched" {
		test(t)
		return
	}
	synctest.Test(t, test)
}

func checkReport(t *testing.T, cfg bench.Config, workload string) {
	t.Helper()
	cfg.Workload, cfg.Runs, cfg.Steps, cfg.Concurrency = workload, 5, 20, 2
	report, err := bench.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range report.Figures {
		if f.Workload != workload {
			t.Errorf("a figure of %s", f.Workload)
		}
		found[f.Name] = f.Value
	}
	for _, name := range figuresOf[workload] {
		if _, ok := found[name]; !ok {
			t.Errorf("no figure %q among %v", name, report.Figures)
		}
	}
	if early := -found["lateness earliest"]; early > 0 {
		t.Errorf("a timer fired %v ms early", early)
	}
}

func TestRawGivesRatios(t *testing.T) {
	cfg := inTempDir(t)
	cfg.Workload, cfg.Runs, cfg.Raw = "throughput", 20, true
	report, err := bench.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Raw) != 1 || report.Raw[0].Rows1 <= 0 || report.Raw[0].Rows100 <= report.Raw[0].Rows1 {
		t.Fatalf("raw: expected rates that grow with the batch, found %+v", report.Raw)
	}
	// Medians of the rates and of the ratio need not fit exactly.
	ratio := report.Figures[2].Value / report.Raw[0].Rows1000
	if m := report.Marks[0]; m.Unit != "raw" || m.Value < ratio/10 || m.Value > ratio*10 {
		t.Errorf("expected about %v, found %+v", ratio, m)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(cfg.File), "stet-bench-raw-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the driver's file is left behind: %v, %v", left, err)
	}
	var text bytes.Buffer
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"DRIVER BESIDE", "1,000 rows per commit", "throughput", "rows/s", "at least 0.45"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("expected %q in:\n%s", want, text.String())
		}
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	for name, change := range map[string]func(*bench.Config){
		"unknown workload":      func(c *bench.Config) { c.Workload = "all of it" },
		"negative runs":         func(c *bench.Config) { c.Runs = -1 },
		"raw without a file":    func(c *bench.Config) { c.File, c.Raw = "", true },
		"foreign in memory":     func(c *bench.Config) { c.Workload, c.File = "foreign", "" },
		"nodes on a file":       func(c *bench.Config) { c.Workload = "nodes" },
		"failover in memory":    func(c *bench.Config) { c.Workload, c.File = "failover", "" },
		"retention in memory":   func(c *bench.Config) { c.Workload, c.File = "retention", "" },
		"databases on a file":   func(c *bench.Config) { c.Workload = "databases" },
		"unusual on a file":     func(c *bench.Config) { c.Workload = "unusual" },
		"negative values":       func(c *bench.Config) { c.ValueSize = -1 },
		"negative work":         func(c *bench.Config) { c.Work = -1 },
		"replay without a file": func(c *bench.Config) { c.Workload, c.File = "replay", "" },
	} {
		cfg := inTempDir(t)
		cfg.Workload = "latency"
		change(&cfg)
		if _, err := bench.Run(t.Context(), cfg); !errors.Is(err, bench.ErrConfig) {
			t.Errorf("%s: expected ErrConfig, found %v", name, err)
		}
	}
}

func TestStoreOfSomebodyElseIsRefused(t *testing.T) {
	cfg := inTempDir(t)
	db, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := stet.Define("checkout", func(stet.Context, int) (int, error) { return 0, nil })
	e, err := stet.New(t.Context(), stet.Config{Store: db, Workflows: []stet.Definition{w}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Start(t.Context(), e, 1); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Workload = "latency"
	if _, err := bench.Run(t.Context(), cfg); !errors.Is(err, bench.ErrConfig) ||
		!strings.Contains(err.Error(), "checkout") {
		t.Fatalf("expected ErrConfig that names the workflow, found %v", err)
	}
}

// mortal is a store of which an engine loses its leases after some commits.
type mortal struct {
	store.Store
	commits *atomic.Int64
}

func (m mortal) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if m.commits.Add(1) == 10 {
		_ = m.Close() // the engine ends with it
	}
	return m.Store.Commit(ctx, b)
}

// TestAnEngineThatEndsEndsTheMeasurement: nothing that is waited for would come.
func TestAnEngineThatEndsEndsTheMeasurement(t *testing.T) {
	db := memory.New()
	cfg := bench.Config{
		DB: "memory:", Workload: "permits",
		Open: func(context.Context) (store.Store, error) { return mortal{db.Join(), &atomic.Int64{}}, nil },
	}
	_, err := bench.Run(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "the engine has ended while it was measured") {
		t.Errorf("found %v", err)
	}
}

// unlucky is a store whose leases are not renewed, and of which one commit lasts longer than they do.
type unlucky struct {
	store.Store
	commits, acquired *atomic.Int64
}

func (u unlucky) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if u.commits.Add(1) == 10 {
		time.Sleep(25 * time.Second) // of 30
	}
	return u.Store.Commit(ctx, b)
}

func (u unlucky) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	u.acquired.Add(1)
	return u.Store.Acquire(ctx, n, shards, ttl)
}

func (u unlucky) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time,
	error) {
	if u.acquired.Load() == 1 {
		return nil, 0, store.ErrUnavailable
	}
	return u.Store.Renew(ctx, leases, ttl)
}

// TestTroublesAreCounted: leases that were lost, and what the engine has logged as an error.
func TestTroublesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New(memory.Slots(8))
		cfg := bench.Config{
			DB: "memory:", Workload: "permits", Runs: 5, Steps: 5,
			Open: func(context.Context) (store.Store, error) {
				return unlucky{db.Join(), &atomic.Int64{}, &atomic.Int64{}}, nil
			},
		}
		report, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Figures {
			if (f.Name == "leases lost" || f.Name == "errors logged") && f.Value < 1 {
				t.Errorf("%s: %v", f.Name, f.Value)
			}
		}
	})
}
