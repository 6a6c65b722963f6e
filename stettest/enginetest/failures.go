package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Scenarios of what fails: who hears of it, what is undone then, and what is tried again and when;
// and of runs that last longer than they may.

var errNoVan = errors.New("no van")

// noVan is a step that fails for good.
func noVan(ctx stet.Context, name string) error {
	return stet.Do(ctx, name, func(context.Context) error { return stet.Permanent(errNoVan) })
}

// undoneAre checks what was undone of a run. What is undone when a process dies is undone again.
func undoneAre(e *stet.Engine, id string, want ...string) error {
	if got := slices.Compact(sagas.of(outing{e, id})); !slices.Equal(got, want) {
		return fmt.Errorf("undone were %q, want %q", got, want)
	}
	return nil
}

// noting returns a compensation that notes the value.
func noting(outside *stet.Engine, ctx stet.Context) stet.Compensation {
	run := outing{outside, stet.RunID(ctx)}
	return stet.Undo(func(_ context.Context, value string) error { sagas.undone(run, value); return nil })
}

// entriesOf returns the history of a run, by location.
func entriesOf(ctx context.Context, e *stet.Engine, id string) (map[string]*stet.HistoryEntry, error) {
	entries, err := e.Runs().History(ctx, id, stet.HistoryQuery{Values: true})
	found := map[string]*stet.HistoryEntry{}
	for i := range entries {
		found[entries[i].Location] = &entries[i]
	}
	return found, err
}

// askedFor is the delay that an attempt asks for.
const askedFor = 40 * time.Millisecond

// outlives waits for ever.
var outlives = stet.Define("outlives", func(ctx stet.Context, _ string) (string, error) { return never.Receive(ctx) })

