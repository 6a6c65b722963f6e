package script

import (
	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
)

// # Sums of texts
//
// A text that is added to itself doubles, and a few such sums take all memory before the watch has had its turn: while
// gigabytes are copied the collector, which waits for the copy, stops all others. So the right side of each sum, and
// what a template has behind its first expression, is looked at before: a text of more than half of what a string may
// have is refused. What grows by less at a time takes its time, and the watch sees it.

// summand is the global function through which these go. No script can have a name like this.
const summand = "a summand"

// guardSums lets the texts that a node adds go through the function summand. It reports whether there are some.
func guardSums(node any) bool {
	switch n := node.(type) {
	case *ast.BinaryExpression:
		if n.Operator == token.PLUS && mayBeText(n.Right) {
			n.Right = guarded(n.Right)
			return true
		}
	case *ast.AssignExpression:
		if n.Operator == token.PLUS && mayBeText(n.Right) {
			n.Right = guarded(n.Right)
			return true
		}
	case *ast.TemplateLiteral:
		if n.Tag != nil || len(n.Expressions) < 2 {
			return false
		}
		for i, e := range n.Expressions[1:] {
			n.Expressions[i+1] = guarded(e)
		}
		return true
	}
	return false
}

func guarded(e ast.Expression) ast.Expression {
	at := e.Idx0()
	return &ast.CallExpression{
		Callee: &ast.Identifier{Name: summand, Idx: at}, LeftParenthesis: at, ArgumentList: []ast.Expression{e},
		RightParenthesis: e.Idx1(),
	}
}

// mayBeText says whether an expression may give a text that is not in the source.
func mayBeText(e ast.Expression) bool {
	switch n := e.(type) {
	case *ast.NumberLiteral, *ast.StringLiteral, *ast.BooleanLiteral, *ast.NullLiteral, *ast.UnaryExpression,
		*ast.FunctionLiteral, *ast.ArrowFunctionLiteral, *ast.ObjectLiteral, *ast.RegExpLiteral:
		return false
	case *ast.BinaryExpression:
		switch n.Operator {
		case token.PLUS, token.LOGICAL_AND, token.LOGICAL_OR, token.COALESCE:
			return true
		}
		return false
	case *ast.TemplateLiteral:
		return n.Tag != nil || len(n.Expressions) > 0
	}
	return true
}

// summand returns its argument, if that is no text which is too long to be added to another one.
func (r *interpreter) summand(c goja.FunctionCall) goja.Value {
	v := c.Argument(0)
	if s, ok := v.(goja.String); ok && s.Length() > maxText/2 {
		r.checkText(2 * s.Length())
	}
	return v
}
