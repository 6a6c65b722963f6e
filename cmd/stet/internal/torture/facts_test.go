package torture

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRecordedLogs judges logs that tortures have written, cut down to what matters: those in which a promise was
// broken, and those in which it was kept and a checker has once said otherwise. The file verdict of each has a line for
// each kind of violation that is to be found, none if none is, and says why.
func TestRecordedLogs(t *testing.T) {
	dirs, err := filepath.Glob("testdata/logs/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("expected folders with logs, found %q, %v", dirs, err)
	}
	accused := 0
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			lines, err := readJournal(filepath.Join(dir, effectsFile))
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(filepath.Join(dir, factsFile))
			if err != nil {
				t.Fatal(err)
			}
			var f facts
			if err := json.Unmarshal(data, &f); err != nil {
				t.Fatal(err)
			}
			report := newReport("", "", 0, dir)
			f.judge(report, lines)
			want := verdictOf(t, filepath.Join(dir, "verdict"))
			accused += len(want)
			for _, v := range violations {
				if found := report.Violations[v] > 0; found != slices.Contains(want, v) {
					t.Errorf("%s: expected %t, found %d: %q", v, !found, report.Violations[v], report.Examples[v])
				}
			}
		})
	}
	if accused == 0 {
		t.Error("in none of the logs a promise is broken")
	}
}

// verdictOf reads the kinds of violations that a log has.
func verdictOf(t *testing.T, path string) (want []violation) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	why := false
	for scan := bufio.NewScanner(strings.NewReader(string(data))); scan.Scan(); {
		switch text := scan.Text(); {
		case strings.HasPrefix(text, "#"):
			why = true
		case slices.Contains(violations, violation(text)):
			want = append(want, violation(text))
		default:
			t.Fatalf("%s: expected a comment or the name of a violation, found %q", path, text)
		}
	}
	if !why {
		t.Errorf("%s: it does not say why", path)
	}
	return want
}
