package budget

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// arrows says which packages of the module a package may import. They run one
// way; a concrete store knows the contract alone, the runner no store and no
// engine, and nobody inside knows the root.
var arrows = map[string][]string{
	".": {"internal/verbs", "schedule", "internal/entity/planner", "internal/entity/acts",
		"internal/entity/deletions", "internal/engine", "internal/entity/tokens", "internal/entity/hooks",
		"internal/event", "internal/permit", "internal/entity/queue", "internal/entity", "internal/entity/topic",
		"internal/observe", "internal/payload", "internal/recovery", "internal/report", "internal/runner",
		"internal/queues", "internal/inboxes", "internal/stored", "internal/plain", "internal/runfile",
		"internal/shape", "internal/library", "internal/entity/scripts", "internal/steps", "internal/tasks",
		"internal/history", "internal/location", "store"},
	"codecheck":               {".", "store"},
	"observe":                 {".", "store"},
	"stettest":                {".", "internal/stored", "internal/steps", "internal/location", "store", "store/memory"},
	"stettest/enginetest":     {".", "internal/testing/soak", "stettest", "store"},
	"store":                   {},
	"store/storekit":          {"store"},
	"store/storetest":         {"internal/testing/soak", "store", "store/memory"},
	"store/memory":            {"store", "store/storekit"},
	"store/internal/words":    {"store"},
	"store/internal/relay":    {},
	"store/files":             {"store"},
	"internal/payload":        {"internal/location", "store"},
	"store/sqlite":            {"store", "store/internal/sqlstore", "store/internal/words", "store/storekit"},
	"store/internal/sqlstore": {"store", "store/internal/words", "store/storekit"},
	"internal/location":       {},
	"internal/fifo":           {},
	"internal/gather":         {},
	"internal/together":       {"internal/gather", "store"},
	"internal/heap":           {},
	"internal/runner": {"internal/fifo", "internal/runner/attempts", "internal/runner/journal",
		"internal/runner/mail", "internal/runner/owed", "internal/runner/runs", "internal/runner/sched", "internal/runner/sends",
		"internal/runner/topics", "internal/runner/turnlog", "internal/verbs",
		"internal/event", "internal/heap", "internal/permit", "internal/history",
		"internal/location", "internal/stored", "store"},
	"internal/runner/runs": {"internal/history", "internal/location", "internal/runner/attempts", "internal/runner/journal",
		"internal/runner/sched", "internal/stored", "store"},
	"internal/runner/owed": {"internal/history", "internal/location", "internal/runner/attempts",
		"internal/runner/journal", "internal/stored", "store"},
	"internal/runner/topics": {"internal/event", "internal/history", "internal/location",
		"internal/runner/journal", "internal/runner/sched", "internal/stored", "store"},
	"internal/runner/sends": {"internal/event", "internal/location", "internal/runner/journal", "internal/runner/sched",
		"internal/stored", "store"},
	"internal/runner/turnlog": {"store"},
	"internal/runner/attempts": {"internal/fifo", "internal/location", "internal/permit",
		"internal/runner/journal", "internal/runner/sched", "internal/stored", "store"},
	"internal/runner/journal": {"internal/heap", "internal/location", "internal/runner/sched",
		"internal/runner/turnlog", "internal/stored", "store"},
	"internal/runner/mail":  {"store"},
	"internal/runner/sched": {"internal/fifo", "internal/location", "internal/stored", "store"},
	"internal/stored":       {"internal/event", "internal/location", "internal/permit", "store"},
	"internal/history":      {"internal/event", "internal/location", "internal/stored", "store"},
	"internal/event":        {"store"},
	"internal/verbs":        {"internal/stored", "store"},
	"internal/verbs/decide": {"internal/history", "internal/location", "internal/permit", "internal/stored",
		"internal/verbs", "store"},
	"internal/entity/topic": {"internal/entity/acts", "internal/payload", "internal/event", "internal/heap",
		"internal/entity", "store"},
	"internal/cluster":                  {"store"},
	"internal/entity":                   {"internal/payload", "internal/stored", "internal/verbs", "store"},
	"internal/testing/soak":             {},
	"internal/testing/clienttest":       {".", "api", "client", "internal/testing/servers", "server", "server/access", "store"},
	"internal/testing/servers":          {},
	"internal/testing/servers/services": {"internal/testing/servers"},
	"internal/runfile":                  {"internal/location", "store"},
	"internal/ownership":                {"store"},
	"internal/shape":                    {"internal/heap", "internal/location", "store"},
	"internal/sweep":                    {"store"},
	"internal/reload":                   {"store"},
	"internal/registry":                 {"internal/entity/scripts", "internal/library", "store"},
	"internal/library":                  {"internal/definition", "internal/runner/journal", "internal/stored", "store"},
	"internal/idle":                     {},
	"internal/verbs/fork":               {"internal/history", "internal/location", "internal/verbs", "store"},
	"internal/queues":                   {"internal/entity", "internal/payload", "internal/permit", "internal/runner", "store"},
	"internal/inboxes":                  {"internal/permit", "store"},
	"internal/tasks":                    {"internal/entity", "internal/payload", "internal/permit", "store"},
	"internal/parking":                  {},
	"internal/activations":              {"internal/idle", "internal/ownership", "internal/parking", "internal/recovery", "store"},
	"internal/clock":                    {"store"},
	"internal/committer":                {"internal/location", "internal/ownership", "store"},
	"internal/definition":               {"internal/runner", "internal/stored", "store"},
	"internal/observe":                  {"store"},
	"internal/report": {"internal/fifo", "internal/observe", "internal/runner", "internal/stored",
		"store"},
	"internal/recovery": {"internal/ownership", "store"},
	"internal/engine": {"internal/recovery", "internal/report", "internal/gather", "internal/together", "internal/idle", "internal/observe",
		"internal/clock", "internal/suspects", "internal/verbs/decide", "internal/verbs", "internal/cluster",
		"internal/activations", "internal/committer", "internal/definition", "internal/ownership", "internal/queues", "internal/registry",
		"internal/reload", "internal/sweep", "internal/library",
		"internal/verbs/fork", "internal/payload", "internal/permit", "internal/entity", "internal/runner", "internal/stored",
		"internal/history", "internal/location", "internal/notify", "internal/steps", "store"},
	"internal/notify":         {"store"},
	"internal/plain":          {},
	"internal/steps":          {"internal/fifo", "internal/payload", "internal/runner", "internal/stored", "store"},
	"internal/suspects":       {"internal/ownership", "store"},
	"internal/testing/budget": {},
	"internal/testing/faults": {},
	"internal/testing/prove":  {"internal/testing/faults", "internal/testing/servers"},
	"internal/e2e":            {},
	"clients":                 {},
	"docs/guide":              {}, // the pages, for programs that show them
	"internal/permit":         {"store"},
	"internal/entity/queue":   {"internal/heap", "internal/permit", "internal/entity", "internal/entity/acts", "store"},
	"internal/entity/planner": {"internal/permit", "internal/entity", "internal/entity/acts", "internal/stored", "schedule",
		"store"},
	"schedule": {},

	"internal/entity/recorded":  {"internal/entity", "store"},
	"internal/entity/acts":      {"internal/entity", "internal/entity/recorded", "store"},
	"internal/entity/deletions": {"internal/entity", "internal/entity/recorded", "store"},
	"internal/entity/named":     {"internal/entity", "internal/entity/acts", "store"},
	"internal/entity/tokens":    {"internal/entity", "internal/entity/acts", "internal/entity/named", "store"},
	"internal/entity/hooks":     {"internal/entity", "internal/entity/acts", "internal/entity/named", "store"},
	"internal/entity/scripts":   {"internal/entity", "internal/entity/acts", "store"},

	"api":    {".", "store"},
	"client": {"api", "store"},
	"server": {".", "api", "server/access", "server/internal/endpoint", "server/internal/live", "server/internal/resources",
		"server/internal/view", "server/ui", "store"},
	"server/access":            {"store"},
	"server/internal/endpoint": {".", "api", "server/access", "server/internal/view", "store"},
	"server/internal/live":     {".", "api", "server/internal/view", "store"},
	"server/internal/openapi":  {"api", "server/access", "server/internal/endpoint", "store"},
	"server/internal/resources": {".", "api", "schedule", "server/access", "server/internal/endpoint",
		"server/internal/live", "server/internal/signature", "server/internal/view", "store"},
	"server/internal/signature": {"."},
	"server/internal/view":      {".", "api", "server/access", "store"},
	"server/ui":                 {},
}

// standardOnly are the packages that import nothing beyond the standard library.
var standardOnly = []string{"store", "internal/location", "api", "client", "server", "server/access",
	"server/internal/endpoint", "server/internal/live", "server/internal/openapi", "server/internal/resources",
	"server/internal/signature", "server/internal/view", "server/ui"}

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

// TestArchitectureNamesEveryPackage: a newcomer finds each folder in docs/architecture.md,
// by its path, or by its name in the row of the folder above it.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(page), "\n")
	for here := range arrows {
		if here == "docs/guide" || here == "internal/testing/servers/services" {
			continue
		}
		if !slices.ContainsFunc(rows, func(row string) bool {
			return strings.Contains(row, "`"+here+"`") ||
				strings.Contains(row, "`"+path.Base(here)+"`") && strings.Contains(row, "`"+path.Dir(here))
		}) {
			t.Errorf("docs/architecture.md does not say what %s is", here)
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
