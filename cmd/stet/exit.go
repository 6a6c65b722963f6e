package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// The exit codes. They are part of the interface.
const (
	exitDone = iota
	exitFailed
	exitUsage
	exitNotFound
	exitConflict
	exitUnsuccessful  // the awaited run did not succeed
	exitNotCarriedOut // a torture could not be carried out to its end, so it says nothing
)

// usageError is a wrong call. It has changed nothing.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(err error) error { return usageError{err} }

// conflictError says that something exists already, or that the owner of a run has
// refused a request.
type conflictError struct{ error }

func (e conflictError) Unwrap() error { return e.error }

// unsuccessfulError says that an awaited run did not succeed.
type unsuccessfulError struct{ error }

func (e unsuccessfulError) Unwrap() error { return e.error }

// notCarriedOutError says that a torture could not be carried out, so that nothing is known of what it was to find.
type notCarriedOutError struct{ error }

func (e notCarriedOutError) Unwrap() error { return e.error }

// severalError holds the errors of some of several runs.
type severalError []error

func (e severalError) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

func (e severalError) Unwrap() []error { return e }

// joinRuns returns the problems with several runs as one error, or nil.
func joinRuns(problems []error) error {
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return problems[0]
	}
	return severalError(problems)
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// exitCode returns the exit code for err.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if program, ok := errors.AsType[programError](err); ok {
		return program.code
	}
	if several, ok := errors.AsType[severalError](err); ok {
		code := exitCode(several[0])
		for _, other := range several[1:] {
			if exitCode(other) != code {
				return exitFailed
			}
		}
		return code
	}
	if _, ok := errors.AsType[unsuccessfulError](err); ok {
		return exitUnsuccessful
	}
	if _, ok := errors.AsType[notCarriedOutError](err); ok {
		return exitNotCarriedOut
	}
	_, wrong := errors.AsType[usageError](err)
	_, conflict := errors.AsType[conflictError](err)
	switch {
	case isAny(err, stet.ErrNotFound, stet.ErrUnknownWorkflow, stet.ErrNoQueue):
		return exitNotFound
	case conflict, isAny(err, stet.ErrExists, stet.ErrTerminal, stet.ErrRefused, stet.ErrAlreadyResolved, stet.ErrKeyUsed):
		return exitConflict
	case wrong, isAny(err, stet.ErrInvalid, stet.ErrTooLarge, store.ErrInvalid, store.ErrBadCursor):
		return exitUsage
	}
	return exitFailed
}

// hintedError is an error with what to do about it.
type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }

// hints say what to do about errors that do not say it themselves.
var hints = []struct {
	about error
	text  string
}{
	{stet.ErrUnknownWorkflow, "check the name, start an application that has it once, or use --force"},
	{stet.ErrNoQueue, "stet queue ls lists the queues, stet queue create makes one"},
	{stet.ErrNotFound, "stet ls lists the runs"}, // lists has those of other things
	{stet.ErrExists, "choose another --id, the same input, or another --existing"},
	{stet.ErrTooLarge, "keep large data elsewhere and pass a reference to it"},
	{store.ErrBadCursor, "give the cursor that ls printed, or none to begin at the newest run"},
	{stet.ErrSealed, "give the application's keys in STET_KEYS and its folder of objects in STET_OBJECTS, see " +
		"stet help values"},
	{store.ErrDamaged, "stet doctor says more; restore a backup"},
}

// lists say where the names are that a command expects, by the first word of the command; others expect runs.
var lists = map[string]string{
	"hook":     "stet hook ls lists the hooks",
	"nodes":    "stet nodes lists the nodes",
	"schedule": "stet schedule ls lists the schedules",
	"script":   "stet script ls lists the scripts, stet ls the runs",
	"token":    "stet token ls lists the tokens with their IDs",
	"topics":   "stet topics lists those that were used, stet topics show TOPIC the events of one",
}

// hintList adds to the error of a command that has not found something where the names are.
func hintList(cmd *cobra.Command, err error) error {
	if _, said := errors.AsType[hintedError](err); said || !errors.Is(err, stet.ErrNotFound) {
		return err
	}
	for ; cmd.HasParent(); cmd = cmd.Parent() {
		if hint, ok := lists[cmd.Name()]; ok {
			return hintedError{err, hint}
		}
	}
	return err
}

// printProblem prints an error and what to do about it.
func (p *printer) printProblem(err error) {
	if _, said := errors.AsType[programError](err); said {
		return
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(p.err, "stet:", printable(strings.TrimSuffix(line, "\n")))
	}
	if hinted, ok := errors.AsType[hintedError](err); ok {
		fmt.Fprintln(p.err, "hint:", hinted.hint)
		return
	}
	for _, hint := range hints {
		if errors.Is(err, hint.about) {
			fmt.Fprintln(p.err, "hint:", hint.text)
			return
		}
	}
}
