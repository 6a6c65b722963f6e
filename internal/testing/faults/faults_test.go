package faults_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/faults"
)

func write(t *testing.T, root, name, body string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("package x\n\n"+body), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTestsAreFound(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a/x_test.go", "func TestMain(m *M) {}\nfunc TestB(t *T) { soak.Faults(t) }\nfunc TestA(t *T) {}")
	write(t, root, "testdata/x_test.go", "func TestC(t *T) {}")
	write(t, root, "x.go", "func TestD(t *T) {}")
	all, moved, err := faults.Tests(root)
	b := faults.Test{Dir: "a", Name: "TestB"}
	if err != nil || !slices.Equal(all, []faults.Test{{Dir: "a", Name: "TestA"}, b}) ||
		!slices.Equal(moved, []faults.Test{b}) {
		t.Errorf("found %v, of them %v of make faults, %v", all, moved, err)
	}
}

// TestFaultsComesFirst: a test must not have begun to work before it is left out.
func TestFaultsComesFirst(t *testing.T) {
	root := t.TempDir()
	write(t, root, "x_test.go", "func TestA(t *T) {\n\tstart()\n\tsoak.Faults(t)\n}")
	const want = "TestA: expected soak.Faults as the first"
	if _, _, err := faults.Tests(root); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("found %v", err)
	}
}
