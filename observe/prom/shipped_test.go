package prom_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// word finds the names of metrics, with what a histogram adds to them.
var word = regexp.MustCompile(`\bstet_[a-z_]+`)

// parts are what a histogram adds to its name.
var parts = regexp.MustCompile(`_(bucket|sum|count)$`)

// TestShippedFilesUseTheMetrics: each metric that the dashboard and the alerts use is in the
// table, which TestMetricsOfAWorkload compares with the registry; and nearly all of the table
// is used.
func TestShippedFilesUseTheMetrics(t *testing.T) {
	used := map[string]bool{}
	for _, file := range []string{"../grafana/stet.json", "../alerts.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := word.FindAllString(string(text), -1)
		if len(found) < 10 {
			t.Errorf("%s uses %d metrics", file, len(found))
		}
		for _, name := range found {
			base := parts.ReplaceAllString(name, "")
			if _, ok := table[name]; ok {
				base = name
			}
			if _, ok := table[base]; !ok {
				t.Errorf("%s uses %s, which is no metric", file, name)
			}
			used[base] = true
		}
	}
	for name := range table {
		if !used[name] {
			t.Errorf("neither the dashboard nor an alert uses %s", name)
		}
	}
}

// TestLabelsOfShippedFiles: what the expressions group by, or select, are labels of the metrics.
func TestLabelsOfShippedFiles(t *testing.T) {
	known := []string{"le", "instance"}
	for _, labels := range table {
		known = append(known, strings.Fields(labels)...)
	}
	for _, file := range []string{"../grafana/stet.json", "../alerts.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`by \(([a-z, ]+)\)|\b([a-z]+)=~?\\?"`).FindAllStringSubmatch(string(text), -1) {
			for label := range strings.SplitSeq(m[1]+m[2], ", ") {
				if !slices.Contains(known, label) {
					t.Errorf("%s uses the label %s, which no metric has", file, label)
				}
			}
		}
	}
}

// TestDashboardIsComplete: it parses, its data source and its workflow are variables, and each
// panel has a title, a description and an expression.
func TestDashboardIsComplete(t *testing.T) {
	text, err := os.ReadFile("../grafana/stet.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Templating struct {
			List []struct{ Name string }
		}
		Panels []struct {
			Type, Title, Description string
			Datasource               struct{ UID string }
			Targets                  []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	if list := board.Templating.List; len(list) != 2 || list[0].Name != "datasource" || list[1].Name != "workflow" {
		t.Errorf("the variables are %v", list)
	}
	for _, p := range board.Panels {
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %q lacks something: %+v", p.Title, p)
		}
	}
}
