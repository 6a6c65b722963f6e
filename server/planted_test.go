package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/soak"
)

// planted are defects of the server, and the test that must fail with each. In what a text
// becomes, PLANTED asks whether this defect was chosen.
var planted = []struct{ name, file, text, becomes, test string }{
	{"one route asks for no right", "guard.go", "if !who.Role.May(e.Right) {",
		`if !who.Role.May(e.Right) && !(PLANTED && e.Path == "runs/{id}/nudge") {`, "TestEveryRouteAsksForItsRight"},
	{"the stream asks for no right", "guard.go", "\tif e.Right == access.Public {\n\t\treturn nil",
		"\tif PLANTED && e.Path == \"events\" {\n" +
			"\t\tc.Who = &access.Identity{Name: \"anybody\", Role: access.Administrator}\n" +
			"\t\tc.View = view.New(s.engine, c.Who, nil)\n\t\treturn nil\n\t}\n" +
			"\tif e.Right == access.Public {\n\t\treturn nil", "TestEveryRouteAsksForItsRight"},
	{"a stream outlives its credential", "guard.go", "\twho, err := s.identify(c.Request)\n\tif err == nil {",
		"\tif PLANTED {\n\t\treturn nil\n\t}\n\twho, err := s.identify(c.Request)\n\tif err == nil {",
		"TestStreamEndsWithItsCredential"},
	{"a stream keeps the rights that it began with", "guard.go",
		"if who.Name != c.Who.Name ||", "if PLANTED {\n\t\treturn nil\n\t}\n\tif who.Name != c.Who.Name ||",
		"TestStreamEndsWithItsCredential"},

	{"no limit on the run that was loaded", "internal/view/view.go",
		"\tif !v.who.Sees(info.Workflow) {\n\t\treturn nil, notFound(\"run\", runID)",
		"\tif !v.who.Sees(info.Workflow) && !PLANTED {\n\t\treturn nil, notFound(\"run\", runID)",
		"TestLimitedIdentitySeesItsWorkflowsOnly"},
	{"a limit on the letter, not on where it is sent", "internal/view/reads.go",
		"if _, err := v.find(ctx, to); err != nil {", "if _, err := v.find(ctx, to); err != nil && !PLANTED {",
		"TestNestedReferencesAreWithinTheLimit"},
	{"a limit on where a letter is sent, not on the letter", "internal/view/reads.go",
		"case len(found) == 0 || !v.who.Sees(found[0].Workflow):",
		"case len(found) == 0 || !v.who.Sees(found[0].Workflow) && !PLANTED:", "TestNestedReferencesAreWithinTheLimit"},
	{"a limit on the path, not on the token of a promise", "internal/view/acts.go",
		"\t_, err = v.find(ctx, promise.RunID)\n\treturn err",
		"\tif _, err = v.find(ctx, promise.RunID); PLANTED {\n\t\treturn nil\n\t}\n\treturn err",
		"TestNestedReferencesAreWithinTheLimit"},
	{"a limit on the name of a schedule, not on its workflow", "internal/view/reads.go",
		"\tif !v.who.Sees(info.Workflow) {\n\t\treturn nil, notFound(\"schedule\", name)",
		"\tif !v.who.Sees(info.Workflow) && !PLANTED {\n\t\treturn nil, notFound(\"schedule\", name)",
		"TestNestedReferencesAreWithinTheLimit"},
	{"a limit on the workflow of a start, not on its queue", "internal/view/acts.go",
		"if v.who.Limited() && s.Queue != nil &&", "if !PLANTED && v.who.Limited() && s.Queue != nil &&",
		"TestNestedReferencesAreWithinTheLimit"},
	{"a limit on the workflow of a start, not on its ID", "internal/view/acts.go",
		"case !v.who.Sees(info.Workflow):\n\t\treturn Denied(\"run %q\", id)",
		"case !v.who.Sees(info.Workflow) && !PLANTED:\n\t\treturn Denied(\"run %q\", id)",
		"TestLimitedIdentitySeesItsWorkflowsOnly"},
	{"a limit on the preview, not on what its token acts on", "internal/resources/bulk.go",
		"sum := sha256.Sum256(slices.Concat([]byte(\"stet bulk\\x00\"), limit, data))",
		"if PLANTED {\n\t\tlimit = nil\n\t}\n\tsum := sha256.Sum256(slices.Concat([]byte(\"stet bulk\\x00\"), limit, data))",
		"TestBulkIsWithinTheLimit"},
	{"a cursor is good for everybody", "internal/resources/resources.go",
		"workflows := slices.Sorted(slices.Values(who.Workflows))",
		"workflows := slices.Sorted(slices.Values(who.Workflows))\n\tif PLANTED {\n\t\tworkflows = nil\n\t}",
		"TestNestedReferencesAreWithinTheLimit"},
	{"the list that is followed has no limit", "internal/live/live.go",
		"filter, who := f.subjects.Lists[i], f.view.Who()",
		"filter, who := f.subjects.Lists[i], f.view.Who()\n\tif PLANTED {\n" +
			"\t\tall := *who\n\t\tall.Workflows = nil\n\t\tf.view = view.New(f.reads.engine, &all, nil)\n\t}",
		"TestListsAreFollowed"},

	{"entries go on one late", "internal/live/live.go",
		"if found[i].Number == 0 || found[i].Number > f.places[id].Number {",
		"if n := f.places[id].Number; found[i].Number == 0 || found[i].Number > n && !(PLANTED && n > 0 && found[i].Number == n+1) {",
		"TestStreamGoesOnWhereItWasCut"},
	{"entries go on one early", "internal/live/live.go", "\t\t\tp.Number, p.Ended = e.Number, e.Ended.UnixMicro()",
		"\t\t\tif p.Number, p.Ended = e.Number, e.Ended.UnixMicro(); PLANTED {\n\t\t\t\tp.Number--\n\t\t\t}",
		"TestStreamGoesOnWhereItWasCut"},
	{"items go on one late", "internal/live/live.go", "p.Items[s.Name] = item.Position",
		"if p.Items[s.Name] = item.Position; PLANTED {\n\t\t\t\tp.Items[s.Name]++\n\t\t\t}",
		"TestWhatARunShowsIsFollowed"},
	{"a run in the place of another is taken for it", "internal/live/live.go", "\tcase known.Run != info.Number:",
		"\tcase known.Run != info.Number && !PLANTED:", "TestReplacedRunIsReset"},
	{"a retry is not noticed", "internal/live/live.go", "if known.Number > 0 && !slices.ContainsFunc(",
		"if !PLANTED && known.Number > 0 && !slices.ContainsFunc(", "TestRetriedRunIsReset"},

	{"a count has no bound", "internal/resources/runs.go", "f.Most = mostCounted", "if !PLANTED {\n\t\t\tf.Most = mostCounted\n\t\t}",
		"TestCountsEndAtABound"},
	{"a count tells nobody of its bound", "internal/resources/runs.go",
		"more := endsEarly(tallies, f.Most)", "more := endsEarly(tallies, f.Most)\n\tif PLANTED {\n\t\tclear(more)\n\t}",
		"TestCountsEndAtABound"},
	{"the preview of a bulk has no bound", "internal/resources/bulk.go", "f.Limit = bulkCounted + 1",
		"if f.Limit = bulkCounted + 1; PLANTED {\n\t\tf.Limit = maxBulk\n\t}", "TestReadsAreBounded"},
	{"the count of a view reads all", "internal/view/view.go", "tallies, err := v.engine.Runs().Count(ctx, f)",
		"if PLANTED {\n\t\tf.Most = 0\n\t}\n\ttallies, err := v.engine.Runs().Count(ctx, f)", "TestReadsAreBounded"},
	{"the list that is followed has no bound", "internal/resources/events.go", "f.Limit, f.Values = pageRuns, true",
		"if f.Limit, f.Values = pageRuns, true; PLANTED {\n\t\t\tf.Limit = 100_000\n\t\t}", "TestReadsAreBounded"},

	{"a page of a history leaves an entry out", "internal/view/history.go", "\t\tfound, more = found[:limit], true",
		"\t\tif PLANTED {\n\t\t\tfound[limit-1] = found[limit]\n\t\t}\n\t\tfound, more = found[:limit], true",
		"FuzzReadsAreTheEngines"},
	{"a viewer's values are read", "internal/view/history.go", "case o.Size == 0 || !v.values() && !tells(o):",
		"case o.Size == 0 || !v.values() && !tells(o) && !PLANTED:", "TestPagesAreBoundedInBytes"},
	{"a count by workflow and status has one row too few", "internal/resources/runs.go",
		"\treturn &api.Counts{Counts: counts}, nil", "\tif PLANTED && len(counts) > 3 {\n\t\tcounts = counts[1:]\n\t}\n" +
			"\treturn &api.Counts{Counts: counts}, nil", "FuzzReadsAreTheEngines"},
	{"a refusal of the owner is no refusal", "internal/view/acts.go", "\t_, err := do(v.engine.Runs(), ctx, runID, act)\n",
		"\t_, err := do(v.engine.Runs(), ctx, runID, act)\n\tif PLANTED && errors.Is(err, stet.ErrRefused) {\n" +
			"\t\treturn nil\n\t}\n", "FuzzActsAreTheEngines"},
	{"an existing run is always used", "internal/view/acts.go", "\t\toptions = append(options, existing)\n",
		"\t\tif PLANTED && existing == stet.ReplaceEnded {\n\t\t\texisting = stet.UseExisting\n\t\t}\n" +
			"\t\toptions = append(options, existing)\n", "FuzzActsAreTheEngines"},
	{"a body without a value ends the handler", "internal/endpoint/decode.go",
		"\tif err := Unmarshal(data, into); err != nil {",
		"\tif PLANTED && string(data) == \"null\" {\n\t\tpanic(data)\n\t}\n\tif err := Unmarshal(data, into); err != nil {",
		"FuzzBodies"},
	{"a wrong duration ends the handler", "internal/endpoint/decode.go", "\t\tif err != nil || d < 0 {",
		"\t\tif PLANTED && err != nil {\n\t\t\tpanic(err)\n\t\t}\n\t\tif err != nil || d < 0 {", "FuzzParameters"},
}

