package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

func (a *app) cancelCommand() *cobra.Command {
	v := verb{name: "cancel", short: "cancel runs; their code sees it and cleans up", fits: live, ask: (*stet.Engine).Cancel}
	return v.command(a)
}

func (a *app) terminateCommand() *cobra.Command {
	v := verb{name: "terminate", short: "end runs at once; no more of their code is executed", fits: live, ask: (*stet.Engine).Terminate}
	return v.command(a)
}

func (a *app) resumeCommand() *cobra.Command {
	v := verb{
		name: "resume", short: "let stalled runs go on, after their cause is mended", noReason: true,
		fits: func(r *store.Run) bool { return r.Status == store.Stalled },
		ask: func(e *stet.Engine, ctx context.Context, id, _ string) (bool, error) {
			return e.Resume(ctx, id)
		},
	}
	return v.command(a)
}

func live(r *store.Run) bool { return !r.Status.Terminal() }

// verb is a request that the owner of a run decides.
type verb struct {
	name, short string
	noReason    bool
	fits        func(*store.Run) bool // which runs of a query it is for
	ask         func(e *stet.Engine, ctx context.Context, id, reason string) (bool, error)

	reason  string
	timeout time.Duration
}

func (v *verb) command(a *app) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   v.name + " RUN...",
		Short: v.short,
		Long: v.short + `.

With - the IDs are read from standard input; with --query it is done for all runs
that match. The request is durable at once, and the application that works on the
store decides it. If none does, stet decides what needs no code; else the request
stands until one comes.`,
		Args: t.args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkTimeout(v.timeout, false); err != nil {
				return err
			}
			return a.deciding(cmd.Context(), func(e *stet.Engine, _ *sqlite.Store) error {
				return a.each(cmd.Context(), e, &t, func(ctx context.Context, id string) error { return v.do(ctx, e, id) })
			})
		},
	}
	t.flags(cmd, v.name, v.fits)
	cmd.Flags().DurationVar(&v.timeout, "timeout", 10*time.Second, "how long to wait for a decision")
	if !v.noReason {
		cmd.Flags().StringVar(&v.reason, "reason", "", "`text` that is kept with the run")
	}
	return cmd
}

// do asks and waits for the decision.
func (v *verb) do(ctx context.Context, e *stet.Engine, id string) error {
	wait, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	ok, err := v.ask(e, wait, id, v.reason)
	switch {
	case err == nil && ok:
		return nil
	case errors.Is(err, stet.ErrPending):
		what := fmt.Sprintf("nobody has decided within %s", v.timeout)
		if ctx.Err() != nil {
			what = "interrupted before the decision"
		}
		return hintedError{fmt.Errorf("%s run %q: %s", v.name, id, what), "the request stands until an application with the code works on the store"}
	case isAny(err, stet.ErrNotFound, stet.ErrTerminal, stet.ErrInvalid, context.Canceled, context.DeadlineExceeded,
		store.ErrUnavailable, store.ErrUnknown, store.ErrClosed, store.ErrDamaged, store.ErrSchema):
		return err
	}
	return conflictError{err} // the owner has refused
}
