// Package guide_test compiles and executes the code that the guide shows.
package guide_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

// TestShownCode finds each block of Go on the pages in a test: of this folder, or of the
// module that has the driver.
func TestShownCode(t *testing.T) {
	var code strings.Builder
	for _, name := range append(files(t, "*_test.go"), "../../store/postgres/guide_test.go",
		"../../observe/prom/guide_test.go", "../../observe/otel/guide_test.go", "../../script/example_test.go",
		"../../examples/agent/workflow.go") {
		code.WriteString(read(t, name))
	}
	found := 0
	for _, page := range files(t, "*.md") {
		for i, block := range strings.Split(read(t, page), "```go\n")[1:] {
			block, _, closed := strings.Cut(block, "```")
			if !closed || !strings.Contains(code.String(), block) {
				t.Errorf("%s: block %d is in no test:\n%s", page, i+1, block)
			}
			found++
		}
	}
	if found < 12 {
		t.Errorf("expected the guide's blocks of code, found %d", found)
	}
}

// TestIndex finds each page in the index, and a page behind each link.
func TestIndex(t *testing.T) {
	index := read(t, "README.md")
	for _, page := range files(t, "*.md") {
		if page != "README.md" && !strings.Contains(index, "("+page) {
			t.Errorf("README.md has no link to %s", page)
		}
		for _, link := range links.FindAllStringSubmatch(blocks.ReplaceAllString(read(t, page), ""), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if target == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading for #%s", page, target, anchor)
			}
		}
	}
}

// TestTourOfARepair: the run of the tour stalls with the lines that the command line prints of a
// changed type, as the script of that deploy expects them.
func TestTourOfARepair(t *testing.T) {
	_, script, found := strings.Cut(read(t, "../../cmd/stet/testdata/deploy/type.txtar"), "The guide's page of repairs")
	if !found {
		t.Fatal("the script has no lines for the guide")
	}
	_, script, _ = strings.Cut(script, "\n")
	page := read(t, "repair.md")
	for range 2 {
		var line string
		line, script, _ = strings.Cut(script, "\n")
		pattern, quoted := strings.CutPrefix(strings.TrimSuffix(line, "'"), "stdout '^")
		if !quoted || !regexp.MustCompile(`(?m)^ *`+pattern).MatchString(page) {
			t.Errorf("repair.md shows nothing that fits %q", line)
		}
	}
}

var (
	// links matches a link within the repository.
	links = regexp.MustCompile(`\]\(((?:[^):"]|:[^/])*)\)`)
	// blocks matches a block of code, in which no link is.
	blocks = regexp.MustCompile("(?s)```.*?```")
)

// anchors returns the names of a page's headings, as links write them.
func anchors(page string) []string {
	var names []string
	for _, line := range strings.Split(page, "\n") {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		name := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		names = append(names, strings.ReplaceAll(punctuation.ReplaceAllString(name, ""), " ", "-"))
	}
	return names
}

var punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %v", pattern, names, err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTasks executes what the guide shows.
func TestTasks(t *testing.T) {
	check := func(name string, got any, err error, want any) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	charged, err := result(t, charge, Order{ID: "1"})
	check("charge", charged, err, Charge{"c-1"})
	worked, err := result(t, work, 0)
	check("work", worked, err, "nothing to do")
	seen, err := result(t, follow, Cursor{})
	check("follow", seen, err, 100)
	shipped, err := result(t, ship, Order{ID: "1"})
	check("ship", shipped, err, "shipped")
	lengths, err := result(t, measure, []string{"https://a.example", "http://b.example"})
	check("measure", slices.Equal(lengths, []int{17, 16}), err, true)
	paid, err := result(t, pay, Order{ID: "1"})
	check("pay", paid, err, "paid")
	refused, err := result(t, pay, Order{ID: "1", Customer: "Bob"})
	check("pay", refused, err, "ask for another card: expired")
	if _, err := result(t, book, Order{ID: "1", Customer: "the moon"}); !errors.Is(err, ErrNoRoute) {
		t.Errorf("book: got %v", err)
	}
	delivered, err := result(t, deliver, Order{ID: "1", Customer: "the moon"})
	check("deliver", delivered, err, Charge{"c-1"})
}

func result[In, Out any](t *testing.T, code func(stet.Context, In) (Out, error), in In) (out Out, err error) {
	t.Helper()
	w := stet.Define("task", code)
	cfg := stet.Config{Workflows: []stet.Definition{w}, Errors: Codes}
	stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
		var run *stet.Run[Out]
		if run, err = w.Start(context.Background(), env.Engine, in); err == nil {
			out, err = run.Wait(t.Context())
		}
	})
	return out, err
}
