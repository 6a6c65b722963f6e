// Package faults finds the tests of make faults: those whose first statement is soak.Faults(t). It reads the sources,
// so that nobody keeps a list.
package faults

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Test is a test function.
type Test struct {
	Dir  string // of its package, from the root of the repository, with slashes
	Name string
}

func (t Test) String() string { return t.Dir + " " + t.Name }

// Tests returns all tests below a folder and those of them that begin with soak.Faults, each sorted by package and
// name. It leaves out folders named testdata, folders whose name begins with a dot, and files for the build tag house,
// which make lint runs.
func Tests(root string) (all, faults []Test, err error) {
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name()[0] == '.'):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(source, []byte("//go:build house\n")) {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
				continue
			}
			test := Test{Dir: path.Clean(filepath.ToSlash(relative)), Name: f.Name.Name}
			all = append(all, test)
			switch where := callsFaults(f); {
			case where == 0:
				faults = append(faults, test)
			case where > 0:
				return fmt.Errorf("%s: %s: expected soak.Faults as the first statement, found it as number %d", file,
					f.Name.Name, where+1)
			}
		}
		return nil
	})
	byName := func(a, b Test) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(all, byName)
	slices.SortFunc(faults, byName)
	return all, faults, err
}

// callsFaults returns the index of the statement of a function that is a call of soak.Faults, or -1.
func callsFaults(f *ast.FuncDecl) int {
	return slices.IndexFunc(f.Body.List, func(s ast.Stmt) bool {
		e, ok := s.(*ast.ExprStmt)
		if !ok {
			return false
		}
		call, ok := e.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, ok := selector.X.(*ast.Ident)
		return ok && pkg.Name == "soak" && selector.Sel.Name == "Faults"
	})
}
