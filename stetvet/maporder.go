package stetvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mapRange reports whether a loop goes through a map, or through what package maps gives of one.
func (c *checker) mapRange(loop *ast.RangeStmt) bool {
	if t := c.TypesInfo.TypeOf(loop.X); t != nil {
		if _, ok := t.Underlying().(*types.Map); ok {
			return true
		}
	}
	return c.mapSequence(loop.X)
}

func (c *checker) mapSequence(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	fn, ok := c.object(call.Fun).(*types.Func)
	return ok && fn.Pkg() != nil && fn.Pkg().Path() == "maps" &&
		slices.Contains([]string{"Keys", "Values", "All"}, fn.Name())
}

// mapOrder emits what a loop through a map does that depends on its order: operations,
// appending without a sort, returning or keeping what comes first or last, writing text.
// Counting, copying and the greatest of all do not.
func (c *checker) mapOrder(fn ast.Node, loop *ast.RangeStmt, emit func(site)) {
	if !c.mapRange(loop) {
		return
	}
	m := &mapLoop{checker: c, fn: fn, loop: loop, vars: map[types.Object]bool{}}
	for _, e := range []ast.Expr{loop.Key, loop.Value} {
		if id, ok := e.(*ast.Ident); ok {
			if obj := c.TypesInfo.ObjectOf(id); obj != nil {
				m.vars[obj] = true
			}
		}
	}
	m.look(loop.Body, false, func(pos token.Pos, what string) { emit(site{pos: pos, rule: ruleMapOrder, what: what}) })
}

type mapLoop struct {
	*checker
	fn   ast.Node
	loop *ast.RangeStmt
	vars map[types.Object]bool // the key, the value, and what was made of them
}

// look goes through the loop's body; chosen is set within a condition.
func (m *mapLoop) look(n ast.Node, chosen bool, found func(token.Pos, string)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return !m.isBody(n)
		case *ast.IfStmt:
			if n.Init != nil {
				m.look(n.Init, chosen, found)
			}
			m.look(n.Cond, chosen, found)
			if !m.singles(n.Cond) {
				m.look(n.Body, true, found)
			}
			if n.Else != nil {
				m.look(n.Else, true, found)
			}
			return false
		case *ast.CaseClause:
			for _, stmt := range n.Body {
				m.look(stmt, true, found)
			}
			return false
		case *ast.CallExpr:
			m.call(n, found)
		case *ast.ReturnStmt:
			for _, result := range n.Results {
				if m.mentions(result) {
					found(n.Pos(), "a return of what comes first")
					return true
				}
			}
		case *ast.AssignStmt:
			m.assign(n, chosen, found)
		}
		return true
	})
}

// singles reports whether a condition chooses one key: k == x.
func (m *mapLoop) singles(cond ast.Expr) bool {
	b, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok {
		return false
	}
	if b.Op == token.LAND {
		return m.singles(b.X) || m.singles(b.Y)
	}
	key, _ := m.loop.Key.(*ast.Ident)
	isKey := func(e ast.Expr) bool {
		id, ok := ast.Unparen(e).(*ast.Ident)
		return ok && key != nil && m.TypesInfo.ObjectOf(id) == m.TypesInfo.ObjectOf(key)
	}
	return b.Op == token.EQL && (isKey(b.X) || isKey(b.Y))
}

var harmlessOperations = []string{"RunID", "Header", "Log", "Now", "WithValue", "WithoutCancel", "ScheduledFor"}

func (m *mapLoop) call(call *ast.CallExpr, found func(token.Pos, string)) {
	fn, _ := m.object(call.Fun).(*types.Func)
	if fn == nil {
		return
	}
	if m.signatureContext(fn.Signature()) && !(m.isStet(fn) && slices.Contains(harmlessOperations, fn.Name())) {
		found(call.Pos(), m.nameOf(fn))
		return
	}
	sel, _ := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	switch {
	case fn.Pkg() != nil && fn.Pkg().Path() == "fmt" && strings.HasPrefix(fn.Name(), "Fprint"):
		if len(call.Args) > 0 && m.outside(call.Args[0]) != nil {
			found(call.Pos(), m.nameOf(fn))
		}
	case sel != nil && strings.HasPrefix(fn.Name(), "Write") && m.outside(sel.X) != nil:
		recv := receiverName(fn)
		if recv == "Builder" || recv == "Buffer" {
			found(call.Pos(), m.nameOf(fn))
		}
	}
}

