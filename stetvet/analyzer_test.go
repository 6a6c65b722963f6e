package stetvet_test

import (
	"fmt"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/stet-run/stet/stetvet"
)

// findingsOnly leaves out what analysistest says of facts, which are compared where they
// show: in the chains of findings.
type findingsOnly struct{ *testing.T }

func (t findingsOnly) Errorf(format string, args ...any) {
	if !strings.Contains(format, "unexpected %s") || len(args) < 2 || args[1] != "fact" {
		t.T.Helper()
		t.T.Errorf(format, args...)
	}
}

// marked is a test that takes the findings of the folders with marks as results, and those of the rules as analysistest
// does.
type marked struct{ findingsOnly }

func (t marked) Errorf(format string, args ...any) {
	if strings.Contains(format, "unexpected %s") && len(args) > 0 {
		at, _ := args[0].(token.Position)
		if folder := filepath.Base(filepath.Dir(at.Filename)); folder == "planted" || folder == "misses" {
			return
		}
	}
	t.T.Helper()
	t.findingsOnly.Errorf(format, args...)
}

func analyse(t *testing.T, patterns ...string) []*analysistest.Result {
	t.Helper()
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return analysistest.Run(marked{findingsOnly{t}}, dir, stetvet.Analyzer, patterns...)
}

// TestRules: each rule has a folder with bad code, where it finds what is expected, and good
// code, where it finds nothing. The folders with marks are looked at too: all are loaded once.
func TestRules(t *testing.T) {
	patterns := []string{"./ignore", "./planted", "./misses"}
	for _, rule := range stetvet.Rules() {
		files, err := filepath.Glob("testdata/" + rule + "/*.go")
		if err != nil || len(files) == 0 {
			t.Errorf("rule %s has no case: %v", rule, err)
			continue
		}
		text := ""
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text += string(content)
		}
		if !strings.Contains(text, "func good") { // that its bad case is found is looked at below
			t.Errorf("rule %s has no good code", rule)
		}
		patterns = append(patterns, "./"+rule)
	}
	found := map[string]bool{}
	byFolder := map[string][]*analysistest.Result{}
	for _, result := range analyse(t, patterns...) {
		folder := path.Base(result.Pass.Pkg.Path())
		byFolder[folder] = append(byFolder[folder], result)
		if folder == "planted" || folder == "misses" {
			continue
		}
		for _, d := range result.Diagnostics {
			found[d.Category] = true
		}
	}
	for _, rule := range stetvet.Rules() {
		if !found[rule] {
			t.Errorf("rule %s finds nothing in its bad case", rule)
		}
	}
	t.Run("planted", func(t *testing.T) { plantedFaults(t, byFolder["planted"]) })
	t.Run("misses", func(t *testing.T) { knownMisses(t, byFolder["misses"]) })
}

// plantedFaults: of the lines that a fault marks, at least 28 of 31 are found; nothing is
// found elsewhere.
func plantedFaults(t *testing.T, results []*analysistest.Result) {
	t.Helper()
	faults, found, wrong := marks(t, results, "// fault")
	for place, is := range faults {
		if !is {
			t.Logf("%s: not found", place)
		}
	}
	if len(faults) != 31 || found < 28 || wrong > 0 {
		t.Errorf("expected at least 28 of 31 faults, and nothing else; found %d of %d, and %d others",
			found, len(faults), wrong)
	}
}

// knownMisses: what the analyzer is known to miss. If one is found, take it from the list.
func knownMisses(t *testing.T, results []*analysistest.Result) {
	t.Helper()
	misses, found, wrong := marks(t, results, "// miss")
	if len(misses) < 5 || found > 0 || wrong > 0 {
		t.Errorf("expected none of at least 5 misses to be found; found %d of %d, and %d others: %v",
			found, len(misses), wrong, misses)
	}
}

