package bundle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// The bundler reads every tsconfig.json and package.json up to the root of the file system, and names none of them.
// A script must not depend on what it does not name: the same files would give other code in another folder. So
// relative imports are resolved here, where no such file counts. An import of a package is left to the bundler,
// and so are imports within a package: its own package.json counts then.

// endings may be left out by an import. They are tried in this order.
var endings = []string{".tsx", ".ts", ".jsx", ".js", ".json"}

// typed are the endings of TypeScript for the endings of an import.
var typed = map[string][]string{".js": {".ts", ".tsx"}, ".jsx": {".ts", ".tsx"}, ".mjs": {".mts"}, ".cjs": {".cts"}}

// resolving is the plugin that resolves imports.
var resolving = api.Plugin{Name: "stet", Setup: func(build api.PluginBuild) {
	build.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		if _, again := a.PluginData.(left); again || a.ResolveDir == "" {
			return api.OnResolveResult{}, nil
		}
		entry := a.Kind == api.ResolveEntryPoint
		relative := entry || filepath.IsAbs(a.Path) || a.Path == "." || a.Path == ".." ||
			strings.HasPrefix(a.Path, "./") || strings.HasPrefix(a.Path, "../")
		switch {
		case relative && (entry || !inPackage(a.Importer)):
			path := found(a.ResolveDir, a.Path)
			if path == "" {
				return refused("Could not resolve %q: expected a file, or a folder with a file index", a.Path)
			}
			return api.OnResolveResult{Path: path, Namespace: "file"}, nil
		case strings.HasPrefix(a.Path, "#") && !inPackage(a.Importer):
			return refused("Could not resolve %q: expected a relative path, or the name of a package", a.Path)
		}
		r := build.Resolve(a.Path, api.ResolveOptions{
			Importer: a.Importer, Namespace: a.Namespace, ResolveDir: a.ResolveDir, Kind: a.Kind, PluginData: left{},
		})
		if len(r.Errors) > 0 {
			return api.OnResolveResult{Errors: r.Errors}, nil
		}
		if r.Namespace == "file" && !inPackage(r.Path) { // by the name of the package that the script itself is in
			return refused("Could not resolve %q: expected a relative path, or a package in node_modules", a.Path)
		}
		out := api.OnResolveResult{Path: r.Path, Namespace: r.Namespace, External: r.External, Suffix: r.Suffix}
		if !r.SideEffects {
			out.SideEffects = api.SideEffectsFalse
		}
		return out, nil
	})
}}

// left marks what is left to the bundler.
type left struct{}

func refused(format string, args ...any) (api.OnResolveResult, error) {
	return api.OnResolveResult{Errors: []api.Message{{Text: fmt.Sprintf(format, args...)}}}, nil
}

// inPackage reports whether a file is one of a package.
func inPackage(path string) bool {
	return strings.Contains(filepath.ToSlash(path), "/node_modules/")
}

// found returns the file that a relative import names, without symbolic links; "": there is none.
func found(folder, path string) string {
	if !filepath.IsAbs(path) {
		// A separator at the end, and a dot, say that it is a folder.
		isFolder := strings.HasSuffix(path, "/") || path == "." || path == ".." || strings.HasSuffix(path, "/.") ||
			strings.HasSuffix(path, "/..")
		path = filepath.Join(folder, filepath.FromSlash(path))
		if isFolder {
			path += string(filepath.Separator)
		}
	}
	var candidates []string
	if !strings.HasSuffix(path, string(filepath.Separator)) {
		candidates = append(candidates, path)
		for _, ending := range endings {
			candidates = append(candidates, path+ending)
		}
		end := filepath.Ext(path)
		for _, ending := range typed[end] {
			candidates = append(candidates, strings.TrimSuffix(path, end)+ending)
		}
	}
	for _, ending := range endings {
		candidates = append(candidates, filepath.Join(path, "index"+ending))
	}
	for _, c := range candidates {
		if info, err := os.Stat(c); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if real, err := filepath.EvalSymlinks(c); err == nil {
			return real
		}
	}
	return ""
}
