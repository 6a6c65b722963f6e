package stetvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"
)

// walk goes through the code of one function, and what it has in literals, and emits each
// site. Bodies, resources and goroutines are left out.
type walk struct {
	*checker
	fn     ast.Node // a FuncDecl or FuncLit
	helper bool     // not workflow code itself: literals that are, are left out
	emit   func(site)
	nested func(*ast.FuncLit) // of literals that are left out, for workflow code inside them
}

func (w *walk) body(body ast.Node) {
	written := map[ast.Expr]bool{} // what an assignment has reported already
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			if w.leftOut(n) {
				return false
			}
		case *ast.GoStmt:
			w.emit(site{pos: n.Pos(), rule: ruleGoroutine, what: "go"})
			if lit, ok := ast.Unparen(n.Call.Fun).(*ast.FuncLit); ok {
				w.inner(lit)
			}
			for _, arg := range n.Call.Args {
				w.body(arg)
			}
			return false
		case *ast.SendStmt:
			w.emit(site{pos: n.Arrow, rule: ruleChannel, what: "a send"})
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				w.emit(site{pos: n.OpPos, rule: ruleChannel, what: "a receive"})
			}
		case *ast.SelectStmt:
			w.emit(site{pos: n.Select, rule: ruleChannel, what: "select"})
			for _, clause := range n.Body.List {
				for _, stmt := range clause.(*ast.CommClause).Body {
					w.body(stmt)
				}
			}
			return false
		case *ast.RangeStmt:
			if t := w.TypesInfo.TypeOf(n.X); t != nil {
				if _, ok := t.Underlying().(*types.Chan); ok {
					w.emit(site{pos: n.For, rule: ruleChannel, what: "range over a channel"})
				}
			}
			w.mapOrder(w.fn, n, w.emit)
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				w.write(left, written)
			}
		case *ast.IncDecStmt:
			w.write(n.X, written)
		case *ast.CallExpr:
			w.call(n, written)
		case *ast.SelectorExpr:
			w.mention(n.Sel, n, written)
			w.body(n.X)
			return false
		case *ast.Ident:
			w.mention(n, n, written)
		}
		return true
	})
}

// leftOut reports whether a literal is not part of the function's code.
func (w *walk) leftOut(lit *ast.FuncLit) bool {
	if w.isBody(lit) || w.helper && w.contextParam(lit.Type) != nil {
		w.inner(lit)
		return true
	}
	return false
}

func (w *walk) inner(lit *ast.FuncLit) {
	if w.nested != nil {
		w.nested(lit)
	}
}

// write emits the writing of a package variable.
func (w *walk) write(left ast.Expr, written map[ast.Expr]bool) {
	root := w.rootOf(left)
	if v := w.packageVar(root); v != nil && v.Pkg().Path() != stetPath {
		written[root] = true
		w.emit(site{pos: left.Pos(), rule: ruleGlobal, what: "a write of " + w.nameOf(v)})
	}
}

// call emits what only a call shows: builtins, and methods that depend on their receiver.
func (w *walk) call(call *ast.CallExpr, written map[ast.Expr]bool) {
	if id, ok := ast.Unparen(call.Fun).(*ast.Ident); ok {
		if builtin, ok := w.TypesInfo.Uses[id].(*types.Builtin); ok {
			switch builtin.Name() {
			case "close":
				w.emit(site{pos: call.Pos(), rule: ruleChannel, what: "close"})
			case "print", "println":
				w.emit(site{pos: call.Pos(), rule: ruleLog, what: builtin.Name()})
			case "delete", "clear":
				w.write(call.Args[0], written)
			}
			return
		}
	}
	fn, _ := w.object(call.Fun).(*types.Func)
	if fn == nil {
		return
	}
	w.collected(w.fn, call, w.emit)
	if fn.Pkg() != nil && fn.Pkg().Path() == "log/slog" && receiverName(fn) == "Logger" {
		if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && w.packageVar(w.rootOf(sel.X)) != nil {
			switch fn.Name() {
			case "With", "WithGroup", "Handler", "Enabled":
			default:
				w.emit(site{pos: call.Pos(), rule: ruleLog, what: "slog.Logger." + fn.Name()})
			}
		}
	}
	if fn.Pkg() != nil && fn.Pkg().Path() == "sync/atomic" && len(call.Args) > 0 && receiverName(fn) == "" &&
		w.packageVar(w.rootOf(call.Args[0])) == nil {
		written[ast.Unparen(call.Fun)] = true // as with methods: what is not the package's may be the run's
	}
	if w.beginsGoroutine(fn) { // it is found itself, and what it is given executes elsewhere, as behind go
		for _, arg := range call.Args {
			if _, ok := w.object(arg).(*types.Func); ok {
				written[ast.Unparen(arg)] = true
			}
		}
	}
	// Functions that an operation is given are bodies, or branches.
	if bodies := w.takesBodies(fn); bodies || w.isStet(fn) || w.signatureContext(fn.Signature()) {
		for _, arg := range call.Args {
			f, ok := w.object(arg).(*types.Func)
			if ok && (bodies || w.bodySignature(f.Signature()) || fn.Name() == "NewLocal") {
				written[ast.Unparen(arg)] = true
			}
		}
	}
}

// beginsGoroutine reports whether a function begins a goroutine, as far as callers are told.
func (c *checker) beginsGoroutine(fn *types.Func) bool {
	return slices.ContainsFunc(c.effects(site{of: fn}), func(e effect) bool { return e.Rule == ruleGoroutine })
}