func (m *mapLoop) assign(n *ast.AssignStmt, chosen bool, found func(token.Pos, string)) {
	for i, left := range n.Lhs {
		right := n.Rhs[0]
		if len(n.Rhs) == len(n.Lhs) {
			right = n.Rhs[i]
		}
		if n.Tok == token.DEFINE {
			if id, ok := left.(*ast.Ident); ok && m.mentions(right) && m.TypesInfo.Defs[id] != nil && !m.operates(right) {
				m.vars[m.TypesInfo.Defs[id]] = true
			}
			continue
		}
		id, ok := ast.Unparen(left).(*ast.Ident)
		if !ok {
			continue
		}
		v := m.outside(id)
		if v == nil {
			continue
		}
		call, _ := ast.Unparen(right).(*ast.CallExpr)
		appends := false
		if call != nil {
			f, ok := ast.Unparen(call.Fun).(*ast.Ident)
			_, builtin := m.TypesInfo.Uses[f].(*types.Builtin)
			appends = ok && builtin && f.Name == "append"
		}
		text, _ := v.Type().Underlying().(*types.Basic)
		isText := text != nil && text.Info()&types.IsString != 0
		switch {
		case appends:
			if !m.sorted(m.fn, v) && m.returned(v) {
				found(n.Pos(), "append to "+v.Name()+", which is not sorted,")
			}
		case isText && (n.Tok == token.ADD_ASSIGN || m.sums(right, v)):
			found(n.Pos(), "text in "+v.Name())
		case n.Tok == token.ASSIGN && m.mentions(right) && m.breaks(n):
			found(n.Pos(), "what comes first, in "+v.Name()+",")
		case n.Tok == token.ASSIGN && !chosen && m.mentions(right) && !m.uses(right, v) && call == nil:
			found(n.Pos(), "what comes last, in "+v.Name()+",")
		}
	}
}

// operates reports whether an expression is a call that takes a stet.Context: it is found itself.
func (m *mapLoop) operates(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	fn, ok := m.object(call.Fun).(*types.Func)
	return ok && m.signatureContext(fn.Signature())
}

// returned reports whether the order of a slice matters to somebody: it is workflow code, or
// its function returns the slice.
func (m *mapLoop) returned(v *types.Var) bool {
	var t *ast.FuncType
	switch fn := m.fn.(type) {
	case *ast.FuncDecl:
		t = fn.Type
	case *ast.FuncLit:
		t = fn.Type
	}
	if t == nil || m.contextParam(t) != nil {
		return true
	}
	found := t.Results != nil && t.Results.Pos() <= v.Pos() && v.Pos() < t.Results.End()
	ast.Inspect(m.fn, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok {
			found = found || m.uses(r, v)
		}
		return true
	})
	return found
}

// breaks reports whether a break of the loop stands in the block of an assignment.
func (m *mapLoop) breaks(n *ast.AssignStmt) bool {
	found := false
	ast.Inspect(m.loop.Body, func(in ast.Node) bool {
		block, ok := in.(*ast.BlockStmt)
		if ok && slices.Contains(block.List, ast.Stmt(n)) {
			branch, ok := block.List[len(block.List)-1].(*ast.BranchStmt)
			found = ok && branch.Tok == token.BREAK
		}
		return true
	})
	return found
}

func (m *mapLoop) sums(e ast.Expr, v *types.Var) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	return ok && b.Op == token.ADD && m.uses(b, v)
}

// outside is the variable that an expression reaches into, if it was declared before the loop.
func (m *mapLoop) outside(e ast.Expr) *types.Var {
	id, ok := m.rootOf(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, ok := m.TypesInfo.ObjectOf(id).(*types.Var)
	if !ok || m.loop.Pos() <= v.Pos() && v.Pos() < m.loop.End() {
		return nil
	}
	return v
}

func (m *mapLoop) mentions(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := ast.Unparen(call.Fun).(*ast.Ident); ok && f.Name == "len" {
				return false
			}
		}
		if id, ok := n.(*ast.Ident); ok && m.vars[m.TypesInfo.Uses[id]] {
			found = true
		}
		return true
	})
	return found
}

func (c *checker) uses(n ast.Node, v types.Object) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && c.TypesInfo.Uses[id] == v {
			found = true
		}
		return true
	})
	return found
}

// sorted reports whether a function gives v to something that sorts.
func (c *checker) sorted(fn ast.Node, v types.Object) bool {
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && c.sorts(call) && c.uses(call, v) {
			found = true
		}
		return true
	})
	return found
}

func (c *checker) sorts(call *ast.CallExpr) bool {
	fn, ok := c.object(call.Fun).(*types.Func)
	if !ok {
		return false
	}
	return fn.Pkg() != nil && fn.Pkg().Path() == "sort" || strings.Contains(strings.ToLower(fn.Name()), "sort") ||
		fn.Pkg() != nil && fn.Pkg().Path() == "slices" && (fn.Name() == "Max" || fn.Name() == "Min")
}

// collected emits slices.Collect(maps.Keys(m)) that nobody sorts.
func (c *checker) collected(fn ast.Node, call *ast.CallExpr, emit func(site)) {
	callee, ok := c.object(call.Fun).(*types.Func)
	if !ok || callee.Pkg() == nil || callee.Pkg().Path() != "slices" || callee.Name() != "Collect" ||
		len(call.Args) != 1 || !c.mapSequence(call.Args[0]) {
		return
	}
	harmless := false
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f, ok := ast.Unparen(n.Fun).(*ast.Ident)
			inside := n != call && n.Pos() <= call.Pos() && call.End() <= n.End()
			if inside && (c.sorts(n) || ok && f.Name == "len") {
				harmless = true
			}
		case *ast.AssignStmt:
			for i, right := range n.Rhs {
				if ast.Unparen(right) != call || len(n.Lhs) != len(n.Rhs) {
					continue
				}
				if id, ok := n.Lhs[i].(*ast.Ident); ok {
					if obj := c.TypesInfo.ObjectOf(id); obj != nil && c.sorted(fn, obj) {
						harmless = true
					}
				}
			}
		}
		return true
	})
	if !harmless {
		emit(site{pos: call.Pos(), rule: ruleMapOrder, what: "slices.Collect of a map"})
	}
}
