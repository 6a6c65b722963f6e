package e2e_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/soak"
)

// TestFirstProgram builds the first program of the README as it is there, and executes it: once to its end, and once
// more, when all is done.
func TestFirstProgram(t *testing.T) {
	soak.Faults(t)
	root, program := firstProgram(t)
	// The workspace replaces the lines that go get adds to the go.mod.
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
	executeTwice(t, func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "go", "run", ".")
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(folder, "go.work"))
		return cmd
	})
}

// envProgram makes the test's own program the first program of the README.
const envProgram = "STET_FIRST_PROGRAM"

// TestFirstProgramOfTheTests is TestFirstProgram without a build: readme_program_test.go has the text of the README.
func TestFirstProgramOfTheTests(t *testing.T) {
	t.Parallel()
	_, program := firstProgram(t)
	have, err := os.ReadFile("readme_program_test.go")
	if err != nil {
		t.Fatal(err)
	}
	renamed := strings.NewReplacer("package main\n", "package e2e_test\n", "func main() {", "func readmeMain() {")
	want := renamed.Replace(program)
	if string(have) != want {
		t.Errorf("readme_program_test.go: expected the program of the README, which is\n%s\nfound\n%s", want, have)
	}
	folder := t.TempDir()
	executeTwice(t, func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), envProgram+"=1")
		return cmd
	})
}

// firstProgram returns the folder of the repository and the first whole program of its README.
func firstProgram(t *testing.T) (root, program string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(readme), "```go\n")[1:] {
		if block, _, _ := strings.Cut(block, "```"); strings.Contains(block, "package main") {
			return root, block
		}
	}
	t.Fatal("expected a block with a whole program in the README, found none")
	return "", ""
}

// executeTwice fails the test unless the program prints what it does at first, and only the receipt after that, and
// logs no warning.
func executeTwice(t *testing.T, command func() *exec.Cmd) {
	t.Helper()
	for _, want := range []string{
		"charging 999 with key KEY\nshipping order-42\norder-42 is shipped, paid by charge of order-42\n",
		"order-42 is shipped, paid by charge of order-42\n",
	} {
		cmd := command()
		var messages strings.Builder
		cmd.Stderr = &messages
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, messages.String())
		}
		if strings.Contains(messages.String(), "WARN") {
			t.Errorf("it logged\n%s", messages.String())
		}
		if got := keyIn.ReplaceAllString(string(out), "with key KEY"); got != want {
			t.Errorf("it printed\n%s\nexpected\n%s", got, want)
		}
	}
}

var keyIn = regexp.MustCompile(`with key \S+`)

// TestFirstProgramIsInterrupted presses Ctrl-C after the charge, as the README says: the program ends, and the next one
// goes on after the charge, without a warning.
func TestFirstProgramIsInterrupted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a program cannot be interrupted by another one on Windows")
	}
	folder := t.TempDir()
	command := func() (*exec.Cmd, *strings.Builder) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Dir, cmd.Env = folder, append(os.Environ(), envProgram+"=1")
		messages := &strings.Builder{}
		cmd.Stderr = messages
		return cmd, messages
	}
	first, messages := command()
	out, err := first.StdoutPipe()
	if err == nil {
		err = first.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "charging") {
		t.Fatalf("it printed %q, %v", lines.Text(), lines.Err())
	}
	if err := first.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		t.Errorf("after the interrupt it printed %q", lines.Text())
	}
	var exit *exec.ExitError
	if err := first.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v\n%s", err, messages)
	}
	second, messages := command()
	printed, err := second.Output()
	if err != nil || strings.Contains(string(printed), "charging") || !strings.Contains(string(printed), "shipping") ||
		strings.Contains(messages.String(), "WARN") {
		t.Errorf("the next one: %v\n%s%s", err, printed, messages)
	}
}
