package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/codecheck"
)

// TestCheckCommand runs the command against the code that a store's runs were
// made with, and against code that they do not fit.
func TestCheckCommand(t *testing.T) {
	t.Parallel()
	open := testStores[0].open(t)
	w := shop().define()
	other := stet.Define("other", func(ctx stet.Context, _ string) (string, error) { return word.Receive(ctx) })
	e := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w, other}}).Engine
	dir := t.TempDir()
	file := filepath.Join(dir, "r0.json")
	for i := range 3 {
		data := waiting(t, e, w, fmt.Sprint("r", i))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("r%d.json", i)), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	foreign := filepath.Join(dir, "foreign.json")
	if err := os.WriteFile(foreign, waiting(t, e, other, "o"), 0o644); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage.json")
	if err := os.WriteFile(garbage, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	same, broken := shop(), shop()
	broken.second = "charges"
	fits, breaks := checker(t, open(), same.define()), checker(t, open(), broken.define())
	const elsewhere = "1 of workflow other were not replayed: this binary has no code for it\n"
	for _, c := range []struct {
		name   string
		engine *stet.Engine
		args   []string
		code   int
		out    []string // lines begin so
		errOut string
	}{
		{"all fit", fits, nil, codecheck.Fits, nil, "4 runs match, 3 were replayed, 0 would break\n" + elsewhere},
		{"all break", breaks, nil, codecheck.Breaks,
			[]string{"WORKFLOW  LOCATION  RUNS  LIKE      REASON",
				"shop      charge    3     r2 r1 r0  mismatch at charge: "},
			"4 runs match, 3 were replayed, 3 would break\n" + elsewhere},
		{"IDs", breaks, []string{"-o", "ids"}, codecheck.Breaks, []string{"r2", "r1", "r0"}, "3 would break"},
		{"a filter", breaks, []string{"-o=ids", "-query", "id=r1"}, codecheck.Breaks, []string{"r1"}, "1 runs match, 1 were replayed"},
		{"a filter that finds nothing", breaks, []string{"-query", "status=failed"}, codecheck.Fits, nil, "0 runs match"},
		{"a sample", breaks, []string{"-sample", "1", "-seed", "7", "-o", "ids"}, codecheck.Breaks, []string{"r"},
			"4 runs match, 1 were replayed"},
		{"a file that fits", fits, []string{file}, codecheck.Fits, nil, "1 runs match, 1 were replayed, 0 would break\n"},
		{"a file that breaks", breaks, []string{"-o", "ids", file, filepath.Join(dir, "r1.json")}, codecheck.Breaks,
			[]string{"r0", "r1"}, "2 would break\n"},
		{"a file without code", fits, []string{foreign}, codecheck.Unknown, nil, `unknown workflow "other"`},
		{"no run", fits, []string{garbage}, codecheck.Usage, nil, "garbage.json: replay: not an exported run"},
		{"no file", fits, []string{filepath.Join(dir, "none")}, codecheck.Failed, nil, "no such file"},
		{"an unknown flag", fits, []string{"-x"}, codecheck.Usage, nil, "check: flag provided but not defined: -x\n"},
		{"an unknown form", fits, []string{"-o", "xml"}, codecheck.Usage, nil, `found "xml"`},
		{"a bad filter", fits, []string{"-query", "color=red"}, codecheck.Usage, nil, "color=red"},
		{"a bad sample", fits, []string{"-sample", "-7"}, codecheck.Usage, nil, "found -7"},
		{"a file and a filter", fits, []string{"-query", "id=r1", file}, codecheck.Usage, nil, "found both"},
		{"help", fits, []string{"-h"}, codecheck.Fits, nil, "usage: check [flags] [FILE...]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := codecheck.Command(testContext(t), c.engine, c.args, &out, &errOut)
			if code != c.code {
				t.Errorf("the exit code is %d, want %d", code, c.code)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(c.out) {
				t.Fatalf("printed\n%s", &out)
			}
			for i := range lines {
				if !strings.HasPrefix(lines[i], c.out[i]) {
					t.Errorf("line %d is %q, want %q", i, lines[i], c.out[i])
				}
			}
			if !strings.Contains(errOut.String(), c.errOut) {
				t.Errorf("said %q, want %q", &errOut, c.errOut)
			}
		})
	}
	var out bytes.Buffer
	if code := codecheck.Command(testContext(t), breaks, []string{"-o", "json", file}, &out,
		new(bytes.Buffer)); code != codecheck.Breaks {
		t.Errorf("the exit code is %d", code)
	}
	var got struct {
		Runs                                                int
		Like                                                []string
		Workflow, Location, Recorded, Asked, Remedy, Reason string
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Runs != 1 || !slices.Equal(got.Like, []string{"r0"}) ||
		got.Workflow != "shop" || got.Location != "charge" ||
		got.Recorded != "step charge (done, completion 3)" || got.Asked == "" || got.Remedy == "" || got.Reason == "" {
		t.Errorf("printed %s (%v)", &out, err)
	}
}
