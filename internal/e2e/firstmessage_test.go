package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// collects is a workflow that ends with what it has received, at the word "end".
func collects(word stet.Message[string]) *stet.Workflow[int, string] {
	return stet.Define("collects", func(ctx stet.Context, _ int) (string, error) {
		var all []string
		for {
			next, err := word.Receive(ctx)
			if err != nil || next == "end" {
				return strings.Join(all, " "), err
			}
			all = append(all, next)
		}
	})
}

// TestFirstMessageReachesALiveRun sends first messages to a run that exists: once for each
// start, and once for each key; none if the start is refused.
func TestFirstMessageReachesALiveRun(t *testing.T) {
	t.Parallel()
	word := stet.Message[string]("word")
	w := collects(word)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	id := stet.ID("r")
	r := begin(t, e, w, 1, id, stet.FirstMessage(word, "a"))
	begin(t, e, w, 1, id, stet.FirstMessage(word, "b"), stet.FirstMessage(word, "c"))
	begin(t, e, w, 1, id, stet.FirstMessage(word, "b"), stet.ReplaceEnded)
	for range 3 {
		begin(t, e, w, 1, id, stet.FirstMessage(word, "k", stet.SendKey("once")), stet.ReplaceFailed)
	}
	for name, opts := range map[string][]stet.StartOption{
		"refused": {stet.RefuseExisting},
		"input":   {stet.UseExisting},
	} {
		input := map[string]int{"refused": 1, "input": 2}[name]
		opts = append(opts, id, stet.FirstMessage(word, "never"))
		if _, err := w.Start(ctx, e, input, opts...); !errors.Is(err, stet.ErrExists) {
			t.Errorf("%s: %v; want ErrExists", name, err)
		}
	}
	runs, err := w.StartAll(ctx, e, []int{1, 1, 1}, func(i int) []stet.StartOption {
		return []stet.StartOption{stet.ID([]string{"r", "other", "r"}[i]), stet.FirstMessage(word, fmt.Sprint(i))}
	})
	if err != nil || runs[0].ID() != "r" || runs[1].ID() != "other" {
		t.Fatal(runs, err)
	}
	for _, run := range runs[:2] {
		if err := word.Send(ctx, e, run.ID(), "end"); err != nil {
			t.Fatal(err)
		}
	}
	if got := outcome(t, r); got != "a b c b k 0 2" {
		t.Errorf("it has received %q", got)
	}
	if got := outcome(t, runs[1]); got != "1" {
		t.Errorf("the new one has received %q", got)
	}
}

// TestFirstMessageToARunThatHasEnded is refused, or starts its successor.
func TestFirstMessageToARunThatHasEnded(t *testing.T) {
	t.Parallel()
	word := stet.Message[string]("word")
	w := collects(word)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	end := []stet.StartOption{stet.ID("r"), stet.FirstMessage(word, "end")}
	first := begin(t, e, w, 1, end...)
	outcome(t, first)
	for _, policy := range []stet.Existing{stet.UseExisting, stet.ReplaceFailed} {
		if _, err := w.Start(ctx, e, 1, append(end, policy)...); !errors.Is(err, stet.ErrTerminal) {
			t.Errorf("policy %d: %v; want ErrTerminal", policy, err)
		}
	}
	keyed := stet.FirstMessage(word, "end", stet.SendKey("k"))
	for range 2 { // a repeat is recognised when the run has ended, too
		outcome(t, begin(t, e, w, 1, stet.ID("keyed"), keyed))
	}
	if r := begin(t, e, w, 1, stet.ID("r")); outcome(t, r) != "" {
		t.Error("a start without a message finds another run")
	}
	outcome(t, begin(t, e, w, 2, append(end, stet.FirstMessage(word, "late"), stet.ReplaceEnded)...))
	page, err := e.Store().List(ctx, store.Filter{IDPrefix: "r"})
	if err != nil || len(page.Runs) != 2 || page.Runs[0].ID != "r" || page.Runs[1].ID != "r@1" {
		t.Errorf("the runs are %+v, %v", page.Runs, err)
	}
	letters, _, err := e.DeadLetters().List(ctx, store.DeadFilter{})
	if err != nil || len(letters) != 1 || letters[0].RunID != "r" {
		t.Errorf("dead letters %+v, %v; want the one of the second run", letters, err)
	}
}

// TestFirstMessageBeforeTheRunBegins reaches a run that is delayed, or waits for a permit.
func TestFirstMessageBeforeTheRunBegins(t *testing.T) {
	t.Parallel()
	word := stet.Message[string]("word")
	w := collects(word)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	if err := e.Queues().Create(ctx, "narrow", stet.QueueSettings{Concurrency: 1}); err != nil {
		t.Fatal(err)
	}
	queued := stet.OnQueue{Name: "narrow"}
	holder := begin(t, e, w, 1, stet.ID("holder"), queued)
	for range 2 {
		begin(t, e, w, 1, stet.ID("delayed"), stet.StartAfter(30*time.Millisecond), stet.FirstMessage(word, "d"))
		begin(t, e, w, 1, stet.ID("held"), queued, stet.FirstMessage(word, "h"))
	}
	for _, id := range []string{"delayed", "held", "holder"} {
		if err := word.Send(ctx, e, id, "end"); err != nil {
			t.Fatal(err)
		}
	}
	outcome(t, holder)
	for id, want := range map[string]string{"delayed": "d d", "held": "h h"} {
		if got := outcome(t, w.Handle(e, id)); got != want {
			t.Errorf("%s has received %q; want %q", id, got, want)
		}
	}
}

// TestFirstMessagesRaceWithEnds starts runs under one ID while they end: no message is
// lost, and none arrives twice.
func TestFirstMessagesRaceWithEnds(t *testing.T) {
	t.Parallel()
	word := stet.Message[string]("word")
	w := stet.Define("brief", func(ctx stet.Context, _ int) ([]string, error) {
		return word.ReceiveBatch(ctx, 2, stet.Within(0))
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	var want []string
	var callers sync.WaitGroup
	for i := range 40 {
		text := fmt.Sprint(i)
		want = append(want, text)
		callers.Go(func() {
			if _, err := w.Start(ctx, e, 1, stet.ID("r"), stet.ReplaceEnded, stet.FirstMessage(word, text)); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if _, err := w.Handle(e, "r").Wait(ctx); err != nil {
		t.Fatal(err)
	}
	got := deadWords(ctx, t, e)
	runs, _, err := e.Runs().List(ctx, store.Filter{IDPrefix: "r", Values: true, Limit: store.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		var words []string
		if err := run.Output.Decode(&words); err != nil {
			t.Fatal(err)
		}
		got = append(got, words...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("received or dead: %v; want %v", got, want)
	}
}

func deadWords(ctx context.Context, t *testing.T, e *stet.Engine) []string {
	t.Helper()
	letters, _, err := e.DeadLetters().List(ctx, store.DeadFilter{Values: true, Limit: store.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	words := make([]string, len(letters))
	for i := range letters {
		if err := letters[i].Decode(&words[i]); err != nil {
			t.Fatal(err)
		}
	}
	return words
}

// TestStartWithAnEndedContext starts nothing.
func TestStartWithAnEndedContext(t *testing.T) {
	t.Parallel()
	w := collects("word")
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := w.Start(ctx, e, 1, stet.ID("r")); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("%v; want the context's error", err)
	}
	if _, err := w.Handle(e, "r").Info(testContext(t)); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("%v; want no run", err)
	}
}
