package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

func (rc runCommands) watchCommand() *cobra.Command {
	var until string
	var timeout time.Duration
	t := target{yes: true}
	cmd := &cobra.Command{
		Use:   "watch RUN...",
		Short: "follow runs until they end",
		Long: `Prints a line whenever one of the runs changes, until all have ended or stalled;
of a single run it also prints the operations as they end. On a terminal, several
runs are a table that changes in place. With - the IDs are read from standard
input; with --query all runs are followed that match now.

With --until a run is followed until it has that status, or the mark paused; if one
ends otherwise the exit code is 5.`,
		Args: t.args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(rc.checkNoIDs(), checkTimeout(timeout, true)); err != nil {
				return err
			}
			w := watch{app: rc.app}
			if err := w.parse(until); err != nil {
				return usage(fmt.Errorf("--until: %w", err))
			}
			ctx, cancel := within(cmd.Context(), timeout)
			defer cancel()
			err := rc.reading(ctx, func(from side) error {
				ids, err := from.choose(ctx, &t)
				if err != nil {
					return err
				}
				w.from = from
				return w.follow(ctx, ids)
			})
			return inTime(err, "the runs have not come so far in time")
		},
	}
	t.fits = func(*stet.RunInfo) bool { return true }
	cmd.Flags().StringVar(&t.query, "query", "", "all runs that match this `filter` now")
	cmd.Flags().StringVar(&until, "until", "", "follow a run until it has this `status`, or is paused")
	timeoutFlag(cmd, &timeout)
	return cmd
}

// watch follows runs.
type watch struct {
	*app
	from   side
	until  store.Status // 0: the end
	marked store.Marks  // until it has these marks; 0: not

	shown    map[string]string // by ID: the line that was printed last
	progress map[string]int    // by location: attempts of open steps that were printed
	number   int64             // of the last completion that was printed
	screen   screen
}

// parse reads the status until which the runs are followed; "" is their end.
func (w *watch) parse(until string) (err error) {
	switch until {
	case "":
	case store.Paused.String():
		w.marked = store.Paused
	default:
		w.until, err = store.ParseStatus(until)
	}
	return err
}

// follow prints changes until all runs have reached their end, or the status that was asked for.
func (w *watch) follow(ctx context.Context, ids []string) error {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	w.shown, w.progress = map[string]string{}, map[string]int{}
	w.screen = screen{w: w.out, size: sizeOf(w.out)}
	for {
		runs, err := w.read(ctx, ids)
		infos := make([]*stet.RunInfo, len(runs))
		for i := range runs {
			infos[i] = runs[i].info
		}
		if err == nil {
			err = w.print(ctx, runs, infos)
		}
		if err == nil {
			if !slices.ContainsFunc(infos, w.pending) {
				return w.outcome(infos)
			}
			err = w.from.changed(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// read returns the runs in the order of their IDs. ErrNotFound: one does not exist.
func (w *watch) read(ctx context.Context, ids []string) ([]*aRun, error) {
	runs := make([]*aRun, 0, len(ids))
	for chunk := range slices.Chunk(ids, store.DefaultPage) {
		page, err := w.from.runs(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for _, run := range page {
			if w.output == formTable {
				run.lighten()
			}
			runs = append(runs, run)
		}
	}
	slices.SortFunc(runs, func(a, b *aRun) int { return cmp.Compare(a.info.ID, b.info.ID) })
	for i, id := range ids {
		if i >= len(runs) || runs[i].info.ID != id {
			return nil, fmt.Errorf("run %q: %w", id, stet.ErrNotFound)
		}
	}
	return runs, nil
}

// pending reports whether the run is to be followed further.
func (w *watch) pending(info *stet.RunInfo) bool {
	return !w.reached(info) && !info.Status.Terminal() && info.Status != store.Stalled
}

// reached reports whether the run has the status or mark that was asked for, if any.
func (w *watch) reached(info *stet.RunInfo) bool {
	return info.Status == w.until || info.Marks&w.marked != 0
}

// outcome returns an error for each run that has missed the status that was asked for.
func (w *watch) outcome(infos []*stet.RunInfo) error {
	var problems []error
	for _, info := range infos {
		if (w.until != 0 || w.marked != 0) && !w.reached(info) {
			want := w.marked.String()
			if w.until != 0 {
				want = w.until.String()
			}
			problems = append(problems, unsuccessfulError{fmt.Errorf("run %q: expected to become %s, found it %s",
				info.ID, want, info.Status)})
		}
	}
	return joinRuns(problems)
}

// print prints the runs that have changed.
func (w *watch) print(ctx context.Context, runs []*aRun, infos []*stet.RunInfo) error {
	c, err := w.from.nodes(ctx)
	if err != nil {
		return err
	}
	if len(infos) > 1 && w.screen.size.width > 0 && w.output == formTable {
		return w.screen.draw(runsGrid(c, infos).String())
	}
	if len(infos) == 1 && w.output == formTable {
		if err := w.printOperations(ctx, infos[0]); err != nil {
			return err
		}
	}
	c.absolute = true
	for i, info := range infos {
		at := c.Now.Time()
		if !info.Ended.IsZero() {
			at = info.Ended
		}
		line := fmt.Sprintf("%s  %s", printable(info.ID), statusText(info))
		if text := detail(c, info); text != "" {
			line += ": " + short(text, 200)
		}
		if line == w.shown[info.ID] {
			continue
		}
		w.shown[info.ID] = line
		if w.output == formJSON {
			err = w.json(runs[i].Run)
		} else {
			err = w.line(at, line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printOperations prints the operations of a run that have ended since the last
// time, and the failed attempts of those that have not.
func (w *watch) printOperations(ctx context.Context, info *stet.RunInfo) error {
	operations, err := w.from.operations(ctx, info.ID)
	if err != nil {
		return err
	}
	slices.SortStableFunc(operations, func(a, b operation) int { return cmp.Compare(a.Number, b.Number) })
	for i := range operations {
		o := &operations[i]
		ended := o.Number > w.number
		tried := o.State == store.Open.String() && o.Attempts > w.progress[o.Location]
		if !ended && !tried {
			continue
		}
		w.number, w.progress[o.Location] = max(w.number, o.Number), o.Attempts
		line := fmt.Sprintf("%s  %s %s %s", info.ID, o.Kind, o.Location, o.State)
		if o.Attempts > 1 || tried {
			line += fmt.Sprintf(", %d attempts", o.Attempts)
		}
		if text := o.result(); text != "" {
			line += ": " + short(text, 100)
		}
		at := o.Ended
		if tried {
			at = o.Tried
		}
		if at.IsZero() { // an attempt that has not begun, or of a former version, which did not record it
			at = o.Started
		}
		if err := w.line(at, printable(line)); err != nil {
			return err
		}
	}
	return nil
}

// line prints what has happened at a time.
func (w *watch) line(at time.Time, text string) error {
	form := time.TimeOnly
	if at = at.Local(); time.Since(at) > 12*time.Hour {
		form = time.DateTime
	}
	_, err := fmt.Fprintf(w.out, "%s  %s\n", at.Format(form), text)
	return err
}
