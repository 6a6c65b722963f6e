package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// report is what the page shows.
type report struct {
	Store    string
	Command  string
	Begun    time.Time
	Took     time.Duration
	Turns    int
	Server   []string
	Versions []string
	Machine  machine
	Loads    []string // before each turn of a workload
	Sizes    sizes
	Notes    []string
	Rows     []*row
}

// row is a figure of all entries.
type row struct {
	Workload, Name, Unit string
	Lower                bool // the lower the better
	Cells                []*cell
}

// cell is a figure of an entry: a value for each turn; NaN: it has none in that turn.
type cell struct {
	Entry string
	Turns []float64
}

// add enters what an entry has measured in a turn.
func (r *report) add(workload, entry string, turn int, o *outcome) {
	for _, f := range o.Figures {
		i := slices.IndexFunc(r.Rows, func(w *row) bool { return w.Workload == workload && w.Name == f.Name })
		if i < 0 {
			i = len(r.Rows)
			r.Rows = append(r.Rows, &row{Workload: workload, Name: f.Name, Unit: f.Unit, Lower: f.Lower})
		}
		w := r.Rows[i]
		j := slices.IndexFunc(w.Cells, func(c *cell) bool { return c.Entry == entry })
		if j < 0 {
			j = len(w.Cells)
			w.Cells = append(w.Cells, &cell{Entry: entry})
		}
		c := w.Cells[j]
		for len(c.Turns) <= turn {
			c.Turns = append(c.Turns, math.NaN())
		}
		c.Turns[turn] = f.Value
	}
	for _, note := range o.Notes {
		if note = entry + ": " + note; !slices.Contains(r.Notes, note) {
			r.Notes = append(r.Notes, note)
		}
	}
}

// Entries returns the subjects that took part.
func (r *report) Entries() []entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e entry) bool {
		return !slices.ContainsFunc(r.Rows, func(w *row) bool {
			return slices.ContainsFunc(w.Cells, func(c *cell) bool { return c.Entry == e.Name })
		})
	})
}

// Median is that of the turns.
func (c *cell) Median() float64 { return median(c.Turns) }

// Least and Most are those of the turns.
func (c *cell) Least() float64 { return slices.Min(known(c.Turns)) }
func (c *cell) Most() float64  { return slices.Max(known(c.Turns)) }

// Ratio returns how many times as fast as another entry stet is: the median of the ratios within each turn, as the
// machine changes from turn to turn. It is below 1 where stet is behind. NaN: there is nothing to compare.
func (w *row) Ratio(c *cell) float64 {
	i := slices.IndexFunc(w.Cells, func(c *cell) bool { return c.Entry == stetName })
	if i < 0 || c.Entry == stetName {
		return math.NaN()
	}
	return median(ratios(w.Cells[i].Turns, c.Turns, w.Lower))
}

// ratios returns for each turn that both have how many times as fast the first one is.
func ratios(ours, theirs []float64, lower bool) []float64 {
	var all []float64
	for i := range min(len(ours), len(theirs)) {
		if !(ours[i] > 0) || !(theirs[i] > 0) { // NaN, too
			continue
		}
		if lower {
			all = append(all, theirs[i]/ours[i])
		} else {
			all = append(all, ours[i]/theirs[i])
		}
	}
	return all
}

// known returns the values without NaN.
func known(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}

// median returns the value in the middle, or the mean of the two there; NaN: there is no value.
func median(values []float64) float64 {
	v := known(values)
	slices.Sort(v)
	switch n := len(v); {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return v[n/2]
	default:
		return (v[n/2-1] + v[n/2]) / 2
	}
}

// percentile returns the least duration that so many of a hundred do not exceed; 0: there is none.
func percentile(durations []time.Duration, percent int) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	d := slices.Sorted(slices.Values(durations))
	return d[max(0, (len(d)*percent+99)/100-1)]
}

// number writes a value with three digits, or whole if it is or is above them, with commas; "": there is none.
func number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	size := math.Abs(v)
	switch {
	case size == math.Trunc(size):
	case size < 9.995:
		return fmt.Sprintf("%.2f", v)
	case size < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	text := fmt.Sprintf("%.0f", size)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if v < 0 {
		return "-" + text
	}
	return text
}

// writeMarkdown writes the figures as a table.
func (r *report) writeMarkdown(out io.Writer) error {
	var text strings.Builder
	text.WriteString("| figure | unit |")
	took := r.Entries()
	for _, e := range took {
		fmt.Fprintf(&text, " %s |", e.Name)
	}
	text.WriteString("\n|---|---|" + strings.Repeat("---|", len(took)) + "\n")
	for _, w := range r.Rows {
		fmt.Fprintf(&text, "| %s | %s |", w.Name, w.Unit)
		for _, e := range took {
			i := slices.IndexFunc(w.Cells, func(c *cell) bool { return c.Entry == e.Name })
			if i < 0 {
				text.WriteString(" |")
				continue
			}
			text.WriteString(" " + number(w.Cells[i].Median()))
			if ratio := w.Ratio(w.Cells[i]); !math.IsNaN(ratio) {
				fmt.Fprintf(&text, " (%s)", number(ratio))
			}
			text.WriteString(" |")
		}
		text.WriteString("\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}
