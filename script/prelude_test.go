package script

import "testing"

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
