package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"time"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script/internal/bounds"
)

// MaxSource is the most bytes that a script may have, bundled.
const MaxSource = 256 << 10

// maxCompile is how long a script may take to compile. What bounds.Check lets pass takes a second or two on an idle
// machine.
const maxCompile = 30 * time.Second

// Workflow is the definition that Compile gives: input and result are JSON.
type Workflow = stet.Workflow[json.RawMessage, json.RawMessage]

// ErrSource says that a script cannot be compiled: it does not parse, uses a regular
// expression that Go's engine does not take, or is too large: it has more than MaxSource bytes, 200 brackets that are
// open at one place, or 4,000 words and signs in a statement. The text has the places.
var ErrSource = errors.New("the script cannot be compiled")

// Compile makes a workflow of a script: one that defines a function workflow, or one that
// package bundle has made. tasks are what Task.run executes; their names must differ. The
// name is that of the workflow, as in stet.Define, whose options follow. Errors wrap
// ErrSource, with file:line:column, or stet.ErrInvalid. The definition may be used
// concurrently, and by several engines.
func Compile(name, source string, tasks []Task, opts ...stet.DefineOption) (*Workflow, error) {
	known, err := byName(tasks)
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	code, err := parse(name, source)
	if err != nil {
		return nil, err
	}
	p := newCompiled(compiled{name: name, tasks: known}, code, source)
	return define(name, p, opts), nil
}

func byName(tasks []Task) (map[string]Task, error) {
	known := map[string]Task{}
	for _, t := range tasks {
		if t.name == "" || t.call == nil {
			return nil, fmt.Errorf("a task without name or function: %w", stet.ErrInvalid)
		}
		if _, twice := known[t.name]; twice {
			return nil, fmt.Errorf("two tasks are named %s: %w", t.name, stet.ErrInvalid)
		}
		known[t.name] = t
	}
	return known, nil
}

// compiled is a compiled script. It is shared by its runs.
type compiled struct {
	name    string
	tasks   map[string]Task
	code    *goja.Program
	version int    // to which its runs are bound; 0: to none
	replay  bool   // a task that is not there is never executed
	trace   *trace // of a replay; nil: none
	source  string // of an isolated script
	program uint64 // its number for children; 0: it executes in this process

	used    map[string]bool // words of the code, be they in a comment; and "/", if it has expressions
	prelude *goja.Program   // what is done to the language before; nil: nothing
	tools   []tool          // that the code names
	absent  []string        // globals that it names and is not to have

	adds        bool     // see guardSums
	errors      []string // see ownErrors
	expressions *expressions
}

// body returns the function of the task with the name, or nil.
func (p *compiled) body(name string) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	if t, known := p.tasks[name]; known || !p.replay {
		return t.call
	}
	return func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errReplayOnly }
}

// parsed is what a source is parsed to.
type parsed struct {
	program     *goja.Program
	expressions bool     // it has regular expressions
	adds        bool     // it adds what may be texts
	computes    bool     // it computes names of members
	errors      []string // of faultNames, that it makes by itself
}

func parse(name, source string) (parsed, error) {
	var p parsed
	if len(source) > MaxSource {
		return p, fmt.Errorf("script %s: expected at most %d bytes, found %d: pass data as input, or do in a task what "+
			"needs a large library: %w", name, MaxSource, len(source), ErrSource)
	}
	if err := bounds.Check(name+".js", source); err != nil {
		return p, fmt.Errorf("script %s: %w: %w", name, err, ErrSource)
	}
	p, err := inTime(maxCompile, func() (parsed, error) { return parseBounded(name, source) })
	if errors.Is(err, errLate) {
		return p, fmt.Errorf("script %s: expected that it compiles within %s, found that it takes longer: divide its "+
			"longest functions, or deploy it when the machine is less busy: %w", name, maxCompile, ErrSource)
	}
	return p, err
}

var errLate = errors.New("late")

