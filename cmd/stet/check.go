package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

func (xc codeCommands) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export RUN",
		Short: "write a run with its history and inbox as a file, to standard output",
		Long: `Writes a run with its history and what its inbox holds as JSON, all values
included and in clear text: keep it as carefully as the data itself. A run with
values that cannot be opened (see STET_KEYS) is not written. The file can be replayed
against any later code: by the application's own check (see stet help check) and by
stettest.Replay in go test.`,
		Args: exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := xc.runIDs(args)
			if err != nil {
				return err
			}
			if len(ids) != 1 {
				return usage(fmt.Errorf("expected the ID of one run, found %d", len(ids)))
			}
			return xc.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				var file bytes.Buffer // so that an error leaves no partial file
				if err := e.Runs().Export(cmd.Context(), ids[0], &file); err != nil {
					return err
				}
				_, err := xc.out.Write(escaped(file.Bytes()))
				return err
			})
		},
	}
}

func (xc codeCommands) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check PROGRAM [ARGUMENT...]",
		Short: "ask an application which live runs its code would break",
		Long: `Replays the live runs of a store against new code before its deploy, and lists those
that would break, where and why, as one line for all that break in the same way. Nothing
is executed or written. Each run is replayed up to its first difference.

The code is in the application's binary, so the application makes the check: its
main function calls codecheck.Command when its first argument is "check". This
command calls "PROGRAM check ARGUMENT..." with STET_DB set to the store of --db,
and ends with its exit code: 0 all fit, 4 at least one would break, otherwise the check
could not be made. Arguments for the check itself follow --, like
stet check ./app -- -query workflow=order -sample 100.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("expected the program that has the code; stet help check says more"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments := append([]string{"check", "-o", xc.output}, args[1:]...)
			program := exec.CommandContext(cmd.Context(), args[0], arguments...)
			program.Stdin, program.Stdout, program.Stderr = xc.in, xc.out, xc.err
			program.Env = os.Environ()
			if xc.db != "" {
				program.Env = append(program.Env, "STET_DB="+xc.db)
			}
			err := program.Run()
			if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() > 0 {
				return programError{ended.ExitCode()}
			}
			if err != nil {
				return fmt.Errorf("%s check: %w", args[0], err)
			}
			return nil
		},
	}
}

// programError is the exit code of a program that has printed its own error.
type programError struct{ code int }

func (e programError) Error() string {
	return fmt.Sprintf("the program has ended with exit code %d", e.code)
}
