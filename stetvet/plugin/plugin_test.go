package plugin_test

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"

	_ "github.com/stet-run/stet/stetvet/plugin"
)

func TestPluginTakesSettings(t *testing.T) {
	create, err := register.GetPlugin("stetvet")
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range []any{nil, map[string]any{}, map[string]any{"rules": "-log"},
		map[string]any{"contexts": []any{"example.com/flow.Context"}, "bodies": []any{"example.com/flow.Step"}}} {
		linter, err := create(good)
		if err != nil {
			t.Errorf("settings %v: %v", good, err)
			continue
		}
		analyzers, err := linter.BuildAnalyzers()
		if err != nil || len(analyzers) != 1 || analyzers[0].Name != "stetvet" ||
			linter.GetLoadMode() != register.LoadModeTypesInfo {
			t.Errorf("settings %v: expected stetvet with types, got %v, %v", good, analyzers, err)
		}
	}
	for _, bad := range []any{map[string]any{"rules": "-tempo"}, map[string]any{"rule": "-log"},
		map[string]any{"contexts": []any{"Context"}}} {
		if _, err := create(bad); err == nil {
			t.Errorf("settings %v: expected an error", bad)
		}
	}
}
