package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFirstProgram executes the first program of the README as it stands there: once to
// its end, and once more, when all is done.
func TestFirstProgram(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var program string
	for _, block := range strings.Split(string(readme), "```go\n")[1:] {
		if block, _, _ := strings.Cut(block, "```"); strings.Contains(block, "package main") {
			program = block
			break
		}
	}
	if program == "" {
		t.Fatal("expected a block with a whole program in the README, found none")
	}
	// The workspace stands for what go get adds to the go.mod.
	folder := t.TempDir()
	for name, text := range map[string]string{
		"main.go": program,
		"go.mod":  "module shop\n\ngo 1.26.0\n",
		"go.work": "go 1.26.0\n\nuse (\n\t.\n\t" + filepath.ToSlash(root) + "\n)\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"charging 999 with key KEY\nshipping order-42\norder-42 is shipped, paid by charge of order-42\n",
		"order-42 is shipped, paid by charge of order-42\n",
	} {
		cmd := exec.CommandContext(t.Context(), "go", "run", ".")
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(folder, "go.work"))
		var messages strings.Builder
		cmd.Stderr = &messages
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, messages.String())
		}
		if got := keyIn.ReplaceAllString(string(out), "with key KEY"); got != want {
			t.Errorf("it printed\n%s\nexpected\n%s", got, want)
		}
	}
}

var keyIn = regexp.MustCompile(`with key \S+`)