// mention emits a site for a function or package variable that is mentioned.
func (w *walk) mention(id *ast.Ident, whole ast.Expr, written map[ast.Expr]bool) {
	if written[whole] {
		return
	}
	switch obj := origin(w.TypesInfo.Uses[id]).(type) {
	case *types.Func:
		rule, _ := inTable(obj)
		if rule == ruleGlobal && receiverName(obj) != "" { // a method of sync/atomic
			sel, _ := whole.(*ast.SelectorExpr)
			if sel == nil || w.packageVar(w.rootOf(sel.X)) == nil {
				return
			}
		}
		if rule == "" && (w.isStet(obj) || w.signatureContext(obj.Signature())) {
			return // an operation, or workflow code that is looked at for itself
		}
		w.emit(site{pos: whole.Pos(), of: obj})
	case *types.Var:
		if w.packageVar(whole) == nil {
			return
		}
		w.emit(site{pos: whole.Pos(), of: obj})
		if w.changes(obj, whole.Pos()) {
			w.emit(site{pos: whole.Pos(), rule: ruleGlobal, what: "a read of " + w.nameOf(obj) + ", which changes"})
		}
	}
}

// change says where a package variable is written, beside its declaration, init and main.
type change struct {
	code  bool // in a file that is no test's
	tests bool
}

// beforeRuns are functions that write before any run is executed.
var beforeRuns = []string{"init", "main", "TestMain"}

func (c *checker) findChanges() {
	for _, file := range c.Files {
		test := c.inTest(file.Pos())
		note := func(left ast.Expr) {
			if v := c.packageVar(c.rootOf(left)); v != nil {
				how := c.changing[v]
				how.code, how.tests = how.code || !test, how.tests || test
				c.changing[v] = how
			}
		}
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Body == nil || d.Recv == nil && slices.Contains(beforeRuns, d.Name.Name) {
				continue
			}
			ast.Inspect(d.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, left := range n.Lhs {
						note(left)
					}
				case *ast.IncDecStmt:
					note(n.X)
				case *ast.CallExpr:
					id, ok := ast.Unparen(n.Fun).(*ast.Ident)
					if !ok || len(n.Args) == 0 {
						return true
					}
					b, ok := c.TypesInfo.Uses[id].(*types.Builtin)
					if ok && (b.Name() == "delete" || b.Name() == "clear") {
						note(n.Args[0])
					}
				}
				return true
			})
		}
	}
}

// changes reports whether a package variable is written, as far as code at pos is concerned.
func (c *checker) changes(v *types.Var, pos token.Pos) bool {
	how := c.changing[v]
	if how.code || how.tests && c.inTest(pos) {
		return true
	}
	var b behaviour
	return v.Pkg() != c.Pkg && c.ImportObjectFact(v, &b) && b.Changes && b.Module == c.modulePath()
}

// rootOf is the variable that an expression reaches into: v of v.f[i].g.
func (c *checker) rootOf(e ast.Expr) ast.Expr {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.SelectorExpr:
			if id, ok := x.X.(*ast.Ident); ok {
				if _, ok := c.TypesInfo.Uses[id].(*types.PkgName); ok {
					return x // a variable of another package
				}
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.UnaryExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		default:
			return ast.Unparen(e)
		}
	}
}

// packageVar is the package variable that an expression is, or nil.
func (c *checker) packageVar(e ast.Expr) *types.Var {
	var id *ast.Ident
	switch x := ast.Unparen(e).(type) {
	case *ast.Ident:
		id = x
	case *ast.SelectorExpr:
		id = x.Sel
		if v, ok := c.TypesInfo.Uses[id].(*types.Var); ok && v.IsField() {
			return c.packageVar(c.rootOf(x.X))
		}
	default:
		return nil
	}
	v, ok := c.TypesInfo.Uses[id].(*types.Var)
	if !ok || v.IsField() || v.Pkg() == nil || v.Parent() != v.Pkg().Scope() {
		return nil
	}
	return v.Origin()
}

func (c *checker) isStet(fn *types.Func) bool { return fn.Pkg() != nil && fn.Pkg().Path() == stetPath }

// stetCall is the function or method of package stet that is called, or nil.
func (c *checker) stetCall(call *ast.CallExpr) *types.Func {
	if fn := c.callee(call); fn != nil && c.isStet(fn) {
		return fn
	}
	return nil
}

// callee is the function or method that is called, or nil.
func (c *checker) callee(call *ast.CallExpr) *types.Func {
	fn, _ := origin(typeutil.Callee(c.TypesInfo, call)).(*types.Func)
	return fn
}

func isNamed(t types.Type, path, name string) bool {
	if t == nil {
		return false
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path && named.Obj().Name() == name
}

// contextParam is the first parameter of type stet.Context of a function's type, or nil.
func (c *checker) contextParam(t *ast.FuncType) *ast.Field {
	for _, field := range t.Params.List {
		if c.isContext(c.TypesInfo.TypeOf(field.Type)) {
			return field
		}
	}
	return nil
}

func (c *checker) signatureContext(s *types.Signature) bool {
	for v := range s.Params().Variables() {
		if c.isContext(v.Type()) {
			return true
		}
	}
	return false
}

// bodySignature reports whether a function is a body by its parameters: it has a
// context.Context, and none of stet.
func (c *checker) bodySignature(s *types.Signature) bool {
	found := false
	for v := range s.Params().Variables() {
		if c.isContext(v.Type()) {
			return false
		}
		found = found || isNamed(v.Type(), "context", "Context")
	}
	return found
}

// isBody reports whether a literal is the body of a step, a compensation or a resource.
func (c *checker) isBody(lit *ast.FuncLit) bool {
	if s, ok := c.TypesInfo.TypeOf(lit).(*types.Signature); ok && c.bodySignature(s) {
		return true
	}
	return c.givenBodies()[lit] != plainRole
}
