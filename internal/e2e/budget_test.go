package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestABudgetThatIsUsedUpStalls: a run that has reached a bound of the engine stalls, whatever OnBug
// says, and nothing is undone. With a larger bound it goes on. The log has warned twice, also if
// the run was loaded again between.
func TestABudgetThatIsUsedUpStalls(t *testing.T) {
	t.Parallel()
	for _, on := range testStores {
		for _, bound := range []string{"entries", "bytes", "tags"} {
			for _, onBug := range []stet.OnBug{stet.StallOnBug, stet.FailOnBug} {
				t.Run(fmt.Sprint(on.name, bound, onBug), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { testUsedUp(t, on.open(t), bound, onBug) })
				})
			}
		}
	}
}

// testUsedUp is TestABudgetThatIsUsedUpStalls for one bound, on a store that open opens.
func testUsedUp(t *testing.T, open func() store.Store, bound string, onBug stet.OnBug) {
	charged, refunded, tags := 0, 0, 2*store.MaxTags
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		if err := stet.Do(ctx, "charge", func(context.Context) error { charged++; return nil },
			stet.UndoDo(func(context.Context) error { refunded++; return nil })); err != nil {
			return 0, err
		}
		if bound == "tags" {
			for i := range tags {
				if err := stet.SetTags(ctx, stet.Tags{fmt.Sprint("t", i): "x"}); err != nil {
					return 0, err
				}
			}
			return 100, nil
		}
		sum := 0
		for i := range 100 {
			text, err := stet.Step(ctx, "part", func(context.Context) (string, error) {
				return strings.Repeat("x", 100), nil
			}, stet.Key(fmt.Sprint(i)))
			if err != nil {
				return 0, err
			}
			if sum += len(text); i == 30 {
				if _, err := word.Receive(ctx); err != nil {
					return 0, err
				}
			}
		}
		return sum / 100, nil
	}, onBug)
	log := newLines()
	cfg := stet.Config{Workflows: []stet.Definition{w}, Logger: slog.New(log)}
	small, large := cfg, cfg
	switch bound {
	case "entries":
		small.MaxEntries, large.MaxEntries = 50, 500
	case "bytes":
		small.MaxBytes, large.MaxBytes = 5_500, 55_000
	}
	ctx := t.Context()
	first := newProcess(t, open(), small)
	first.start()
	if _, err := w.Start(ctx, first.Engine, 0, stet.ID("r")); err != nil {
		t.Fatal(err)
	}
	if bound != "tags" {
		waitStatus(t, first.Engine, "r", store.Suspended)
		first.bury(t)
		first = newProcess(t, open(), small)
		first.start()
		if err := word.Send(ctx, first.Engine, "r", "go"); err != nil {
			t.Fatal(err)
		}
	}
	waitStatus(t, first.Engine, "r", store.Stalled)
	info, err := first.Runs().Info(ctx, "r")
	if err != nil || info.Cause != stet.CauseBudget || refunded != 0 {
		t.Errorf("it is stalled for %q: %s, with %d refunds, %v", info.Cause, info.Reason, refunded, err)
	}
	warned := strings.Join(log.of("r"), "\n")
	half, most := strings.Count(warned, "half of its budget"), strings.Count(warned, "80 % of its budget")
	if want := map[string]int{"entries": 1, "bytes": 1}[bound]; half != want || most != want {
		t.Errorf("the log warns %d and %d times", half, most)
	}
	first.bury(t)
	tags = 2
	second := newProcess(t, open(), large)
	second.start()
	defer second.bury(t)
	if _, err := second.Runs().Resume(ctx, "r", stet.Act{}); err != nil {
		t.Fatal(err)
	}
	run := w.Handle(second.Engine, "r")
	if got, err := run.Wait(ctx); err != nil || got != 100 || charged != 1 || refunded != 0 {
		t.Errorf("got %d, %v, after %d charges and %d refunds", got, err, charged, refunded)
	}
}

// TestASendToAFullInboxGoesOn: the error of a full inbox is an outcome of the send. A run that fails with it, and waits
// for a person, goes on once the inbox has room, and what it has sent before is there once.
func TestASendToAFullInboxGoesOn(t *testing.T) {
	t.Parallel()
	for _, on := range testStores {
		t.Run(on.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				open, ctx := on.open(t), t.Context()
				slow := stet.Define("slow", func(ctx stet.Context, _ int) (string, error) {
					if _, err := counter.Receive(ctx); err != nil {
						return "", err
					}
					said := ""
					for range 5 {
						text, err := word.Receive(ctx)
						if err != nil {
							return "", err
						}
						said += text
					}
					return said, nil
				})
				sends := stet.Define("sends", func(ctx stet.Context, _ int) (int, error) {
					for i := 3; i < 5; i++ {
						if err := word.SendFrom(ctx, "slow", fmt.Sprint(i)); err != nil {
							return 0, err
						}
					}
					return 5, nil
				}, stet.StallOnFailure)
				cfg := stet.Config{Workflows: []stet.Definition{slow, sends}, MaxInbox: 3, Logger: slog.New(slog.DiscardHandler)}
				first := newProcess(t, open(), cfg)
				first.start()
				defer func() { first.bury(t) }()
				listener := begin(t, first.Engine, slow, 0, stet.ID("slow"))
				for i := range 3 {
					if err := word.Send(ctx, first.Engine, "slow", fmt.Sprint(i)); err != nil {
						t.Fatal(err)
					}
				}
				begin(t, first.Engine, sends, 0, stet.ID("sends"))
				waitStatus(t, first.Engine, "sends", store.Stalled)
				first.bury(t)
				cfg.MaxInbox = 10
				second := newProcess(t, open(), cfg)
				second.start()
				defer second.bury(t)
				if _, err := second.Runs().Resume(ctx, "sends", stet.Act{}); err != nil {
					t.Fatal(err)
				}
				if got, err := sends.Handle(second.Engine, "sends").Wait(ctx); got != 5 || err != nil {
					t.Errorf("the sender ends with %d, %v", got, err)
				}
				if err := counter.Send(ctx, second.Engine, "slow", 1); err != nil {
					t.Fatal(err)
				}
				if got, err := slow.Handle(second.Engine, listener.ID()).Wait(ctx); got != "01234" || err != nil {
					t.Errorf("the receiver has got %q, %v", got, err)
				}
			})
		})
	}
}
