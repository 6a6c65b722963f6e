package stetvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// remedies say what to do in place of what a rule forbids.
var remedies = map[string]string{
	ruleClock:     "has another value in each replay; use stet.Now(ctx) and stet.Sleep, or a step",
	ruleRandom:    "has another value in each replay; use stet.Random(ctx) or stet.UUID(ctx)",
	ruleIO:        "is done again in each replay, and may give something else; do it in a step",
	ruleLog:       "is written again in each replay; use stet.Log(ctx)",
	ruleGoroutine: "executes in another order in each replay; use stet.Go(ctx, name, f)",
	ruleChannel:   "waits outside of the run; use futures and stet.Select",
	ruleSync:      "blocks the run; branches take turns and need no locks",
	ruleMapOrder:  "follows the order of a map, another one in each replay; sort first: slices.Sorted(maps.Keys(m))",
	ruleGlobal:    "is shared by all runs and lost with the process; use the input, or a step",
}

// roots finds the outermost workflow code of a file, and checks it.
func (c *checker) roots(in ast.Node) {
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			fn, ok := c.TypesInfo.Defs[n.Name].(*types.Func)
			if ok && n.Body != nil && c.contextParam(n.Type) != nil && c.givenBodies()[fn] != bodyRole {
				c.workflow(n, n.Body)
				return false
			}
		case *ast.FuncLit:
			if c.contextParam(n.Type) != nil && c.givenBodies()[n] != bodyRole {
				c.workflow(n, n.Body)
				return false
			}
		}
		return true
	})
}

// workflow checks one function that is workflow code, with the literals in it.
func (c *checker) workflow(fn ast.Node, body *ast.BlockStmt) {
	w := walk{checker: c, fn: fn, emit: c.effect, nested: func(lit *ast.FuncLit) { c.roots(lit.Body) }}
	w.body(body)
	u := c.usesIn(fn)
	u.contexts()
	u.leaks()
	u.captures()
	u.errors()
	u.names()
	u.continues()
	u.loopVariables()
	u.sentinels()
}

// effect reports what a site comes to.
func (c *checker) effect(s site) {
	for _, e := range c.effects(s) {
		c.find(s.pos, e.Rule, shown(e.Chain)+" "+remedies[e.Rule])
	}
}

// shown is a chain in a finding: of a long one the begin and the end.
func shown(chain []string) string {
	if len(chain) > 7 {
		chain = append(append(slices.Clone(chain[:4]), "…"), chain[len(chain)-2:]...)
	}
	return strings.Join(chain, " → ")
}

// role is what a function in workflow code is.
type role int

const (
	plainRole  role = iota // a literal that is called, or deferred: code of the function around it
	branchRole             // has a stet.Context of its own
	bodyRole               // of a step, a compensation
	localRole              // opens or closes a resource
	goRole                 // a goroutine
)

// function is one in workflow code: the outermost, or a literal.
type function struct {
	node   ast.Node
	body   *ast.BlockStmt
	around *function // nil: the outermost
	role   role
	given  string // the function of package stet that it is given to, or ""
}

// uses are the functions of a piece of workflow code, for the rules about variables.
type uses struct {
	*checker
	root      *function
	functions []*function // outer ones first
	parents   map[ast.Node]ast.Node
}

func (c *checker) usesIn(fn ast.Node) *uses {
	u := &uses{checker: c, parents: map[ast.Node]ast.Node{}}
	var stack []ast.Node
	given := map[*ast.FuncLit]string{}
	goroutines := map[*ast.FuncLit]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if len(stack) > 0 {
			u.parents[n] = stack[len(stack)-1]
		}
		stack = append(stack, n)
		switch n := n.(type) {
		case *ast.GoStmt:
			if lit, ok := ast.Unparen(n.Call.Fun).(*ast.FuncLit); ok {
				goroutines[lit] = true
			}
		case *ast.CallExpr:
			if callee := c.stetCall(n); callee != nil {
				for _, arg := range n.Args {
					if lit, ok := ast.Unparen(arg).(*ast.FuncLit); ok {
						given[lit] = callee.Name()
					}
				}
			}
		case *ast.FuncDecl:
			u.functions = append(u.functions, &function{node: n, body: n.Body, role: branchRole})
		case *ast.FuncLit:
			f := &function{node: n, body: n.Body, around: u.at(n.Pos()), given: given[n]}
			switch is := c.givenBodies()[n]; {
			case is == bodyRole:
				f.role = bodyRole
			case c.contextParam(n.Type) != nil:
				f.role = branchRole
			case is == localRole:
				f.role = localRole
			case goroutines[n]:
				f.role = goRole
			case c.isBody(n):
				f.role = bodyRole
			}
			u.functions = append(u.functions, f)
		}
		return true
	})
	u.root = u.functions[0]
	return u
}

// at is the innermost function around a place, or nil.
func (u *uses) at(pos token.Pos) *function {
	for i := len(u.functions) - 1; i >= 0; i-- {
		if f := u.functions[i]; f.node.Pos() <= pos && pos < f.node.End() {
			return f
		}
	}
	return nil
}
