package budget

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

var update = flag.Bool("update", false, "write testdata/modules.txt anew")

// TestModules compares what an importer of the engine with SQLite takes on with
// the committed list, and bounds it. The graph of the root, which includes what
// its tests need, is an upper bound of what the importer sees.
func TestModules(t *testing.T) {
	const file, maxLinked, maxGraph = "testdata/modules.txt", 11, 26
	kinds := map[string]string{}
	for line := range strings.Lines(string(goCommand(t, "mod", "graph"))) {
		for _, m := range strings.Fields(line) {
			if path, _, _ := strings.Cut(m, "@"); path != module && path != "go" && path != "toolchain" {
				kinds[path] = "graph"
			}
		}
	}
	linked := 0
	for _, p := range goList(t, "-deps", ".", "./store/sqlite") {
		if p.Module == nil || p.Module.Path == module || kinds[p.Module.Path] == "linked" {
			continue
		}
		kinds[p.Module.Path] = "linked"
		linked++
	}

	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, path := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(w, "%s\t%s\n", kinds[path], path)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d modules linked of %d, %d in the graph of %d:\n%s", linked, maxLinked, len(kinds), maxGraph, table.String())
	if linked > maxLinked || len(kinds) > maxGraph {
		t.Errorf("found %d modules linked and %d in the graph; the budget is %d and %d",
			linked, len(kinds), maxLinked, maxGraph)
	}

	if *update {
		if err := os.WriteFile(file, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := table.String(); got != string(want) {
		t.Errorf("the modules have changed from those in %s:\n%s\n"+
			"if that is meant, say in the commit what it saves and costs, and run go test ./internal/testing/budget -update",
			file, want)
	}
}

// TestUnwantedPackages names what an application with the engine and SQLite must
// not link.
func TestUnwantedPackages(t *testing.T) {
	unwanted := []string{"net/http", "testing", "plugin", "expvar"}
	for _, p := range goList(t, "-deps", ".", "./store/sqlite") {
		if slices.Contains(unwanted, p.ImportPath) {
			t.Errorf("the engine with SQLite links %s; find the import with: go list -deps -json . ./store/sqlite", p.ImportPath)
		}
	}
}

// TestModulesOfScripts: a program with scripts links the interpreter with what it needs, and no bundler: that is
// for those that bundle.
func TestModulesOfScripts(t *testing.T) {
	linked := func(what string) map[string]bool {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", what)
		cmd.Dir = filepath.Join("..", "..", "..")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		modules := map[string]bool{}
		for path := range strings.FieldsSeq(string(out)) {
			modules[path] = modules[path] || !strings.HasPrefix(path, module)
		}
		return modules
	}
	engine, scripts := linked("."), linked("./script")
	maps.DeleteFunc(scripts, func(path string, foreign bool) bool { return !foreign || engine[path] })
	want := []string{"github.com/dlclark/regexp2/v2", "github.com/dop251/goja", "github.com/go-sourcemap/sourcemap",
		"github.com/google/pprof", "golang.org/x/text"}
	if got := slices.Sorted(maps.Keys(scripts)); !slices.Equal(got, want) {
		t.Errorf("beside what the engine links, package script links %v, expected %v; if that is meant, say in the commit "+
			"what it saves and costs", got, want)
	}
	if !linked("./script/bundle")["github.com/evanw/esbuild"] {
		t.Error("package script/bundle links no bundler: this test looks for the wrong one")
	}
}
