package torture_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/cmd/stet/internal/torture"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
	"github.com/stet-run/stet/store/redis"
	"github.com/stet-run/stet/store/sqlite"
)

// TestMain makes the test binary a worker when it is given orders.
func TestMain(m *testing.M) {
	if orders := os.Getenv("STET_TORTURE_ORDERS"); orders != "" {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		err := torture.Work(context.Background(), opener(os.Getenv("STET_TORTURE_DB")), orders, os.Stdin, log)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if contendAs != nil && os.Getenv("STET_TORTURE_CONTENDER") != "" {
		if err := contendAs(os.Getenv("STET_TORTURE_CONTENDER")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// contendAs is the life of a process that wants a shard; nil where there are none.
var contendAs func(name string) error

// opener opens a file, or a Redis or Postgres store, also one over several databases with a ; between them.
func opener(db string) func(context.Context) (store.Store, error) {
	slots := 256
	if !soak.On() {
		// A server that shares two cores with all other tests: hundreds of leases of a
		// second and a half are more than it can renew in time.
		slots = 12
	}
	if strings.Contains(db, "?addr=") {
		return func(ctx context.Context) (store.Store, error) { return redis.Open(ctx, db, redis.Slots(slots)) }
	}
	if strings.HasPrefix(db, "redis://") {
		return func(ctx context.Context) (store.Store, error) { return redis.Open(ctx, db) }
	}
	if dsns := strings.Split(db, "; "); len(dsns) > 1 {
		return func(ctx context.Context) (store.Store, error) {
			return postgres.OpenAll(ctx, dsns, postgres.Slots(slots))
		}
	}
	if strings.HasPrefix(db, "host=") {
		return func(ctx context.Context) (store.Store, error) { return postgres.Open(ctx, db, postgres.Slots(slots)) }
	}
	return func(ctx context.Context) (store.Store, error) { return sqlite.Open(ctx, db) }
}

// config tortures a new file for a few seconds.
func config(t *testing.T) torture.Config {
	t.Helper()
	return configOf(t, filepath.Join(t.TempDir(), "torture.db"))
}

func configOf(t *testing.T, db string) torture.Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return torture.Config{
		DB: db, Open: opener(db), Dir: t.TempDir(),
		Worker: func(orders string) *exec.Cmd {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), "STET_TORTURE_ORDERS="+orders, "STET_TORTURE_DB="+db)
			return cmd
		},
		Nodes: 2, For: 4 * time.Second, Strikes: 5, Live: 15,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

func tortured(t *testing.T, cfg torture.Config) *torture.Report {
	t.Helper()
	report, err := torture.Run(t.Context(), cfg)
	if report != nil {
		var text strings.Builder
		if err := report.WriteText(&text); err != nil {
			t.Error(err)
		}
		t.Log(text.String())
		if report.Broken() {
			t.Log(linesOf(t, report, cfg.Dir))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// runNames finds the IDs of runs in a report.
var runNames = regexp.MustCompile(`torture-[^\s:,"]+`)

// linesOf returns what was logged of the runs that a report accuses, and all takeovers and pauses: moments are not
// repeated by a seed.
func linesOf(t *testing.T, report *torture.Report, dir string) string {
	t.Helper()
	parts := []string{`"k":"own"`, `"k":"lost"`, `"k":"left"`}
	for _, examples := range report.Examples {
		for _, example := range examples {
			for _, id := range runNames.FindAllString(example, -1) {
				parts = append(parts, `"r":"`+id+`"`)
			}
		}
	}
	var text strings.Builder
	for _, name := range []string{"effects.jsonl", "acks.jsonl"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err.Error()
		}
		for line := range strings.Lines(string(data)) {
			if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(line, part) }) {
				text.WriteString(line)
			}
		}
	}
	facts, err := os.ReadFile(filepath.Join(dir, "facts.json"))
	if err != nil {
		return err.Error()
	}
	var f struct{ Pauses, Shards json.RawMessage }
	if err := json.Unmarshal(facts, &f); err != nil {
		return err.Error()
	}
	fmt.Fprintf(&text, "pauses %s\nshards %s\n", f.Pauses, f.Shards)
	return text.String()
}

// longer calls do with more time for each torture, until it reports that this was enough, and fails the test if it
// never is: the amount of work in a while depends on the load of the machine.
func longer(t *testing.T, first time.Duration, do func(d time.Duration, last bool) (enough bool)) {
	t.Helper()
	for d := first; ; d *= 2 {
		last := d >= 8*first
		if do(d, last) || last {
			return
		}
	}
}

// TestNothingIsBroken is the torture of make test: processes on one file. make faults tortures servers.
func TestNothingIsBroken(t *testing.T) {
	longer(t, 4*time.Second, func(d time.Duration, last bool) bool {
		cfg := config(t)
		cfg.For = d
		return nothingIsBroken(t, tortured(t, cfg), last)
	})
}

// nothingIsBroken fails the test if there are violations. It reports whether enough was done to judge; the last time
// the test fails if not.
func nothingIsBroken(t *testing.T, report *torture.Report, last bool) (enough bool) {
	t.Helper()
	if !report.OK {
		t.Errorf("seed %d: there are violations", report.Seed)
	}
	enough = true
	for _, name := range []string{"runs", "runs: succeeded", "children: succeeded", "entries", "executions of steps",
		"takeovers", "timers", "items of streams",
		"acknowledged: start", "acknowledged: send", "done: rewind", "done: fork", "done: edit", "done: resume",
		"runs that are kept a minute", "limited runs: succeeded", "looks at permits", "permits of torture-slots",
		"permits of torture-calls", "instants of schedules", "runs of schedules: succeeded",
		"events of consumed topics", "events of broadcast topics", "listeners: succeeded", "accounts: succeeded",
		"trips: succeeded", "trips: failed", "bookings undone", "bookings that stand", "readers: succeeded",
		"items emitted", "units spent", "units of torture-tokens", "payments booked",
		"payments refused", "payments failed", "payments unanswered", "payments asked for again"} {
		if report.Counts[name] > 0 {
			continue
		}
		if enough = false; last {
			t.Errorf("seed %d: nothing was done of %q", report.Seed, name)
		}
	}
	if got := report.Counts["runs: stalled"]; got != 3 {
		t.Errorf("expected 3 stalled runs, the poison, found %d", got)
	}
	return enough || t.Failed()
}

// partsOfPlants is how many days make test needs for all groups of planted defects; make faults has all at once.
const partsOfPlants = 5

// TestEveryPlantedDefectIsFound gives the workers defects that break different
// promises, and expects the harness to see each.
func TestEveryPlantedDefectIsFound(t *testing.T) {
	today := soak.Part(t, 0, partsOfPlants)
	for i, broken := range []map[string]string{
		{"twice": "duplicated", "ack": "acknowledged lost", "early": "early timers", "wrong": "wrong results"},
		{"again": "completed step run again", "repeat": "broken streams", "send": "wrong results",
			"stale": "stale commits accepted", "deaf": "acknowledged lost", "harmless": "poison not stalled"},
		{"unlimited": "limits exceeded", "instant": "instants lost or doubled", "event": "events lost or doubled",
			"accept": "refused updates applied", "twofold": "duplicated", "answer": "updates answered differently"},
		{"kept": "undone wrongly", "unspent": "units counted wrongly"},
		{"builds": "executed by an earlier build"},
		{"stuck": "stuck"},
		{"ahead": "early timers"},
		{"cheap": "limits exceeded"},
		{"mute": "broken streams"},
	} {
		if !soak.WithFaults() && i%partsOfPlants != today {
			continue
		}
		plants := slices.Sorted(maps.Keys(broken))
		t.Run(strings.Join(plants, ","), func(t *testing.T) {
			t.Parallel()
			longer(t, 2*time.Second, func(d time.Duration, last bool) (all bool) {
				cfg := config(t)
				if slices.Contains(plants, "builds") { // they count where several processes work at a time
					cfg = configOf(t, servers.NewRedis(t, servers.Durable...).URL())
				}
				cfg.Plants, cfg.For, cfg.Strikes, cfg.Faults, cfg.Patience = plants, d, 2, []string{"stop"}, 3*time.Second
				if slices.Contains(plants, "builds") { // processes must take turns
					cfg.Strikes = 4 * int(d/time.Second)
				}
				report := tortured(t, cfg)
				found := map[string]int{}
				for name, n := range report.Violations {
					found[string(name)] = n
				}
				all = true
				for plant, want := range broken {
					if !report.OK && found[want] > 0 {
						continue
					}
					if all = false; last {
						t.Errorf("seed %d: plant %q: expected %q, found %v", report.Seed, plant, want, found)
					}
				}
				return all
			})
		})
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	for name, change := range map[string]func(*torture.Config){
		"negative nodes": func(c *torture.Config) { c.Nodes = -1 },
		"unknown plant":  func(c *torture.Config) { c.Plants = []string{"tree"} },
		"unknown fault":  func(c *torture.Config) { c.Faults = []string{"flood"} },
	} {
		cfg := config(t)
		change(&cfg)
		if _, err := torture.Run(t.Context(), cfg); !errors.Is(err, torture.ErrConfig) {
			t.Errorf("%s: expected ErrConfig, found %v", name, err)
		}
	}
}

// The logs of two tortures in one folder would be read as those of one.
func TestLogsOfAFormerTortureAreRefused(t *testing.T) {
	cfg := config(t)
	if err := os.WriteFile(filepath.Join(cfg.Dir, "acks.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := torture.Run(t.Context(), cfg); !errors.Is(err, torture.ErrConfig) ||
		!strings.Contains(err.Error(), cfg.Dir) {
		t.Fatalf("expected ErrConfig that names the folder, found %v", err)
	}
}

func TestStoreOfSomebodyElseIsRefused(t *testing.T) {
	cfg := config(t)
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
	if _, err := torture.Run(t.Context(), cfg); !errors.Is(err, torture.ErrConfig) ||
		!strings.Contains(err.Error(), "checkout") {
		t.Fatalf("expected ErrConfig that names the workflow, found %v", err)
	}
}
