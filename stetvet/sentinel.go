package stetvet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// sentinels finds errors.Is and errors.As that never find what they look for: an operation returns an error as it is
// read from the store, in which only the errors of Config.Errors are found.
func (u *uses) sentinels() {
	fromOperation := u.errorsOfOperations()
	ast.Inspect(u.root.body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		fn := u.callee(call)
		id, isIdent := ast.Unparen(call.Args[0]).(*ast.Ident)
		if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != "errors" || !isIdent || !fromOperation[u.TypesInfo.Uses[id]] ||
			u.inBody(call.Pos()) {
			return true
		}
		var wanted types.Object
		constructor := "stet.Sentinel"
		switch {
		case fn.Name() == "Is" && len(call.Args) == 2:
			if v := u.packageVar(call.Args[1]); v != nil {
				wanted = v
			}
		case fn.Name() == "As" && len(call.Args) == 2:
			if p, ok := types.Unalias(u.TypesInfo.TypeOf(call.Args[1])).(*types.Pointer); ok {
				wanted, constructor = errorType(p.Elem()), "stet.ErrorType"
			}
		case fn.Name() == "AsType":
			if tuple, ok := u.TypesInfo.TypeOf(call).(*types.Tuple); ok {
				wanted, constructor = errorType(tuple.At(0).Type()), "stet.ErrorType"
			}
		}
		if wanted == nil || wanted.Pkg() == nil || wanted.Pkg().Path() == stetPath || u.registered()[wanted.Name()] {
			return true
		}
		u.find(call.Pos(), ruleSentinel, "an operation's error is read from the store, where "+wanted.Pkg().Name()+"."+
			wanted.Name()+" is not found: name it in Config.Errors, with "+constructor)
		return true
	})
}

// errorType returns the named type of an error that is looked for, without a pointer; nil: an interface, or a type
// without a name.
func errorType(t types.Type) types.Object {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if named, ok := t.(*types.Named); ok && !types.IsInterface(named) {
		return named.Obj()
	}
	return nil
}

// errorsOfOperations are the variables that get errors of operations of package stet, and no other values.
func (u *uses) errorsOfOperations() map[types.Object]bool {
	from := map[types.Object]bool{}
	ast.Inspect(u.root.body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Rhs) != 1 {
			return true
		}
		id, ok := assign.Lhs[len(assign.Lhs)-1].(*ast.Ident)
		if !ok {
			return true
		}
		call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
		operation := ok && u.stetCall(call) != nil && len(call.Args) > 0 && u.isContext(u.TypesInfo.TypeOf(call.Args[0]))
		obj := u.TypesInfo.ObjectOf(id)
		before, known := from[obj]
		from[obj] = operation && (before || !known)
		return true
	})
	return from
}

// inBody reports whether a place is in the body of a step or a compensation, where errors are as they were made.
func (u *uses) inBody(pos token.Pos) bool {
	for f := u.at(pos); f != nil; f = f.around {
		if f.role == bodyRole || f.role == localRole {
			return true
		}
	}
	return false
}

// registered are the names of the variables and types that the sources of the module give a code, by stet.Sentinel and
// stet.ErrorType. The package that makes the config is rarely the one with the workflow, and imports it.
func (c *checker) registered() map[string]bool {
	if c.codes != nil {
		return c.codes
	}
	c.codes = map[string]bool{}
	root := moduleRoot(filepath.Dir(c.Fset.File(c.Files[0].Pos()).Name()))
	_ = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // an unreadable folder has no config
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".go":
			return nil
		}
		source, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(source), "Sentinel(") && !strings.Contains(string(source), "ErrorType[") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		if err != nil {
			return nil // the compiler says so
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if lastName(n.Fun) == "Sentinel" && len(n.Args) == 2 {
					c.codes[lastName(n.Args[1])] = true
				}
			case *ast.IndexExpr:
				if lastName(n.X) == "ErrorType" {
					c.codes[lastName(n.Index)] = true
				}
			}
			return true
		})
		return nil
	})
	return c.codes
}

// moduleRoot is the folder above with a go.mod; the folder itself if there is none.
func moduleRoot(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// lastName is the name of a variable or type, without its package and without a star.
func lastName(e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return lastName(e.X)
	}
	return ""
}
