package stet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// approval makes a step, shows how far it is, and waits for a word of somebody.
func approval(word stet.Message[string]) *stet.Workflow[int, string] {
	return stet.Define("approval", func(ctx stet.Context, amount int) (string, error) {
		rate, err := stet.Step(ctx, "rate", func(context.Context) (int, error) { return 2, nil })
		if err != nil {
			return "", err
		}
		if err := stet.Value[string]("stage").Set(ctx, "waiting for a word"); err != nil {
			return "", err
		}
		said, err := word.Receive(ctx)
		return fmt.Sprintf("%d, %s", rate*amount, said), err
	}, stet.DiscardDeadLetters())
}

// until waits until the run has the status.
func until[Out any](ctx context.Context, run *stet.Run[Out], status store.Status) {
	for {
		if info, err := run.Info(ctx); err != nil || info.Status == status {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// An operator leaves a run alone, corrects what a step has returned, and lets it go on.
func ExampleRuns_EditResult() {
	word := stet.Message[string]("word")
	w := approval(word)
	engine, stop := background(w)
	defer stop()
	ctx := context.Background()
	run, err := w.Start(ctx, engine, 21, stet.ID("a-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	until(ctx, run, store.Suspended)

	runs := engine.Runs()
	act := stet.Act{By: "ada", Why: "the rate was wrong"}
	fmt.Println(runs.Pause(ctx, "a-1", act))
	fmt.Println(runs.EditResult(ctx, "a-1", "rate", 3, act))
	fmt.Println(runs.Resume(ctx, "a-1", act))
	if err := word.Send(ctx, engine, "a-1", "granted"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(run.Wait(ctx))
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
	// 63, granted <nil>
}

// Runs are counted, looked at, and ended at once.
func ExampleRuns_Terminate() {
	w := approval("word")
	engine, stop := background(w)
	defer stop()
	ctx := context.Background()
	run, err := w.Start(ctx, engine, 21, stet.ID("a-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	until(ctx, run, store.Suspended)

	feeds, err := engine.Runs().Feeds(ctx, "a-1")
	for _, feed := range feeds {
		var stage string
		err = errors.Join(err, feed.Decode(&stage))
		fmt.Printf("%s: %s\n", feed.Name, stage)
	}
	info, err2 := run.Info(ctx)
	fmt.Println("waits for", info.WaitsFor[0].Names, errors.Join(err, err2))
	fmt.Println("retry:", info.Refusal(store.ItemRetry))
	fmt.Println(engine.Runs().Terminate(ctx, "a-1", stet.Act{Why: "nobody needs it"}))
	tallies, err := engine.Runs().Count(ctx, store.Filter{})
	for _, t := range tallies {
		fmt.Println(t.Workflow, t.Status, t.Runs)
	}
	fmt.Println(err)
	// Output:
	// stage: waiting for a word
	// waits for [word] <nil>
	// retry: refused: it is suspended: only one that has failed can be retried
	// true <nil>
	// approval cancelled 1
	// <nil>
}

// Nodes are the processes on a store. Where one works at a time, it is stopped instead
// of drained.
func ExampleNodes_Drain() {
	w := approval("word")
	engine, stop := backgroundWith(stet.Config{Workflows: []stet.Definition{w}, Node: "shop-1"})
	defer stop()
	ctx := context.Background()

	nodes, err := engine.Nodes().List(ctx)
	fmt.Println(nodes[0].ID, nodes[0].Workflows, err)
	d, err := engine.Describe(ctx)
	fmt.Println(d.Kind, slices.ContainsFunc(d.Leases, func(l store.Lease) bool { return l.Node == "shop-1" }), err)
	err = engine.Nodes().Drain(ctx, "shop-1", stet.Act{By: "ada"})
	fmt.Println(errors.Is(err, stet.ErrRefused))
	// Output:
	// shop-1 [approval] <nil>
	// memory true <nil>
	// true
}

// Settings that an operator gives count in place of those that the code declares, until they
// are reset.
func ExampleQueues_Set() {
	engine, stop := background(approval("word"))
	defer stop()
	ctx := context.Background()

	declare := func() error {
		return engine.Queues().Create(ctx, "model", stet.QueueSettings{Concurrency: 8})
	}
	err := declare()
	act := stet.Act{By: "ada", Why: "the provider is slow"}
	err2 := engine.Queues().Set(ctx, "model", stet.QueueSettings{Concurrency: 2}, act)
	err3 := declare() // the application restarts
	queue, err4 := engine.Queues().Info(ctx, "model")
	fmt.Println(queue.Settings.Concurrency, "of", queue.Declared.Concurrency, "by", queue.Override.By,
		errors.Join(err, err2, err3, err4))

	err = engine.Queues().Reset(ctx, "model", act)
	queue, err2 = engine.Queues().Info(ctx, "model")
	fmt.Println(queue.Settings.Concurrency, queue.Override == nil, errors.Join(err, err2))
	// Output:
	// 2 of 8 by ada <nil>
	// 8 true <nil>
}

// A queue that is paused grants no permit; a schedule that is paused starts no run.
func ExampleQueues_Pause() {
	w := approval("word")
	engine, stop := background(w)
	defer stop()
	ctx := context.Background()
	act := stet.Act{By: "ada", Why: "maintenance"}

	if err := engine.Queues().Create(ctx, "slow", stet.QueueSettings{Concurrency: 1}); err != nil {
		fmt.Println(err)
	}
	err := engine.Queues().Pause(ctx, "slow", act)
	queue, err2 := engine.Queues().Info(ctx, "slow")
	fmt.Println(queue.Name, queue.Paused, errors.Join(err, err2))

	err = w.Schedule(ctx, engine, "nightly", 1, stet.Schedule{Cron: "0 3 * * *", Zone: "Europe/Berlin"},
		stet.UntilCarriedOut())
	err2 = engine.Schedules().Pause(ctx, "nightly", act)
	s, err3 := engine.Schedules().Info(ctx, "nightly")
	fmt.Println(s.Schedule.When(), "paused:", s.PauseReason, errors.Join(err, err2, err3))
	// Output:
	// slow true <nil>
	// 0 3 * * * Europe/Berlin paused: maintenance <nil>
}

// A suspended run whose row was changed by hand may have lost the time at which it wakes. A
// nudge lets it find it again.
func ExampleRunInfo_LostWake() {
	w := approval("word")
	engine, stop := background(w)
	defer stop()
	ctx := context.Background()
	run, err := w.Start(ctx, engine, 21)
	if err != nil {
		fmt.Println(err)
		return
	}
	until(ctx, run, store.Suspended)
	info, err := run.Info(ctx)
	fmt.Println(info.LostWake(), err)
	// Output: false <nil>
}
