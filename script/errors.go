package script

import (
	"errors"
	"reflect"
	"slices"
	"strconv"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/unistring"
)

// held is the problem of an operation in an error of the script.
type held struct{ *problem }

// errorOf is the error of the script for what an operation has failed with.
func (r *interpreter) errorOf(p *problem) *goja.Object {
	e, err := r.vm.New(r.vm.Get("Error"), r.vm.ToValue(p.Message))
	if err != nil {
		panic(err)
	}
	for key, value := range map[string]any{"name": p.Name, "code": p.Code, "attempts": p.Attempts} {
		_ = e.DefineDataProperty(key, r.vm.ToValue(value), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
	}
	_ = e.DefineDataPropertySymbol(r.errorKey, r.vm.ToValue(held{p}), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE)
	return e
}

// faultNames are the errors with which the interpreter says that code has a fault.
var faultNames = []string{"TypeError", "ReferenceError", "RangeError", "SyntaxError"}

// thrown is the failure with which a run ends whose script throws a value: that of the
// operation, if it is one, otherwise the message with the places. An error that the
// interpreter has made is a fault of the code, and stalls the run.
func (r *interpreter) thrown(value goja.Value) *failure {
	obj, ok := value.(*goja.Object)
	if !ok {
		return r.failedWith(value.String())
	}
	if inner := obj.GetSymbol(r.errorKey); inner != nil {
		if h, ok := inner.Export().(held); ok {
			return &failure{Problem: h.problem}
		}
	}
	if r.faulty(obj, maxDepth) {
		return faultf("%s", stackOf(obj))
	}
	return r.failedWith(stackOf(obj))
}

func (r *interpreter) failedWith(text string) *failure {
	return &failure{Text: "script " + r.name + ": " + text}
}

// stackOf returns the text of an error with its places, or of another value.
func stackOf(obj *goja.Object) string {
	if stack := obj.Get("stack"); stack != nil && !goja.IsUndefined(stack) {
		return stack.String()
	}
	return obj.String()
}

// faulty reports whether an error is a fault of the code: the interpreter has made it, and not
// the script, or it is an error of several, one of which is a fault.
func (r *interpreter) faulty(e *goja.Object, depth int) bool {
	if e.ClassName() != "Error" || e.GetSymbol(r.errorKey) != nil || e.GetSymbol(r.ownKey) != nil || depth == 0 {
		return false
	}
	for _, name := range faultNames {
		if constructor, ok := r.vm.Get(name).(*goja.Object); ok && constructor.Get("prototype") == e.Prototype() {
			return true
		}
	}
	several, ok := e.Get("errors").(*goja.Object)
	if !ok || several.ClassName() != "Array" {
		return false
	}
	for i := range min(several.Get("length").ToInteger(), maxPending) {
		if inner, ok := several.Get(strconv.FormatInt(i, 10)).(*goja.Object); ok && r.faulty(inner, depth-1) {
			return true
		}
	}
	return false
}

// ownPrefix begins the names of the global constructors of errors that the script makes. No script can have a name
// like these.
const ownPrefix = "its own "

// ownErrors has the errors that a script makes by itself told apart from those of the interpreter: in the tree,
// the constructors that it calls become those of installErrors. It returns the names of those.
func ownErrors(tree *ast.Program, calls []*ast.Expression) (used []string) {
	if len(calls) == 0 {
		return nil
	}
	n := names{declared: map[string]bool{}, seen: map[uintptr]bool{}}
	n.walk(reflect.ValueOf(tree), false)
	for _, callee := range calls {
		id := (*callee).(*ast.Identifier)
		name := string(id.Name)
		if n.declared[name] {
			continue // it is another one
		}
		*callee = &ast.Identifier{Name: unistring.String(ownPrefix + name), Idx: id.Idx}
		if !slices.Contains(used, name) {
			used = append(used, name)
		}
	}
	return used
}

// errorCallee returns the place of the constructor, if a node makes an error of faultNames.
func errorCallee(node any) *ast.Expression {
	var callee *ast.Expression
	switch n := node.(type) {
	case *ast.NewExpression:
		callee = &n.Callee
	case *ast.CallExpression:
		callee = &n.Callee
	default:
		return nil
	}
	if id, ok := (*callee).(*ast.Identifier); ok && slices.Contains(faultNames, string(id.Name)) {
		return callee
	}
	return nil
}

// installErrors makes the constructors of the errors that the script makes.
func (r *interpreter) installErrors() error {
	for _, name := range r.errors {
		constructor := func(c goja.ConstructorCall) *goja.Object {
			e, err := r.vm.New(r.vm.Get(name), c.Arguments...)
			if err != nil {
				panic(err)
			}
			_ = e.DefineDataPropertySymbol(r.ownKey, r.vm.ToValue(true), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE)
			return e
		}
		made := r.vm.ToValue(constructor).ToObject(r.vm)
		yes, no := goja.FLAG_TRUE, goja.FLAG_FALSE
		if err := made.DefineDataProperty("name", r.vm.ToValue(name), no, yes, no); err != nil {
			return err
		}
		if err := r.vm.GlobalObject().DefineDataProperty(ownPrefix+name, made, no, no, no); err != nil {
			return err
		}
	}
	return nil
}

// failure is why the run ends when an error leaves the interpreter.
func (r *interpreter) failure(err error) *failure {
	var failed *failure
	var overflow *goja.StackOverflowError
	var exception *goja.Exception
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		return failed
	case errors.As(err, &overflow):
		return faultf("more than %d nested calls\n%s", maxFrames, overflow.String())
	case errors.As(err, &exception):
		return r.thrown(exception.Value())
	}
	return &failure{Text: err.Error()}
}
