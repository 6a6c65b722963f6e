package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test's program measure, too: it starts itself again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == measureArg {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestTinyBench measures everything once with tiny sizes, all subjects that SQLite has.
func TestTinyBench(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	page := filepath.Join(t.TempDir(), "page.html")
	var out strings.Builder
	args := "--store sqlite --turns 1 --jobs 20 --per-call 10 --callers 5 --runs 10 --few 5 --steps 4 --values 2 " +
		"--value-size 1000 --alone 3 --sleeps 5 --sleep 100ms --limit 2s --page " + page
	if err := run(t.Context(), strings.Fields(args), &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"put in, 10 in a call", "put in by 5 single callers", "worked off, 2,000 at a time",
		"runs of 4 steps, 100 at a time", "one run of 4 steps alone, p50", "kill -9", "lateness of timers, p99"} {
		if !strings.Contains(out.String(), want) || !strings.Contains(string(text), want) {
			t.Errorf("expected the figure %q, found\n%s", want, out.String())
		}
	}
}
