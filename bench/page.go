package main

import (
	_ "embed"
	"errors"
	"html/template"
	"io"
	"math"
	"os"
	"time"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"number": number,
	"round":  func(d time.Duration) time.Duration { return d.Round(time.Second) },
	"add":    func(a, b float64) float64 { return a + b },
	"plot":   newPlot,
}).Parse(pageSource))

// writePage writes the report into a file, as one page that needs nothing else.
func writePage(name string, r *report) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(r.writeHTML(f), f.Close())
}

func (r *report) writeHTML(out io.Writer) error { return pageTemplate.Execute(out, r) }

// The sizes of a plot, in the units of the drawing.
const (
	barLeft, barWidth, barHeight = 130.0, 400.0, 24.0
	plotWidth                    = 800
)

// plot is a row as bars, longer for more: each from zero to the median, with a line from the least to the most turn.
type plot struct {
	*row
	Width  int
	Height float64
	Bars   []bar
}

type bar struct {
	Entry               string
	Ours                bool
	X, Y, Middle        float64
	Width, Thick        float64
	From, To            float64 // of the line
	Value, Range, Ratio string
	Ahead               string // how stet stands beside it: "ahead", "behind", or ""
}

func newPlot(w *row) plot {
	p := plot{row: w, Width: plotWidth, Height: barHeight * float64(len(w.Cells))}
	var longest float64
	for _, c := range w.Cells {
		longest = max(longest, c.Most())
	}
	at := func(v float64) float64 {
		if longest <= 0 {
			return 0
		}
		return max(v, 0) / longest * barWidth
	}
	for i, c := range w.Cells {
		y := barHeight * float64(i)
		b := bar{Entry: c.Entry, Ours: c.Entry == stetName, X: barLeft, Y: y + 4, Middle: y + barHeight/2,
			Width: at(c.Median()), Thick: barHeight - 8, From: barLeft + at(c.Least()), To: barLeft + at(c.Most()),
			Value: number(c.Median()), Range: number(c.Least()) + " to " + number(c.Most())}
		if ratio := w.Ratio(c); !math.IsNaN(ratio) {
			b.Ratio, b.Ahead = number(ratio), "ahead"
			if ratio < 1 {
				b.Ahead = "behind"
			}
		}
		p.Bars = append(p.Bars, b)
	}
	return p
}
