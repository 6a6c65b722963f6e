package stetvet

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// behaviour is the fact of a function, or of a package variable: what calling it, or reading
// it, comes to. It is gob-encoded between packages.
type behaviour struct {
	Module  string   // the path of the module
	Effects []effect // at most one of a rule, in the order of the rules
	Changes bool     // of a variable: a function writes it
}

// effect is what a rule is about, with the chain from what is called next to the source.
type effect struct {
	Rule  string
	Chain []string
}

// add keeps the first effect of a rule, and reports whether this is it.
func (b *behaviour) add(e effect) bool {
	for _, known := range b.Effects {
		if known.Rule == e.Rule {
			return false
		}
	}
	b.Effects = append(b.Effects, e)
	slices.SortFunc(b.Effects, func(x, y effect) int {
		return cmp.Compare(slices.Index(Rules(), x.Rule), slices.Index(Rules(), y.Rule))
	})
	return true
}

// AFact marks a fact.
func (*behaviour) AFact() {}

func (b *behaviour) String() string {
	var all []string
	for _, e := range b.Effects {
		all = append(all, e.Rule+": "+strings.Join(e.Chain, " → "))
	}
	if b.Changes {
		all = append(all, "changes")
	}
	return strings.Join(all, "; ")
}

// site is a place in a function that does something itself (rule, what), or mentions a
// function or variable (of).
type site struct {
	pos  token.Pos
	rule string
	what string
	of   types.Object
}

// within are rules whose effects count in the module where they are alone: a library may
// keep a cache, or join its goroutines, without its caller differing from replay to replay.
var within = map[string]bool{
	ruleLog: true, ruleGoroutine: true, ruleChannel: true, ruleGlobal: true, ruleMapOrder: true,
}

// findBehaviour finds what the functions and variables of the package do, through those of
// it that they call, until nothing is added, and exports that as facts.
func (c *checker) findBehaviour() {
	var order []types.Object
	for _, file := range c.Files {
		if c.ours(file.Pos()) {
			continue
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				fn, ok := c.TypesInfo.Defs[d.Name].(*types.Func)
				if !ok || d.Body == nil {
					continue
				}
				c.decls[fn] = d
				if c.contextParam(d.Type) != nil {
					continue // workflow code: it has findings of its own
				}
				c.nodes[fn] = c.helperSites(d)
				order = append(order, fn)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					order = append(order, c.initialSites(spec)...)
				}
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, obj := range order {
			for _, s := range c.nodes[obj] {
				for _, e := range c.effects(s) {
					b := c.known[obj]
					if b == nil {
						b = &behaviour{Module: c.modulePath()}
						c.known[obj] = b
					}
					if e.Rule != ruleSync && !c.comments.takesBack(c.Fset.Position(s.pos), e.Rule) && b.add(e) {
						changed = true
					}
				}
			}
		}
	}
	for v, how := range c.changing {
		if how.code && v.Pkg() == c.Pkg {
			b := c.known[v]
			if b == nil {
				b = &behaviour{Module: c.modulePath()}
				c.known[v] = b
			}
			b.Changes = true
		}
	}
	for obj, b := range c.known {
		if len(b.Effects) > 0 || b.Changes {
			c.ExportObjectFact(obj, b)
		}
	}
}

// helperSites are the sites of a function, for those that call it.
func (c *checker) helperSites(d *ast.FuncDecl) []site {
	var all []site
	w := walk{checker: c, fn: d, helper: true, emit: func(s site) { all = append(all, s) }}
	w.body(d.Body)
	return all
}

// initialSites are those of the variables of a specification: of a function literal, of a
// function or variable that the value is, and of a call of the table.
func (c *checker) initialSites(spec ast.Spec) []types.Object {
	values, ok := spec.(*ast.ValueSpec)
	if !ok || len(values.Values) != len(values.Names) {
		return nil
	}
	var all []types.Object
	for i, name := range values.Names {
		v, ok := c.TypesInfo.Defs[name].(*types.Var)
		if !ok {
			continue
		}
		value := ast.Unparen(values.Values[i])
		switch value := value.(type) {
		case *ast.FuncLit:
			if c.contextParam(value.Type) == nil {
				w := walk{checker: c, fn: value, helper: true, emit: func(s site) { c.nodes[v] = append(c.nodes[v], s) }}
				w.body(value.Body)
			}
		case *ast.Ident, *ast.SelectorExpr:
			if obj := c.object(value); obj != nil {
				c.nodes[v] = []site{{pos: value.Pos(), of: obj}}
			}
		case *ast.CallExpr:
			if obj := c.object(value.Fun); obj != nil {
				rule, _ := inTable(obj)
				if rule == ruleClock || rule == ruleRandom || rule == ruleIO {
					c.nodes[v] = []site{{pos: value.Pos(), rule: rule, what: c.nameOf(obj)}}
				}
			}
		}
		if c.nodes[v] != nil {
			all = append(all, v)
		}
	}
	return all
}

// object is what an identifier or selector names, generic functions without their types.
func (c *checker) object(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return origin(c.TypesInfo.Uses[e])
	case *ast.SelectorExpr:
		return origin(c.TypesInfo.Uses[e.Sel])
	case *ast.IndexExpr:
		return c.object(e.X)
	case *ast.IndexListExpr:
		return c.object(e.X)
	}
	return nil
}

func origin(obj types.Object) types.Object {
	switch o := obj.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return nil
}

// nameOf is how a chain calls something: with its package, unless that is this one.
func (c *checker) nameOf(obj types.Object) string {
	name := obj.Name()
	if fn, ok := obj.(*types.Func); ok {
		if recv := receiverName(fn); recv != "" {
			name = recv + "." + name
		}
	}
	if obj.Pkg() != nil && obj.Pkg() != c.Pkg {
		return obj.Pkg().Name() + "." + name
	}
	return name
}

// effects are what a site comes to.
func (c *checker) effects(s site) []effect {
	if s.of == nil {
		return []effect{{s.rule, []string{s.what}}}
	}
	if rule, listed := inTable(s.of); listed {
		if rule == "" {
			return nil
		}
		return []effect{{rule, []string{c.nameOf(s.of)}}}
	}
	pkg := s.of.Pkg()
	if pkg == nil || pkg.Path() == stetPath && c.Pkg.Path() != stetPath {
		return nil
	}
	b := c.behaviourOf(s.of)
	if b == nil {
		return nil
	}
	var all []effect
	for _, e := range b.Effects {
		if !within[e.Rule] || b.Module == c.modulePath() {
			all = append(all, effect{e.Rule, append([]string{c.nameOf(s.of)}, e.Chain...)})
		}
	}
	return all
}

func (c *checker) behaviourOf(obj types.Object) *behaviour {
	if obj.Pkg() == c.Pkg {
		return c.known[obj]
	}
	var b behaviour
	if c.ImportObjectFact(obj, &b) {
		return &b
	}
	return nil
}
