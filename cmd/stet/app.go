package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// The exit codes. They are part of the interface.
const (
	exitDone = iota
	exitFailed
	exitUsage
	exitNotFound
	exitConflict
	exitUnsuccessful // the awaited run did not succeed
)

// app is one call of the command line.
type app struct {
	in       io.Reader
	out, err io.Writer

	db     string
	output string
}

const long = `stet sees and steers the workflows of a store.

The store is an SQLite file, given with --db or in STET_DB. An application may
work on it at the same time.

Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 not found, 4 conflict
(it exists, has ended, or was resolved already), 5 the awaited run did not
succeed.`

// execute runs a command line and returns its exit code.
func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app{in: in, out: out, err: errOut}
	root := &cobra.Command{Use: "stet", Short: "see and steer durable workflows", Long: long, SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringVar(&a.db, "db", os.Getenv("STET_DB"), "the store: an SQLite `file`; default: $STET_DB")
	root.PersistentFlags().StringVarP(&a.output, "output", "o", "table", "`form` of what is printed: table, json or ids")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.AddCommand(
		a.startCommand(), a.listCommand(), a.countCommand(), a.showCommand(), a.waitCommand(), a.watchCommand(), a.sendCommand(),
		a.resolveCommand(), a.rejectCommand(), a.cancelCommand(), a.terminateCommand(), a.resumeCommand(),
		a.benchCommand(), a.tortureCommand(), a.doctorCommand(), a.migrateCommand(), a.backupCommand(), a.versionCommand(),
	)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(errOut, "stet:", err)
	}
	return exitCode(err)
}

// usageError is a wrong call.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(err error) error { return usageError{err} }

func exitCode(err error) int {
	var wrong usageError
	var run *stet.RunError
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &run):
		return exitUnsuccessful
	case is(stet.ErrNotFound, stet.ErrUnknownWorkflow):
		return exitNotFound
	case is(stet.ErrExists, stet.ErrTerminal, stet.ErrAlreadyResolved, errRefused):
		return exitConflict
	case errors.As(err, &wrong), is(stet.ErrInvalid, stet.ErrTooLarge, store.ErrInvalid, store.ErrBadCursor),
		strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	}
	return exitFailed
}

// open opens the store. Only create makes a file that is not there.
func (a *app) open(ctx context.Context, create bool) (*sqlite.Store, error) {
	path, isSQLite := strings.CutPrefix(a.db, "sqlite:")
	scheme, _, isURL := strings.Cut(path, "://")
	switch {
	case a.db == "":
		return nil, usage(errors.New("no store given: use --db FILE, or set STET_DB"))
	case isURL && !isSQLite:
		return nil, usage(fmt.Errorf("expected an SQLite file, found a %s URL: this version knows no other store", scheme))
	case a.output != "table" && a.output != "json" && a.output != "ids":
		return nil, usage(fmt.Errorf("--output: expected table, json or ids, found %q", a.output))
	}
	if _, err := os.Stat(path); os.IsNotExist(err) && !create {
		return nil, usage(fmt.Errorf("there is no store %s: check --db, or let an application or `stet migrate` create it", path))
	}
	return sqlite.OpenContext(ctx, path, sqlite.Logger(a.log()))
}

func (a *app) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelError}))
}

// with calls fn with an engine that knows no workflows.
func (a *app) with(ctx context.Context, fn func(*stet.Engine, *sqlite.Store) error) (err error) {
	s, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	e, err := stet.NewContext(ctx, stet.Config{Store: s, Logger: a.log(), Poll: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	return fn(e, s)
}

// deciding is with, and meanwhile decides what needs no code if no application
// works on the store.
func (a *app) deciding(ctx context.Context, fn func(*stet.Engine, *sqlite.Store) error) error {
	return a.with(ctx, func(e *stet.Engine, s *sqlite.Store) error {
		work, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- e.Run(work) }()
		err := fn(e, s)
		stop()
		return errors.Join(err, <-ended)
	})
}

// exactly is cobra.ExactArgs with the names of what is expected.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usage(fmt.Errorf("expected %d arguments (%s), found %d", len(names), strings.Join(names, " "), len(args)))
		}
		return nil
	}
}

// between allows from to the number of names.
func between(from int, names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < from || len(args) > len(names) {
			return usage(fmt.Errorf("expected %d to %d arguments (%s), found %d", from, len(names), strings.Join(names, " "), len(args)))
		}
		return nil
	}
}
