package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestAloneAndUnderVet: the command finds the same alone and as the tool of go vet, and says
// so with its exit code; rules are turned off by the flag.
func TestAloneAndUnderVet(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "stetvet")
	if runtime.GOOS == "windows" {
		tool += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	testdata, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		finds bool
	}{
		{[]string{tool, "./contexts/aliased"}, false},
		{[]string{tool, "--contexts=cases/contexts/public.Context", "./contexts/aliased"}, true},
		{[]string{tool, "./clock"}, true},
		{[]string{tool, "-rules=-clock", "./clock"}, false},
		{[]string{"go", "vet", "-vettool=" + tool, "./clock"}, true},
		{[]string{"go", "vet", "-vettool=" + tool, "-stetvet.rules=random", "./clock"}, false},
	} {
		cmd := exec.Command(c.args[0], c.args[1:]...)
		cmd.Dir, cmd.Env = testdata, append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if found := strings.Contains(string(out), "clock: "); found != c.finds || (err != nil) != c.finds {
			t.Errorf("%v: expected findings: %v; got %v\n%s", c.args[1:], c.finds, err, out)
		}
	}
}
