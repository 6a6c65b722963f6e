package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/cmd/stet/internal/develop"
	"github.com/stet-run/stet/cmd/stet/internal/toolbox"
	"github.com/stet-run/stet/store"
)

// devFolder is where stet dev keeps the store and what it builds.
const devFolder = ".stet"

// project is what stet dev works on: it takes changes up until ctx ends.
type project interface {
	// Run blocks until ctx ends. An error says that there is nothing to work on.
	Run(ctx context.Context) error
	// Page shows how the project stands, to those who may see values by the API.
	Page(api http.Handler) http.Handler
}

func (ac adminCommands) devCommand() *cobra.Command {
	var f serveFlags
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "dev [PACKAGE|DIR] [-- ARGUMENT...]",
		Short: "build and run a program, or deploy scripts, again and again while you change it, with the dashboard",
		Long: `Builds a Go program and runs it, serves the dashboard of its store, and does both again
when the sources of its module change. A build that fails is shown, and the program that
runs goes on. A program is asked to end by SIGTERM; its runs go on in the next one.

A folder of scripts without Go files is deployed on each save, and its runs are executed. Runs
that have begun go on with their versions.

PACKAGE is the current folder, if it is not given. The program finds the store in
STET_DB: an SQLite file in ` + devFolder + `, or what --db names. STET_DB of your own shell is not
taken, because it may be a store that others use.

The address that is printed opens the dashboard; dev beside it shows the builds, and what
the program prints: with ?run=ID the lines about a run.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ac.checkNoIDs(); err != nil {
				return err
			}
			target, rest := ".", args
			switch dash := cmd.ArgsLenAtDash(); {
			case dash == 0:
			case dash > 1 || dash < 0 && len(args) > 1:
				return usage(fmt.Errorf("expected one package, found %q; arguments of the program stand after --", args))
			case len(args) > 0:
				target, rest = args[0], args[1:]
			}
			if !cmd.Flags().Changed("db") {
				db, err := devStore()
				if err != nil {
					return err
				}
				ac.db = db
			}
			folder, err := isScripts(target)
			if err != nil {
				return err
			}
			if folder {
				f.scripts = true
				if err := ac.executeScripts(f.isolate); err != nil {
					return err
				}
			}
			return ac.dev(cmd.Context(), &f, func(e *stet.Engine) project {
				if folder {
					return &scriptFolder{dir: target, engine: e, say: ac.say}
				}
				return ac.program(target, rest, grace)
			})
		},
	}
	cmd.Flags().StringVar(&f.address, "addr", "127.0.0.1:8338", "listen at this `address`; port 0: a free one")
	cmd.Flags().DurationVar(&grace, "grace", 10*time.Second, "how long the program has to end, before it is killed")
	f.isolateFlag(cmd)
	f.agents.add(cmd, "mcp-", toolbox.Token)
	return cmd
}

// devStore returns the file of the store in the folder for development, which it makes.
func devStore() (string, error) {
	if err := os.MkdirAll(devFolder, 0o755); err != nil {
		return "", err
	}
	ignore := filepath.Join(devFolder, ".gitignore")
	if _, err := os.Stat(ignore); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(ignore, []byte("*\n"), 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Abs(filepath.Join(devFolder, "stet.db"))
}

// program returns a Go program as a project.
func (ac adminCommands) program(pkg string, args []string, grace time.Duration) project {
	return develop.New(develop.Options{
		Dir: ".", Package: pkg, Args: args, Env: []string{"STET_DB=" + ac.db}, Bin: filepath.Join(devFolder, "bin"),
		Out: ac.out, Err: ac.err, Grace: grace, Say: func(text string) { ac.say("%s", text) },
	})
}

// dev serves the store, and works on the project beside it, until ctx ends.
func (ac adminCommands) dev(ctx context.Context, f *serveFlags, of func(*stet.Engine) project) (err error) {
	s, err := ac.open(ctx, true) // so that there is a store from the beginning
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return ac.with(ctx, func(e *stet.Engine, s store.Store) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		p := of(e)
		f.beside = func(api http.Handler) map[string]http.Handler {
			return map[string]http.Handler{"/dev": p.Page(api), "/dev.json": p.Page(api)}
		}
		ended := make(chan error, 1)
		f.listening = func() {
			go func() {
				err := p.Run(ctx)
				stop() // without a project there is nothing to serve for
				ended <- err
			}()
		}
		err := ac.serve(ctx, e, s, f)
		if stop(); f.listens {
			err = errors.Join(err, <-ended)
		}
		return err
	})
}
