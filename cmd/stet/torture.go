package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet/cmd/stet/internal/torture"
	"github.com/stet-run/stet/store"
)

// What the torture has found.
var (
	errBroken        = errors.New("something that was promised is broken")
	errNotCarriedOut = errors.New("it could not be carried out to its end, so it says nothing of the store")
)

func (lc trialCommands) tortureCommand() *cobra.Command {
	var cfg torture.Config
	var seconds int
	var worker string
	var verbose bool
	var outages []string
	cmd := &cobra.Command{
		Use:   "torture",
		Short: "kill and pause processes on a store, and check that no promise is broken",
		Long: `Starts processes of itself on the store, which execute random workflows: steps
that fail, sleeps, messages, promises, updates, races, nested branches, sagas,
permits with a cost, items emitted by steps. In the middle it deploys a later build.

  - It kills them with SIGKILL, pauses them beyond their lease, stops and replaces
    them, at random moments.
  - Meanwhile it starts, sends, asks, resolves, cancels, pauses, retries, rewinds,
    forks, edits and reads back.
  - All values are compressed, encrypted and, if large, kept in a folder beside the
    logs; some runs are deleted at their end.
  - With --outage the store goes away in between, and its answers are lost.
  - Then some runs kill their own processes: these runs must stall, and no others.

In the end it compares two logs with the store: of everything that was executed, and
of every call that was acknowledged. Nothing acknowledged may be lost. No completed
step may run again. Nothing may be doubled, stuck, too early, answered in two ways,
or written without the lease.

It prints the seed, the counts and the verdict. The seed determines the workflows and
the strikes, but not the exact moments of the strikes. The store must be a new one.
Several --db torture a store over several databases; --outage may take one of them away.

Exit codes:

  0  nothing that was promised is broken
  1  something that was promised is broken
  2  wrong usage: nothing was started
  6  the torture could not be carried out to its end, as when the store does not
     come back: it says nothing of the store. What it found until then counts as 1`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if lc.output == "ids" {
				return usage(errors.New("--output: expected table or json, found ids"))
			}
			cfg.DB, cfg.Log = lc.address(), lc.log
			cfg.Open = func(ctx context.Context) (store.Store, error) {
				s, err := lc.open(ctx, true)
				if err != nil {
					return nil, err
				}
				return s, nil
			}
			if worker != "" {
				return torture.Work(cmd.Context(), cfg.Open, worker, lc.in, lc.log)
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			cfg.Worker = func(orders string) *exec.Cmd {
				return exec.Command(self, "torture", "--db", lc.db, "--worker", orders)
			}
			for _, command := range outages {
				words := strings.Fields(command)
				if len(words) == 0 {
					return usage(errors.New("--outage: expected a command, found none"))
				}
				cfg.Outages = append(cfg.Outages, torture.Outage{Name: command, Do: func(ctx context.Context) error {
					if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
						return fmt.Errorf("%w: %.300s", err, out)
					}
					return nil
				}})
			}
			cfg.For = time.Duration(seconds) * time.Second
			if verbose {
				cfg.Log = slog.New(slog.NewTextHandler(lc.err, nil))
			}
			return lc.torture(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Nodes, "nodes", 3, "`number` of processes")
	flags.IntVar(&seconds, "seconds", 30, "duration of the strikes")
	flags.IntVar(&cfg.Strikes, "kills", 0, "`number` of strikes: kills, pauses and stops; default: one per second")
	flags.StringSliceVar(&cfg.Faults, "faults", nil,
		"what is done to the processes: `some` of "+strings.Join(torture.Faults(), ", ")+"; default: all")
	flags.StringArrayVar(&outages, "outage", nil,
		"`command` that takes the store away and brings it back, as a restart of its server: "+
			"one of three strikes; may be repeated; default: none")
	flags.IntVar(&cfg.Live, "live", 40, "`number` of runs that are kept going")
	flags.BoolVar(&cfg.Defaults, "defaults", false,
		"the processes have the engine's own times, leases of 10 s among them, in place of short ones; "+
			"a pause is then longer than that, and the runs that kill their processes take minutes")
	flags.BoolVar(&cfg.NoPoison, "no-poison", false, "leave out the runs that kill their own processes")
	flags.Uint64Var(&cfg.Seed, "seed", 0, "`number` that makes the workflows and the strikes; default: a random one")
	flags.StringVar(&cfg.Dir, "logs", "", "existing `folder` without logs, in which they are then kept")
	flags.BoolVarP(&verbose, "verbose", "v", false, "log the progress")
	flags.StringSliceVar(&cfg.Plants, "plant", nil, "give the processes `defects`")
	flags.StringVar(&worker, "worker", "", "be one of the processes")
	for _, name := range []string{"plant", "worker"} {
		if err := flags.MarkHidden(name); err != nil {
			panic(err) // only if there is no such flag
		}
	}
	return cmd
}

func (lc trialCommands) torture(ctx context.Context, cfg torture.Config) error {
	report, err := torture.Run(ctx, cfg)
	if errors.Is(err, torture.ErrConfig) {
		return usage(err)
	}
	if report == nil {
		return carriedOut(err)
	}
	if lc.output == "json" {
		err = errors.Join(err, lc.json(report))
	} else {
		err = errors.Join(err, report.WriteText(lc.out))
	}
	return verdictOn(report, err)
}

// verdictOn returns the error of a torture, which decides the exit code. What is broken comes first: it is so whatever
// else could not be carried out.
func verdictOn(report *torture.Report, err error) error {
	switch {
	case report.Broken():
		return errors.Join(fmt.Errorf("torture with seed %d: %w", report.Seed, errBroken), err)
	case err == nil && !report.OK:
		err = fmt.Errorf("torture with seed %d: %w", report.Seed, errNotCarriedOut)
	}
	return carriedOut(err)
}

// carriedOut gives an error that says nothing of the store an exit code of its own.
func carriedOut(err error) error {
	if exitCode(err) == exitFailed {
		return notCarriedOutError{err}
	}
	return err
}
