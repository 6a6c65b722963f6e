package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}, {[]float64{nan, 7}, 7}, {[]float64{5}, 5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: expected %v, found %v", c.values, c.want, got)
		}
	}
	if got := median([]float64{nan}); !math.IsNaN(got) {
		t.Errorf("median of nothing: expected NaN, found %v", got)
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for percent, want := range map[int]time.Duration{50: 50, 99: 99, 100: 100, 1: 1} {
		if got := percentile(hundred, percent); got != want {
			t.Errorf("percentile %d: expected %d, found %d", percent, want, got)
		}
	}
	if got := percentile([]time.Duration{7, 5}, 99); got != 7 {
		t.Errorf("the 99th of two: expected 7, found %d", got)
	}
	if got := percentile(nil, 50); got != 0 {
		t.Errorf("of nothing: expected 0, found %d", got)
	}
}

// TestRatiosAreThoseWithinATurn: the machine of this test is ten times as slow in the second turn, which changes no
// ratio.
func TestRatiosAreThoseWithinATurn(t *testing.T) {
	if got := ratios([]float64{100, 10, 100}, []float64{50, 5, 200}, false); !slices.Equal(got, []float64{2, 2, 0.5}) {
		t.Errorf("rates: found %v", got)
	}
	if got := ratios([]float64{1, 10}, []float64{2, 5}, true); !slices.Equal(got, []float64{2, 0.5}) {
		t.Errorf("durations: found %v", got)
	}
	if got := ratios([]float64{1, 2, 0}, []float64{math.NaN(), 4, 1}, false); !slices.Equal(got, []float64{0.5}) {
		t.Errorf("turns that are missing: found %v", got)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0.123: "0.12", 9.99: "9.99", 42.15: "42.1", 10: "10", 100.4: "100",
		1234.5: "1,234", 1_000_000: "1,000,000", -12_345: "-12,345"} {
		if got := number(v); got != want {
			t.Errorf("%v: expected %s, found %s", v, want, got)
		}
	}
	if got := number(math.NaN()); got != "" {
		t.Errorf("NaN: found %q", got)
	}
}

// small is a report of two turns, in which stet is ahead with one figure and behind with another.
func small() *report {
	r := &report{Store: "postgres", Command: "go run . --store postgres", Turns: 2, Sizes: defaults}
	for turn, of := range []map[string][2]float64{
		{stetName: {1000, 4}, "River": {500, 2}},
		{stetName: {2000, 8}, "River": {500, 2}},
	} {
		for _, name := range []string{stetName, "River"} {
			o := &outcome{Notes: []string{"a <note>"}}
			o.Figures = []figure{{Name: "put in", Unit: "jobs/s", Value: of[name][0]}, {"late", "ms", of[name][1], true}}
			r.add("queue", name, turn, o)
		}
	}
	return r
}

func TestMarkdownHasMediansAndRatios(t *testing.T) {
	var out strings.Builder
	if err := small().writeMarkdown(&out); err != nil {
		t.Fatal(err)
	}
	want := `| figure | unit | stet | River |
|---|---|---|---|
| put in | jobs/s | 1,500 | 500 (3) |
| late | ms | 6 | 2 (0.38) |
`
	if out.String() != want {
		t.Errorf("expected\n%sfound\n%s", want, out.String())
	}
}

// TestPageShowsAllFigures: the page is well-formed, has a drawing for each figure, and marks where stet is behind.
func TestPageShowsAllFigures(t *testing.T) {
	var page bytes.Buffer
	if err := small().writeHTML(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{"go run . --store postgres", "River: a &lt;note&gt;.", `class="n ahead">3<`,
		`class="n behind">0.38<`, "1,000 to 2,000"} {
		if !strings.Contains(text, want) {
			t.Errorf("expected %q on the page", want)
		}
	}
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1) {
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
	}
	if n := strings.Count(text, "<svg"); n != 2 {
		t.Errorf("expected 2 drawings, found %d", n)
	}
}

func TestBarsAreDrawnFromZero(t *testing.T) {
	p := newPlot(small().Rows[0])
	if len(p.Bars) != 2 || p.Bars[0].Width != 0.75*barWidth || p.Bars[1].Width != 0.25*barWidth {
		t.Errorf("expected bars of 3/4 and 1/4, found %+v", p.Bars)
	}
	if p.Bars[0].To != barLeft+barWidth || p.Bars[0].From != barLeft+barWidth/2 {
		t.Errorf("expected a line from the half to the end, found %+v", p.Bars[0])
	}
}
