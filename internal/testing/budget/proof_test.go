package budget

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/faults"
)

// proofPage has a table of the properties that make faults proves on real servers.
var proofPage = filepath.Join("..", "..", "..", "docs", "proof.md")

// named is a test in the table of proofPage: a package's folder and the test's name.
var named = regexp.MustCompile("`([a-z0-9/._]+) (Test[A-Za-z0-9_]*)`")

// TestFaultsHaveATwin compares docs/proof.md with the tests. Each test of make faults has a row, which names at least
// one test of make test for the same property. All tests of the table exist.
func TestFaultsHaveATwin(t *testing.T) {
	all, moved, err := faults.Tests(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	exists, isFault, hasRow := map[faults.Test]bool{}, map[faults.Test]bool{}, map[faults.Test]bool{}
	for _, test := range all {
		exists[test] = true
	}
	for _, test := range moved {
		isFault[test] = true
	}
	text, err := os.ReadFile(proofPage)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(line, "|")
		if len(columns) != 5 || !named.MatchString(columns[3]) {
			continue // no row of the table
		}
		twins := 0
		for _, m := range named.FindAllStringSubmatch(columns[2], -1) {
			test := faults.Test{Dir: m[1], Name: m[2]}
			if !exists[test] || isFault[test] {
				t.Errorf("docs/proof.md: expected a test of make test, found %s", test)
			}
			twins++
		}
		if twins == 0 {
			t.Errorf("docs/proof.md: expected a test of make test in the row of %s", columns[3])
		}
		for _, m := range named.FindAllStringSubmatch(columns[3], -1) {
			test := faults.Test{Dir: m[1], Name: m[2]}
			if !isFault[test] {
				t.Errorf("docs/proof.md: expected a test of make faults, found %s", test)
			}
			hasRow[test] = true
		}
	}
	for _, test := range moved {
		if !hasRow[test] {
			t.Errorf("docs/proof.md: expected a row for %s, with a test of make test for the same property", test)
		}
	}
}

// larger are the packages of internal whose tests may cost more than five seconds of processor.
var larger = map[string]string{
	"internal/e2e":    "whole engines",
	"internal/runner": "random programs",
	"internal/sim":    "simulated worlds",
}

// compared is the module that compares stet with other systems. It needs them, so make test leaves it out.
const compared = "bench"

// TestBudgetOfTests: each package with tests has a figure in seconds.txt, which make test holds, and a package of
// internal is tested within five seconds.
func TestBudgetOfTests(t *testing.T) {
	figures := secondsOf(t)
	all, _, err := faults.Tests(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range all {
		if _, ok := figures[test.Dir]; !ok && test.Dir != compared {
			t.Errorf("seconds.txt: expected a figure for %s: run go run ./internal/testing/prove -update", test.Dir)
			figures[test.Dir] = 0
		}
	}
	const most = 5
	for name, seconds := range figures {
		if strings.HasPrefix(path.Clean(name), "internal/") && seconds > most && larger[name] == "" {
			t.Errorf("seconds.txt: expected at most %d s of processor for %s, found %.1f", most, name, seconds)
		}
	}
}

// secondsOf returns the figures of seconds.txt by package.
func secondsOf(t *testing.T) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile("seconds.txt")
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if figures[name], err = strconv.ParseFloat(strings.TrimSpace(number), 64); err != nil {
			t.Errorf("seconds.txt: %q: %v", line, err)
		}
	}
	return figures
}

// quoted is a text in backquotes.
var quoted = regexp.MustCompile("`([^`]+)`")

// covers reports whether a pattern of packages, as go test takes it, has a package's folder in it.
func covers(pattern, dir string) bool {
	if above, ok := strings.CutSuffix(pattern, "/..."); ok {
		return dir == above || strings.HasPrefix(dir, above+"/")
	}
	return dir == pattern
}

// TestContributorsFindTheirTests compares the table of CONTRIBUTING.md with the packages. Each package is in a row. The
// command of the row runs its tests, and takes about as long as the row says.
func TestContributorsFindTheirTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("| you changed |"))
	text, _, _ = bytes.Cut(text, []byte("\n\n"))
	figures := secondsOf(t)
	delete(figures, "calibration")
	var patterns []string // of all rows
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(strings.TrimSpace(line), "|")
		if len(columns) != 5 || !strings.Contains(columns[2], "go test") || strings.Contains(columns[2], "NAME") {
			continue // the head, or the row of all others
		}
		var changed, run []string
		for _, m := range quoted.FindAllStringSubmatch(columns[1], -1) {
			changed = append(changed, m[1])
		}
		for _, m := range quoted.FindAllStringSubmatch(columns[2], -1) {
			folder, command := "", m[1]
			if rest, ok := strings.CutPrefix(command, "GOWORK=off go -C tools test"); ok {
				folder, command = "tools/", rest
			}
			for word := range strings.FieldsSeq(command) {
				if name, ok := strings.CutPrefix(word, "./"); ok {
					run = append(run, folder+name)
				} else if word == "." {
					run = append(run, word)
				}
			}
		}
		patterns = append(patterns, changed...)
		sum := 0.0
		for dir, seconds := range figures {
			of := func(list []string) bool {
				return slices.ContainsFunc(list, func(pattern string) bool { return covers(pattern, dir) })
			}
			if of(run) {
				sum += seconds
			} else if of(changed) {
				t.Errorf("CONTRIBUTING.md: expected that the row of %s runs the tests of %s", columns[1], dir)
			}
		}
		said, err := strconv.ParseFloat(strings.TrimSpace(columns[3]), 64)
		if err != nil || sum > 1.5*said+1 || said > 1.5*sum+1 {
			t.Errorf("CONTRIBUTING.md: expected about %.0f s in the row of %s, as seconds.txt says, found %s", sum, columns[1],
				columns[3])
		}
	}
	eachFile(t, func(name string, _ []byte) {
		dir := path.Dir(name)
		if path.Ext(name) != ".go" || strings.HasPrefix(dir, "internal/") || strings.Contains(dir+"/", "/testdata/") ||
			strings.HasPrefix(dir, "tools") || dir == compared {
			return
		}
		if !slices.ContainsFunc(patterns, func(pattern string) bool { return covers(pattern, dir) }) {
			t.Errorf("CONTRIBUTING.md: expected a row of the table of tests for %s", dir)
			patterns = append(patterns, dir) // said once
		}
	})
	if len(patterns) == 0 {
		t.Error("CONTRIBUTING.md: expected a table of tests, found none")
	}
}

// fixedSeeds is a loop that tries the same seeds each day, and so leaves the others of make check out.
var fixedSeeds = regexp.MustCompile(`for \w*[sS]eed\w* := range .*soak\.Cases`)

// TestSeedsChangeByTheDay: a test whose cases are decided by their numbers takes soak.Range.
func TestSeedsChangeByTheDay(t *testing.T) {
	eachFile(t, func(name string, content []byte) {
		if path.Ext(name) != ".go" {
			return
		}
		if found := fixedSeeds.Find(content); found != nil {
			t.Errorf("%s: expected soak.Range, which takes other seeds each day, found %q", name, found)
		}
	})
}
