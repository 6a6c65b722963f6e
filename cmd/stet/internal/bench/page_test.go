package bench_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stet-run/stet/cmd/stet/internal/bench"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestAllOnOnePage measures all workloads of a small store, with curves, and finds each on the page.
func TestAllOnOnePage(t *testing.T) {
	t.Parallel()
	db := memory.New()
	report, err := bench.Run(t.Context(), bench.Config{
		DB: "memory:", Workload: "all", Runs: 3, Steps: 2, Concurrency: 2, Curves: true,
		Open: func(context.Context) (store.Store, error) { return db.Join(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	page := pageOf(t, report)
	// Those of several processes, of files and of servers.
	elsewhere := []string{"databases", "failover", "foreign", "nodes", "pass", "replay", "retention", "unusual"}
	for _, name := range bench.Workloads() {
		if there := strings.Contains(page, "<td>"+name+"</td>"); there == slices.Contains(elsewhere, name) {
			t.Errorf("workload %s is on the page: %t", name, there)
		}
	}
	if n := strings.Count(page, "<svg"); n != len(report.Curves) || n != 2 {
		t.Errorf("%d drawings of %d curves", n, len(report.Curves))
	}
}

// TestPage: the page shows each figure and curve, asks for nothing from elsewhere, and is not changed by names.
func TestPage(t *testing.T) {
	var report *bench.Report
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		var err error
		report, err = bench.Run(t.Context(), bench.Config{
			DB: "<script>", Workload: "throughput", Runs: 3, Steps: 2, Curves: true,
			Open: func(context.Context) (store.Store, error) { return db.Join(), nil }})
		if err != nil {
			t.Fatal(err)
		}
	})
	if report.Machine.Processors < 1 || report.Machine.System == "" || report.Begun.IsZero() {
		t.Errorf("the machine: %+v at %v", report.Machine, report.Begun)
	}
	report.Raw = append(report.Raw, bench.Raw{Workload: "throughput", Rows1: 12_345})
	for i := range report.Curves {
		for j := range report.Curves[i].Points {
			report.Curves[i].Points[j].Raw = 2 * report.Curves[i].Points[j].Rate
		}
	}
	page := pageOf(t, report)
	for _, want := range []string{"&lt;script&gt;", "12,345", "stet bench", "driver alone, in full batches",
		report.Machine.Go, report.Machine.System} {
		if !strings.Contains(page, want) {
			t.Errorf("expected %q in the page", want)
		}
	}
	for _, f := range report.Figures {
		if !strings.Contains(page, "<td>"+f.Name+"</td>") {
			t.Errorf("no figure %q in the page", f.Name)
		}
	}
	if outside := regexp.MustCompile(`<script|https?:|url\(|\bsrc=|<link|@import`).FindString(page); outside != "" {
		t.Errorf("the page has %q", outside)
	}
	if len(report.Curves) != 2 {
		t.Fatalf("expected curves of concurrency and of values, found %+v", report.Curves)
	}
	drawings := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(drawings) != 2 {
		t.Fatalf("expected 2 drawings, found %d", len(drawings))
	}
	for i, c := range report.Curves {
		checkDrawing(t, drawings[i], len(c.Points))
	}
}

func pageOf(t *testing.T, r *bench.Report) string {
	t.Helper()
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// checkDrawing: it is well-formed, has both lines with all points, which stand inside of it.
func checkDrawing(t *testing.T, drawing string, points int) {
	t.Helper()
	lines, circles := 0, 0
	d := xml.NewDecoder(strings.NewReader(drawing))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the drawing: %v", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch start.Name.Local {
		case "circle":
			circles++
		case "polyline":
			lines++
			for _, a := range start.Attr {
				if a.Name.Local == "points" {
					checkPoints(t, strings.Fields(a.Value), points)
				}
			}
		}
	}
	if lines != 2 || circles != points {
		t.Errorf("expected 2 lines and %d circles, found %d and %d", points, lines, circles)
	}
}

func checkPoints(t *testing.T, found []string, points int) {
	t.Helper()
	if len(found) != points {
		t.Errorf("expected %d points, found %v", points, found)
	}
	for _, p := range found {
		var x, y float64
		if _, err := fmt.Sscanf(p, "%f,%f", &x, &y); err != nil || x < 0 || x > 640 || y < 0 || y > 300 {
			t.Errorf("the point %q is outside: %v", p, err)
		}
	}
}

// TestPageOfOddReports: nothing measured, and rates that are nothing, or differ much.
func TestPageOfOddReports(t *testing.T) {
	curve := func(rates ...float64) bench.Curve {
		c := bench.Curve{Name: "values", Over: "bytes", Unit: "rows/s"}
		for i, r := range rates {
			c.Points = append(c.Points, bench.Point{X: float64(i), Rate: r})
		}
		return c
	}
	for _, r := range []*bench.Report{
		{},
		{Curves: []bench.Curve{curve(), curve(0), curve(0, 0), curve(1e-9), curve(1e18, 1)}},
	} {
		if page := pageOf(t, r); strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
			t.Errorf("the page has no number somewhere:\n%s", page)
		}
	}
}
