package stetvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// settings are what the flags say. Its zero value is the default.
type settings struct {
	rules    ruleSet
	contexts nameSet
	bodies   nameSet
}

// nameSet is the value of a flag that has names of a package's types or functions, with the
// path of the package: "example.com/flow.Context,example.com/flow.Run.Once".
type nameSet struct {
	text string
	all  map[string]bool
}

func (s *nameSet) String() string { return s.text }

// Set takes the text of the flag. A name without a package is an error, and changes nothing.
func (s *nameSet) Set(text string) error {
	next := nameSet{text: text, all: map[string]bool{}}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		path, last := splitName(name)
		if path == "" || !token.IsIdentifier(last) {
			return fmt.Errorf("expected a name with the path of its package, as example.com/flow.Context, found %q", name)
		}
		next.all[name] = true
	}
	*s = next
	return nil
}

// splitName returns what stands before and behind the last dot.
func splitName(name string) (path, last string) {
	i := strings.LastIndexByte(name, '.')
	return name[:max(i, 0)], name[i+1:]
}

// contextTypes finds the types that the setting names in what the package imports. A name that
// stands for another type, as an alias of a public package does, is found under both. One that a
// package of the program lacks is an error: the setting would do nothing.
func (c *checker) contextTypes() error {
	if len(c.contexts.all) == 0 {
		return nil
	}
	whole := map[string]bool{c.Pkg.Path(): true} // packages of which all is known
	for _, file := range c.Files {
		for _, spec := range file.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil {
				whole[path] = true
			}
		}
	}
	seen := map[*types.Package]bool{c.Pkg: true}
	queue := []*types.Package{c.Pkg}
	for len(queue) > 0 {
		pkg := queue[0]
		queue = queue[1:]
		for name := range c.contexts.all {
			path, last := splitName(name)
			if path != pkg.Path() {
				continue
			}
			switch obj := pkg.Scope().Lookup(last).(type) {
			case *types.TypeName:
				if named, ok := types.Unalias(obj.Type()).(*types.Named); ok {
					c.listed = append(c.listed, named.Obj())
				}
			default:
				if whole[path] {
					return fmt.Errorf("contexts: package %s has no type %s", path, last)
				}
			}
		}
		for _, next := range pkg.Imports() {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// isContext reports whether t is stet.Context, or one of the types that the setting names, or a
// pointer to one of those.
func (c *checker) isContext(t types.Type) bool {
	return isNamed(t, stetPath, "Context") || c.isListed(t)
}

// isListed reports whether t is a context by the setting.
func (c *checker) isListed(t types.Type) bool {
	if t == nil || len(c.listed) == 0 {
		return false
	}
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	named, ok := t.(*types.Named)
	return ok && slices.Contains(c.listed, named.Obj())
}

// takesBodies reports whether the functions that fn is given are bodies of steps, by the setting.
func (c *checker) takesBodies(fn *types.Func) bool {
	if len(c.bodies.all) == 0 || fn.Pkg() == nil {
		return false
	}
	name := fn.Name()
	if recv := receiverName(fn); recv != "" {
		name = recv + "." + name
	}
	return c.bodies.all[fn.Pkg().Path()+"."+name]
}

// givenBodies are literals and functions of the package that are bodies or resources by what they
// are given to, with their role.
func (c *checker) givenBodies() map[any]role {
	if c.given != nil {
		return c.given
	}
	c.given = map[any]role{}
	for _, file := range c.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			fn := c.callee(call)
			is := plainRole
			switch {
			case fn == nil:
				return true
			case c.isStet(fn) && fn.Name() == "NewLocal":
				is = localRole
			case c.takesBodies(fn):
				is = bodyRole
			default:
				return true
			}
			for _, arg := range call.Args {
				if lit, ok := ast.Unparen(arg).(*ast.FuncLit); ok {
					c.given[lit] = is
				} else if f, ok := c.object(arg).(*types.Func); ok {
					c.given[f] = is
				}
			}
			return true
		})
	}
	return c.given
}
