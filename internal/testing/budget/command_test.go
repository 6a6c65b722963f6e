package budget

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The command line is a user of the public API: what it shows, every program can show. It
// imports no package of this module's internal; its tests may use those for tests.
func TestCommandUsesThePublicAPI(t *testing.T) {
	files, err := filepath.Glob("../../../cmd/stet/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("the sources of cmd/stet: %d files, %v", len(files), err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Error(err)
			}
			forTests := strings.HasSuffix(file, "_test.go") && strings.HasPrefix(path, module+"/internal/testing/")
			if strings.HasPrefix(path, module+"/internal/") && !forTests {
				t.Errorf("%s imports %s; it may use the public packages only", filepath.Base(file), path)
			}
		}
	}
}
