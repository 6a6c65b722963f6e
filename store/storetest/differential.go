package storetest

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scriptDir is where scripts are kept, of this package and of that under test.
const scriptDir = "testdata/scripts"

//go:embed testdata/scripts/*.txt
var ownScripts embed.FS

const (
	seeds      = 40  // random scripts that are tried
	operations = 120 // in each, before the ones that end it
)

// runScripts carries out the scripts that are kept.
func runScripts(t *testing.T, open Open, s share) {
	for _, from := range []struct {
		name string
		fsys fs.FS
	}{{"storetest", ownScripts}, {"own", os.DirFS(".")}} {
		files, err := fs.Glob(from.fsys, scriptDir+"/*.txt")
		if err != nil {
			t.Fatal(err)
		}
		for i, file := range files {
			if !s.has(i) {
				continue
			}
			if _, err := fs.Stat(ownScripts, file); err == nil && from.name == "own" {
				continue // these are the same
			}
			t.Run(from.name+"/"+strings.TrimSuffix(path.Base(file), ".txt"), func(t *testing.T) {
				text, err := fs.ReadFile(from.fsys, file)
				if err != nil {
					t.Fatal(err)
				}
				ops, err := parseScript(string(text))
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				if at, err := replay(t, open, ops); err != nil {
					t.Errorf("%s: operation %d: %v\n%s", file, at+1, err, printScript(ops[at:at+1]))
				}
			})
		}
	}
}

// replay carries out operations on a new store. It returns the first at which
// the store fails.
func replay(t *testing.T, open Open, ops []op) (int, error) {
	w := newWorld(t, func(clock func() time.Time) Harness { return open(t, clock) })
	for i, o := range ops {
		if err := w.do(o, i == len(ops)-1); err != nil {
			return i, err
		}
	}
	return len(ops), nil
}

// runDifferential carries out the share's part of the random operations of the seeds 1+first up to end.
func runDifferential(t *testing.T, open Open, s share, first, end int) {
	lowest, count := uint64(1+first), end-first
	if text := os.Getenv("STET_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("STET_SEED: expected a number, found %q", text)
		}
		lowest, count, s = seed, 1, share{0, 1}
	}
	if testing.Short() {
		count = min(count, seeds/10)
	}
	reached, steps, lines := map[string]int{}, 0, false
	for seed := lowest; seed < lowest+uint64(count) && !t.Failed(); seed++ {
		if !s.has(int(seed)) {
			continue
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			ops, w, err := explore(t, func(clock func() time.Time) Harness { return open(t, clock) }, seed)
			steps, lines = steps+len(ops), w.lines
			for what, n := range w.reached {
				reached[what] += n
			}
			if err != nil {
				fail(t, open, fmt.Sprint("seed-", seed), ops, err)
			}
		})
	}
	t.Logf("seeds %d to %d, %d operations", lowest, lowest+uint64(count)-1, steps)
	all := slices.Concat(situations, lineSituations)
	for _, what := range all {
		if !lines && slices.Contains(lineSituations, what) {
			continue
		}
		if s.of == 1 && count >= seeds && reached[what] == 0 && !t.Failed() {
			t.Errorf("no operation has reached %s", what)
		}
	}
	if extra := slices.DeleteFunc(slices.Sorted(maps.Keys(reached)),
		func(what string) bool { return slices.Contains(all, what) }); len(extra) > 0 {
		t.Errorf("situations that no check needs: %q", extra)
	}
}

// explore carries out the random operations of a seed. It returns those until
// the first at which the store fails.
func explore(t testing.TB, open func(clock func() time.Time) Harness, seed uint64) (ops []op, w *world, err error) {
	w = newWorld(t, open)
	g := newGenerator(seed, w)
	for range operations {
		o := g.next()
		ops = append(ops, o)
		if err := w.do(o, false); err != nil {
			return ops, w, err
		}
	}
	for _, o := range g.last() {
		ops = append(ops, o)
		if err := w.do(o, true); err != nil {
			return ops, w, err
		}
	}
	return ops, w, nil
}

// fail makes the operations few, writes them to a file and fails the test.
func fail(t *testing.T, open Open, name string, ops []op, cause error) {
	t.Helper()
	t.Logf("operation %d: %v\n%s", len(ops), cause, printScript(ops[len(ops)-1:]))
	tries := 0
	failure := func(ops []op) (at int, err error) {
		tries++
		t.Run(fmt.Sprint("shrink-", tries), func(t *testing.T) { at, err = replay(t, open, ops) })
		return at, err
	}
	ops, err := shrink(ops, failure, patientShrink)
	if err == nil {
		t.Errorf("%v\nthe same operations did not fail again: the store does not only depend on them", cause)
		return
	}
	text := fmt.Sprintf("# Found by %s. The last operation fails.\n%s", name, printScript(ops))
	file := filepath.Join(scriptDir, name+".txt")
	t.Errorf("%v\n%d operations do it, after %d tries; they are in %s:\n%s", err, len(ops), tries, file, text)
	if err := os.MkdirAll(scriptDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
