package budget

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withoutExample are the functions and methods of the root that no example calls, each
// with the reason.
var withoutExample = map[string]string{}

// TestEveryCallHasAnExample: what the root exports is called in a compiled example. It
// compares names: a method counts as called where any method of its name is.
func TestEveryCallHasAnExample(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(root, "store", "postgres", "example*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	exported, called := map[string]string{}, map[string]bool{}
	for _, name := range append(files, more...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(filepath.Base(name), "example") {
			ast.Inspect(file, func(n ast.Node) bool {
				if id, ok := n.(*ast.SelectorExpr); ok {
					called[id.Sel.Name] = true
				}
				return true
			})
			continue
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.IsExported() {
				exported[receiver(f)+f.Name.Name] = f.Name.Name
			}
		}
	}
	var missing []string
	for full, name := range exported {
		if !called[name] && withoutExample[full] == "" && !byConvention[name] && ast.IsExported(full) {
			missing = append(missing, full)
		}
	}
	slices.Sort(missing)
	for _, full := range missing {
		t.Errorf("%s has no example", full)
	}
	for _, full := range slices.Sorted(maps.Keys(withoutExample)) {
		if name, ok := exported[full]; !ok || called[name] {
			t.Errorf("%s is excused and needs no excuse", full)
		}
	}
}

// byConvention are methods that the standard library calls.
var byConvention = map[string]bool{
	"Error": true, "Unwrap": true, "String": true, "Is": true, "MarshalJSON": true, "MarshalText": true, "UnmarshalText": true,
}

// receiver returns the name of a method's type and a dot; "" of a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	for e := f.Recv.List[0].Type; ; {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return "?."
		}
	}
}
