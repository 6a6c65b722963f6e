package budget

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNobodyReadsTheClockOfTheNode: what a node decides follows from the store's time
// and from what its own monotonic clock measures. So a time of the time package may be
// compared with another one of the process, and becomes a time that is stored only
// where somebody has given it. The functions that turn one into the other are these.
func TestNobodyReadsTheClockOfTheNode(t *testing.T) {
	allowed := map[string]string{
		"internal/entity/planner/planner.go next": "a time of the store, by the calendar",
		"internal/engine/engine.go New":           "a boot that begins with the time: Config.Replaces says what relies on it",
		"internal/runfile/text.go UnmarshalText":  "a time that the file gives",
		"shapefacts.go attemptsOf":                "a time of the store, as it was listed",
		"internal/stored/standstill.go EndedAt":   "a time of the store, from its text",
		"schedule.go config":                      "measures what the text of any time takes",
		"schedules.go Backfill":                   "times that the caller gives",
		"select.go AtTime":                        "a time that the code gives",
		"sleep.go SleepUntil":                     "a time that the code gives",
		"start.go startCommand":                   "a time that the caller gives; an ID that begins with the time, on which nobody relies",
		"act.go Fork":                             "an ID that begins with the time, on which nobody relies",
		"tokens.go Create":                        "a time that the caller gives",
		"store/postgres/postgres.go times":        "the clock of a test",
		"store/redis/redis.go head":               "the clock of a test",
	}
	dirs := []string{".", "store/postgres", "store/redis"}
	for here := range arrows {
		inner, ours := strings.CutPrefix(here, "internal/")
		if ours && !strings.HasPrefix(inner, "testing/") && inner != "e2e" {
			dirs = append(dirs, here)
		}
	}
	turns := []string{"TimeOf", "NotBefore", "Unix", "UnixMicro", "UnixMilli", "UnixNano", "NewV7", "NewV6", "NewUUID"}
	used, reads := map[string]bool{}, 0
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: expected source files, found none (%v)", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					name := ""
					switch f := call.Fun.(type) {
					case *ast.SelectorExpr:
						name = f.Sel.Name
					case *ast.Ident:
						name = f.Name
					}
					if name == "Now" {
						reads++
					}
					if !slices.Contains(turns, name) {
						return true
					}
					where := filepath.ToSlash(filepath.Join(dir, filepath.Base(file))) + " " + fn.Name.Name
					if used[where] = true; allowed[where] == "" {
						t.Errorf("%s calls %s: a time that is stored is the store's; if this one is, say so in the list", where, name)
					}
					return true
				})
			}
		}
	}
	for where := range allowed {
		if !used[where] {
			t.Errorf("%s turns no time into another any more: take it from the list", where)
		}
	}
	if reads == 0 {
		t.Error("nobody reads any clock: the test looks in the wrong place")
	}
}
