package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

// shelves is a world in memory. A file that is named "broken" is never read, one named
// "late" from the second round on.
type shelves struct {
	files map[string][]string // by tenant

	mu     sync.Mutex
	reads  map[string][]time.Time // by tenant
	tries  map[File]int
	wrote  map[File]int
	nights []Report
}

func newShelves(files map[string][]string) *shelves {
	return &shelves{files: files, reads: map[string][]time.Time{}, tries: map[File]int{}, wrote: map[File]int{}}
}

func (w *shelves) note(tenant string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads[tenant] = append(w.reads[tenant], time.Now())
}

func (w *shelves) List(_ context.Context, tenant string) ([]string, error) {
	w.note(tenant)
	return w.files[tenant], nil
}

func (w *shelves) Read(_ context.Context, f File) ([]Row, error) {
	w.note(f.Tenant)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tries[f]++
	switch {
	case f.Name == "broken":
		return nil, errUnreadable
	case f.Name == "late" && w.tries[f] <= 3:
		return nil, errors.New("the source is away")
	}
	return []Row{{"tea", 2}, {"tea", 3}, {"jam", 1}}, nil
}

func (w *shelves) Write(_ context.Context, f File, totals map[string]int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrote[f] = totals["tea"]
	return nil
}

func (w *shelves) Tell(_ context.Context, r Report) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nights = append(w.nights, r)
	return nil
}

func workflows(w World) (*stet.Workflow[Night, Report], stet.Config) {
	p := &pipeline{world: w}
	p.loads = stet.Define("load", p.load)
	nights := stet.Define("night", p.night)
	return nights, stet.Config{Workflows: []stet.Definition{nights, p.loads}}
}

var perMinute = stet.QueueSettings{RatePerKey: 10, Per: time.Minute}

// TestNights: the schedule starts one night each day. The large tenant keeps to its rate, and
// the small one does not wait for it; what has failed is loaded again.
func TestNights(t *testing.T) {
	large := make([]string, 45)
	for i := range large {
		large[i] = fmt.Sprint("f", i)
	}
	world := newShelves(map[string][]string{"large": large, "small": {"a", "late", "broken"}})
	nights, cfg := workflows(world)
	stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		if err := e.Queues().Create(ctx, source, perMinute); err != nil {
			t.Fatal(err)
		}
		in := Night{Tenants: []string{"large", "small"}, Pause: time.Hour}
		if err := nights.Schedule(ctx, e, "nightly", in, stet.Schedule{Cron: "0 2 * * *"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(26*time.Hour + time.Minute) // virtual, from midnight: one night, and the beginning of another
		begun := time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC)
		world.mu.Lock()
		defer world.mu.Unlock()
		if len(world.nights) != 1 {
			t.Fatalf("there were %d nights", len(world.nights))
		}
		if r := world.nights[0]; r.Files != 47 || r.Rows != 3*47 || !slices.Equal(r.Failed, []string{"small/broken"}) {
			t.Errorf("the report is %+v", r)
		}
		if world.wrote[File{"small", "late"}] != 5 || world.wrote[File{"large", "f44"}] != 5 {
			t.Errorf("it has written %v", world.wrote)
		}
		for _, tenant := range slices.Sorted(maps.Keys(world.reads)) {
			times := world.reads[tenant]
			for i := 10; i < len(times); i++ {
				if d := times[i].Sub(times[i-10]); d < time.Minute {
					t.Errorf("%s: read %d comes %s after the tenth before it", tenant, i, d)
				}
			}
		}
		if d := world.reads["large"][45].Sub(begun); d < 4*time.Minute || d > 6*time.Minute {
			t.Errorf("the files of the large tenant were read in %s", d)
		}
		if d := world.reads["small"][5].Sub(begun); d > time.Minute {
			t.Errorf("the files of the small tenant were read in %s", d)
		}
	})
}

// TestSurvivesACrashAtEveryCommit loads each file, whenever the process dies.
func TestSurvivesACrashAtEveryCommit(t *testing.T) {
	world := newShelves(map[string][]string{"a": {"x", "broken"}, "b": {"y"}})
	nights, cfg := workflows(world)
	got, err := stettest.CrashEverywhere(t, nights, Night{Tenants: []string{"a", "b"}, Pause: time.Minute},
		stettest.WithConfig(cfg), stettest.Queues(map[string]stet.QueueSettings{source: {RatePerKey: 100}}))
	if err != nil || got.Files != 2 || !slices.Equal(got.Failed, []string{"a/broken"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestProgram runs the program on files: one of them is corrected while it waits.
func TestProgram(t *testing.T) {
	in, out := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(in, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("acme/may.csv", "tea,2\njam,1\ntea,3\n")
	write("acme/june.csv", "tea,two\n")
	write("zenith/may.csv", "ink,7\n")
	var print bytes.Buffer
	o := options{db: filepath.Join(t.TempDir(), "etl.db"), in: in, out: out, once: true, pause: time.Millisecond}
	if err := run(t.Context(), o, &print); err != nil {
		t.Fatal(err)
	}
	if got := print.String(); got != "2 files, 4 rows; failed: acme/june\n" {
		t.Errorf("it says %q", got)
	}
	write("acme/june.csv", "tea,2\n")
	if err := run(t.Context(), o, &print); err != nil { // another night
		t.Fatal(err)
	}
	if got := print.String(); !strings.HasSuffix(got, "\n3 files, 5 rows; failed: \n") {
		t.Errorf("it says %q", got)
	}
	data, err := os.ReadFile(filepath.Join(out, "acme", "may.json"))
	if err != nil || string(data) != `{"jam":1,"tea":5}` {
		t.Errorf("it has written %q, %v", data, err)
	}
}
