package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// app is one call of the command line: it has what all commands need. The commands of a
// subject are methods of a type of their own.
type app struct {
	arguments
	printer
	opener
	remote
}

const long = `stet inspects and controls the workflows in a store.

The store is an SQLite file, a Postgres database or a Redis server, given with
--db FILE, --db postgres://USER@HOST/DATABASE or --db redis://HOST, or in STET_DB.
Of a store over several Postgres databases all are named: by --db for each, or in
STET_DB with spaces between them.
An application may work on it at the same time. If none does, stet itself carries
out what needs no code: it terminates, pauses and resumes runs, cancels a run that
has never run or is paused, and retries, rewinds and edits one that is stopped.

Many commands work by a server too: --server URL or STET_SERVER names what stet serve
or an application serves, --token or STET_TOKEN gives an access token. What needs the
store itself says so.

Data goes to standard output in the form of --output: a table for people, JSON
with one value per line, or the IDs of runs alone. Everything else goes to standard
error. Where the ID of a run is expected, - reads IDs from standard input; where
JSON is expected, - reads it from there. The run whose ID is - is written ./-

stet help filters says how runs are chosen, stet help values how encrypted values are
read, stet help exit-codes what a script can rely on. stet completion prints what a shell
needs to complete commands, flags, and names of the store's content.`

// The commands by their subject.
type (
	runCommands        struct{ *app } // start and read runs
	controlCommands    struct{ *app } // change what runs do
	messageCommands    struct{ *app } // send to runs and promises
	topicCommands      struct{ *app }
	deadLetterCommands struct{ *app }
	scheduleCommands   struct{ *app }
	queueCommands      struct{ *app }
	nodeCommands       struct{ *app }
	sourceCommands     struct{ *app } // workflows that the store keeps
	codeCommands       struct{ *app } // replay runs against changed code
	adminCommands      struct{ *app } // of the store itself
	trialCommands      struct{ *app } // measure and torture a store
)

// commands returns all commands. A new one is registered here.
func (a *app) commands() []*cobra.Command {
	runs, control, messages, topics := runCommands{a}, controlCommands{a}, messageCommands{a}, topicCommands{a}
	code, admin, trial := codeCommands{a}, adminCommands{a}, trialCommands{a}
	return []*cobra.Command{
		runs.startCommand(), runs.listCommand(), runs.countCommand(), runs.showCommand(), runs.treeCommand(),
		runs.waitCommand(), runs.watchCommand(), runs.tailCommand(),
		messages.sendCommand(), messages.updateCommand(), messages.resolveCommand(), messages.rejectCommand(),
		messages.promisesCommand(),
		topics.publishCommand(), topics.command(),
		control.cancelCommand(), control.terminateCommand(), control.pauseCommand(), control.resumeCommand(),
		control.nudgeCommand(), control.removeCommand(), control.deletionsCommand(),
		control.retryCommand(), control.rewindCommand(), control.forkCommand(), control.editCommand(),
		code.exportCommand(), code.checkCommand(),
		deadLetterCommands{a}.command(), scheduleCommands{a}.command(), queueCommands{a}.command(),
		nodeCommands{a}.command(), sourceCommands{a}.command(),
		admin.doctorCommand(), admin.migrateCommand(), admin.backupCommand(), admin.confirmFailoverCommand(),
		admin.databasesCommand(),
		admin.serveCommand(), admin.tokenCommand(), admin.hookCommand(), admin.mcpCommand(),
		admin.devCommand(), admin.auditCommand(),
		trial.benchCommand(), trial.tortureCommand(), admin.versionCommand(),
	}
}

// execute runs a command line and returns its exit code.
func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app{arguments: arguments{in}, printer: printer{out: out, err: errOut}}
	a.log = slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: slog.LevelError}))
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		a.printProblem(a.hideSecrets(hintList(cmd, a.hintToken(err))))
	}
	return exitCode(err)
}

// rootCommand returns the command that has all others.
func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "stet", Short: "inspect and control durable workflows", Long: long,
		SilenceUsage: true, SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usage(fmt.Errorf("expected a command, found %q%s; stet help lists them", args[0], suggestion(cmd, args[0])))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(a.checkForm(), a.checkPlace(cmd))
		},
	}
	flags := root.PersistentFlags()
	a.db = os.Getenv("STET_DB")
	flags.Var(&places{db: &a.db}, "db", "the store: an SQLite `file` or the URL of a Postgres database or Redis server; "+
		"repeated: all databases of a store over several; default: $STET_DB")
	a.remoteFlags(root)
	flags.StringVarP(&a.output, "output", "o", formTable, "`form` of what is printed: table, json or ids")
	root.SetFlagErrorFunc(wrongFlag)
	root.AddCommand(a.commands()...)
	arrange(root)
	a.complete(root)
	return root
}

func suggestion(cmd *cobra.Command, name string) string {
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return ", which is near to " + strings.Join(near, ", ")
	}
	return ""
}

// exactly is cobra.ExactArgs with the names of what is expected.
func exactly(names ...string) cobra.PositionalArgs { return between(len(names), names...) }

// between allows from the first least arguments to all that are named.
func between(least int, names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= len(names) {
			return nil
		}
		switch {
		case len(names) == 0:
			return usage(fmt.Errorf("expected no arguments, found %q", args))
		case least == len(names):
			return usage(fmt.Errorf("expected %s, found %d arguments", strings.Join(names, " "), len(args)))
		}
		return usage(fmt.Errorf("expected %s [%s], found %d arguments",
			strings.Join(names[:least], " "), strings.Join(names[least:], " "), len(args)))
	}
}

// someRuns expects the IDs of runs, or - for standard input.
func someRuns(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage(errors.New("expected the IDs of runs, or - to read them from standard input"))
	}
	return nil
}
