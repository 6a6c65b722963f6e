package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet/cmd/stet/internal/bench"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

func (lc trialCommands) benchCommand() *cobra.Command {
	var cfg bench.Config
	var profile, child, page string
	var all bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "measure how fast a store is under the engine",
		Long: `Measures a store with a fixed workload:

  throughput  -n runs of --steps steps, at most --concurrency at a time
  latency     -n runs of --steps steps, one at a time
  fanout      -n runs of --steps parallel steps
  message     -n runs that wait for a message, sent to one after the other
  foreign     -n runs in another process that wait for a message, sent from this one
  nodes       -n runs of --steps steps, with --work of computing each, by 1, 2, … --nodes processes
  databases   throughput over one, two and three Postgres databases, each limited to 512 KiB/s
  failover    -n runs of waits of 50 ms, and as many of steps that take it, on --nodes processes: how long
              they stand still when one stops, one comes, one is killed, and the only one is killed and
              started again; on SQLite only the last
  broadcast   one event to -n runs that wait for it: how fast they go on
  permits     -n children of --steps parallel steps, which need permits of five queues; also errors
              logged, leases lost, and the slowest script of Redis (at least slowlog-log-slower-than)
  loop        a loop of --steps iterations of one step: rate, memory, size of the store
  replay      a run of --steps steps, killed and taken up by a new process, -n times
  idle        a process with nothing to do: processor, context switches
  retention   -n runs of --steps steps are made, and deleted a minute later: rates
  pass        -n runs while a pass of retention deletes others, and without one: ratios
  backlog     how long a new run takes after an outage, beside -n runs that have become due
  jobs        -n runs of one step on a queue, --concurrency at a time: put in 1,000 in a call, worked off, both
  growth      -n starts on a queue that no process serves, then -n messages to a run that does not
              receive them: the last ones beside the first
  unusual     throughput on a server that is 1 ms away, alone and beside a run that sets values
  watched     throughput with nobody at the server, with a run and a list open, and with 1,000
              followers: ratios, memory of a follower
  sleepers    -n runs in a long sleep: memory, starts, idle queries
  timers      -n runs that sleep 2 s: how late they go on

With --raw it also measures what the store's driver can do with the same rows and
no engine, in the same run, and gives the figures as ratios to that.

--all measures every workload that the store can have, with --raw, and how throughput
changes with the number of runs at a time and the size of values. --report FILE
writes all of it as one page of HTML with drawings, which needs nothing else.

The store must be a new one, or hold nothing but runs of former measurements;
The address "memory:", with its colon, measures the engine alone. Of a store over several
databases --raw measures the driver on the first one.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if lc.output == "ids" {
				return usage(errors.New("--output: expected table or json, found ids"))
			}
			cfg.DB, cfg.Log, cfg.Open, cfg.In = lc.address(), lc.log, lc.benchStore(), lc.in
			if err := lc.benchPlace(&cfg); err != nil {
				return err
			}
			if all {
				if cmd.Flags().Changed("workload") {
					return usage(errors.New("--all measures every workload: leave --workload away"))
				}
				cfg.Workload, cfg.Curves, cfg.Raw = "all", true, lc.db != memoryStore
			}
			if child != "" {
				return bench.Child(cmd.Context(), cfg, child, lc.out)
			}
			cfg.Child = benchChild(lc.db, cfg.Steps)
			if profile != "" {
				stop, err := startProfile(profile)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, stop()) }()
			}
			write, err := pageWriter(page)
			if err != nil {
				return err
			}
			report, err := bench.Run(cmd.Context(), cfg)
			if errors.Is(err, bench.ErrConfig) {
				err = usage(err)
			}
			if err = errors.Join(err, write(report)); err != nil {
				return err
			}
			if lc.output == "json" {
				return lc.json(report)
			}
			return report.WriteText(lc.out)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Workload, "workload", "throughput",
		"what is measured: all, or one of "+strings.Join(bench.Workloads(), ", "))
	flags.IntVarP(&cfg.Runs, "runs", "n", 0, "`number` of runs; default: the workload's")
	flags.IntVar(&cfg.Steps, "steps", 0, "`number` of steps of a run; default: the workload's")
	flags.IntVar(&cfg.Concurrency, "concurrency", 0, "`number` of runs at a time; default: the workload's")
	flags.IntVar(&cfg.Nodes, "nodes", 0,
		"`number` of processes of workload failover, default: 2, and of nodes at most, default: 3")
	flags.DurationVar(&cfg.Work, "work", 0,
		"`time` that each step of workload nodes computes, on one processor for each process")
	flags.DurationVar(&cfg.LeaseTTL, "lease-ttl", 0, "`time` that a lease of the engine lasts; default: the engine's")
	flags.BoolVar(&cfg.Raw, "raw", false, "measure the driver too")
	flags.IntVar(&cfg.ValueSize, "value-size", 0, "`bytes` of each value of workload throughput, about; default: 100")
	flags.BoolVar(&all, "all", false, "measure everything, the driver too, and curves of throughput")
	flags.StringVar(&page, "report", "", "write a page of HTML to a new `file`")
	flags.StringVar(&profile, "cpuprofile", "", "write a CPU profile to `file`")
	flags.StringVar(&child, "child", "", "be a child process of a measurement")
	if err := flags.MarkHidden("child"); err != nil {
		panic(err) // only if there is no such flag
	}
	return cmd
}

// pageWriter makes the file of a page before hours of measuring. The returned function writes the report to it, or
// removes the file if there is none.
func pageWriter(file string) (func(*bench.Report) error, error) {
	if file == "" {
		return func(*bench.Report) error { return nil }, nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, usage(fmt.Errorf("--report: expected the name of a new file: %w", err))
	}
	return func(report *bench.Report) error {
		if report == nil {
			return errors.Join(f.Close(), os.Remove(file))
		}
		return errors.Join(report.WriteHTML(f), f.Close())
	}, nil
}

// memoryStore names a store in the memory of this process, for measuring.
const memoryStore = "memory:"

// benchPlace says where the store is.
func (lc trialCommands) benchPlace(cfg *bench.Config) error {
	if lc.db == memoryStore {
		return nil
	}
	kind, address, err := lc.backend()
	if err != nil {
		return err
	}
	switch {
	case kind.isFile():
		cfg.File = address
	case slices.Equal(kind.schemes, redisSchemes):
		cfg.Redis = address
	default:
		cfg.Postgres, _, _ = strings.Cut(strings.TrimSpace(address), " ") // of several databases the first
	}
	if at, err := url.Parse(lc.db); err == nil && !kind.isFile() && at.Port() != "" && !strings.Contains(at.Host, ",") {
		cfg.Server = at.String()
		cfg.OpenVia = func(ctx context.Context, urls ...string) (store.Store, error) {
			return (&opener{db: strings.Join(urls, " "), log: lc.log}).open(ctx, true)
		}
	}
	return nil
}

// benchStore opens the store that --db names, and makes it if it is not there.
func (lc trialCommands) benchStore() func(context.Context) (store.Store, error) {
	if lc.db == memoryStore {
		db := memory.New()
		return func(context.Context) (store.Store, error) { return db.Join(), nil }
	}
	return func(ctx context.Context) (store.Store, error) {
		s, err := lc.open(ctx, true)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// benchChild makes this program a child of its own measurement.
func benchChild(db string, steps int) func(context.Context, string) *exec.Cmd {
	return func(ctx context.Context, role string) *exec.Cmd {
		self, err := os.Executable()
		if err != nil {
			self = os.Args[0]
		}
		return exec.CommandContext(ctx, self, "bench", "--db", db, "--steps", strconv.Itoa(steps), "--child", role)
	}
}

// startProfile writes a CPU profile until the returned function is called.
func startProfile(file string) (stop func() error, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
