//go:build house

package budget

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamplesBuildOutsideOfTheWorkspace: their go.mod says all that they need, so that who copies
// one can build it.
func TestExamplesBuildOutsideOfTheWorkspace(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-mod=readonly", "-o", os.DevNull, "./...")
	cmd.Dir = filepath.Join(root, "examples")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return
	}
	for _, away := range []string{"dial tcp", "no such host", "module lookup disabled", "i/o timeout", "proxyconnect"} {
		if strings.Contains(string(out), away) {
			if os.Getenv("STET_TEST_STRICT") == "1" {
				t.Fatalf("the modules of the examples cannot be had:\n%s", out)
			}
			t.Skipf("the modules of the examples cannot be had:\n%s", out)
		}
	}
	t.Errorf("go build in examples, outside of the workspace: %v\n%s", err, out)
}