// partsOfPlanted is how many days make test needs for all defects; make faults tries all.
const partsOfPlanted = 5

// TestPlantedFaults: for each defect there is a test that fails with it, and passes without.
func TestPlantedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("not in -short: it compiles the tests of this package a second time")
	}
	program := compilePlanted(t)
	tests := map[string][]string{}
	today := soak.Part(t, 0, partsOfPlanted)
	for i, d := range planted {
		if !soak.WithFaults() && i%partsOfPlanted != today {
			continue
		}
		tests[d.test] = append(tests[d.test], d.name)
	}
	run := func(defect, test string) (string, error) {
		c := exec.CommandContext(t.Context(), program, "-test.run", "^"+test+"$", "-test.v", "-test.timeout", "2m")
		c.Env = append(os.Environ(), "STET_PLANTED="+defect)
		text, err := c.CombinedOutput()
		return string(text), err
	}
	for test, defects := range tests {
		t.Run(test, func(t *testing.T) {
			t.Parallel() // most of them wait for an event that a defect keeps back
			if text, err := run("", test); err != nil || !strings.Contains(text, "--- PASS: "+test) {
				t.Fatalf("without a defect: %v\n%s", err, text)
			}
			for _, defect := range defects {
				if text, err := run(defect, test); err == nil || !strings.Contains(text, "--- FAIL: "+test) {
					t.Errorf("%s: it passes (%v)\n%s", defect, err, text)
				}
			}
		})
	}
}

