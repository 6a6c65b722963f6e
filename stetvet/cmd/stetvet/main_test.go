//go:build house

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
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
	const clock, aliased = "clock/clock.go", "contexts/aliased/"
	for _, c := range []struct { // few, as each looks at all that the packages import
		args  []string
		finds []string
	}{
		{[]string{tool, "--contexts=cases/contexts/public.Context"}, []string{clock, aliased}},
		{[]string{tool, "-rules=-clock", "--contexts=cases/contexts/public.Context"}, nil},
		{[]string{"go", "vet", "-vettool=" + tool}, []string{clock}},
		{[]string{"go", "vet", "-vettool=" + tool, "-stetvet.rules=random"}, nil},
	} {
		cmd := exec.Command(c.args[0], append(c.args[1:], "./clock", "./contexts/aliased")...)
		cmd.Dir, cmd.Env = testdata, append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		var found []string
		for _, in := range []string{clock, aliased} {
			if regexp.MustCompile(regexp.QuoteMeta(in) + `.*: clock: `).Match(out) {
				found = append(found, in)
			}
		}
		if !slices.Equal(found, c.finds) || (err != nil) != (c.finds != nil) {
			t.Errorf("%v: expected findings in %q; got %q, %v\n%s", c.args[1:], c.finds, found, err, out)
		}
	}
}
