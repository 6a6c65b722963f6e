package stetvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"go/version"
	"strings"
)

// contexts finds contexts of outer functions, and operations in the bodies of steps.
func (u *uses) contexts() {
	ast.Inspect(u.root.body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		v, ok := u.TypesInfo.Uses[id].(*types.Var)
		if !ok || v.IsField() || !u.isContext(v.Type()) || u.packageVar(id) != nil || u.allowed(id) {
			return true
		}
		home := u.at(v.Pos())
		for f := u.at(id.Pos()); f != nil && f != home; f = f.around {
			switch f.role {
			case goRole:
				u.find(id.Pos(), ruleLeak, "a goroutine uses "+id.Name+", which is valid in its branch only; use stet.Go")
				return true
			case bodyRole, localRole:
				u.find(id.Pos(), ruleContext, "the body of a step uses "+id.Name+
					" of the workflow; do that before or after the step")
				return true
			case branchRole:
				u.find(id.Pos(), ruleContext, "this function has a stet.Context of its own and uses the outer "+id.Name+
					"; use its parameter")
				return true
			}
		}
		return true
	})
}

// allowed reports whether a context is only asked for what is known without an operation.
func (u *uses) allowed(id *ast.Ident) bool {
	call, ok := u.parents[id].(*ast.CallExpr)
	if !ok {
		sel, ok := u.parents[id].(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Value"
	}
	fn := u.stetCall(call)
	return fn != nil && (fn.Name() == "RunID" && receiverName(fn) == "" || fn.Name() == "Header")
}

// packageVariables finds contexts in package variables.
func (c *checker) packageVariables(file *ast.File) {
	for _, decl := range file.Decls {
		if d, ok := decl.(*ast.GenDecl); ok {
			for _, spec := range d.Specs {
				if values, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range values.Names {
						if v := c.TypesInfo.Defs[name]; v != nil && c.isContext(v.Type()) {
							c.find(name.Pos(), ruleLeak, "a package variable keeps a stet.Context, which is valid in its branch only")
						}
					}
				}
			}
		}
	}
}

// leaks finds contexts that are kept: in fields, channels, variables of packages and of
// outer functions, and goroutines.
func (u *uses) leaks() {
	kept := func(pos token.Pos, where string) {
		u.find(pos, ruleLeak, where+" keeps a stet.Context, which is valid in its branch only; pass it on as a parameter")
	}
	ast.Inspect(u.root.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SendStmt:
			if u.isContext(u.TypesInfo.TypeOf(n.Value)) {
				kept(n.Value.Pos(), "a channel")
			}
		case *ast.GoStmt:
			for _, arg := range n.Call.Args {
				if u.isContext(u.TypesInfo.TypeOf(arg)) {
					kept(arg.Pos(), "a goroutine")
				}
			}
		case *ast.CompositeLit:
			if u.isListed(u.TypesInfo.TypeOf(n)) {
				return true // a context around another one
			}
			for _, element := range n.Elts {
				if pair, ok := element.(*ast.KeyValueExpr); ok {
					element = pair.Value
				}
				if u.isContext(u.TypesInfo.TypeOf(element)) {
					kept(element.Pos(), "a field")
				}
			}
		case *ast.AssignStmt:
			if len(n.Lhs) != len(n.Rhs) {
				return true
			}
			for i, left := range n.Lhs {
				t := u.TypesInfo.TypeOf(n.Rhs[i])
				_, isIdent := ast.Unparen(left).(*ast.Ident)
				switch {
				case u.isContext(t) && u.packageVar(u.rootOf(left)) != nil:
					kept(left.Pos(), "a package variable")
				case u.isContext(t) && !isIdent && !u.fieldOfContext(left):
					kept(left.Pos(), "a field")
				case isNamed(t, "context", "Context") && n.Tok == token.ASSIGN:
					if v, f := u.outer(left); v != nil && (f.role == bodyRole || f.role == localRole) {
						u.find(left.Pos(), ruleLeak, v.Name()+" keeps the context of a step, which ends with its body")
					}
				}
			}
		}
		return true
	})
}

// fieldOfContext reports whether an expression is a field of a context by the setting.
func (c *checker) fieldOfContext(e ast.Expr) bool {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	return ok && c.isListed(c.TypesInfo.TypeOf(sel.X))
}

// outer is the variable that an expression reaches into, if it is one of workflow code
// around the body, loop or goroutine f in which the expression stands.
func (u *uses) outer(left ast.Expr) (*types.Var, *function) {
	id, ok := u.rootOf(left).(*ast.Ident)
	if !ok {
		return nil, nil
	}
	v, ok := u.TypesInfo.Uses[id].(*types.Var)
	if d, method := u.root.node.(*ast.FuncDecl); method && d.Recv != nil && v != nil && v.Pos() < d.Recv.End() {
		return nil, nil // the receiver belongs to whoever has defined the workflow
	}
	if !ok || v.IsField() || v.Pos() < u.root.node.Pos() || v.Pos() >= u.root.node.End() {
		return nil, nil
	}
	home := u.at(v.Pos())
	for f := u.at(id.Pos()); f != nil && f != home; f = f.around {
		if f.role == bodyRole || f.role == localRole || f.given == "Loop" {
			return v, f
		}
	}
	return nil, nil
}

