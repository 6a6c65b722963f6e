package main

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// TestKilledAndStartedAgain kills the program at random moments until it comes
// to its end.
func TestKilledAndStartedAgain(t *testing.T) {
	soak.Faults(t)
	testKills(t, writeTree(t, manyFiles(3*pageFiles/2)))
}

func TestKilledOnGoSource(t *testing.T) {
	soak.Faults(t)
	testKills(t, goSource(t))
}

// testKills compares the result of a run that is killed with that of one that is
// not. No step that was on record when the program was killed runs again, though
// each start works on another number of batches at a time.
func testKills(t *testing.T, dir string) {
	base := t.TempDir()
	calm := []string{"--db", filepath.Join(base, "undisturbed.db"), "--id", "r", dir}
	begin := time.Now()
	undisturbed := sumOf(t, calm...)
	whole := time.Since(begin)
	begin = time.Now()
	sumOf(t, calm...) // the stored result
	startup := time.Since(begin)
	work := max(whole-startup, time.Millisecond)

	db, effects := filepath.Join(base, "killed.db"), filepath.Join(base, "effects")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	starts := map[string]int{} // of the steps on record, by location
	for kills := 0; ; kills++ {
		if kills == 500 {
			t.Fatal("the run does not come to its end")
		}
		var out bytes.Buffer
		cmd := program(t, "--db", db, "--id", "r", "--effects", effects, "--parallel", strconv.Itoa(1+random.IntN(8)),
			"--json", dir)
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Each life may be a little longer than the one before, so that one is long enough; in the end much longer, if the
		// machine has become busier.
		life := random.Int64N(int64(startup+work*time.Duration(kills+1)/100) << (kills / 100))
		timer := time.AfterFunc(time.Duration(life), func() { _ = cmd.Process.Kill() }) // fails if it has ended
		err := cmd.Wait()
		timer.Stop()
		if err == nil {
			got := parseResult(t, out.Bytes())
			t.Logf("killed %d times; %d operations on record at the last start", kills, got.Resumed)
			if !reflect.DeepEqual(got.Sum, undisturbed.Sum) {
				t.Errorf("got %+v, want %+v", got.Sum, undisturbed.Sum)
			}
			if got.Resumed != len(starts) {
				t.Errorf("got resumed %d, want %d", got.Resumed, len(starts))
			}
			compareStarts(t, starts, stepStarts(t, db, effects))
			return
		}
		now := stepStarts(t, db, effects)
		compareStarts(t, starts, now)
		starts = now
	}
}

func compareStarts(t *testing.T, before, now map[string]int) {
	t.Helper()
	for location, n := range before {
		if now[location] != n {
			t.Errorf("step %s was on record after %d starts and has %d now", location, n, now[location])
		}
	}
}

// stepStarts returns how often each step that is on record has been started.
func stepStarts(t *testing.T, db, effects string) map[string]int {
	t.Helper()
	engine := inspect(t, db)
	entries, err := engine.Runs().History(t.Context(), "r", stet.HistoryQuery{})
	if err != nil && !errors.Is(err, stet.ErrNotFound) {
		t.Fatal(err)
	}
	log, err := os.ReadFile(effects)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	all := map[string]int{}
	for line := range strings.Lines(string(log)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "r" || fields[2] != "1" {
			t.Fatalf("expected run, location and attempt 1 in the log of effects, found %q", line)
		}
		all[fields[1]]++
	}
	steps := map[string]int{}
	for _, e := range entries {
		if e.State != store.Done || e.Kind != store.KindStep || all[e.Location] == 0 {
			t.Errorf("expected steps that are done and were started, found %s %s at %s, started %d times",
				e.Kind, e.State, e.Location, all[e.Location])
		}
		steps[e.Location] = all[e.Location]
	}
	return steps
}

// inspect returns an engine that only reads the file.
func inspect(t *testing.T, db string) *stet.Engine {
	t.Helper()
	s, err := sqlite.Open(context.Background(), db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	engine, err := stet.New(t.Context(), stet.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}
