//go:build house

package budget

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSignatures looks at everything that the public packages export: no
// signature, field or method names a type of another module or of a package
// under internal, so that their libraries can change without breaking importers.
func TestSignatures(t *testing.T) {
	public := []string{module, module + "/store", module + "/store/memory", module + "/store/sqlite", module + "/stettest",
		module + "/api", module + "/server", module + "/server/access", module + "/server/ui"}
	packages := loadTypes(t, public...)
	for _, path := range public {
		for _, foreign := range foreignTypes(packages[path], func(p string) bool {
			return packages[p] == nil && !slices.Contains(public, p)
		}) {
			t.Errorf("%s: %s", path, foreign)
		}
	}
}

// The walker itself: the engine inside names types of the runner in its
// exported fields, methods and functions.
func TestSignaturesAreLookedAt(t *testing.T) {
	path := module + "/internal/engine"
	found := foreignTypes(loadTypes(t, path)[path],
		func(p string) bool { return strings.HasPrefix(p, module+"/internal/") && p != path })
	for _, want := range []string{"Config.Limits", "Workflow"} {
		if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, want) }) {
			t.Errorf("no type of another package was found in %s of %s, only %q", want, path, found)
		}
	}
}

// loadTypes returns the types of the packages and of the standard library's that
// they need, by path; packages of other modules are left out.
func loadTypes(t *testing.T, paths ...string) map[string]*types.Package {
	t.Helper()
	exports := map[string]string{}
	standard := map[string]bool{}
	for _, p := range goList(t, append([]string{"-export", "-deps"}, paths...)...) {
		exports[p.ImportPath] = p.Export
		standard[p.ImportPath] = p.Standard
	}
	gc := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	packages := map[string]*types.Package{}
	for path := range exports {
		if !standard[path] && !slices.Contains(paths, path) || path == "unsafe" {
			continue
		}
		p, err := gc.Import(path)
		if err != nil {
			t.Fatalf("import %s: %v", path, err)
		}
		packages[path] = p
	}
	return packages
}

// foreignTypes returns where the exported API of p names a type whose package is
// foreign, each as "place: type".
func foreignTypes(p *types.Package, foreign func(path string) bool) []string {
	w := walker{home: p, foreign: foreign, seen: map[types.Type]bool{}}
	for _, name := range p.Scope().Names() {
		if object := p.Scope().Lookup(name); object.Exported() {
			w.visit(name, object.Type())
		}
	}
	return w.found
}

type walker struct {
	home    *types.Package
	foreign func(path string) bool
	seen    map[types.Type]bool
	found   []string
}

func (w *walker) visit(place string, typ types.Type) {
	if typ == nil || w.seen[typ] {
		return
	}
	switch t := typ.(type) {
	case *types.Alias:
		w.name(place, t.Obj())
		w.visit(place, types.Unalias(t))
	case *types.Named:
		w.named(place, t)
	case *types.TypeParam:
		w.seen[t] = true // a constraint may name its own parameter
		w.visit(place, t.Constraint())
	case *types.Signature:
		for i := range t.TypeParams().Len() {
			w.visit(place, t.TypeParams().At(i))
		}
		w.visit(place, t.Params())
		w.visit(place, t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			w.visit(place, v.Type())
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() {
				w.visit(place+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			if m.Exported() {
				w.visit(place+"."+m.Name(), m.Type())
			}
		}
		for e := range t.EmbeddedTypes() {
			w.visit(place, e)
		}
	case *types.Union:
		for term := range t.Terms() {
			w.visit(place, term.Type())
		}
	case *types.Map:
		w.visit(place, t.Key())
		w.visit(place, t.Elem())
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		w.visit(place, t.Elem())
	}
}

// named looks at a type with a name: at the name where it is used, and inside it
// only if it is of the package itself.
func (w *walker) named(place string, t *types.Named) {
	w.name(place, t.Obj())
	for arg := range t.TypeArgs().Types() {
		w.visit(place, arg)
	}
	if t.Obj().Pkg() != w.home || w.seen[t] {
		return
	}
	w.seen[t] = true
	for i := range t.TypeParams().Len() {
		w.visit(place, t.TypeParams().At(i))
	}
	w.visit(t.Obj().Name(), t.Underlying())
	for m := range t.Methods() {
		if m.Exported() {
			w.visit(t.Obj().Name()+"."+m.Name(), m.Type())
		}
	}
}

func (w *walker) name(place string, object *types.TypeName) {
	if p := object.Pkg(); p != nil && w.foreign(p.Path()) {
		w.found = append(w.found, fmt.Sprintf("%s: %s.%s", place, p.Path(), object.Name()))
	}
}
