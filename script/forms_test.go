package script_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stet-run/stet/script"
)

func TestMain(m *testing.M) {
	script.AddIllTools()
	script.Child()
	if address := os.Getenv(helperVar); address != "" {
		connectAndWait(address)
	}
	os.Exit(m.Run())
}

// bothForms executes a test of scripts in this process and in children. What makes scripts in the test looks at its
// name.
func bothForms(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("in process", test)
	t.Run("isolated", test)
}

// isolates reports whether the scripts of a test execute in children.
func isolates(t testing.TB) bool { return strings.Contains(t.Name(), "/isolated") }

// compiled is script.Compile, in the form of the test.
func compiled(t testing.TB, name, source string, tasks []script.Task) *script.Workflow {
	t.Helper()
	compile := script.Compile
	if isolates(t) {
		compile = script.CompileIsolated
	}
	w, err := compile(name, source, tasks)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