// inTime returns what f returns, or errLate after a time. Nothing can end f, which then goes on for nobody.
func inTime[T any](limit time.Duration, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		var none T
		return none, errLate
	}
}

// parseBounded parses a source that is within its bounds.
func parseBounded(name, source string) (parsed, error) {
	var p parsed
	tree, err := syntax(name, source)
	if err != nil {
		return p, err
	}
	var bad []string
	var errorCalls []*ast.Expression
	own := len(source) - len(ownCode(source))
	eachNode(reflect.ValueOf(tree), map[uintptr]bool{}, func(node any) {
		if e, ok := node.(*ast.RegExpLiteral); ok {
			p.expressions = true
			if err := checkRegExp(e.Pattern, e.Flags); err != nil {
				bad = append(bad, fmt.Sprintf("%v: %v", tree.File.Position(int(e.Idx0())-1), err))
			}
		}
		if n, ok := node.(*ast.NumberLiteral); ok && isBig(n) {
			bad = append(bad, fmt.Sprintf("%v: %s: a script has no BigInt, whose operations nothing can interrupt",
				tree.File.Position(int(n.Idx0())-1), n.Literal))
		}
		if callee := errorCallee(node); callee != nil {
			errorCalls = append(errorCalls, callee)
		}
		p.adds = guardSums(node) || p.adds
		p.computes = computesName(node, own) || p.computes
	})
	if len(bad) > 0 {
		return p, fmt.Errorf("script %s: %s: %w", name, strings.Join(bad, "; "), ErrSource)
	}
	p.errors = ownErrors(tree, errorCalls)
	if p.program, err = goja.CompileAST(tree, true); err != nil {
		return p, fmt.Errorf("script %s: %v: %w", name, err, ErrSource)
	}
	return p, nil
}

// computesName reports whether a node has a member whose name is not in the text of the script. The script begins at an
// index of the source.
func computesName(node any, begins int) bool {
	if n, ok := node.(ast.Node); ok && int(n.Idx0())-1 < begins {
		return false
	}
	var key ast.Expression
	switch n := node.(type) {
	case *ast.BracketExpression:
		key = n.Member
	case *ast.PropertyKeyed:
		if !n.Computed {
			return false
		}
		key = n.Key
	default:
		return false
	}
	switch k := key.(type) {
	case *ast.NumberLiteral:
		return false
	case *ast.StringLiteral:
		return strings.Contains(k.Literal, `\`)
	}
	return true
}

func isBig(n *ast.NumberLiteral) bool {
	_, big := n.Value.(*big.Int)
	return big
}

// syntax returns the syntax tree of a script.
func syntax(name, source string) (*ast.Program, error) {
	tree, err := goja.Parse(name+".js", source, parser.WithSourceMapLoader(func(path string) ([]byte, error) {
		return nil, fmt.Errorf("expected a source map within the script, found a reference to %s", path)
	}))
	if err != nil {
		return nil, fmt.Errorf("script %s: %v: %w", name, err, ErrSource)
	}
	return tree, nil
}

// eachNode calls visit with each node of a syntax tree, before those in it; goja has no walk.
func eachNode(v reflect.Value, seen map[uintptr]bool, visit func(node any)) {
	switch v.Kind() {
	case reflect.Interface:
		eachNode(v.Elem(), seen, visit)
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] || !strings.HasSuffix(v.Type().Elem().PkgPath(), "goja/ast") {
			return
		}
		seen[v.Pointer()] = true
		if v.CanInterface() {
			visit(v.Interface())
		}
		eachNode(v.Elem(), seen, visit)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				eachNode(v.Field(i), seen, visit)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachNode(v.Index(i), seen, visit)
		}
	}
}

// footprint is what an interpreter with the library of a script takes in memory, as BenchmarkMarkParked measures it.
const footprint = stet.Footprint(64 << 10)

// define returns the definition of a script. The options may say another Footprint.
func define(name string, p *compiled, opts []stet.DefineOption) *Workflow {
	return stet.Define(name, p.run, append([]stet.DefineOption{footprint}, opts...)...)
}
