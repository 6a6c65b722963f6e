// Bench compares stet with other systems for Go, on the same work, the same server and the same machine, in turns:
//
//	GOWORK=off go -C bench run . --store postgres
//
// It writes a page with all figures, the settings and this command. See docs/operations/benchmarks.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures as a process of its own, or conducts.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 2 && args[0] == measureArg {
		var s spec
		if err := json.Unmarshal([]byte(args[1]), &s); err != nil {
			return err
		}
		return measure(ctx, &s, out)
	}
	o, err := parse(args)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	return o.conduct(ctx, out)
}

// options are those of the command line.
type options struct {
	store, dsn, page    string
	workloads, subjects []string
	turns               int
	sizes               sizes
	args                []string
}

func parse(args []string) (*options, error) {
	o := &options{sizes: defaults, args: args}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.store, "store", "postgres", "postgres or sqlite")
	f.StringVar(&o.dsn, "dsn", "", "the Postgres server; default: one is started from installed binaries")
	f.StringVar(&o.page, "page", "bench.html", "the file of the page; relative to the folder of the module")
	f.IntVar(&o.turns, "turns", 3, "how often each subject is measured")
	workloads := f.String("workloads", "all", "comma between: "+strings.Join(workloadNames, ","))
	subjects := f.String("subjects", "all", "to compare stet with, comma between: river,dbos")
	for _, size := range []struct {
		value       *int
		name, usage string
	}{
		{&o.sizes.Conns, "conns", "connections to Postgres of each subject"},
		{&o.sizes.Jobs, "jobs", "jobs of each figure of the queue"},
		{&o.sizes.PerCall, "per-call", "jobs that one call puts in"},
		{&o.sizes.Callers, "callers", "callers that put in single jobs"},
		{&o.sizes.Runs, "runs", "runs of throughput, 100 at a time"},
		{&o.sizes.Few, "few", "runs of group, 10 at a time"},
		{&o.sizes.Steps, "steps", "steps of a run"},
		{&o.sizes.Values, "values", "runs with large values"},
		{&o.sizes.Size, "value-size", "bytes of a large value"},
		{&o.sizes.Alone, "alone", "runs of latency, one at a time"},
		{&o.sizes.Sleeps, "sleeps", "sleepers of timers"},
	} {
		f.IntVar(size.value, size.name, *size.value, size.usage)
	}
	f.DurationVar(&o.sizes.Sleep, "sleep", o.sizes.Sleep, "how long sleepers sleep")
	f.DurationVar(&o.sizes.Limit, "limit", o.sizes.Limit, "after which a figure of the queue ends early")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("expected flags alone, found %q", f.Arg(0))
	}
	if !slices.Contains(bothStores, o.store) {
		return nil, fmt.Errorf("--store: expected postgres or sqlite, found %q", o.store)
	}
	if o.turns < 1 || o.sizes.Conns < 5 {
		return nil, errors.New("expected 1 turn and 5 connections, or more")
	}
	o.workloads = workloadNames
	if *workloads != "all" {
		o.workloads = strings.Split(*workloads, ",")
	}
	for _, name := range o.workloads {
		if !slices.Contains(workloadNames, name) {
			return nil, fmt.Errorf("--workloads: expected some of %s, found %q", strings.Join(workloadNames, ","), name)
		}
	}
	if *subjects != "all" {
		o.subjects = strings.Split(*subjects, ",")
	}
	return o, nil
}

// conduct measures all subjects in turns and writes the page.
func (o *options) conduct(ctx context.Context, out io.Writer) (err error) {
	var s stores
	if o.store == "sqlite" {
		s, err = openFiles()
	} else {
		s, err = openDatabases(ctx, o.dsn)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r := &report{Store: o.store, Command: strings.Join(append([]string{"GOWORK=off go -C bench run ."}, o.args...), " "),
		Begun: time.Now(), Turns: o.turns, Server: s.settings(), Versions: versions(), Machine: thisMachine(), Sizes: o.sizes}
	var failed []error
	for _, workload := range o.workloads {
		for turn := range o.turns {
			r.Loads = append(r.Loads, fmt.Sprintf("%s, turn %d: %s", workload, turn+1, load()))
			for _, e := range entries {
				if !e.takesPart(workload, o.store, o.subjects) {
					continue
				}
				begun := time.Now()
				result, err := o.take(ctx, s, e, workload)
				if ctx.Err() != nil {
					return errors.Join(context.Cause(ctx), err)
				}
				if err != nil { // on the page, too: a subject that fails is no reason to lose the others
					err = fmt.Errorf("%s of %s in turn %d has failed: %w", workload, e.Name, turn+1, err)
					r.Notes, failed = append(r.Notes, err.Error()), append(failed, err)
				} else {
					r.add(workload, e.Name, turn, result)
				}
				_, _ = fmt.Fprintf(os.Stderr, "%s, turn %d, %s: %s\n", workload, turn+1, e.Name,
					time.Since(begun).Round(100*time.Millisecond))
			}
			r.Took = time.Since(r.Begun)
			if err := writePage(o.page, r); err != nil { // so an interrupt loses one turn
				return err
			}
		}
	}
	return errors.Join(append(failed, r.writeMarkdown(out))...)
}

// measureLimit is how long a measurement may take.
const measureLimit = 10 * time.Minute

// take measures an entry once, in a process and on a store of its own.
func (o *options) take(ctx context.Context, s stores, e entry, workload string) (result *outcome, err error) {
	dsn, drop, err := s.next(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, measureLimit, fmt.Errorf("not measured within %s", measureLimit))
	defer cancel()
	sp := spec{Entry: e.Name, Workload: workload, Store: o.store, DSN: dsn, Tuned: e.tuned, sizes: o.sizes}
	if workload == "restart" {
		return measureRestart(ctx, sp)
	}
	command, err := process(ctx, &sp)
	if err != nil {
		return nil, err
	}
	var complaints strings.Builder
	command.Stderr = &complaints
	text, err := command.Output()
	if err != nil {
		return nil, errors.Join(err, context.Cause(ctx), errors.New(strings.TrimSpace(complaints.String())))
	}
	result = &outcome{}
	return result, json.Unmarshal(text, result)
}
