package budget

import (
	"slices"
	"strings"
	"testing"
)

// arrows says which packages of the module a package may import. They run one
// way; a concrete store knows the contract alone, the runner no store and no
// engine, and nobody inside knows the root.
var arrows = map[string][]string{
	".":                         {"schedule", "internal/planner", "internal/engine", "internal/event", "internal/permit", "internal/queue", "internal/record", "internal/topic", "internal/payload", "internal/runner", "internal/runfile", "internal/location", "store"},
	"stettest":                  {".", "internal/engine", "internal/runner", "internal/location", "store", "store/memory"},
	"stettest/enginetest":       {".", "stettest", "store"},
	"store":                     {},
	"store/storetest":           {"internal/soak", "store", "store/memory"},
	"store/memory":              {"store"},
	"store/files":               {"store"},
	"internal/payload":          {"store"},
	"store/sqlite":              {"store"},
	"internal/location":         {},
	"internal/heap":             {},
	"internal/runner":           {"internal/event", "internal/heap", "internal/permit", "internal/location", "store"},
	"internal/event":            {"store"},
	"internal/topic":            {"internal/event", "internal/heap", "internal/record", "store"},
	"internal/cluster":          {"store"},
	"internal/record":           {"store"},
	"internal/soak":             {},
	"internal/servers":          {},
	"internal/servers/services": {"internal/servers"},
	"internal/runfile":          {"internal/location", "store"},
	"internal/engine":           {"internal/cluster", "internal/payload", "internal/permit", "internal/record", "internal/runner", "internal/location", "store"},
	"internal/budget":           {},
	"docs/guide":                {},
	"internal/permit":           {"store"},
	"internal/queue":            {"internal/permit", "internal/record", "store"},
	"internal/planner":          {"internal/permit", "internal/record", "internal/runner", "schedule", "store"},
	"schedule":                  {},
}

// standardOnly are the packages that import nothing beyond the standard library.
var standardOnly = []string{"store", "internal/location"}

func TestArrows(t *testing.T) {
	found := map[string]bool{}
	for _, p := range goList(t, "./...") {
		here := inModule(p.ImportPath)
		found[here] = true
		may, known := arrows[here]
		if !known {
			t.Errorf("package %s is new: say in arrows what it may import", here)
			continue
		}
		for _, imported := range p.Imports {
			target := inModule(imported)
			if target != "" && !slices.Contains(may, target) {
				t.Errorf("%s imports %s; of this module it may import only %v", here, target, may)
			}
			domain, _, _ := strings.Cut(imported, "/")
			if target == "" && strings.Contains(domain, ".") && slices.Contains(standardOnly, here) {
				t.Errorf("%s imports %s; it may import the standard library only", here, imported)
			}
		}
	}
	for here := range arrows {
		if !found[here] {
			t.Errorf("arrows names %s, which is not there", here)
		}
	}
}

// inModule returns the path of a package inside the module, "." for the root and
// "" for a package that is not of the module.
func inModule(importPath string) string {
	if importPath == module {
		return "."
	}
	rest, ours := strings.CutPrefix(importPath, module+"/")
	if !ours {
		return ""
	}
	return rest
}
