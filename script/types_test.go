package script_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/dop251/goja"

	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/stettest"
)

// valuesOf are the global values that the compiler's own files declare, of those that stet.d.ts refers to.
var valuesOf = map[string][]string{
	"es2015.collection": {"Map", "WeakMap", "Set", "WeakSet"}, "es2015.generator": nil, "es2015.iterable": nil,
	"es2015.promise": {"Promise"}, "es2015.reflect": {"Reflect"}, "es2015.symbol": {"Symbol"},
	"es2015.symbol.wellknown": nil, "es2018.asyncgenerator": nil, "es2018.asynciterable": nil, "es2018.promise": nil,
	"es2019.array": nil, "es2019.object": nil, "es2020.promise": nil, "es2021.promise": {"AggregateError"},
}

// undeclared are globals that every script has and stet.d.ts does not declare: two are of the compiler itself, and of
// the third, which the interpreter makes for errors of Go, a script gets none.
var undeclared = []string{"GoError", "globalThis", "undefined"}

// TestTypesDeclareWhatAScriptHas: what an editor accepts as a global is one of a script, and the other way round.
func TestTypesDeclareWhatAScriptHas(t *testing.T) {
	declared := map[string]bool{}
	values := regexp.MustCompile(`(?m)^declare (?:var|const|let|function|class|namespace) (\w+)`)
	for _, found := range values.FindAllStringSubmatch(script.Types, -1) {
		declared[found[1]] = true
	}
	for _, found := range regexp.MustCompile(`<reference lib="([^"]+)"`).FindAllStringSubmatch(script.Types, -1) {
		names, known := valuesOf[found[1]]
		if !known {
			t.Errorf("stet.d.ts refers to %s: enter which global values that file declares", found[1])
		}
		for _, name := range names {
			declared[name] = true
		}
	}
	all := maps.Clone(declared)
	for _, name := range goja.New().GlobalObject().GetOwnPropertyNames() {
		all[name] = true
	}
	names, err := json.Marshal(slices.Sorted(maps.Keys(all)))
	if err != nil {
		t.Fatal(err)
	}
	w := compile(t, "globals", fmt.Sprintf("export default () => %s.filter((n) => n in globalThis)", names))
	out, err := stettest.CrashEverywhere(t, w, json.RawMessage("null"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(maps.Keys(declared))
	found = slices.DeleteFunc(found, func(name string) bool { return slices.Contains(undeclared, name) })
	for _, name := range want {
		if !slices.Contains(found, name) {
			t.Errorf("stet.d.ts declares %s, which a script does not have", name)
		}
	}
	for _, name := range found {
		if !declared[name] {
			t.Errorf("a script has %s, which stet.d.ts does not declare", name)
		}
	}
}