// compilePlanted compiles the tests of this package with all defects, each behind its name.
func compilePlanted(t *testing.T) (program string) {
	t.Helper()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed, replaced := map[string]string{}, map[string]string{}
	for _, d := range planted {
		text := changed[d.file]
		if text == "" {
			data, err := os.ReadFile(d.file)
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		if n := strings.Count(text, d.text); n != 1 || !strings.Contains(d.becomes, "PLANTED") {
			t.Fatalf("%s: expected its text once in %s, found it %d times: %q", d.name, d.file, n, d.text)
		}
		chosen := fmt.Sprintf("(plantedDefect == %q)", d.name)
		changed[d.file] = strings.Replace(text, d.text, strings.ReplaceAll(d.becomes, "PLANTED", chosen), 1)
	}
	for file, text := range changed {
		_, rest, _ := strings.Cut("\n"+text, "\npackage ")
		name, _, _ := strings.Cut(rest, "\n")
		guard := "package " + name + "\n\nimport \"os\"\n\nvar plantedDefect = os.Getenv(\"STET_PLANTED\")\n"
		for at, text := range map[string]string{file: text, filepath.Join(filepath.Dir(file), "planted.go"): guard} {
			at = filepath.Join(here, at)
			if replaced[at] != "" {
				continue // of a package with several changed files
			}
			to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replaced)))
			if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			replaced[at] = to
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replaced})
	overlay := filepath.Join(dir, "overlay.json")
	if err == nil {
		err = os.WriteFile(overlay, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "server.test")
	c := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", overlay,
		"-o", program)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return program
}
