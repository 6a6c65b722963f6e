package stet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// A sleep survives the process: after a restart only the remainder is slept.
func ExampleSleep() {
	remind := stet.Define("remind", func(ctx stet.Context, _ int) (string, error) {
		before := stet.Now(ctx)
		if err := stet.Sleep(ctx, "a while", 20*time.Millisecond); err != nil {
			return "", err
		}
		late := stet.Now(ctx).Sub(before) >= 20*time.Millisecond
		return fmt.Sprintf("slept long enough: %v", late), nil
	})
	engine, stop := background(remind)
	defer stop()

	fmt.Println(result(engine, remind, 0))
	// Output: slept long enough: true <nil>
}

// A message is kept until it is received. With Within a wait has a deadline.
func ExampleMessage() {
	approved := stet.Message[bool]("approved")
	order := stet.Define("order", func(ctx stet.Context, _ int) (string, error) {
		ok, err := approved.Receive(ctx, stet.Within(72*time.Hour))
		switch {
		case errors.Is(err, stet.ErrTimeout):
			return "nobody has decided", nil
		case err != nil:
			return "", err
		}
		return fmt.Sprintf("approved: %v", ok), nil
	})
	engine, stop := background(order)
	defer stop()
	ctx := context.Background()

	run, err := order.Start(ctx, engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := approved.Send(ctx, engine, run.ID(), true, stet.SendKey("click-17")); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(ctx))
	// Output: approved: true <nil>
}

// A deadline that wins is ErrTimeout. A message that was sent in time wins over it.
func ExampleWithin() {
	confirmed := stet.Message[string]("confirmed")
	signup := stet.Define("signup", func(ctx stet.Context, _ int) (string, error) {
		_, err := confirmed.Receive(ctx, stet.Within(10*time.Millisecond))
		if errors.Is(err, stet.ErrTimeout) {
			return "nobody has confirmed", nil
		}
		return "welcome", err
	})
	engine, stop := background(signup)
	defer stop()

	fmt.Println(result(engine, signup, 0))
	// Output: nobody has confirmed <nil>
}

// The token of a promise is the right to assign it: give it to a person or to
// another system.
func ExamplePromise() {
	tokens := make(chan string, 1)
	review := stet.Define("review", func(ctx stet.Context, _ int) (string, error) {
		verdict, err := stet.NewPromise[string](ctx, "verdict")
		if err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "mail the link", func(context.Context) error {
			tokens <- verdict.Token()
			return nil
		}); err != nil {
			return "", err
		}
		return verdict.Await(ctx)
	})
	engine, stop := background(review)
	defer stop()
	ctx := context.Background()

	run, err := review.Start(ctx, engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	token := <-tokens
	fmt.Println(engine.Resolve(ctx, token, "looks good"))
	fmt.Println(run.Wait(ctx))
	fmt.Println(errors.Is(engine.Resolve(ctx, token, "again"), stet.ErrAlreadyResolved))
	// Output:
	// <nil>
	// looks good <nil>
	// true
}

// Select waits for the first of several things; what did not win is not lost.
func ExampleSelect() {
	stopIt := stet.Message[string]("stop")
	work := stet.Define("work", func(ctx stet.Context, _ int) (string, error) {
		job := stet.Go(ctx, "job", func(ctx stet.Context) (string, error) {
			return stet.Step(ctx, "compute", func(context.Context) (string, error) { return "done", nil })
		})
		var reason string
		won, err := stet.Select(ctx, job.Case(), stopIt.Case(&reason), stet.AfterDelay("too long", time.Hour))
		if err != nil {
			return "", err
		}
		return []string{"the job has ended", "stopped: " + reason, "it takes too long"}[won], nil
	})
	engine, stop := background(work)
	defer stop()

	fmt.Println(result(engine, work, 0))
	// Output: the job has ended <nil>
}
