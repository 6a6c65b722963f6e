package script

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/token"
)

// Warnings returns what is probably wrong in a script, in the order of the text:
//
//   - names that neither it nor the language has, each at its first place, as
//     "order.ts:3:7: setTimeout is not defined". A name that is declared anywhere in the script
//     counts as declared.
//   - operations and async functions that nothing awaits, as "order.ts:4:3: Task.run is not
//     awaited". `void Task.run(…)` says that this is meant.
//
// They are no errors: such code may never be reached. Errors are those of Compile.
func Warnings(name, source string) ([]string, error) {
	if _, err := parse(name, source); err != nil {
		return nil, err
	}
	tree, err := syntax(name, source)
	if err != nil {
		return nil, err
	}
	n := names{declared: map[string]bool{"arguments": true}, seen: map[uintptr]bool{}}
	n.walk(reflect.ValueOf(tree), false)
	known := defined()
	var found []use // with a text in place of a name
	for _, use := range n.used {
		if !n.declared[use.name] && !known[use.name] {
			n.declared[use.name] = true // once is enough
			use.name += " is not defined"
			found = append(found, use)
		}
	}
	for _, statement := range n.statements {
		if called := n.unawaited(statement); called != "" {
			found = append(found, use{called + " is not awaited", int(statement.Idx0()) - 1})
		}
	}
	slices.SortStableFunc(found, func(a, b use) int { return cmp.Compare(a.at, b.at) })
	texts := make([]string, len(found))
	for i, f := range found {
		at := fromOne(tree.File.Position(f.at), source)
		texts[i] = fmt.Sprintf("%s:%d:%d: %s", at.Filename, at.Line, at.Column, f.name)
	}
	return texts, nil
}

// operations are the functions of stet that return promises.
var operations = map[string][]string{
	"Task": {"run", "delay", "all", "any", "race"}, "Signal": {"next"}, "Workflow": {"run", "start"},
	"Value": {"set"}, "Stream": {"append"}, "Event": {"next", "publish"},
}

// unawaited returns the operation or the async function whose promise a statement drops, or "".
func (n *names) unawaited(statement *ast.ExpressionStatement) string {
	call, ok := statement.Expression.(*ast.CallExpression)
	if !ok {
		return ""
	}
	switch callee := call.Callee.(type) {
	case *ast.DotExpression:
		object, ok := callee.Left.(*ast.Identifier)
		if !ok {
			return ""
		}
		of, member := string(object.Name), string(callee.Identifier.Name)
		if slices.Contains(operations[of], member) && !n.declared[of] {
			return of + "." + member
		}
	case *ast.Identifier:
		if slices.Contains(n.async, string(callee.Name)) {
			return string(callee.Name)
		}
	}
	return ""
}

// fromOne returns a position whose column is counted from 1, as that of a script without a source
// map is.
func fromOne(p file.Position, source string) file.Position {
	if strings.Contains(source, "//# sourceMappingURL=") {
		p.Column++
	}
	return p
}

// defined are the globals that every script has.
var defined = sync.OnceValue(func() map[string]bool {
	known := map[string]bool{}
	for _, name := range goja.New().GlobalObject().GetOwnPropertyNames() {
		known[name] = !slices.Contains(absent, name)
	}
	for _, name := range holders {
		known[name] = true
	}
	return known
})

// names are those of a syntax tree, for which goja has no walk.
type names struct {
	declared   map[string]bool
	async      []string                   // names of functions
	used       []use                      // in the order of the text, nearly
	statements []*ast.ExpressionStatement // whose value nothing uses
	seen       map[uintptr]bool
}

type use struct {
	name string
	at   int // offset
}

var (
	identifierType = reflect.TypeFor[*ast.Identifier]()
	nodePackage    = reflect.TypeFor[ast.Identifier]().PkgPath()
)

// declares are the fields whose names are declared: of a function or class its name, of what binds
// all that is in its pattern.
var declares = map[string]bool{"Name": true, "Target": true, "Parameter": true, "Rest": true}

// walk gathers the names of a part of the tree. declaring says that names there are declared.
func (n *names) walk(v reflect.Value, declaring bool) {
	switch v.Kind() {
	case reflect.Interface:
		n.walk(v.Elem(), declaring)
	case reflect.Slice:
		for i := range v.Len() {
			n.walk(v.Index(i), declaring)
		}
	case reflect.Struct:
		// An identifier that is no pointer is the name of a member.
		if t := v.Type(); t.PkgPath() == nodePackage && t != identifierType.Elem() && v.CanAddr() {
			n.fields(v, declaring)
		}
	case reflect.Pointer:
		if v.IsNil() || v.Type().Elem().PkgPath() != nodePackage || n.seen[v.Pointer()] {
			return
		}
		n.seen[v.Pointer()] = true
		if v.Type() == identifierType {
			n.name(v.Interface().(*ast.Identifier), declaring)
			return
		}
		if unary, ok := v.Interface().(*ast.UnaryExpression); ok && unary.Operator == token.TYPEOF {
			if _, plain := unary.Operand.(*ast.Identifier); plain {
				return // it asks whether there is one
			}
		}
		n.fields(v.Elem(), declaring)
	}
}

// fields walks the parts of a node.
func (n *names) fields(v reflect.Value, declaring bool) {
	switch node := v.Addr().Interface().(type) {
	case *ast.ExpressionStatement:
		n.statements = append(n.statements, node)
	case *ast.FunctionLiteral:
		if node.Async && node.Name != nil {
			n.async = append(n.async, string(node.Name.Name))
		}
	case *ast.Binding:
		if id, ok := node.Target.(*ast.Identifier); ok && isAsync(node.Initializer) {
			n.async = append(n.async, string(id.Name))
		}
	case *ast.LabelledStatement:
		n.walk(reflect.ValueOf(&node.Statement).Elem(), false)
		return
	case *ast.BranchStatement, *ast.MetaProperty:
		return
	case *ast.PrivateIdentifier:
		return
	case *ast.PropertyShort:
		n.name(&node.Name, declaring)
	case *ast.AssignExpression: // in a pattern its right side is what counts otherwise
		n.walk(reflect.ValueOf(&node.Left).Elem(), declaring)
		n.walk(reflect.ValueOf(&node.Right).Elem(), false)
		return
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		within := declaring && field.Name != "Initializer" && field.Name != "Key"
		n.walk(v.Field(i), within || declares[field.Name])
	}
}

func isAsync(e ast.Expression) bool {
	switch f := e.(type) {
	case *ast.FunctionLiteral:
		return f.Async
	case *ast.ArrowFunctionLiteral:
		return f.Async
	}
	return false
}

func (n *names) name(id *ast.Identifier, declaring bool) {
	name := string(id.Name)
	if declaring {
		n.declared[name] = true
	} else if !strings.HasPrefix(name, "__") { // the bundler's own
		n.used = append(n.used, use{name, int(id.Idx0()) - 1})
	}
}
