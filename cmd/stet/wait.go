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

func (a *app) waitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait RUN",
		Short: "wait for the end of a run and print its result",
		Args:  exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel, err := withTimeout(cmd.Context(), timeout)
			if err != nil {
				return err
			}
			defer cancel()
			return a.with(ctx, func(e *stet.Engine, _ *sqlite.Store) error { return a.wait(ctx, e, args[0]) })
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this long; 0: never")
	return cmd
}

func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc, error) {
	switch {
	case timeout < 0:
		return nil, nil, usage(fmt.Errorf("--timeout: expected a duration of 0 or more, found %s", timeout))
	case timeout == 0:
		return ctx, func() {}, nil
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	return limited, cancel, nil
}

// wait prints the result of a run once it has ended.
func (a *app) wait(ctx context.Context, e *stet.Engine, id string) error {
	info, err := e.Wait(ctx, id)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("run %s has not ended in time", id)
	}
	if err != nil {
		return err
	}
	if a.output == "json" {
		if err := a.json(viewOf(info)); err != nil {
			return err
		}
		return info.Err
	}
	if info.Err != nil {
		return info.Err
	}
	_, err = fmt.Fprintln(a.out, string(asJSON(info.Output)))
	return err
}

func (a *app) watchCommand() *cobra.Command {
	var until string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "watch RUN",
		Short: "print a line whenever a run changes, until it ends",
		Args:  exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			stop, err := statusFlag(until)
			if err != nil {
				return err
			}
			ctx, cancel, err := withTimeout(cmd.Context(), timeout)
			if err != nil {
				return err
			}
			defer cancel()
			return a.with(ctx, func(e *stet.Engine, s *sqlite.Store) error { return a.watch(ctx, e, s, args[0], stop) })
		},
	}
	cmd.Flags().StringVar(&until, "until", "", "stop when the run has this `status` too")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this long; 0: never")
	return cmd
}

func statusFlag(name string) (store.Status, error) {
	if name == "" {
		return 0, nil
	}
	status, err := store.ParseStatus(name)
	if err != nil {
		return 0, usage(fmt.Errorf("--until: %w", err))
	}
	return status, nil
}

// watch prints the changes of a run.
func (a *app) watch(ctx context.Context, e *stet.Engine, s *sqlite.Store, id string, until store.Status) error {
	last := ""
	for {
		info, err := e.Get(ctx, id)
		if err != nil {
			return err
		}
		entries, err := e.History(ctx, id, stet.HistoryQuery{})
		if err != nil {
			return err
		}
		done := 0
		for i := range entries {
			if entries[i].Number > 0 {
				done++
			}
		}
		if text := fmt.Sprintf("%s  %d operations  %s", statusText(&info.Run), done, detail(info)); text != last {
			last = text
			if a.output == "json" {
				err = a.json(viewOf(info))
			} else {
				_, err = fmt.Fprintf(a.out, "%s  %s\n", time.Now().Format(time.TimeOnly), text)
			}
			if err != nil {
				return err
			}
		}
		if info.Status.Terminal() || info.Status == store.Stalled || info.Status == until {
			return nil
		}
		changed, cancel := context.WithTimeout(ctx, time.Second)
		err = s.Changed(changed)
		cancel()
		if ctx.Err() != nil {
			return fmt.Errorf("run %s has not come so far in time: it is %s", id, info.Status)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}
