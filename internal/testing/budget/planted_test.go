package budget

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/faults"
	"github.com/stet-run/stet/internal/testing/soak"
)

// plantedLine is a row of docs/proof.md about a line that was changed to see whether a test notices.
type plantedLine struct {
	property, file, line, becomes string
	test                          faults.Test // that goes red
}

// plantedLines reads the table. Its rows have five columns; the other table has three.
func plantedLines(t *testing.T) (list []plantedLine) {
	t.Helper()
	text, err := os.ReadFile(proofPage)
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(text)) {
		columns := strings.Split(strings.TrimSpace(row), "|")
		if len(columns) != 7 {
			continue
		}
		test := named.FindStringSubmatch(columns[5])
		if test == nil {
			continue // the head
		}
		code := func(column string) string { return strings.Trim(strings.TrimSpace(column), "`") }
		list = append(list, plantedLine{strings.TrimSpace(columns[1]), code(columns[2]), code(columns[3]), code(columns[4]),
			faults.Test{Dir: test[1], Name: test[2]}})
	}
	return list
}

// TestPlantedLines holds that each line of the table is still where the table says, and that its test is one of make
// test. make soak also tries each: it changes the line for the compiler alone, and the test must go red.
func TestPlantedLines(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	all, moved, err := faults.Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	quick := map[faults.Test]bool{}
	for _, test := range all {
		quick[test] = true
	}
	for _, test := range moved {
		delete(quick, test)
	}
	lines := plantedLines(t)
	if len(lines) < 10 {
		t.Errorf("docs/proof.md: expected a table of ten planted lines or more, found %d", len(lines))
	}
	for _, p := range lines {
		t.Run(p.property, func(t *testing.T) {
			file := filepath.Join(root, filepath.FromSlash(p.file))
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(source, []byte(p.line)); n != 1 {
				t.Fatalf("docs/proof.md: expected %q once in %s, found it %d times: plant it in the code of today, see the "+
					"test go red, and change the row", p.line, p.file, n)
			}
			if !quick[p.test] {
				t.Fatalf("docs/proof.md: expected a test of make test, found %s", p.test)
			}
			if soak.On() {
				goesRed(t, root, file, bytes.Replace(source, []byte(p.line), []byte(p.becomes), 1), p.test)
			}
		})
	}
}

// goesRed runs a test with another text of a file, as on day 0 of make test. The file itself stays what it is.
func goesRed(t *testing.T, root, file string, text []byte, test faults.Test) {
	t.Helper()
	planted, overlay := filepath.Join(t.TempDir(), "planted"), filepath.Join(t.TempDir(), "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: planted}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{planted: text, overlay: list} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-run", "^"+test.Name+"$", ".")
	c.Dir = filepath.Join(root, filepath.FromSlash(test.Dir))
	// An empty STET_SOAK is that of make test. A simulated world is compiled by the test itself, and takes the flags too.
	c.Env = append(os.Environ(), "STET_SOAK=", "STET_TEST_FAULTS=", "STET_TEST_DAY=0", "GOFLAGS=-overlay="+overlay)
	out, err := c.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("--- FAIL: "+test.Name)) {
		t.Errorf("expected that %s fails, found %v\n%s", test, err, out)
	}
}