// marks returns the marked lines of a package that was analysed, and which of them are found.
func marks(t *testing.T, results []*analysistest.Result, mark string) (lines map[string]bool, found, wrong int) {
	t.Helper()
	lines = map[string]bool{}
	for _, result := range results {
		fset := result.Pass.Fset
		place := func(pos token.Pos) string {
			p := fset.Position(pos)
			return filepath.Base(p.Filename) + ":" + fset.Position(pos).String()[len(p.Filename)+1:]
		}
		line := func(pos token.Pos) string { return strings.Join(strings.Split(place(pos), ":")[:2], ":") }
		for _, file := range result.Pass.Files {
			for _, group := range file.Comments {
				for _, comment := range group.List {
					if strings.HasPrefix(comment.Text, mark) {
						lines[line(comment.Pos())] = false
					}
				}
			}
		}
		for _, d := range result.Diagnostics {
			already, marked := lines[line(d.Pos)]
			switch {
			case !marked:
				wrong++
				t.Logf("%s: %s", place(d.Pos), d.Message)
			case !already:
				lines[line(d.Pos)] = true
				found++
			}
		}
	}
	return lines, found, wrong
}

// TestRulesAreTurnedOff: the flag has names with a minus, or those that are on alone.
func TestRulesAreTurnedOff(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "-log,-sync": true, "clock, random": true, "-tempo": false, "tempo": false,
	} {
		if err := stetvet.New().Flags.Set("rules", text); (err == nil) != ok {
			t.Errorf("rules %q: expected accepted %v, got %v", text, ok, err)
		}
	}
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"-clock": false, "clock": true} {
		analyzer := stetvet.New()
		if err := analyzer.Flags.Set("rules", text); err != nil {
			t.Fatal(err)
		}
		found := false
		quiet := &ignoring{t}
		for _, result := range analysistest.Run(quiet, dir, analyzer, "./clock") {
			found = found || len(result.Diagnostics) > 0
		}
		if found != want {
			t.Errorf("rules %q: expected findings of clock: %v, found %v", text, want, found)
		}
	}
}

type ignoring struct{ *testing.T }

func (*ignoring) Errorf(string, ...any) {}

// TestContextsOfOthers: a type of the setting makes a function workflow code as stet.Context
// does, also through a pointer or another name, and functions of the setting are given bodies.
func TestContextsOfOthers(t *testing.T) {
	const flow = "cases/contexts/flow."
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		contexts string
		patterns []string
	}{
		{flow + "Context", []string{"./contexts", "./contexts/flow"}},
		{"cases/contexts/public.Context", []string{"./contexts/aliased"}},
	} {
		analyzer := stetvet.New()
		for flag, text := range map[string]string{"contexts": c.contexts, "bodies": flow + "Once, " + flow + "Context.With"} {
			if err := analyzer.Flags.Set(flag, text); err != nil {
				t.Fatal(err)
			}
		}
		analysistest.Run(findingsOnly{t}, dir, analyzer, c.patterns...)
	}
}

// TestContextsThatAreNone: a text that is no name is refused, and so is a type that its package
// does not have: the setting would do nothing.
func TestContextsThatAreNone(t *testing.T) {
	for _, flag := range []string{"contexts", "bodies"} {
		for text, ok := range map[string]bool{
			"": true, "example.com/flow.Context": true, "gopkg.in/flow.v2.Context, example.com/b.C": true,
			"Context": false, "example.com/flow": false, "example.com/flow.": false,
		} {
			if err := stetvet.New().Flags.Set(flag, text); (err == nil) != ok {
				t.Errorf("%s %q: expected accepted %v, got %v", flag, text, ok, err)
			}
		}
	}
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	analyzer := stetvet.New()
	if err := analyzer.Flags.Set("contexts", "cases/contexts/flow.Kontext"); err != nil {
		t.Fatal(err)
	}
	said := &saying{T: t}
	analysistest.Run(said, dir, analyzer, "./contexts/flow")
	if want := "contexts: package cases/contexts/flow has no type Kontext"; !strings.Contains(said.text, want) {
		t.Errorf("expected %q, got %q", want, said.text)
	}
}

// saying takes failures as results.
type saying struct {
	*testing.T
	text string
}

func (s *saying) Errorf(format string, args ...any) { s.text += fmt.Sprintf(format, args...) + "\n" }
func (s *saying) Fatalf(format string, args ...any) { s.Errorf(format, args...) }