// captures finds assignments of bodies, and of iterations, to variables of the workflow.
func (u *uses) captures() {
	assigned := func(left ast.Expr, right types.Type) {
		v, f := u.outer(left)
		switch {
		case v == nil || f.role == localRole || isNamed(right, "context", "Context"):
		case f.role == bodyRole:
			u.find(left.Pos(), ruleCaptured, "the body of a step assigns to "+v.Name()+
				": a replay does not execute it again; return the value from the step")
		default:
			u.find(left.Pos(), ruleCaptured, "an iteration assigns to "+v.Name()+
				" outside of the loop: a replay begins at a later iteration; keep it in the loop's state")
		}
	}
	ast.Inspect(u.root.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				var right types.Type
				if len(n.Lhs) == len(n.Rhs) {
					right = u.TypesInfo.TypeOf(n.Rhs[i])
				}
				assigned(left, right)
			}
		case *ast.IncDecStmt:
			assigned(n.X, nil)
		}
		return true
	})
}

// errors finds operations whose error is dropped.
func (u *uses) errors() {
	exempt := map[types.Object]bool{} // contexts that WithoutCancel gave
	ast.Inspect(u.root.body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if ok && len(assign.Lhs) == 1 && len(assign.Rhs) == 1 && u.withoutCancel(assign.Rhs[0]) {
			if id, ok := assign.Lhs[0].(*ast.Ident); ok {
				if obj := u.TypesInfo.ObjectOf(id); obj != nil {
					exempt[obj] = true
				}
			}
		}
		return true
	})
	dropped := func(e ast.Expr) {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		if !ok {
			return
		}
		fn := u.stetCall(call)
		if fn == nil || len(call.Args) == 0 || !u.isContext(u.TypesInfo.TypeOf(call.Args[0])) ||
			u.withoutCancel(call.Args[0]) {
			return
		}
		if id, ok := ast.Unparen(call.Args[0]).(*ast.Ident); ok && exempt[u.TypesInfo.Uses[id]] {
			return
		}
		results := fn.Signature().Results()
		if results.Len() > 0 && types.Identical(results.At(results.Len()-1).Type(), types.Universe.Lookup("error").Type()) {
			u.find(call.Pos(), ruleError, "the error of "+u.nameOf(fn)+
				" is dropped: a cancelled run goes on as if nothing had happened; return it")
		}
	}
	ast.Inspect(u.root.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ExprStmt:
			dropped(n.X)
		case *ast.DeferStmt:
			dropped(n.Call)
		case *ast.AssignStmt:
			last, ok := n.Lhs[len(n.Lhs)-1].(*ast.Ident)
			if ok && last.Name == "_" && len(n.Rhs) == 1 {
				dropped(n.Rhs[0])
			}
		}
		return true
	})
}

func (u *uses) withoutCancel(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	fn := u.stetCall(call)
	return fn != nil && fn.Name() == "WithoutCancel"
}

// continues finds ContinueAsNew elsewhere than in the workflow's function.
func (u *uses) continues() {
	ast.Inspect(u.root.body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fn := u.stetCall(call)
		if fn == nil {
			return true
		}
		switch fn.Name() {
		case "ContinueAsNew", "ContinueAs":
			for f := u.at(call.Pos()); f != nil; f = f.around {
				if f.role == bodyRole || f.role == branchRole && inner(f.given) {
					u.misplaced(call.Pos())
					break
				}
			}
		case "Go", "Loop", "Map", "Saga":
			for _, arg := range call.Args {
				if named, ok := u.object(arg).(*types.Func); ok && u.decls[named] != nil {
					u.continuedBy(u.decls[named])
				}
			}
		}
		return true
	})
}

// continuedBy finds ContinueAsNew in a function that is a branch or an iteration by its name.
func (u *uses) continuedBy(d *ast.FuncDecl) {
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if fn := u.stetCall(call); fn != nil && strings.HasPrefix(fn.Name(), "ContinueAs") {
				u.misplaced(call.Pos())
			}
		}
		return true
	})
}

func (u *uses) misplaced(pos token.Pos) {
	u.find(pos, ruleContinue,
		"only the workflow's function may continue as new; return the input from here, and continue there")
}

// inner reports whether what a function of package stet is given is a part of a run.
func inner(given string) bool {
	return given == "Go" || given == "Loop" || given == "Map" || given == "Saga"
}

// loopVariables finds variables of loops in literals, in files below Go 1.22, where all
// iterations share them.
func (u *uses) loopVariables() {
	file := u.fileOf(u.root.node.Pos())
	if v := u.TypesInfo.FileVersions[file]; v == "" || version.Compare(v, "go1.22") >= 0 {
		return
	}
	shared := map[types.Object]ast.Node{}
	define := func(e ast.Expr, loop ast.Node) {
		if id, ok := e.(*ast.Ident); ok && u.TypesInfo.Defs[id] != nil {
			shared[u.TypesInfo.Defs[id]] = loop
		}
	}
	ast.Inspect(u.root.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			define(n.Key, n)
			define(n.Value, n)
		case *ast.ForStmt:
			if init, ok := n.Init.(*ast.AssignStmt); ok {
				for _, left := range init.Lhs {
					define(left, n)
				}
			}
		case *ast.Ident:
			loop := shared[u.TypesInfo.Uses[n]]
			if loop == nil {
				return true
			}
			f := u.at(n.Pos())
			if f.node.Pos() > loop.Pos() && f.given != "" {
				u.find(n.Pos(), ruleLoopVar, "all iterations share "+n.Name+" below go 1.22; copy it before: "+
					n.Name+" := "+n.Name)
			}
		}
		return true
	})
}

func (c *checker) fileOf(pos token.Pos) *ast.File {
	for _, file := range c.Files {
		if file.FileStart <= pos && pos < file.FileEnd {
			return file
		}
	}
	return nil
}
