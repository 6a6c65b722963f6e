package stet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// A new build checks, before its deploy, whether the runs that the former build
// has under way fit its code.
func ExampleEngine_Check() {
	paid := stet.Message[bool]("paid")
	checkout := func(charge string) *stet.Workflow[string, string] {
		return stet.Define("checkout", func(ctx stet.Context, order string) (string, error) {
			receipt, err := stet.Step(ctx, charge, func(context.Context) (string, error) { return "receipt of " + order, nil })
			if err != nil {
				return "", err
			}
			_, err = paid.Receive(ctx)
			return receipt, err
		})
	}
	db := memory.New()
	stop := serveUntilSuspended(db, checkout("charge"), "order-42")
	defer stop()

	// The new build has another name for the step.
	next, err := stet.New(context.Background(),
		stet.Config{Store: db.Join(), Workflows: []stet.Definition{checkout("bill")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := next.Check(context.Background(), stet.CheckQuery{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Replayed, "replayed,", len(report.Breaks), "would break")
	for _, b := range report.Breaks {
		fmt.Printf("%s at %s: recorded %s, asked for %s\n", b.RunID, b.Location, b.Recorded, b.Asked)
	}
	for _, g := range report.Groups() {
		fmt.Println(g.Runs, "run of", g.Workflow, "at", g.Location, "like", g.RunIDs)
	}
	// Output:
	// 1 replayed, 1 would break
	// order-42 at charge: recorded step charge (done, completion 1), asked for step bill
	// 1 run of checkout at charge like [order-42]
}

// An exported run is a file that can be replayed against any later code.
func ExampleRuns_Export() {
	paid := stet.Message[bool]("paid")
	checkout := func(charge string) *stet.Workflow[string, bool] {
		return stet.Define("checkout", func(ctx stet.Context, order string) (bool, error) {
			if err := stet.Do(ctx, charge, func(context.Context) error { return nil }); err != nil {
				return false, err
			}
			return paid.Receive(ctx)
		})
	}
	db := memory.New()
	stop := serveUntilSuspended(db, checkout("charge"), "order-42")
	defer stop()

	var file bytes.Buffer
	for _, code := range []*stet.Workflow[string, bool]{checkout("charge"), checkout("bill")} {
		engine, err := stet.New(context.Background(), stet.Config{Store: db.Join(), Workflows: []stet.Definition{code}})
		if err != nil {
			fmt.Println(err)
			return
		}
		if file.Len() == 0 {
			if err := engine.Runs().Export(context.Background(), "order-42", &file); err != nil {
				fmt.Println(err)
			}
		}
		err = engine.Replay(context.Background(), bytes.NewReader(file.Bytes()))
		if mismatch, ok := errors.AsType[*stet.ReplayError](err); ok {
			fmt.Println("breaks at", mismatch.Location)
			continue
		}
		fmt.Println("fits:", err == nil)
	}
	// Output:
	// fits: true
	// breaks at charge
}

// serveUntilSuspended runs an engine on the store until stop is called, and
// starts a run, which then waits.
func serveUntilSuspended[In, Out any](db store.Store, w *stet.Workflow[In, Out], id string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, err := stet.New(ctx, stet.Config{Store: db, Workflows: []stet.Definition{w},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()
	var in In
	run, err := w.Start(ctx, engine, in, stet.ID(id))
	if err != nil {
		panic(err)
	}
	for {
		info, err := run.Info(ctx)
		if err != nil {
			panic(err)
		}
		if info.Status == store.Suspended {
			return func() {
				cancel()
				if err := <-ended; err != nil {
					panic(err)
				}
			}
		}
	}
}
