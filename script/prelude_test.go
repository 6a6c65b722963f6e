package script

import (
	"testing"

	"github.com/stet-run/stet/script/bundle"
)

// TestHelpersOfTheBundlerNeedNoGuards: a script that computes no names has no guards for what the bundler adds. A new
// release of the bundler that adds other text needs other text here.
func TestHelpersOfTheBundlerNeedNoGuards(t *testing.T) {
	const plain = "export default async function f(n: number) { return await Task.run(\"a\", n) }"
	for more, guarded := range map[string]bool{
		"": false,
		"\nfunction g(s: string) { return __getOwnPropDesc(String.prototype, \"rep\" + \"eat\") }": true,
		"\nconst g = () => __copyProps({}, String.prototype)":                                      true,
		"\nconst g = (s: any, k: string) => s[k]":                                                  true,
		"\nconst g = (s: any, k: string) => ({ [k]: s })":                                          true,
		"\nconst g = () => Object.getOwnPropertyDescriptor(String.prototype, \"x\")":               true,
	} {
		source, err := bundle.Source("x.ts", plain+more+"\nexport const used = typeof g")
		if err != nil {
			t.Fatal(err)
		}
		code, err := parse("x", source)
		if err != nil {
			t.Fatal(err)
		}
		if found := newCompiled(compiled{name: "x"}, code, source).used["repeat"]; found != guarded {
			t.Errorf("%q: expected guards of what it does not name: %t, found %t", more, guarded, found)
		}
	}
}

// TestGuardsOfHiddenNames: a script has the guards of all that it names, wherever it does: in lines like those that the
// bundler adds, and after a comment like that before a source map. A source map itself names nothing.
func TestGuardsOfHiddenNames(t *testing.T) {
	for source, guarded := range map[string]bool{
		"var __script = (() => {\n    const f = \"x\".repeat;\n  return { default: () => f.call(\"x\", 2 ** 30) };\n})();": true,
		"//# sourceMappingURL=none\nfunction workflow() { return \"x\".repeat(2 ** 30) }":                                  true,
		"function workflow() {}\n//# sourceMappingURL=data:repeat\n":                                                       false,
	} {
		if found := newCompiled(compiled{name: "case"}, parsed{}, source).used["repeat"]; found != guarded {
			t.Errorf("%q: expected that it names repeat: %v, found %v", source, guarded, found)
		}
	}
}
