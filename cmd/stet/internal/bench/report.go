package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// Report holds the figures of a measurement.
type Report struct {
	DB      string        `json:"db"`
	Kind    string        `json:"kind"`
	Durable string        `json:"durable"`
	Machine Machine       `json:"machine"`
	Begun   time.Time     `json:"begun"`
	Took    time.Duration `json:"took_ns"`
	Raw     []Raw         `json:"raw,omitempty"` // beside each workload
	Figures []Figure      `json:"figures"`
	Marks   []Mark        `json:"marks"`
	Curves  []Curve       `json:"curves,omitempty"`
}

// Figure is one number of a workload.
type Figure struct {
	Workload string  `json:"workload"`
	Size     string  `json:"size"` // "500 runs x 10 steps, 100 at a time"
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
}

// Mark compares a figure with the project's gate. Ratios have the unit "raw".
type Mark struct {
	Workload string  `json:"workload"`
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Bound    string  `json:"bound"` // "at least", "at most"
	Gate     float64 `json:"gate"`
	Met      bool    `json:"met"`

	per func(*Raw) float64 // the divisor that Value still needs; nil: none
}

// section adds figures of one workload to a report.
type section struct {
	report   *Report
	workload string
	size     string
}

func (r *Report) section(workload, size string, args ...any) section {
	return section{r, workload, fmt.Sprintf(size, args...)}
}

func (s section) figure(name string, value float64, unit string) {
	s.report.Figures = append(s.report.Figures, Figure{s.workload, s.size, name, value, unit})
}

// durations adds percentiles in milliseconds.
func (s section) durations(name string, d []time.Duration, percents ...int) {
	for _, p := range percents {
		s.figure(fmt.Sprintf("%s p%d", name, p), milliseconds(percentile(d, p)), "ms")
	}
}

const (
	atLeast = "at least"
	atMost  = "at most"
)

func (s section) mark(name string, value float64, unit, bound string, gate float64, per func(*Raw) float64) {
	s.report.Marks = append(s.report.Marks, Mark{s.workload, name, value, unit, bound, gate, false, per})
}

func (s section) atLeast(name string, value, gate float64, unit string) {
	s.mark(name, value, unit, atLeast, gate, nil)
}

func (s section) atMost(name string, value, gate float64, unit string) {
	s.mark(name, value, unit, atMost, gate, nil)
}

// gates are the bounds of a figure that has another one for each kind of store, of SQLite, or what computes like it, of
// Postgres and of Redis. A server shares the processors with the engine.
type gates struct{ file, postgres, redis float64 }

func (s section) gate(g gates) float64 {
	switch s.report.Kind {
	case "postgres":
		return g.postgres
	case "redis":
		return g.redis
	}
	return g.file
}

// rows marks a rate of rows as a share of the driver's.
func (s section) rows(name string, rate float64, least gates) {
	s.mark(name+": rows/s over the driver's, 1,000 rows per commit",
		rate, "raw", atLeast, s.gate(least), func(r *Raw) float64 { return r.Rows1000 })
}

// commits marks a duration as a number of the driver's single-row commits.
func (s section) commits(name string, d time.Duration, most gates) {
	s.mark(name+" in the driver's single-row commits",
		d.Seconds(), "raw", atMost, s.gate(most), func(r *Raw) float64 { return 1 / r.Rows1 })
}

// relate divides the figures with marks in terms of the driver. Without the driver's figures these marks are dropped.
func (r *Report) relate(raw *Raw) {
	if raw == nil {
		r.Marks = slices.DeleteFunc(r.Marks, func(m Mark) bool { return m.per != nil })
		return
	}
	r.Raw = []Raw{*raw}
	for i := range r.Marks {
		if m := &r.Marks[i]; m.per != nil {
			m.Value /= m.per(raw)
		}
	}
}

// add adds the medians of several takes of one workload, which have the same
// figures and marks.
func (r *Report) add(takes []*Report) {
	for i, f := range takes[0].Figures {
		f.Value = median(takes, func(t *Report) float64 { return t.Figures[i].Value })
		r.Figures = append(r.Figures, f)
	}
	for i, m := range takes[0].Marks {
		m.Value = median(takes, func(t *Report) float64 { return t.Marks[i].Value })
		m.Met = m.Value >= m.Gate
		if m.Bound == atMost {
			m.Met = m.Value <= m.Gate
		}
		r.Marks = append(r.Marks, m)
	}
	for i, raw := range takes[0].Raw {
		raw.Rows1 = median(takes, func(t *Report) float64 { return t.Raw[i].Rows1 })
		raw.Rows100 = median(takes, func(t *Report) float64 { return t.Raw[i].Rows100 })
		raw.Rows1000 = median(takes, func(t *Report) float64 { return t.Raw[i].Rows1000 })
		r.Raw = append(r.Raw, raw)
	}
}

func median(takes []*Report, value func(*Report) float64) float64 {
	values := make([]float64, len(takes))
	for i, t := range takes {
		values[i] = value(t)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// percentile returns the smallest of the durations that is not below p percent of
// them; 0 if there are none.
func percentile(durations []time.Duration, p int) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func mean(durations []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range durations {
		sum += d
	}
	return sum / time.Duration(max(len(durations), 1))
}

// WriteText writes the report for people.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s (%s): %s\n", r.DB, r.Kind, r.Durable)
	if len(r.Raw) > 0 {
		fmt.Fprintln(w, "\nDRIVER BESIDE\t1 ROW PER COMMIT\t100 ROWS\t1,000 ROWS\tUNIT")
	}
	for _, raw := range r.Raw {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\trows/s\n", raw.Workload, number(raw.Rows1), number(raw.Rows100), number(raw.Rows1000))
	}
	fmt.Fprintln(w, "\nWORKLOAD\tSIZE\tFIGURE\tVALUE\tUNIT")
	for _, f := range r.Figures {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Workload, f.Size, f.Name, number(f.Value), f.Unit)
	}
	if len(r.Marks) > 0 {
		fmt.Fprintln(w, "\nWORKLOAD\tMARK\tVALUE\tGATE\tUNIT\tMET")
	}
	for _, m := range r.Marks {
		met := "yes"
		if !m.Met {
			met = "NO"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s %s\t%s\t%s\n", m.Workload, m.Name, number(m.Value), m.Bound, number(m.Gate), m.Unit,
			met)
	}
	return w.Flush()
}

// number formats with three significant digits, larger numbers in full.
func number(v float64) string {
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if v < 0 {
		return "-" + digits
	}
	return digits
}
