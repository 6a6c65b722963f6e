// Command treesum sums up the files of a folder: how many, how long, and a
// digest over all their contents. It is a workflow of stet: killed at any moment
// and started again with the same arguments it goes on where it was, and started
// after the end it prints the stored result.
//
//	go run ./examples/treesum [--db FILE] [--id ID] [--parallel N] [--effects FILE] [--report FILE] [--json] DIR
//
// The digest is what this prints, for a folder without unreadable files:
//
//	cd DIR && find . -type f -printf '%P\0' | xargs -0 sha256sum | LC_ALL=C sort | sha256sum
//
// It exits with 0 if it has a result, 1 if not, and 2 if it was called wrongly.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// options are the command line.
type options struct {
	db, id, effects, report string
	parallel                int
	json                    bool
	dir                     string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "treesum:", err)
		os.Exit(1)
	}
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("treesum", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprintln(out, "usage: treesum [flags] DIR\n\nSums up the files of DIR; killed and started again, it goes on.")
		flags.PrintDefaults()
	}
	flags.StringVar(&o.db, "db", "treesum.db", "SQLite `file` that keeps the run")
	flags.StringVar(&o.id, "id", "", "`ID` of the run; default: derived from DIR and its listing")
	flags.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "batches that are summed up at a time")
	flags.StringVar(&o.effects, "effects", "", "append a line to `file` for each start of a step")
	flags.StringVar(&o.report, "report", "", "write the table of all files to `file`")
	flags.BoolVar(&o.json, "json", false, "print the result as JSON")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	switch {
	case flags.NArg() != 1:
		err = fmt.Errorf("expected one folder, found %d arguments: %q; flags come before it", flags.NArg(), flags.Args())
	case o.parallel < 1:
		err = fmt.Errorf("--parallel: expected 1 or more, found %d", o.parallel)
	default:
		o.dir, err = checkDir(flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(out, "treesum:", err)
	}
	return o, err
}

// run executes the job, or what is left of it.
func run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	skip, err := ownFiles(o)
	if err != nil {
		return err
	}
	if o.id == "" {
		if o.id, err = defaultID(o.dir, skip); err != nil {
			return err
		}
	}
	db, err := sqlite.Open(o.db)
	if err != nil {
		return err
	}
	defer db.Close()
	effects, err := openEffects(o.effects)
	if err != nil {
		return err
	}
	defer effects.Close()
	engine, err := stet.New(stet.Config{
		Store: db, Workflows: []stet.Definition{TreeSum}, Around: effects.around,
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	resumed, err := completed(ctx, engine, o.id)
	if err != nil {
		return err
	}
	sum, err := execute(ctx, engine, o, skip, stderr)
	if err != nil {
		return err
	}
	if o.report != "" {
		if err := writeReport(ctx, engine, o.id, o.report); err != nil {
			return err
		}
	}
	return printSum(stdout, sum, resumed, o.json)
}

// execute starts the run or finds it, and waits for its result while the engine
// works.
func execute(ctx context.Context, engine *stet.Engine, o options, skip []string, stderr io.Writer) (Sum, error) {
	run, err := TreeSum.Start(ctx, engine, Job{Dir: o.dir, Skip: skip, Parallel: o.parallel}, stet.ID(o.id))
	if errors.Is(err, stet.ErrExists) {
		return Sum{}, fmt.Errorf("%w; the arguments differ from those of the first start: use them again, or another --id", err)
	}
	if err != nil {
		return Sum{}, err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(work) }()
	hide := showProgress(work, engine, o, skip, stderr)
	sum, err := run.Wait(ctx)
	hide()
	stop()
	if runErr := <-ended; err == nil {
		err = runErr
	}
	if ctx.Err() != nil {
		return sum, fmt.Errorf("stopped; start it again with the same arguments, and run %s goes on", o.id)
	}
	return sum, err
}

// ownFiles lists the files that the program itself writes.
func ownFiles(o options) ([]string, error) {
	var own []string
	for _, file := range []string{o.db, o.db + "-wal", o.db + "-shm", o.db + "-owner", o.effects, o.report} {
		if file == "" {
			continue
		}
		full, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(full)); err == nil {
			full = filepath.Join(dir, filepath.Base(full))
		}
		own = append(own, full)
	}
	return own, nil
}

// completed counts what is recorded of the run already.
func completed(ctx context.Context, engine *stet.Engine, id string) (int, error) {
	entries, err := engine.History(ctx, id, stet.HistoryQuery{})
	if errors.Is(err, stet.ErrNotFound) {
		return 0, nil
	}
	n := 0
	for _, e := range entries {
		if e.State == store.Done {
			n++
		}
	}
	return n, err
}

func printSum(out io.Writer, sum Sum, resumed int, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(struct {
			Sum
			Resumed int `json:"resumed"`
		}{sum, resumed})
	}
	return printTable(out, sum, resumed)
}
