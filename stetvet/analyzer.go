package stetvet

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// The rules, by the names that findings, comments and the flag use.
const (
	ruleClock     = "clock"
	ruleRandom    = "random"
	ruleIO        = "io"
	ruleLog       = "log"
	ruleGoroutine = "goroutine"
	ruleChannel   = "channel"
	ruleSync      = "sync"
	ruleMapOrder  = "maporder"
	ruleGlobal    = "global"
	ruleContext   = "context"
	ruleLeak      = "leak"
	ruleCaptured  = "captured"
	ruleError     = "error"
	ruleNames     = "names"
	ruleUnnamed   = "unnamed"
	ruleContinue  = "continue"
	ruleLoopVar   = "loopvar"
	ruleSentinel  = "sentinel"
	ruleIgnore    = "ignore" // a comment without a reason, or that takes nothing back
)

// Rules are the names of all rules, in the order of the guide.
func Rules() []string {
	return []string{ruleClock, ruleRandom, ruleIO, ruleLog, ruleGoroutine, ruleChannel, ruleSync, ruleMapOrder,
		ruleGlobal, ruleContext, ruleLeak, ruleCaptured, ruleError, ruleNames, ruleUnnamed, ruleContinue,
		ruleLoopVar, ruleSentinel}
}

// stetPath is the package whose Context makes a function workflow code.
const stetPath = "github.com/stet-run/stet"

// Analyzer checks one package. Its flag rules takes the names of rules that are turned
// off, each with a minus before it ("-log,-sync"), or of those that alone are on; contexts takes
// types that make a function workflow code as stet.Context does, and bodies the functions that are
// given bodies of steps. It keeps no state between packages, and may be used concurrently.
var Analyzer = New()

// New returns an analyzer with flags of its own.
func New() *analysis.Analyzer {
	var s settings
	a := &analysis.Analyzer{
		Name:      "stetvet",
		Doc:       "report what the code of a stet workflow must not do\n\nSee docs/guide/checking.md.",
		URL:       "https://pkg.go.dev/" + stetPath + "/stetvet",
		FactTypes: []analysis.Fact{new(behaviour)},
		Run:       func(pass *analysis.Pass) (any, error) { return nil, run(pass, &s) },
	}
	a.Flags.Var(&s.rules, "rules", "rules to turn off (-log,-sync), or the only ones that are on (clock,random)")
	a.Flags.Var(&s.contexts, "contexts", "further types of contexts of workflow code (example.com/flow.Context)")
	a.Flags.Var(&s.bodies, "bodies",
		"functions and methods that are given bodies of steps (example.com/flow.Step,example.com/flow.Run.Once)")
	return a
}

// ruleSet is the value of the flag. Its zero value has every rule on.
type ruleSet struct {
	text string
	only map[string]bool // nil: all
	off  map[string]bool
}

func (r *ruleSet) String() string { return r.text }

// Set takes the text of the flag. An unknown name is an error, and changes nothing.
func (r *ruleSet) Set(text string) error {
	next := ruleSet{text: text, off: map[string]bool{}}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		name, off := strings.CutPrefix(name, "-")
		if !slices.Contains(Rules(), name) {
			return fmt.Errorf("expected names of rules (%s), found %q", strings.Join(Rules(), ", "), name)
		}
		if off {
			next.off[name] = true
			continue
		}
		if next.only == nil {
			next.only = map[string]bool{}
		}
		next.only[name] = true
	}
	*r = next
	return nil
}

func (r *ruleSet) on(rule string) bool {
	return rule == ruleIgnore || (r.only == nil || r.only[rule]) && !r.off[rule]
}

// checker looks at one package.
type checker struct {
	*analysis.Pass
	*settings
	comments comments
	changing map[*types.Var]change
	nodes    map[types.Object][]site // what the functions and variables of the package mention
	known    map[types.Object]*behaviour
	decls    map[*types.Func]*ast.FuncDecl
	findings map[token.Pos]map[string]string // by place and rule
	listed   []*types.TypeName               // contexts by the setting
	codes    map[string]bool                 // see registered; nil: not looked for yet
	given    map[any]role                    // bodies and resources by what they are given to; nil: not looked for yet
}

func run(pass *analysis.Pass, s *settings) error {
	if standard(pass) {
		return nil // the table of the standard library says what it does
	}
	c := &checker{
		Pass: pass, settings: s, comments: readComments(pass),
		changing: map[*types.Var]change{}, nodes: map[types.Object][]site{}, known: map[types.Object]*behaviour{},
		decls: map[*types.Func]*ast.FuncDecl{}, findings: map[token.Pos]map[string]string{},
	}
	if err := c.contextTypes(); err != nil {
		return err
	}
	c.findChanges()
	c.findBehaviour()
	for _, file := range pass.Files {
		if c.ours(file.Pos()) {
			continue // stet itself implements what workflows call
		}
		c.packageVariables(file)
		c.roots(file)
	}
	c.report()
	return nil
}

// ours reports whether a place is in the sources of package stet itself, its tests apart.
func (c *checker) ours(pos token.Pos) bool {
	return c.Pkg.Path() == stetPath && !c.inTest(pos)
}

func (c *checker) inTest(pos token.Pos) bool {
	return strings.HasSuffix(c.Fset.File(pos).Name(), "_test.go")
}

func (c *checker) find(pos token.Pos, rule, text string) {
	if !c.rules.on(rule) || c.comments.takesBack(c.Fset.Position(pos), rule) {
		return
	}
	if c.findings[pos] == nil {
		c.findings[pos] = map[string]string{}
	}
	if c.findings[pos][rule] == "" {
		c.findings[pos][rule] = text
	}
}

// report gives the findings in the order of the source.
func (c *checker) report() {
	for _, w := range c.comments.wrong(&c.rules) {
		c.find(w.pos, ruleIgnore, w.text)
	}
	var all []analysis.Diagnostic
	for pos, rules := range c.findings {
		for rule, text := range rules {
			all = append(all, analysis.Diagnostic{Pos: pos, Category: rule, Message: rule + ": " + text})
		}
	}
	slices.SortFunc(all, func(a, b analysis.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Category, b.Category))
	})
	for _, d := range all {
		c.Report(d)
	}
}

// modulePath is the path of the module of the package, or "".
func (c *checker) modulePath() string {
	if c.Module == nil {
		return ""
	}
	return c.Module.Path
}
