package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// spec says to a process of its own what it measures. Each subject in each turn has one, and a store of its own.
type spec struct {
	Entry    string
	Workload string
	Store    string // "postgres" or "sqlite"
	DSN      string // or the path of the file
	Tuned    bool
	Again    bool // of restart: the run was interrupted
	sizes
}

// sizes are those of the workloads.
type sizes struct {
	Conns   int           // connections to Postgres
	Jobs    int           // of each figure of the queue
	PerCall int           // jobs that one call puts in
	Callers int           // that put in single jobs
	Runs    int           // of throughput
	Few     int           // runs of a small group
	Steps   int           // of a run
	Values  int           // runs with large values
	Size    int           // of a large value, in bytes
	Alone   int           // runs, one at a time
	Sleeps  int           // of timers
	Sleep   time.Duration // of each
	Limit   time.Duration // of a figure of the queue
}

var defaults = sizes{Conns: 20, Jobs: 10_000, PerCall: 1_000, Callers: 100, Runs: 1_000, Few: 300, Steps: 10,
	Values: 40, Size: 1_000_000, Alone: 100, Sleeps: 500, Sleep: 3 * time.Second, Limit: 10 * time.Second}

// figure is one value that was measured.
type figure struct {
	Name  string
	Unit  string
	Value float64
	Lower bool // the lower the better
}

// outcome is what a process prints.
type outcome struct {
	Figures []figure
	Notes   []string
}

func (o *outcome) rate(name, unit string, n int, took time.Duration) {
	o.Figures = append(o.Figures, figure{Name: name, Unit: unit, Value: float64(n) / max(took, 1).Seconds()})
}

func (o *outcome) duration(name string, d time.Duration) {
	o.Figures = append(o.Figures, figure{name, "ms", float64(d) / float64(time.Millisecond), true})
}

// workloadNames are all workloads, in their order. Restart is conducted from outside: see restart.go.
var workloadNames = []string{"queue", "throughput", "group", "values", "latency", "restart", "timers"}

// measure executes the workload of a spec and prints the outcome.
func measure(ctx context.Context, s *spec, out io.Writer) error {
	e, err := entryOf(s.Entry)
	if err != nil {
		return err
	}
	jobs := 4*s.Jobs + 2*s.warmJobs() + s.Alone
	runs := warmRuns + max(s.Runs, s.Few, s.Values, s.Alone, 1)
	w := newWork(jobs, runs, s.Steps)
	sub, err := e.open(ctx, s, w)
	if err != nil {
		return err
	}
	var o outcome
	switch s.Workload {
	case "queue":
		err = measureQueue(ctx, s, sub, w, &o)
	case "timers":
		err = measureTimers(ctx, s, sub, w, &o)
	default:
		r, ok := sub.(runner)
		if !ok {
			return fmt.Errorf("%s has no runs", s.Entry)
		}
		if s.Workload == "restart" {
			err = takeRestart(ctx, s, r, w, out)
			return errors.Join(err, sub.close())
		}
		err = measureRuns(ctx, s, r, w, &o)
	}
	if err = errors.Join(err, sub.close()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(o)
}

// serving calls do while the subject serves.
func serving(ctx context.Context, sub subject, atATime int, do func() error) error {
	stop, err := sub.serve(ctx, atATime)
	if err != nil {
		return err
	}
	return errors.Join(do(), stop())
}

// allDone waits until so many jobs and runs have succeeded, as the store has it.
func allDone(ctx context.Context, sub subject, want int) error {
	var last int
	met, err := until(ctx, time.Minute, func() (bool, error) {
		n, err := sub.done(ctx)
		last = n
		return n >= want, err
	})
	if err == nil && (!met || last != want) {
		err = fmt.Errorf("expected that %d have succeeded, found %d", want, last)
	}
	return err
}
