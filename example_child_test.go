package stet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// A workflow calls another one like a function: a child that has its own run, ID
// and history. Its failure is a *RunError.
func ExampleWorkflow_Call() {
	charge := stet.Define("charge", func(ctx stet.Context, cents int) (string, error) {
		if cents > 1000 {
			return "", errors.New("over the limit")
		}
		return fmt.Sprintf("charged %d", cents), nil
	})
	order := stet.Define("order", func(ctx stet.Context, cents int) (string, error) {
		receipt, err := charge.Call(ctx, cents)
		var failed *stet.RunError
		if errors.As(err, &failed) {
			return "not charged: " + failed.Err.Error(), nil
		}
		return receipt, err
	})
	engine, stop := background(order, charge)
	defer stop()

	fmt.Println(result(engine, order, 500))
	fmt.Println(result(engine, order, 5000))
	// Output:
	// charged 500 <nil>
	// not charged: over the limit <nil>
}

// Children run in parallel until they are awaited. Those of one workflow in one
// scope are told apart by a key.
func ExampleWorkflow_Go() {
	pack := stet.Define("pack", func(ctx stet.Context, item string) (string, error) { return item + " packed", nil })
	ship := stet.Define("ship", func(ctx stet.Context, items []string) ([]string, error) {
		var children []*stet.RunFuture[string]
		for _, item := range items {
			child, err := pack.Go(ctx, item, stet.Key(item))
			if err != nil {
				return nil, err
			}
			children = append(children, child)
		}
		var packed []string
		for _, child := range children {
			text, err := child.Await(ctx)
			if err != nil {
				return nil, err
			}
			packed = append(packed, text)
		}
		return packed, nil
	})
	engine, stop := background(ship, pack)
	defer stop()

	fmt.Println(result(engine, ship, []string{"lamp", "chair"}))
	// Output: [lamp packed chair packed] <nil>
}

// A child that nobody awaits may matter all the same: here the watch on the temperature
// stops the transport, and its failure is the transport's.
func ExampleChildFailure() {
	watch := stet.Define("watch", func(ctx stet.Context, limit int) (int, error) {
		return stet.Step(ctx, "measure", func(context.Context) (int, error) {
			return 0, stet.Permanent(fmt.Errorf("warmer than %d degrees", limit))
		})
	})
	transport := stet.Define("transport", func(ctx stet.Context, to string) (string, error) {
		if _, err := watch.Go(ctx, 8, stet.FailScope); err != nil {
			return "", err
		}
		err := stet.Sleep(ctx, "on the road", 5*time.Hour)
		return to, err // ErrCancelled, but the run fails with what the watch has failed with
	})
	engine, stop := background(transport, watch)
	defer stop()

	_, err := result(engine, transport, "Oslo")
	var failed *stet.RunError
	for errors.As(err, &failed) {
		err = failed.Err
	}
	fmt.Println(err)
	// Output: step measure failed: warmer than 8 degrees
}

// A detached run goes on when the one that has started it ends.
func ExampleWorkflow_Detach() {
	survey := stet.Define("survey", func(ctx stet.Context, customer string) (string, error) {
		return "asked " + customer, stet.Sleep(ctx, "a while", 10*time.Millisecond)
	})
	order := stet.Define("order", func(ctx stet.Context, customer string) (string, error) {
		return survey.Detach(ctx, customer)
	})
	engine, stop := background(order, survey)
	defer stop()

	runID, err := result(engine, order, "Ada")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(survey.Handle(engine, runID).Wait(context.Background()))
	// Output: asked Ada <nil>
}

// A run waits for any other by its ID, before or after its end.
func ExampleAwait() {
	report := stet.Define("report", func(ctx stet.Context, _ int) (string, error) { return "42 orders", nil })
	mail := stet.Define("mail", func(ctx stet.Context, reportID string) (string, error) {
		text, err := stet.Await[string](ctx, "report", reportID, stet.Within(time.Hour))
		switch {
		case errors.Is(err, stet.ErrNotFound):
			return "no report", nil
		case err != nil:
			return "", err
		}
		return "mailed: " + text, nil
	})
	engine, stop := background(mail, report)
	defer stop()

	if _, err := report.Start(context.Background(), engine, 0, stet.ID("monday")); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result(engine, mail, "monday"))
	fmt.Println(result(engine, mail, "tuesday"))
	// Output:
	// mailed: 42 orders <nil>
	// no report <nil>
}

// One wait over a child, a message and a deadline: exactly one wins, and what
// does not win is not lost.
func ExampleRunFuture_Case() {
	hurry := stet.Message[string]("hurry")
	bake := stet.Define("bake", func(ctx stet.Context, _ int) (string, error) {
		return "bread", stet.Sleep(ctx, "oven", 20*time.Millisecond)
	})
	kitchen := stet.Define("kitchen", func(ctx stet.Context, _ int) (string, error) {
		child, err := bake.Go(ctx, 0)
		if err != nil {
			return "", err
		}
		var who string
		won, err := stet.Select(ctx, child.Case(), hurry.Case(&who), stet.AfterDelay("patience", time.Hour))
		if err != nil {
			return "", err
		}
		bread, err := child.Await(ctx)
		if won == 1 {
			return bread + ", though " + who + " was waiting", err
		}
		return bread, err
	})
	engine, stop := background(kitchen, bake)
	defer stop()

	run, err := kitchen.Start(context.Background(), engine, 0, stet.FirstMessage(hurry, "Ada"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(context.Background()))
	// Output: bread, though Ada was waiting <nil>
}
