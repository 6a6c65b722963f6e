package bundle_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stet-run/stet/script/bundle"
)

// files are those of a script that imports in each way.
var files = map[string]string{
	"order.ts": `import { rate } from "./rate";
import "./set";
import { names } from "./names.js";
import parts from "./parts";
import list from "./list.json";
import type { Line } from "./none";
class Shelf { full; n = rate; constructor(public line?: Line) {} }
export default async function (order: Line) { return [new Shelf(), names, parts, list, order] }
`,
	"rate.ts":        `export const rate = 1`,
	"set.ts":         `globalThis.isSet = true`,
	"names.ts":       `export enum names { a, b }`,
	"parts/index.ts": `export default [".."]`,
	"list.json":      `[1, 2]`,
}

// others are files that a bundler looks for in all folders above, and that are no part of a script.
var others = map[string]string{
	"tsconfig.json": `{"compilerOptions": {"target": "es5",
		"useDefineForClassFields": false, "alwaysStrict": true, "jsx": "preserve",
		"experimentalDecorators": true, "verbatimModuleSyntax": true, "preserveConstEnums": true,
		"baseUrl": ".", "paths": {"./rate": ["./other"], "*": ["./other"]}}}`,
	"jsconfig.json": `{"compilerOptions": {"target": "es5", "baseUrl": ".", "paths": {"*": ["./other"]}}}`,
	"package.json": `{"name": "shop", "sideEffects": false, "type": "commonjs",
		"main": "./other.ts", "exports": "./other.ts",
		"browser": {"./rate": "./other.ts",
		"./rate.ts": "./other.ts", "./flows/rate.ts": "./other.ts"},
		"imports": {"#rate": "./other.ts"}}`,
	"package.json of modules": `{"type": "module", "sideEffects": ["other.ts"],
		"module": "./other.ts", "browser": "./other.ts"}`,
}

func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNothingAboveCounts: the code of a script is that of its files, whatever is beside them and in folders above.
func TestNothingAboveCounts(t *testing.T) {
	read := func(t *testing.T, folder string) (string, []bundle.Text) {
		t.Helper()
		path := filepath.Join(folder, "order.ts")
		code, read, err := bundle.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		return code, read
	}
	alone := t.TempDir()
	write(t, alone, files)
	code, parts := read(t, alone)
	for _, want := range []string{"isSet", `[".."]`, "rate = 1", "[1, 2]"} {
		if !strings.Contains(code, want) {
			t.Errorf("expected %s in the code, found %s", want, code)
		}
	}
	if len(parts) != len(files) || parts[0].Name != "order.ts" {
		t.Errorf("expected the %d files, order.ts first; found %v", len(files), parts)
	}
	for name, text := range others {
		for _, at := range []string{".", "flows", "flows/parts"} {
			t.Run(name+" in "+at, func(t *testing.T) {
				root := t.TempDir()
				folder := filepath.Join(root, "flows")
				write(t, folder, files)
				name, _, _ := strings.Cut(name, " ")
				write(t, filepath.Join(root, at), map[string]string{
					name: text, "other.ts": `export const rate = 99, other = 99`,
				})
				if got, found := read(t, folder); got != code || !reflect.DeepEqual(found, parts) {
					t.Errorf("expected %s, found %s", code, got)
				}
			})
			t.Run(name+" that is broken in "+at, func(t *testing.T) {
				root := t.TempDir()
				folder := filepath.Join(root, "flows")
				write(t, folder, files)
				name, _, _ := strings.Cut(name, " ")
				write(t, filepath.Join(root, at), map[string]string{name: `{"extends": "./none.json", `})
				if got, _ := read(t, folder); got != code {
					t.Errorf("expected %s, found %s", code, got)
				}
			})
		}
	}
}

// TestImports: a package is one of node_modules, with its own package.json. What else is not there is refused with its
// place.
func TestImports(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"package.json": `{"name": "shop", "exports": "./other.ts", "imports": {"#other": "./other.ts"},
			"browser": {"units": "./other.ts"}}`,
		"tsconfig.json": `{"compilerOptions": {"paths": {"units": ["./other.ts"], "mapped": ["./other.ts"]}}}`,
		"other.ts":      `export const kg = "other"`,
		"node_modules/units/package.json": `{"name": "units", "main": "main.js", "module": "module.js", "browser": "browser.js",
			"sideEffects": false}`,
		"node_modules/units/main.js":    `exports.kg = "main"`,
		"node_modules/units/browser.js": `export const kg = "browser"`,
		"node_modules/units/module.js":  `export * from "./sub"`,
		"node_modules/units/sub.js":     `export const kg = "module"`,
		"flows/order.ts":                `import { kg } from "units"; export default () => kg`,
	})
	code, err := bundle.File(filepath.Join(root, "flows/order.ts"))
	if err != nil || !strings.Contains(code, `kg = "module"`) || strings.Contains(code, `"other"`) {
		t.Errorf("expected the module of the package, found %v, %s", err, code)
	}
	for _, path := range []string{"shop", "#other", "mapped", "./none", "..", "fs"} {
		write(t, root, map[string]string{"flows/bad.ts": "\nimport { kg } from \"" + path + "\"; export default () => kg"})
		_, err := bundle.File(filepath.Join(root, "flows/bad.ts"))
		if !errors.Is(err, bundle.ErrSource) || !strings.Contains(err.Error(), "bad.ts:2:20: ") {
			t.Errorf("%s: expected ErrSource with its place, found %v", path, err)
		}
	}
	_, err = bundle.Source("case.ts", "\nimport x from \"./order\"; export default x")
	if !errors.Is(err, bundle.ErrSource) ||
		!strings.Contains(err.Error(), "case.ts:2:") {
		t.Errorf("expected that a text imports nothing, found %v", err)
	}
}
