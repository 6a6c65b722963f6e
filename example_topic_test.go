package stet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet"
)

// An event of a topic is broadcast to every run that may see it, or consumed by
// exactly one. Whoever publishes need not know who waits.
func ExampleTopic() {
	prices := stet.Topic[int]{Name: "prices"}
	jobs := stet.Topic[string]{Name: "jobs", Mode: stet.Consumed, Expiry: time.Hour}

	watcher := stet.Define("watcher", func(ctx stet.Context, _ int) (string, error) {
		price, err := prices.Receive(ctx, stet.Within(24*time.Hour))
		if err != nil {
			return "", err
		}
		job, err := jobs.Receive(ctx, stet.Within(time.Minute))
		switch {
		case errors.Is(err, stet.ErrTimeout):
			return fmt.Sprintf("price %d, no job", price), nil
		case err != nil:
			return "", err
		}
		return fmt.Sprintf("price %d, job %s", price, job), nil
	})
	engine, stop := background(watcher)
	defer stop()
	ctx := context.Background()

	first, err := watcher.Start(ctx, engine, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := jobs.Publish(ctx, engine, "sweep", stet.SendKey("job-1")); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := prices.Publish(ctx, engine, 100); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.Wait(ctx))
	info, err := engine.Topics().Info(ctx, "jobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Accepted, "accepted,", info.Pending, "pending")
	// Output:
	// price 100, job sweep <nil>
	// 1 accepted, 0 pending
}

// What no run has received is held in memory by the process that owns the topic: CapBytes says
// how much, and Cap how many. Beyond that, publishers are refused.
func ExampleErrTopicFull() {
	pages := stet.Topic[string]{Name: "pages", Mode: stet.Consumed, CapBytes: 1000, Visible: stet.Retained}
	reader := stet.Define("reader", func(ctx stet.Context, _ int) (int, error) {
		page, err := pages.Receive(ctx)
		return len(page), err
	})
	engine, stop := background(reader)
	defer stop()
	ctx := context.Background()

	var err error
	for err == nil { // until the topic has counted what is published
		_, err = pages.Publish(ctx, engine, strings.Repeat("x", 400))
	}
	fmt.Println(errors.Is(err, stet.ErrTopicFull))
	info, err := engine.Topics().Info(ctx, "pages")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("as many as were accepted are pending:", info.Pending == info.Accepted, "of", info.CapBytes, "bytes")
	run, err := reader.Start(ctx, engine, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(ctx))
	// Output:
	// true
	// as many as were accepted are pending: true of 1000 bytes
	// 400 <nil>
}

// Code of a workflow publishes as a part of its commit: no crash publishes twice.
func ExamplePublish() {
	type Shipped struct{ Order string }
	shipped := stet.Topic[Shipped]{Name: "shipped"}

	ship := stet.Define("ship", func(ctx stet.Context, order string) (string, error) {
		if err := stet.Do(ctx, "hand over", func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		_, err := stet.Publish(ctx, shipped, Shipped{order})
		return order, err
	})
	invoice := stet.Define("invoice", func(ctx stet.Context, _ int) (string, error) {
		s, err := shipped.Receive(ctx)
		return "invoice for " + s.Order, err
	})
	engine, stop := background(ship, invoice)
	defer stop()
	ctx := context.Background()

	waiting, err := invoice.Start(ctx, engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := ship.Start(ctx, engine, "order-7"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(waiting.Wait(ctx))
	// Output: invoice for order-7 <nil>
}

// A combined wait takes an event or something else. What did not win is not lost: a
// consumed event that was on its way goes to the next run that waits.
func ExampleTopic_Case() {
	jobs := stet.Topic[string]{Name: "jobs", Mode: stet.Consumed}
	quit := stet.Message[bool]("quit")

	worker := stet.Define("worker", func(ctx stet.Context, _ int) (string, error) {
		var job string
		var done bool
		won, err := stet.Select(ctx, jobs.Case(&job), quit.Case(&done), stet.AfterDelay("idle", time.Hour))
		return fmt.Sprint(won, " ", job), err
	})
	engine, stop := background(worker)
	defer stop()
	ctx := context.Background()

	run, err := worker.Start(ctx, engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := jobs.Publish(ctx, engine, "dig"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(ctx))
	// Output: 0 dig <nil>
}

// Who waits at a topic, since when, and until when.
func ExampleTopics_Waiting() {
	jobs := stet.Topic[string]{Name: "jobs", Mode: stet.Consumed}
	worker := stet.Define("worker", func(ctx stet.Context, _ int) (string, error) {
		return jobs.Receive(ctx, stet.Named("next job"))
	})
	engine, stop := background(worker)
	defer stop()
	ctx := context.Background()

	if _, err := worker.Start(ctx, engine, 0, stet.ID("w1")); err != nil {
		fmt.Println(err)
		return
	}
	waiting, err := engine.Topics().Waiting(ctx, "jobs")
	for len(waiting) == 0 && (err == nil || errors.Is(err, stet.ErrNotFound)) {
		soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		_, _ = engine.Store().Changed(soon)
		cancel()
		waiting, err = engine.Topics().Waiting(ctx, "jobs")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, run := range waiting {
		fmt.Println(run.ID, "waits at", run.WaitsFor[0].Location)
	}
	// Output:
	// w1 waits at next job
}

// An event that no run can do anything with is taken out of its topic.
func ExampleTopics_Remove() {
	jobs := stet.Topic[string]{Name: "jobs", Mode: stet.Consumed}
	engine, stop := background()
	defer stop()
	ctx := context.Background()
	for _, key := range []stet.SendKey{"job-1", "job-2"} {
		if _, err := jobs.Publish(ctx, engine, "dig", key); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(engine.Topics().Remove(ctx, "jobs", "job-1", stet.Act{By: "ada", Why: "nobody can read it"}))
	fmt.Println(errors.Is(engine.Topics().Remove(ctx, "jobs", "job-1", stet.Act{}), stet.ErrNotFound))
	events, err := engine.Topics().Events(ctx, "jobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range events {
		fmt.Println(e.ID)
	}
	// Output:
	// <nil>
	// true
	// job-2
}
