// Command treesum sums up the files of a folder: how many, how long, and a digest over all their contents. It is a
// workflow of stet. Killed at any moment and started again with the same arguments, it goes on where it was. Started
// after the end, it prints the stored result.
//
//	go run ./examples/treesum [--db FILE] [--id ID] [--parallel N] [--effects FILE] [--report FILE] [--json] DIR
//
// The digest is the one that this prints, for a folder in which everything can be read:
//
//	cd DIR && find . -type f -printf '%P\0' | xargs -0r sha256sum -- | LC_ALL=C sort | sha256sum
//
// It exits with 0 if it has a result, 1 if not, and 2 if it was called wrongly.
//
// The workflow is in workflow.go; the other files are common to any such program.
package main

import (
	"cmp"
	"context"
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
	"time"

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
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "treesum:", err)
		os.Exit(1)
	}
}

// parse reads the command line. Its errors are printed to out.
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
	flags.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "how many batches are summed up at a time")
	flags.StringVar(&o.effects, "effects", "", "append a line to `file` for each start of a step: run, location, attempt")
	flags.StringVar(&o.report, "report", "", "write the table of all files to `file`")
	flags.BoolVar(&o.json, "json", false, "print the result as JSON")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	switch {
	case flags.NArg() != 1:
		err = fmt.Errorf("expected one folder, found %d arguments: %q; flags come before it", flags.NArg(), flags.Args())
	case o.db == "":
		err = errors.New("--db: expected a file, found nothing")
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

// run opens the files of the program and executes it.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	own, err := ownFiles(o)
	if err != nil {
		return err
	}
	if o.id == "" {
		if o.id, err = defaultID(o.dir, own); err != nil {
			return err
		}
	}
	db, err := sqlite.Open(context.Background(), o.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log, err := os.OpenFile(cmp.Or(o.effects, os.DevNull), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	t := &tree{own}
	// A file that cannot be read now is not there in an hour either.
	treesum := stet.Define("treesum", t.sum, stet.Retry{Attempts: 3, First: 100 * time.Millisecond})
	engine, err := stet.New(ctx, stet.Config{
		Store:       db,
		Workflows:   []stet.Definition{treesum},
		Around:      effects{log}.around,
		MaxSteps:    o.parallel,
		MaxValue:    64 << 20,  // the result of a tree with very many extensions
		MaxBytes:    1 << 30,   // the sums of some millions of files
		PoisonLimit: stet.None, // being killed again and again is no fault of the run
		Logger:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	return execute(ctx, engine, treesum, o, out)
}

// execute starts the run or finds it, waits for its end and prints its result.
func execute(ctx context.Context, engine *stet.Engine, treesum *stet.Workflow[Job, Sum], o options,
	out io.Writer) error {
	run, err := treesum.Start(ctx, engine, Job{Path(o.dir)}, stet.ID(o.id), stet.ReplaceFailed)
	if errors.Is(err, stet.ErrExists) {
		return fmt.Errorf("%w; it was started for something else: choose another --id", err)
	}
	if err != nil {
		return err
	}
	resumed, err := recorded(ctx, engine, o.id)
	if err != nil {
		return err
	}
	sum, err := result(ctx, engine, run)
	if err != nil {
		return err
	}
	if o.report != "" {
		if err := writeReport(ctx, engine, o.id, o.report); err != nil {
			return err
		}
	}
	if o.json {
		return printJSON(out, sum, resumed)
	}
	return printTable(out, sum, resumed)
}

// result returns the result of the run. If that has not ended, the engine works
// until it has.
func result(ctx context.Context, engine *stet.Engine, run *stet.Run[Sum]) (Sum, error) {
	if info, err := run.Info(ctx); err != nil {
		return Sum{}, err
	} else if info.Status.Terminal() {
		return run.Wait(ctx)
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1) // so that the engine's end waits for no receiver
	go func() {
		defer stop() // without the engine the run does not end
		served <- engine.Run(work)
	}()
	hide := showProgress(work, engine, run.ID(), os.Stderr)
	sum, err := run.Wait(work)
	hide()
	stop()
	engineErr := <-served
	switch {
	case err == nil:
		return sum, nil
	case ctx.Err() != nil:
		err = fmt.Errorf("stopped; start it again with the same arguments, and run %q goes on", run.ID())
	case engineErr != nil && errors.Is(err, context.Canceled):
		return Sum{}, engineErr // which is why waiting has ended
	}
	return Sum{}, errors.Join(err, engineErr)
}

// recorded counts the recorded operations, which are replayed and not executed again.
func recorded(ctx context.Context, engine *stet.Engine, id string) (int, error) {
	entries, err := engine.Runs().History(ctx, id, stet.HistoryQuery{})
	n := 0
	for _, e := range entries {
		if e.State == store.Done {
			n++
		}
	}
	return n, err
}

// checkDir returns the absolute path of a folder.
func checkDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return "", fmt.Errorf("expected a folder: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("expected a folder, found a file: %s", dir)
	}
	return filepath.EvalSymlinks(abs)
}

// ownFiles lists the files that the program itself writes, by absolute paths
// without symbolic links.
func ownFiles(o options) ([]string, error) {
	names := []string{o.db, o.db + "-wal", o.db + "-shm", o.db + "-owner"}
	if o.effects != "" {
		names = append(names, o.effects)
	}
	if o.report != "" {
		names = append(names, o.report, tmpReport(o.report))
	}
	for i, name := range names {
		full, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		if target, err := filepath.EvalSymlinks(full); err == nil {
			full = target
		} else if dir, err := filepath.EvalSymlinks(filepath.Dir(full)); err == nil {
			full = filepath.Join(dir, filepath.Base(full)) // it does not exist yet
		}
		names[i] = full
	}
	return names, nil
}
