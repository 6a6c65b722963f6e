package sim_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stet-run/stet/internal/sim"
	"github.com/stet-run/stet/internal/sim/plan"
)

// TestAnotherProcessorGivesTheSameTrace: a world is the same where numbers have 32 bits and machines are
// interpreted, not compiled. Other targets than these cannot be executed on the machines that test.
func TestAnotherProcessorGivesTheSameTrace(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skipf("a program for linux/386 is executed by linux/amd64, and this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if testing.Short() {
		t.Skip("a short test compiles nothing for another processor")
	}
	const seed = "37" // a short world
	var trace strings.Builder
	if _, err := sim.Run(program(t), plan.Generate(37), func(line string) { trace.WriteString(line + "\n") }); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "run")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", other, "github.com/stet-run/stet/internal/sim/run")
	build.Env = append(build.Environ(), "GOARCH=386", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), other, "--seed", seed, "--trace").Output()
	if errors.Is(err, syscall.ENOEXEC) {
		t.Skip("the system executes no programs for linux/386")
	}
	if err != nil {
		t.Fatal(err)
	}
	want := trace.String()
	if got, _, ok := strings.Cut(string(out), want); ok && got == "" {
		return
	}
	theirs := append(strings.Split(string(out), "\n"), make([]string, strings.Count(want, "\n")+1)...)
	for i, line := range strings.Split(want, "\n") {
		if theirs[i] != line {
			t.Fatalf("line %d is\n%s\nhere, and\n%s\nthere", i+1, line, theirs[i])
		}
	}
}
