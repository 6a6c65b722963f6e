package budget

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The bounds of what one file, type or package may grow to before it has two subjects.
const (
	maxLine     = 120   // characters; a tab is one
	maxTableRow = 140   // of a line that is a row of a table
	maxMethods  = 60    // of a type
	maxFields   = 40    // of a struct
	maxPackage  = 3_200 // lines of the sources of a package of internal: about 3,000, comments included
)

// long are files whose lines may be longer, with the reason.
var long = map[string]string{}

// large are types and packages that may be larger, with the reason.
var large = map[string]string{"..Config": "what a program can set is one struct, a page of godoc"}

// TestLines holds the length of lines of code, SQL and Lua. A row of a table begins
// with a brace, a quote or a bar.
func TestLines(t *testing.T) {
	eachFile(t, func(name string, content []byte) {
		if !slices.Contains([]string{".go", ".lua", ".sql", ".sh"}, path.Ext(name)) || long[name] != "" ||
			strings.Contains(name, "/testdata/") || strings.Contains(name, "/migrations/") {
			return
		}
		number := 0
		for line := range strings.Lines(string(content)) {
			number++
			line = strings.TrimSuffix(line, "\n")
			limit := maxLine
			if text := strings.TrimLeft(line, "\t "); text != "" && strings.ContainsRune("{\"`'|", rune(text[0])) {
				limit = maxTableRow
			}
			if n := utf8.RuneCountInString(line); n > limit {
				t.Errorf("%s:%d: expected at most %d characters, found %d", name, number, limit, n)
			}
		}
	})
}

// TestTypesAndPackagesStaySmall reports types with many methods or fields, and packages of internal with many lines:
// go test -v -run TestTypes prints them. It fails at one and a half times a limit. The numbers serve people: a
// limit that fails at once bends the API around it.
func TestTypesAndPackagesStaySmall(t *testing.T) {
	methods, fields, lines := map[string]int{}, map[string]int{}, map[string]int{}
	eachFile(t, func(name string, content []byte) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") {
			return
		}
		dir := path.Dir(name)
		lines[dir] += strings.Count(string(content), "\n")
		file, err := parser.ParseFile(token.NewFileSet(), name, content, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[dir+"."+receiverName(d.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					ts, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					if s, ok := ts.Type.(*ast.StructType); ok {
						fields[dir+"."+ts.Name.Name] = countFields(s)
					}
				}
			}
		}
	})
	check := func(what string, found map[string]int, limit int, which func(string) bool) {
		for _, name := range slices.Sorted(maps.Keys(found)) {
			switch n := found[name]; {
			case !which(name) || large[name] != "":
			case n > limit+limit/2:
				t.Errorf("%s: expected at most %d %s, found %d: has it two subjects?", name, limit, what, n)
			case n > limit:
				t.Logf("%s: %d %s, above %d: has it two subjects?", name, n, what, limit)
			}
		}
	}
	all := func(string) bool { return true }
	check("methods", methods, maxMethods, all)
	check("fields", fields, maxFields, all)
	check("lines", lines, maxPackage, func(dir string) bool { return strings.HasPrefix(dir, "internal/") })
}

// receiverName returns the name of a receiver's type.
func receiverName(of ast.Expr) string {
	switch e := of.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return fmt.Sprintf("%T", of)
}

// countFields counts each name of a struct; an embedded field counts as one.
func countFields(s *ast.StructType) int {
	n := 0
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}

// eachFile calls fn for each file of the repository, with its path from the root.
func eachFile(t *testing.T, fn func(name string, content []byte)) {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(name); ext != ".go" && ext != ".lua" && ext != ".sql" && ext != ".sh" {
			return nil
		}
		content, err := os.ReadFile(file)
		if err == nil {
			fn(filepath.ToSlash(name), content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
