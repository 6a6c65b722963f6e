package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"number": number,
	"round":  func(d time.Duration) time.Duration { return d.Round(time.Second) },
	"gib":    func(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) },
	"plot":   newPlot,
}).Parse(pageSource))

// WriteHTML writes the report as one page, which needs nothing else: figures, marks, what the driver does beside, and
// a drawing of each curve.
func (r *Report) WriteHTML(out io.Writer) error { return pageTemplate.Execute(out, r) }

// The size of a plot, and the room around its lines, in the units of the drawing.
const (
	plotWidth, plotHeight = 640, 300
	plotLeft, plotRight   = 76, 16
	plotTop, plotBottom   = 16, 44
)

// plot is a curve as a drawing.
type plot struct {
	Curve
	Width, Height            int
	Left, Right, Top, Bottom float64 // of the area of the lines
	Line, RawLine            string  // points of polylines; "": none
	Dots                     []dot
	XTicks, YTicks           []tick
}

type dot struct {
	X, Y float64
	Text string
}

type tick struct {
	At   float64
	Text string
}

// newPlot draws the rates from zero. The points stand in equal distances, as they were chosen: mostly three or ten
// times as much from one to the next.
func newPlot(c Curve) plot {
	p := plot{
		Curve: c, Width: plotWidth, Height: plotHeight,
		Left: plotLeft, Right: plotWidth - plotRight, Top: plotTop, Bottom: plotHeight - plotBottom,
	}
	var greatest float64
	for _, point := range c.Points {
		greatest = max(greatest, point.Rate, point.Raw)
	}
	step := roundStep(greatest / 4)
	steps := int(math.Ceil(greatest / step)) // 5 at most, as the step is a quarter or more
	top := step * float64(max(steps, 1))
	height := func(rate float64) float64 { return p.Bottom - rate/top*(p.Bottom-p.Top) }
	for i := range max(steps, 1) + 1 {
		v := step * float64(i)
		p.YTicks = append(p.YTicks, tick{height(v), number(v)})
	}
	var line, raw strings.Builder
	distance := (p.Right - p.Left) / float64(max(len(c.Points), 1))
	for i, point := range c.Points {
		x := p.Left + distance*(float64(i)+0.5)
		p.XTicks = append(p.XTicks, tick{x, number(point.X)})
		fmt.Fprintf(&line, "%.1f,%.1f ", x, height(point.Rate))
		p.Dots = append(p.Dots, dot{x, height(point.Rate),
			fmt.Sprintf("%s %s: %s %s", number(point.X), c.Over, number(point.Rate), c.Unit)})
		if point.Raw > 0 {
			fmt.Fprintf(&raw, "%.1f,%.1f ", x, height(point.Raw))
		}
	}
	p.Line, p.RawLine = strings.TrimSpace(line.String()), strings.TrimSpace(raw.String())
	return p
}

// roundStep returns the least of 1, 2 and 5 times a power of ten that is not below v; 1 for zero.
func roundStep(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, times := range []float64{1, 2, 5} {
		if times*power >= v {
			return times * power
		}
	}
	return 10 * power
}
