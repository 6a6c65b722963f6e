package bench

import (
	"context"
	"fmt"
	"strings"
)

// Curve is how throughput changes with one quantity.
type Curve struct {
	Name   string  `json:"name"` // "values"
	Over   string  `json:"over"` // "bytes of a value"
	Unit   string  `json:"unit"` // of Rate and Raw
	Points []Point `json:"points"`
}

// Point is a measurement of a Curve.
type Point struct {
	X    float64 `json:"x"`
	Rate float64 `json:"rate"`
	Raw  float64 `json:"raw,omitempty"` // the driver's alone, beside it; 0: not measured
}

const (
	curveSteps = 10
	curveBytes = 32 << 20 // that the runs of a point write at most, about
	rawBytes   = 8 << 20  // of a commit of the driver at most
)

var (
	curveConcurrency = []int{1, 3, 10, 30, 100, 300, 1000}
	curveSizes       = []int{100, 1 << 10, 10 << 10, 100 << 10}
)

// measureCurves measures throughput over the number of runs at a time and over the size of values. The curves of nodes
// and databases are what these workloads have measured, if they were.
func measureCurves(ctx context.Context, cfg Config, driver rawDriver, report *Report) error {
	concurrency := Curve{Name: "concurrency", Over: "runs at a time", Unit: "rows/s"}
	for _, n := range curveConcurrency {
		sized := cfg
		sized.Concurrency, sized.ValueSize, sized.Runs = n, valueSize, cfg.atMostRuns(min(max(200, 4*n), 3000))
		point, err := measurePoint(ctx, sized, driver)
		if err != nil {
			return fmt.Errorf("curve of concurrency at %d: %w", n, err)
		}
		point.X = float64(n)
		concurrency.Points = append(concurrency.Points, point)
	}
	values := Curve{Name: "values", Over: "bytes of a value", Unit: "rows/s"}
	for _, size := range curveSizes {
		sized := cfg
		sized.Concurrency, sized.ValueSize = 100, size
		sized.Runs = cfg.atMostRuns(min(max(curveBytes/(size*(curveSteps+2)), 10), 1000))
		point, err := measurePoint(ctx, sized, driver)
		if err != nil {
			return fmt.Errorf("curve of values at %d bytes: %w", size, err)
		}
		point.X = float64(size)
		values.Points = append(values.Points, point)
	}
	report.Curves = append(report.Curves, concurrency, values)
	for _, c := range []Curve{
		countedCurve(report.Figures, "nodes", "processes on this machine"),
		countedCurve(report.Figures, "databases", "databases, each limited as if it had a machine of its own"),
	} {
		if len(c.Points) > 1 {
			report.Curves = append(report.Curves, c)
		}
	}
	return nil
}

// atMostRuns bounds the runs of a point by those that the config asks for, if it does.
func (cfg *Config) atMostRuns(n int) int {
	if cfg.Runs > 0 {
		return min(n, cfg.Runs)
	}
	return n
}

// measurePoint measures throughput once, with the driver before and after.
func measurePoint(ctx context.Context, cfg Config, driver rawDriver) (Point, error) {
	cfg.Workload = "throughput"
	orDefault(&cfg.Steps, curveSteps)
	batch := max(1, min(1000, rawBytes/cfg.ValueSize))
	raw := func() (rate float64, err error) {
		if driver == nil {
			return 0, nil
		}
		driver.sizeValues(cfg.ValueSize)
		defer driver.sizeValues(valueSize)
		return rawRound(ctx, driver, batch)
	}
	before, err := raw()
	if err != nil {
		return Point{}, fmt.Errorf("measure the driver: %w", err)
	}
	w := sequence(cfg.Steps)
	s, err := cfg.serve(ctx, nil, w)
	if err != nil {
		return Point{}, err
	}
	var runs float64
	err = s.closing(ctx, func(ctx context.Context) (err error) {
		if err = warmUp(ctx, s, w); err == nil {
			runs, err = executeRuns(ctx, &cfg, s, w)
		}
		return err
	})
	if err != nil {
		return Point{}, err
	}
	after, err := raw()
	if err != nil {
		return Point{}, fmt.Errorf("measure the driver: %w", err)
	}
	return Point{Rate: runs * float64(cfg.Steps+2), Raw: (before + after) / 2}, nil
}

// countedCurve takes a curve from the figures of a workload, which are named by numbers of what it is called.
func countedCurve(figures []Figure, workload, over string) Curve {
	c := Curve{Name: workload, Over: over, Unit: "runs/s"}
	for _, f := range figures {
		var n int
		if _, err := fmt.Sscanf(f.Name, "%d "+workload, &n); err == nil && f.Workload == workload &&
			strings.HasSuffix(f.Name, " "+workload) {
			c.Points = append(c.Points, Point{X: float64(n), Rate: f.Value})
		}
	}
	return c
}
