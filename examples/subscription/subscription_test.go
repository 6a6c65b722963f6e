package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

// books is a world that counts each effect of a run once, by its key.
type books struct {
	declined func(payments int) bool // whether the card has no money now

	mu        sync.Mutex
	paid      map[string]map[string]int // cents by run and key
	reminders map[string]bool
}

func newBooks(declined func(int) bool) *books {
	return &books{declined: declined, paid: map[string]map[string]int{}, reminders: map[string]bool{}}
}

func (b *books) Charge(ctx context.Context, _ string, cents int, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	step, _ := stet.StepOf(ctx)
	paid := b.paid[step.RunID]
	if paid == nil {
		paid = map[string]int{}
		b.paid[step.RunID] = paid
	}
	if _, again := paid[key]; !again && b.declined(len(paid)) {
		return errDeclined
	}
	paid[key] = cents
	return nil
}

func (b *books) Remind(_ context.Context, _, _, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reminders[key] = true
	return nil
}

// cents returns what was paid for a run.
func (b *books) cents(run string) (sum int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, cents := range b.paid[run] {
		sum += cents
	}
	return sum
}

func config(w stet.Definition) stet.Config {
	return stet.Config{Workflows: []stet.Definition{w}, Errors: []stet.ErrorCode{stet.Sentinel("declined", errDeclined)}}
}

// TestFiveYears pays each month for five years: a larger plan from the third year on, a
// card without money in one month, and in the end a customer who quits.
func TestFiveYears(t *testing.T) {
	declines := 2
	world := newBooks(func(payments int) bool {
		if payments == 40 && declines > 0 {
			declines--
			return true
		}
		return false
	})
	w := stet.Define("subscription", (&service{world}).subscription)
	stettest.Run(t, config(w), func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		run, err := w.Start(ctx, e, Signup{Customer: "Ada", Plan: Plan{"small", 900}})
		if err != nil {
			t.Fatal(err)
		}
		until := func(year int) { time.Sleep(time.Until(time.Date(year, 1, 15, 0, 0, 0, 0, time.UTC))) } // virtual, from 2000
		until(2002)
		if _, err := ChangePlan.Call(ctx, e, run.ID(), Plan{}); !errors.Is(err, stet.ErrRefused) {
			t.Errorf("no plan: %v", err)
		}
		answer, err := ChangePlan.Call(ctx, e, run.ID(), Plan{"large", 2500})
		if err != nil || !strings.HasPrefix(answer, "large instead of small") {
			t.Errorf("got %q, %v", answer, err)
		}
		until(2005)
		standing, ok, err := Standing.Get(ctx, e, run.ID())
		if err != nil || !ok || standing.Months != 60 || standing.Plan.Name != "large" {
			t.Errorf("got %+v, %t, %v", standing, ok, err)
		}
		if err := Quit.Send(ctx, e, run.ID(), "moved away"); err != nil {
			t.Fatal(err)
		}
		end, err := run.Wait(ctx)
		if err != nil || end.Ended != "quit: moved away" || end.Cents != 24*900+36*2500 {
			t.Errorf("got %+v, %v", end, err)
		}
		if got := world.cents(run.ID()); got != end.Cents || len(world.reminders) != 2 {
			t.Errorf("%d cents were paid, %d reminders sent", got, len(world.reminders))
		}
		history, err := e.Runs().History(ctx, run.ID(), stet.HistoryQuery{})
		if err != nil || len(history) > 60 {
			t.Errorf("after five years the history has %d operations, %v", len(history), err)
		}
	})
}

// TestNotPaid ends a subscription after its last reminder.
func TestNotPaid(t *testing.T) {
	world := newBooks(func(payments int) bool { return payments == 2 })
	w := stet.Define("subscription", (&service{world}).subscription)
	stettest.Run(t, config(w), func(t *testing.T, env *stettest.Env) {
		run, err := w.Start(t.Context(), env.Engine, Signup{Customer: "Bob", Plan: Plan{"small", 900}})
		if err != nil {
			t.Fatal(err)
		}
		end, err := run.Wait(t.Context())
		if err != nil || end.Ended != "not paid" || end.Months != 2 || len(world.reminders) != reminders {
			t.Errorf("got %+v, %v, %d reminders", end, err, len(world.reminders))
		}
	})
}

// TestSurvivesACrashAtEveryCommit charges each month once, whenever the process dies.
func TestSurvivesACrashAtEveryCommit(t *testing.T) {
	world := newBooks(func(payments int) bool { return payments == 3 })
	w := stet.Define("subscription", (&service{world}).subscription)
	end, err := stettest.CrashEverywhere(t, w, Signup{Customer: "Eve", Plan: Plan{"small", 900}, Month: time.Hour},
		stettest.WithConfig(config(w)), stettest.Checking(func(_ context.Context, _ *stet.Engine, runID string) error {
			if cents := world.cents(runID); cents != 3*900 {
				return fmt.Errorf("%d cents were paid", cents)
			}
			return nil
		}))
	if err != nil || end.Months != 3 || end.Ended != "not paid" {
		t.Errorf("got %+v, %v", end, err)
	}
}

// TestProgram runs the program on a file, with months that last no time.
func TestProgram(t *testing.T) {
	var out bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	watch := writer(func(p []byte) (int, error) {
		n, err := out.Write(p)
		if strings.Count(out.String(), "pays") == 3 {
			stop()
		}
		return n, err
	})
	db := filepath.Join(t.TempDir(), "subscription.db")
	if err := run(ctx, db, Signup{"Ada", Plan{"small", 900}, 10 * time.Millisecond}, watch); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "Ada pays 900 cents\n"); got < 3 {
		t.Errorf("it printed %q", out.String())
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
