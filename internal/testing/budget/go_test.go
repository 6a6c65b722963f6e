package budget

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/stet-run/stet"

// goPackage is what `go list` says of a package.
type goPackage struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path string }
	Standard   bool
	Export     string // file with the exported types
}

// goCommand runs the go command on the root module alone, as an importer gets it.
func goCommand(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	args = append([]string{"list", "-json=ImportPath,Imports,Module,Standard,Export"}, args...)
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(goCommand(t, args...))); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
