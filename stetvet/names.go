package stetvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/cfg"
)

// named are the functions of package stet whose second parameter is a name.
var named = []string{"Do", "Go", "Loop", "Map", "NewPromise", "Saga", "Sleep", "SleepUntil", "Step", "TxStep", "Watch"}

// operation is a call with a constant name and no key.
type operation struct {
	call *ast.CallExpr
	fn   *types.Func
	name string
	in   *function
	ctx  types.Object
}

// names finds operations of one scope that share a name, and branches that do.
func (u *uses) names() {
	var all []operation
	ast.Inspect(u.root.body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if o, ok := u.operation(call); ok {
				all = append(all, o)
			}
		}
		return true
	})
	graphs := map[*function]*cfg.CFG{}
	for i, second := range all {
		u.unnamed(second)
		for _, first := range all[:i] {
			if first.name != second.name || first.in != second.in || first.ctx == nil || first.ctx != second.ctx {
				continue
			}
			if graphs[first.in] == nil {
				graphs[first.in] = cfg.New(first.in.body, func(*ast.CallExpr) bool { return true })
			}
			if follows(graphs[first.in], first.call, second.call) {
				u.find(second.call.Args[1].Pos(), ruleNames, "line "+u.line(first.call.Pos())+" has the name "+second.name+
					" too: the two are told apart by their order alone; use another name, or stet.Key")
				break
			}
		}
	}
}

func (u *uses) operation(call *ast.CallExpr) (operation, bool) {
	fn := u.stetCall(call)
	if fn == nil || receiverName(fn) != "" || !slices.Contains(named, fn.Name()) || len(call.Args) < 2 {
		return operation{}, false
	}
	value := u.TypesInfo.Types[call.Args[1]].Value
	if value == nil || value.Kind() != constant.String {
		return operation{}, false
	}
	for _, arg := range call.Args[2:] {
		if isNamed(u.TypesInfo.TypeOf(arg), stetPath, "Key") {
			return operation{}, false
		}
	}
	o := operation{call: call, fn: fn, name: value.ExactString(), in: u.at(call.Pos())}
	if id, ok := ast.Unparen(call.Args[0]).(*ast.Ident); ok {
		o.ctx = u.TypesInfo.Uses[id]
	}
	return o, true
}

func (c *checker) line(pos token.Pos) string {
	_, line, _ := strings.Cut(strings.TrimPrefix(c.Fset.Position(pos).String(), c.Fset.Position(pos).Filename), ":")
	line, _, _ = strings.Cut(line, ":")
	return line
}

// follows reports whether one execution of a function may come to both calls.
func follows(g *cfg.CFG, a, b ast.Node) bool {
	first, second := blockOf(g, a), blockOf(g, b)
	if first == nil || second == nil {
		return false
	}
	return first == second || reaches(first, second) || reaches(second, first)
}

func blockOf(g *cfg.CFG, n ast.Node) *cfg.Block {
	for _, block := range g.Blocks {
		for _, node := range block.Nodes {
			if node.Pos() <= n.Pos() && n.End() <= node.End() && block.Live {
				return block
			}
		}
	}
	return nil
}

func reaches(from, to *cfg.Block) bool {
	seen := map[*cfg.Block]bool{}
	queue := []*cfg.Block{from}
	for len(queue) > 0 {
		block := queue[0]
		queue = queue[1:]
		for _, next := range block.Succs {
			if next == to {
				return true
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return false
}

// unnamed finds a branch that a loop begins again and again under one name, where branches
// are awaited together.
func (u *uses) unnamed(o operation) {
	if o.fn.Name() != "Go" {
		return
	}
	loop := false
	for n := ast.Node(o.call); n != nil && n != o.in.node; n = u.parents[n] {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			loop = true
		}
	}
	if !loop {
		return
	}
	into := u.receiverOf(o.call)
	if into == nil {
		return
	}
	ast.Inspect(o.in.body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			fn := u.stetCall(call)
			if fn != nil && slices.Contains([]string{"Join", "All", "Any", "Race"}, fn.Name()) && u.checker.uses(call, into) {
				u.find(o.call.Args[1].Pos(), ruleUnnamed, "every branch of this loop has the name "+o.name+
					": they are told apart by their order alone; give each its stet.Key")
				return false
			}
		}
		return true
	})
}

// receiverOf is the variable that a call's value is assigned to, or appended to, or nil.
func (u *uses) receiverOf(call *ast.CallExpr) types.Object {
	for n := u.parents[call]; n != nil; n = u.parents[n] {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if id, ok := u.rootOf(n.Lhs[0]).(*ast.Ident); ok {
				return u.TypesInfo.ObjectOf(id)
			}
			return nil
		case ast.Stmt:
			return nil
		}
	}
	return nil
}