var failureScenarios = []scenario{
	{
		name: "child undone", want: "home",
		workflows: func(outside *stet.Engine) []stet.Definition {
			hotel := stet.Define("hotel", func(ctx stet.Context, city string) (string, error) { return say(ctx, "book", city) })
			return append(define("child undone", func(ctx stet.Context, _ string) (string, error) {
				back := noting(outside, ctx)
				_, err := stet.Saga(ctx, "trip", func(ctx stet.Context) (string, error) {
					if _, err := hotel.Call(ctx, "Oslo", back, stet.Named("first")); err != nil {
						return "", err
					}
					if _, err := say(ctx, "car", "car", back); err != nil {
						return "", err
					}
					second, err := hotel.Go(ctx, "Bergen", back, stet.Named("second"))
					if err != nil {
						return "", err
					}
					if _, err := second.Await(ctx); err != nil {
						return "", err
					}
					return "", noVan(ctx, "van")
				})
				if err == nil || !strings.Contains(err.Error(), errNoVan.Error()) {
					return "", fmt.Errorf("the saga gives %w", err)
				}
				return "home", nil
			}), hotel)
		},
		check: func(_ context.Context, e *stet.Engine, id string) error {
			return undoneAre(e, id, "Bergen", "car", "Oslo")
		},
	},
	{
		name: "settled", want: "error b a c cancelled: step charge failed: stolen",
		workflows: func(outside *stet.Engine) []stet.Definition {
			return define("settled", func(ctx stet.Context, _ string) (string, error) {
				if _, err := say(ctx, "reserve", "reserved", noting(outside, ctx)); err != nil {
					return "", err
				}
				b := stet.Go(ctx, "b", func(ctx stet.Context) (string, error) { return say(ctx, "say", "b") })
				a := stet.Go(ctx, "a", func(ctx stet.Context) (string, error) {
					if _, err := b.Await(ctx); err != nil {
						return "", err
					}
					return say(ctx, "say", "a")
				})
				c := stet.Go(ctx, "c", func(ctx stet.Context) (string, error) { return never.Receive(ctx) })
				var ends stet.Settled[string]
				ends.Add(a, b, c)
				var words []string
				for ends.Len() > 0 {
					next, err := ends.Next(ctx)
					if err != nil {
						return "", err
					}
					words = append(words, next.Name())
					if _, err := next.Await(ctx); errors.Is(err, stet.ErrCancelled) {
						words = append(words, "cancelled")
					}
					if ends.Len() == 1 {
						c.Cancel(ctx)
					}
				}
				err := stet.Do(ctx, "charge", func(context.Context) error { return stet.Rollback(errors.New("stolen")) })
				return "", fmt.Errorf("%s: %w", strings.Join(words, " "), err)
			}, stet.UndoOnRollback)
		},
		check: func(_ context.Context, e *stet.Engine, id string) error { return undoneAre(e, id, "reserved") },
	},
	{
		name: "asked to wait", want: "free true true",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("asked to wait", func(ctx stet.Context, _ string) (string, error) {
				text, err := stet.Step(ctx, "busy", func(ctx context.Context) (string, error) {
					if stet.Attempt(ctx) == 1 {
						return "", stet.RetryAfter(errors.New("busy"), askedFor)
					}
					return "free", nil
				}, quick)
				if err != nil {
					return "", err
				}
				final := quick
				final.If = func(err error) bool { return !errors.Is(err, errNoVan) && !errors.Is(err, stet.ErrStepTimeout) }
				sold := stet.Do(ctx, "sold", func(context.Context) error { return errNoVan }, final)
				final.Timeout = 5 * time.Millisecond
				slow := stet.Do(ctx, "slow", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, final)
				once := func(err error) bool {
					var step *stet.StepError
					return errors.As(err, &step) && step.Attempts == 1
				}
				return fmt.Sprint(text, " ", once(sold), " ", once(slow) && errors.Is(slow, stet.ErrTimeout)), nil
			})
		},
		check: func(ctx context.Context, e *stet.Engine, id string) error {
			entries, err := entriesOf(ctx, e, id)
			busy := entries["busy"]
			var value string
			switch {
			case err != nil:
				return err
			case busy == nil || len(busy.Failures) != 1 || busy.Failures[0].Message != "busy" || busy.Failures[0].Number != 1:
				return fmt.Errorf("the step is recorded as %+v", busy)
			case busy.Ended.Sub(busy.Failures[0].Ended) < askedFor:
				return fmt.Errorf("the second attempt has ended %s after the first", busy.Ended.Sub(busy.Failures[0].Ended))
			}
			if err := busy.Value().Decode(&value); err != nil || value != "free" {
				return fmt.Errorf("the step's value is %q: %w", value, err)
			}
			return nil
		},
	},
	{
		name: "fails its scope", want: "by train",
		workflows: func(outside *stet.Engine) []stet.Definition {
			watch := stet.Define("watch", func(ctx stet.Context, _ string) (string, error) { return "", noVan(ctx, "measure") })
			return append(define("fails its scope", func(ctx stet.Context, _ string) (string, error) {
				_, err := stet.Saga(ctx, "by lorry", func(ctx stet.Context) (string, error) {
					if _, err := say(ctx, "load", "loaded", noting(outside, ctx)); err != nil {
						return "", err
					}
					if _, err := watch.Go(ctx, "", stet.FailScope); err != nil {
						return "", err
					}
					return never.Receive(ctx)
				})
				if run := (*stet.RunError)(nil); !errors.As(err, &run) || !strings.Contains(err.Error(), errNoVan.Error()) {
					return "", fmt.Errorf("the saga gives %w", err)
				}
				return say(ctx, "train", "by train")
			}), watch)
		},
		check: func(_ context.Context, e *stet.Engine, id string) error { return undoneAre(e, id, "loaded") },
	},
	{
		name: "own limits", want: "cancelled: ran longer than 20ms", start: []stet.StartOption{stet.KeepFor(24 * time.Hour)},
		workflows: func(*stet.Engine) []stet.Definition {
			return append(define("own limits", func(ctx stet.Context, _ string) (string, error) {
				child, err := outlives.Go(ctx, "", stet.MaxRunTime(20*time.Millisecond), stet.KeepFor(48*time.Hour))
				if err != nil {
					return "", err
				}
				_, err = child.Await(ctx)
				var run *stet.RunError
				if !errors.As(err, &run) || run.Status != store.Cancelled {
					return "", fmt.Errorf("the child ends with %w", err)
				}
				return run.Reason, nil
			}), outlives)
		},
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			r, err := outlives.Start(ctx, e, "", stet.ID("beside-"+id), stet.MaxRunTime(10*time.Millisecond))
			if err != nil {
				return err
			}
			if _, err := r.Wait(ctx); err == nil || !strings.Contains(err.Error(), "ran longer than 10ms") {
				return fmt.Errorf("a run with a limit of its own ends with %w", err)
			}
			return nil
		},
		check: func(ctx context.Context, e *stet.Engine, id string) error {
			entries, err := entriesOf(ctx, e, id)
			if err != nil || entries["outlives"] == nil {
				return fmt.Errorf("the history is %+v: %w", entries, err)
			}
			for id, want := range map[string]stet.RunPolicy{
				id:                      {Retention: stet.KeepFor(24 * time.Hour)},
				entries["outlives"].Run: {MaxRunTime: 20 * time.Millisecond, Retention: stet.KeepFor(48 * time.Hour)},
				"beside-" + id:          {MaxRunTime: 10 * time.Millisecond},
			} {
				if info, err := e.Runs().Info(ctx, id); err != nil || info.Policy != want {
					return fmt.Errorf("the policy of %s is %s, want %s: %w", id, info.Policy, want, err)
				}
			}
			return nil
		},
	},
}
