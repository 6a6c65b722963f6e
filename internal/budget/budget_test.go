package budget

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/stet-run/stet"

// list is what `go list` says of a package.
type list struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path string }
	Standard   bool
}

// goCommand runs the go command on the root module alone.
func goCommand(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

func packages(t *testing.T, args ...string) []list {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(goCommand(t, append([]string{"list", "-json=ImportPath,Imports,Module,Standard"}, args...)...)))
	var all []list
	for {
		var p list
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestDependencies compares the modules that are linked into an application with
// the engine and SQLite with the committed list, and bounds the module graph.
func TestDependencies(t *testing.T) {
	const maxLinked, maxGraph = 10, 26
	linked := map[string]bool{}
	for _, p := range packages(t, "-deps", ".", "./store/sqlite") {
		if p.Module != nil && p.Module.Path != module {
			linked[p.Module.Path] = true
		}
	}
	graph := map[string]bool{}
	for line := range strings.Lines(string(goCommand(t, "mod", "graph"))) {
		for _, m := range strings.Fields(line) {
			path, _, _ := strings.Cut(m, "@")
			graph[path] = true
		}
	}
	delete(graph, module)
	names := make([]string, 0, len(linked))
	for name := range linked {
		names = append(names, name)
	}
	slices.Sort(names)
	t.Logf("%d modules linked, %d in the graph:\n%s", len(names), len(graph), strings.Join(names, "\n"))
	if len(names) > maxLinked || len(graph) > maxGraph {
		t.Errorf("found %d modules linked and %d in the graph; the budget is %d and %d", len(names), len(graph), maxLinked, maxGraph)
	}
	want, err := os.ReadFile("testdata/linked.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names, "\n") + "\n"; got != string(want) {
		t.Errorf("the linked modules have changed; if that is meant, write this into internal/budget/testdata/linked.txt:\n%s", got)
	}
}

// allowed says what a package of the module may import of the module. A package
// that is not listed may import nothing of it.
var allowed = map[string][]string{
	"":                  {"internal/engine", "internal/runner", "internal/location", "store"},
	"/internal/engine":  {"internal/runner", "internal/location", "internal/cluster", "store"},
	"/internal/runner":  {"internal/location", "store"},
	"/internal/cluster": {"store"},
	"/store/memory":     {"store"},
	"/store/sqlite":     {"store"},
	"/store/storetest":  {"store", "store/memory"},
}

// TestArrows holds the imports to one direction.
func TestArrows(t *testing.T) {
	for _, p := range packages(t, "./...") {
		here := strings.TrimPrefix(p.ImportPath, module)
		for _, imported := range p.Imports {
			target, ours := strings.CutPrefix(imported, module+"/")
			if ours && !slices.Contains(allowed[here], target) && !strings.HasPrefix("/"+target, here+"/") {
				t.Errorf("%s imports %s; expected only %v", p.ImportPath, imported, allowed[here])
			}
			if here == "/store" && !ours && strings.Contains(imported, ".") {
				t.Errorf("package store imports %s; expected the standard library only", imported)
			}
		}
	}
}

// TestSignatures reads the documentation of the root and the contract: no
// exported signature names a type of another module.
func TestSignatures(t *testing.T) {
	for _, dir := range []string{".", "./store"} {
		doc := string(goCommand(t, "doc", "-all", dir))
		for _, foreign := range []string{"uuid.UUID", "cbor.", "sqlite3.", "xxhash.", "runner.", "engine.", "location."} {
			for line := range strings.Lines(doc) {
				if strings.HasPrefix(line, "func ") && strings.Contains(line, foreign) {
					t.Errorf("package %s: %s", dir, fmt.Sprint(line))
				}
			}
		}
	}
}
