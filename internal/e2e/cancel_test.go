package e2e_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// continuing is a store whose process dies when a run was started, has continued as new, or
// gone on from its begin.
type continuing struct {
	store.Store
	die func()
}

func (c *continuing) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	result, err := c.Store.Commit(ctx, b)
	for _, command := range b.Commands {
		if command.Start != nil && command.Start.ID == "r" {
			c.die()
			return store.BatchResult{}, errDead
		}
	}
	for _, turn := range b.Turns {
		if u := turn.Update; u != nil && (u.Continue != nil || u.Generation > 0) {
			c.die()
			return store.BatchResult{}, errDead
		}
	}
	return result, err
}

// TestCancelBeforeTheFirstTurn: a run that no process has taken up ends without its code; one that a process
// has taken up, of which nothing was committed, or that has continued as new or was rewound to its begin, is
// shown the cancel.
func TestCancelBeforeTheFirstTurn(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for _, how := range []string{"started", "taken up", "continued", "rewound"} {
			t.Run(s.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				ctx := testContext(t)
				open := s.open(t)
				var cleaned atomic.Bool
				w := stet.Define("w", func(ctx stet.Context, goesOn bool) (string, error) {
					if goesOn {
						return "", stet.ContinueAsNew(false)
					}
					_, err := word.Receive(ctx)
					if errors.Is(err, stet.ErrCancelled) {
						cleaned.Store(true)
						return say(stet.WithoutCancel(ctx), "clean", "")
					}
					return "", err
				})
				quick := stet.Define("quick", func(stet.Context, string) (string, error) { return "", nil })
				outside := client(t, open(), w, quick)
				run := w.Handle(outside, "r")
				if how != "taken up" {
					if _, err := w.Start(ctx, outside, how == "continued", stet.ID("r")); err != nil {
						t.Fatal(err)
					}
				}
				if how == "rewound" {
					if err := word.Send(ctx, outside, "r", "x"); err != nil {
						t.Fatal(err)
					}
					p := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}})
					if _, err := run.Wait(ctx); err != nil {
						t.Fatal(err)
					}
					p.bury(t)
				}
				if how != "started" {
					c := &continuing{Store: open()}
					p := newProcess(t, c, stet.Config{Workflows: []stet.Definition{w, quick}})
					c.die = p.handle.die
					p.start()
					switch how {
					case "taken up":
						if _, err := quick.Start(ctx, outside, "", stet.ID("quick")); err != nil {
							t.Fatal(err)
						}
						if _, err := quick.Handle(outside, "quick").Wait(ctx); err != nil { // it works by now
							t.Fatal(err)
						}
						go func() { _, _ = w.Start(ctx, p.Engine, false, stet.ID("r")) }() // its answer is lost
					case "rewound":
						go func() { _, _ = outside.Runs().Rewind(ctx, "r", "/", stet.Act{}) }() // its answer comes later
					}
					<-p.handle.died
					p.bury(t)
				}
				granted := make(chan bool, 1)
				go func() {
					ok, err := outside.Runs().Cancel(ctx, "r", stet.Act{Why: "enough"})
					if err != nil {
						t.Error(err)
					}
					granted <- ok
				}()
				untilItem(t, open(), "r", store.ItemCancel)
				startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}})
				if _, err := run.Wait(ctx); !errors.Is(err, stet.ErrCancelled) || !<-granted {
					t.Errorf("the run ended with %v", err)
				}
				if cleaned.Load() != (how != "started") {
					t.Errorf("the code has seen the cancel: %t", cleaned.Load())
				}
			})
		}
	}
}

// repeating is a store that loses the answer to its first verb, and asks again when the verb has been carried out, as a
// store over a network does.
type repeating struct {
	store.Store
	between func()
	lost    atomic.Bool
}

func (r *repeating) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	answers, now, err := r.Store.Apply(ctx, commands)
	isVerb := func(c store.Command) bool { return c.Item != nil && c.Item.Kind.Verb() }
	if slices.ContainsFunc(commands, isVerb) && r.lost.CompareAndSwap(false, true) {
		r.between()
		return r.Store.Apply(ctx, commands)
	}
	return answers, now, err
}

// TestAVerbWhoseAnswerIsLostWasGranted: the run has ended by the verb before the lost request is repeated. The
// repetition finds a run that has ended, and the verb was granted all the same.
func TestAVerbWhoseAnswerIsLostWasGranted(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for _, verb := range []store.ItemKind{store.ItemCancel, store.ItemTerminate} {
			t.Run(s.name+"/"+verb.String(), func(t *testing.T) {
				t.Parallel()
				ctx := testContext(t)
				open := s.open(t)
				w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) { return never.Receive(ctx) })
				p := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}})
				run := begin(t, p.Engine, w, "", stet.ID("r"))
				handle := &repeating{Store: open(), between: func() {
					if _, err := run.Wait(ctx); !errors.Is(err, stet.ErrCancelled) {
						t.Errorf("the run ended with %v", err)
					}
				}}
				act := client(t, handle, w).Runs().Cancel
				if verb == store.ItemTerminate {
					act = client(t, handle, w).Runs().Terminate
				}
				if granted, err := act(ctx, "r", stet.Act{Why: "enough"}); !granted || err != nil {
					t.Errorf("expected the %s to be granted, found %t, %v", verb, granted, err)
				}
				if !handle.lost.Load() {
					t.Error("no answer was lost")
				}
			})
		}
	}
}
