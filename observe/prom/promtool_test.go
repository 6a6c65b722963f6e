package prom_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// promtool runs the tool of Prometheus, which parses as the server does.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		const missing = "expected promtool in the PATH, found none: apt-get install prometheus"
		if os.Getenv("STET_TEST_STRICT") == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	out, err := exec.Command("promtool", args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestPrometheusReadsTheAlerts: the rules parse, with the expressions and the templates of
// their texts.
func TestPrometheusReadsTheAlerts(t *testing.T) {
	out := promtool(t, "check", "rules", "--lint=all", "--lint-fatal", "../alerts.yaml")
	if !strings.Contains(out, "rules found") {
		t.Errorf("promtool says %s", out)
	}
}

// TestPrometheusReadsTheDashboard: each expression of the dashboard parses, with values in place
// of Grafana's variables.
func TestPrometheusReadsTheDashboard(t *testing.T) {
	text, err := os.ReadFile("../grafana/stet.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$workflow", ".*", "$__rate_interval", "5m", "$__range", "1h", "$__interval", "1m")
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			rules = append(rules, rule{fmt.Sprintf("panel:%d", len(rules)), variables.Replace(target.Expr)})
		}
	}
	if len(rules) < 10 {
		t.Fatalf("the dashboard has %d expressions", len(rules))
	}
	data, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panels.yaml") // JSON is YAML
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := promtool(t, "check", "rules", file); !strings.Contains(out, fmt.Sprint(len(rules), " rules found")) {
		t.Errorf("promtool says %s", out)
	}
}

// TestAlertsRing: Prometheus evaluates the rules over series; each of them rings for what it is
// about, and none for a deployment that is well.
func TestAlertsRing(t *testing.T) {
	promtool(t, "test", "rules", "testdata/alerts_test.yaml")
}
