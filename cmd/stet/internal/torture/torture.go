// Package torture kills, pauses and stops processes that work on a store, and checks that no promise is broken.
//
// Worker processes execute random trees of commands: steps that fail and are
// tried again, sleeps, messages, promises, branches that join, race and are
// cancelled. The result of each follows from a seed. Every execution of a body
// is written to a log of effects, every call that succeeded to a log of
// acknowledgements; both are files beside the store, written line by line. The
// harness itself is a client like any other: it starts runs, sends, resolves,
// cancels and reads back, while it strikes at the workers. In the end it compares
// the logs with the store.
//
// A SIGKILL from outside looks like a run that kills its process, so while the harness kills, runs are not stalled for
// it. A phase of its own, with no kills from outside, has runs that do kill their processes: these must stall, and no
// others.
package torture

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// Config configures a torture. DB, Open and Worker are needed.
type Config struct {
	// DB names the store in the report.
	DB string
	// Open opens the store.
	Open func(context.Context) (store.Store, error)
	// Worker makes a command that calls Work with these orders in a process of its
	// own, on the same store.
	Worker func(orders string) *exec.Cmd
	// Nodes is the number of worker processes. Default 3.
	Nodes int
	// For is how long the workers are struck at. Default 30 s.
	For time.Duration
	// Strikes is how often that happens. Default: once per second.
	Strikes int
	// Faults are the kinds of strikes: some of Faults(). Default: all that this system can do.
	Faults []string
	// Outages are strikes at the store itself: one of three strikes is one of them. Default: none, and the store does not
	// go away.
	Outages []Outage
	// NoPoison leaves out the phase in which runs kill their processes, which takes more
	// than ten seconds.
	NoPoison bool
	// Seed makes the trees, and the order of strikes. Default: a random one.
	Seed uint64
	// Live is how many runs are kept going. Default 40.
	Live int
	// Dir is where the logs are written and kept; it holds none of a former torture.
	// Default: a new temporary folder, which is removed if nothing is found.
	Dir string
	// Plants are the names of defects that the workers get, to see whether they
	// are found. Default: none.
	Plants []string
	// Patience is how long no run may end, and no step be executed, before the live runs count as stuck. Default 30 s.
	Patience time.Duration
	// Lease is how long the leases of the workers last. Default 1.5 s: short, so that
	// much happens in a second.
	Lease time.Duration
	// Defaults leaves the times of the workers' engines as they are by default, in place of short ones: leases, polls,
	// the grace of a stop, and how long a suspect is alone and a run stays in memory. Lease is then of no effect.
	Defaults bool
	// Log gets the acts of the harness, and its engine's messages. Default: nothing.
	Log *slog.Logger
}

// Outage takes the store away from all its users, or cuts them off.
type Outage struct {
	// Name is what it is called in the report.
	Name string
	// Do does it, and has brought the store back when it returns. It is called by one
	// goroutine at a time, with a context that does not end with the strikes.
	Do func(context.Context) error
}

// ErrConfig: the Config asks for something that cannot be done.
var ErrConfig = errors.New("cannot be tortured")

const (
	// usualPatience is the default of Patience, and the least time that the harness waits for an answer before it asks
	// again.
	usualPatience = 30 * time.Second
	// lastPatience is how often it waits so long before it gives up: on a busy machine everything takes longer, and ends.
	lastPatience = 10
)

// longest returns how long the harness waits for what a machine does some day, however busy it is.
func (cfg *Config) longest() time.Duration { return lastPatience * max(cfg.Patience, usualPatience) }

func (cfg *Config) setDefaults() {
	for _, f := range []struct {
		field *int
		value int
	}{{&cfg.Nodes, 3}, {&cfg.Live, 40}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if cfg.For == 0 {
		cfg.For = 30 * time.Second
	}
	if cfg.Strikes == 0 {
		cfg.Strikes = max(int(cfg.For/time.Second), 1)
	}
	if cfg.Patience == 0 {
		cfg.Patience = usualPatience
	}
	switch {
	case cfg.Defaults:
		cfg.Lease = usualLease
	case cfg.Lease == 0:
		cfg.Lease = leaseTTL
	}
	if len(cfg.Faults) == 0 {
		cfg.Faults = Faults()
	}
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
}

// check reports all mistakes at once.
func (cfg *Config) check() error {
	var problems []error
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"nodes", int64(cfg.Nodes)}, {"kills", int64(cfg.Strikes)}, {"live runs", int64(cfg.Live)},
		{"seconds", int64(cfg.For)}, {"patience", int64(cfg.Patience)}, {"lease", int64(cfg.Lease)},
	} {
		if f.value < 1 {
			problems = append(problems, fmt.Errorf("%w: %s: expected 1 or more, found %d", ErrConfig, f.name, f.value))
		}
	}
	problems = append(problems, oneOf("fault", cfg.Faults, Faults()), oneOf("plant", cfg.Plants, allPlants))
	return errors.Join(problems...)
}

// Run tortures the store and returns its findings. An error means that the harness itself could not go on; a report
// beside it has what was found until then. ErrConfig: nothing was started.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	cfg.setDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	db, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if plants(cfg.Plants).has(plantStale) {
		db = newLenient(db)
	}
	kind, err := refuseForeign(ctx, newPatient(db, max(cfg.Patience, usualPatience)), cfg.DB)
	if err != nil {
		return nil, err
	}
	dir, temporary := cfg.Dir, cfg.Dir == ""
	if temporary {
		if dir, err = os.MkdirTemp("", "stet-torture-"); err != nil {
			return nil, err
		}
	}
	report := newReport(cfg.DB, kind, cfg.Seed, dir)
	for _, former := range []string{effectsFile, acksFile, factsFile} {
		if _, err := os.Stat(filepath.Join(dir, former)); err == nil {
			return nil, fmt.Errorf("%w: the folder %s holds the logs of a former torture: name another one", ErrConfig, dir)
		}
	}
	h := &harness{
		cfg: &cfg, db: db, report: report, effects: filepath.Join(dir, effectsFile), acks: filepath.Join(dir, acksFile),
		runs: map[string]*run{},
	}
	if err := h.run(ctx); err != nil {
		report.troubled("%v", err)
		return report, fmt.Errorf("%w; the logs are in %s", err, dir)
	}
	report.decide()
	if temporary && report.OK {
		report.Logs = ""
		err = os.RemoveAll(dir)
	}
	return report, err
}

// The names of the logs.
const (
	effectsFile = "effects.jsonl"
	acksFile    = "acks.jsonl"
	factsFile   = "facts.json" // what the judgement of the effects needs of the store
)

// refuseForeign refuses a store that holds other runs, and returns its kind.
func refuseForeign(ctx context.Context, db store.Store, name string) (kind string, err error) {
	about, err := db.Describe(ctx)
	if err != nil {
		return "", err
	}
	tallies, err := db.Count(ctx, store.Filter{})
	if err != nil {
		return "", err
	}
	for _, t := range tallies {
		if !strings.HasPrefix(t.Workflow, prefix) {
			return "", fmt.Errorf("%w: %s holds runs of workflow %q: name a new store; its processes are going to be killed",
				ErrConfig, name, t.Workflow)
		}
		if !t.Status.Terminal() && t.Status != store.Stalled {
			return "", fmt.Errorf("%w: %s holds live runs of a former torture: name a new store", ErrConfig, name)
		}
	}
	return about.Kind, nil
}
