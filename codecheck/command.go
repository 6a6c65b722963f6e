// Package codecheck offers the check of an application's code as a command of its binary:
// does the code fit what the live runs of a store have recorded? It is stet.Engine.Check
// and stet.Engine.Replay with flags, tables and exit codes, for use before a deploy.
package codecheck

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// The exit codes of Command. They mean what those of the command line mean.
const (
	Fits    = 0 // every run that was replayed fits the code
	Failed  = 1 // the check could not be made
	Usage   = 2 // wrong arguments
	Unknown = 3 // a file is of a workflow that the engine does not have
	Breaks  = 4 // at least one run would break
)

const usage = `usage: check [flags] [FILE...]

Replays live runs of the store against the code of this binary, without executing
or writing anything, and lists those that would break, where and why: one line for all
runs of a workflow that break at the same place for the same reason, with three of their
IDs. Each run is replayed up to its first difference. With -o ids all IDs are listed.
With files, replays these exported runs (stet export) instead.

Exit codes: 0 all fit, 1 the check could not be made, 2 wrong usage, 3 a file is of
a workflow that this binary does not have, 4 at least one run would break.

flags:
`

// Command is stet.Engine.Check as a command. The code is in the application's binary,
// so the binary offers it:
//
//	if len(os.Args) > 1 && os.Args[1] == "check" {
//		os.Exit(codecheck.Command(ctx, engine, os.Args[2:], os.Stdout, os.Stderr))
//	}
//
// The engine need not run, and other processes may work on the store. The arguments
// are flags (-query FILTER, -sample N, -seed N, -o table|json|ids) and files of
// exported runs, which are then replayed instead of the store's. The runs that would
// break are written to out, everything else to errOut. It returns the exit code.
func Command(ctx context.Context, e *stet.Engine, args []string, out, errOut io.Writer) int {
	c := command{engine: e, out: out, errOut: errOut}
	files, err := c.parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return Fits
	case err != nil:
		fmt.Fprintln(errOut, "check:", err)
		return Usage
	}
	report, err := c.check(ctx, files)
	if err != nil {
		fmt.Fprintln(errOut, err)
	}
	if report != nil {
		err = cmp.Or(err, c.print(report))
	}
	switch {
	case err == nil && len(report.Breaks) > 0:
		return Breaks
	case err == nil:
		return Fits
	case errors.Is(err, stet.ErrUnknownWorkflow):
		return Unknown
	case errors.Is(err, stet.ErrInvalid):
		return Usage
	}
	return Failed
}

// command is one call of Command.
type command struct {
	engine      *stet.Engine
	out, errOut io.Writer
	form        string
	query       stet.CheckQuery
}

func (c *command) parse(args []string) (files []string, err error) {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is told once, below
	text := flags.String("query", "",
		"replay the runs that match this `filter`, like 'workflow=order'; default: those that have not ended")
	flags.IntVar(&c.query.Sample, "sample", 0,
		"replay at most so many of each workflow, chosen at random; -1: all; default 1000")
	flags.Uint64Var(&c.query.Seed, "seed", 0, "choose the same runs again")
	flags.StringVar(&c.form, "o", "table", "`form` of what is printed: table, json or ids")
	err = flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(c.errOut, usage)
		flags.SetOutput(c.errOut)
		flags.PrintDefaults()
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"table", "json", "ids"}, c.form) {
		return nil, fmt.Errorf("-o: expected table, json or ids, found %q", c.form)
	}
	if flags.NArg() > 0 && (*text != "" || c.query.Sample != 0) {
		return nil, errors.New("expected files, or -query and -sample for the runs of the store; found both")
	}
	if c.query.Filter, err = store.ParseFilter(*text); err != nil {
		return nil, fmt.Errorf("-query: %w", err)
	}
	return flags.Args(), nil
}

// check makes the check. A report that comes with an error holds what was found
// before it.
func (c *command) check(ctx context.Context, files []string) (*stet.CheckReport, error) {
	if len(files) == 0 {
		return c.engine.Check(ctx, c.query)
	}
	report := &stet.CheckReport{Found: len(files)}
	var problems []error
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err == nil {
			err = c.engine.Replay(ctx, bytes.NewReader(data))
		}
		mismatch, broken := errors.AsType[*stet.ReplayError](err)
		switch {
		case broken:
			report.Breaks = append(report.Breaks, mismatch)
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			continue
		}
		report.Replayed++
	}
	return report, errors.Join(problems...)
}

// groups writes one object for each group of runs that would break in the same way, with
// what is known of its first one.
func groups(to io.Writer, report *stet.CheckReport) error {
	breaks := map[string]*stet.ReplayError{}
	for _, b := range report.Breaks {
		breaks[b.Workflow+"\x00"+b.RunID] = b
	}
	encoder := json.NewEncoder(to)
	for _, g := range report.Groups() {
		b := breaks[g.Workflow+"\x00"+g.RunIDs[0]]
		view := struct {
			Workflow string   `json:"workflow"`
			Location string   `json:"location,omitempty"`
			Runs     int      `json:"runs"`
			Like     []string `json:"like"`
			Cause    string   `json:"cause,omitempty"`
			Recorded string   `json:"recorded,omitempty"`
			Asked    string   `json:"asked,omitempty"`
			Nearest  []string `json:"nearest,omitempty"`
			Remedy   string   `json:"remedy,omitempty"`
			Reason   string   `json:"reason"`
		}{g.Workflow, g.Location, g.Runs, g.RunIDs, string(b.Cause), b.Recorded, b.Asked, b.Nearest, b.Remedy, b.Reason}
		if err := encoder.Encode(view); err != nil {
			return err
		}
	}
	return nil
}

// print writes what would break to out, and the numbers to errOut.
func (c *command) print(report *stet.CheckReport) error {
	var text bytes.Buffer
	switch c.form {
	case "ids":
		for _, b := range report.Breaks {
			fmt.Fprintln(&text, b.RunID)
		}
	case "json":
		if err := groups(&text, report); err != nil {
			return err
		}
	default:
		table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		if len(report.Breaks) > 0 {
			fmt.Fprintln(table, "WORKFLOW\tLOCATION\tRUNS\tLIKE\tREASON")
		}
		for _, g := range report.Groups() {
			like := strings.Join(g.RunIDs, " ")
			if g.Runs > len(g.RunIDs) {
				like += " …"
			}
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", g.Workflow, cmp.Or(g.Location, "-"), g.Runs, like, oneLine(g.Reason))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if _, err := c.out.Write(text.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(c.errOut, "%d runs match, %d were replayed, %d would break\n", report.Found, report.Replayed,
		len(report.Breaks))
	for _, name := range slices.Sorted(maps.Keys(report.Elsewhere)) {
		fmt.Fprintf(c.errOut, "%d of workflow %s were not replayed: this binary has no code for it\n", report.Elsewhere[name],
			name)
	}
	if report.Gone > 0 {
		fmt.Fprintf(c.errOut, "%d could not be read any more\n", report.Gone)
	}
	if len(report.Breaks) > 0 {
		fmt.Fprintln(c.errOut, "each is replayed up to its first difference: check again when these fit")
	}
	return nil
}

// oneLine keeps a table's row in one line, without control characters.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
