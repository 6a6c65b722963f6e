package stet_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// background runs an engine with the workflows until stop is called.
func background(workflows ...stet.Definition) (engine *stet.Engine, stop func()) {
	return backgroundWith(stet.Config{Workflows: workflows})
}

func backgroundWith(cfg stet.Config) (engine *stet.Engine, stop func()) {
	cfg.Store, cfg.Logger = memory.New(), slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	engine, err := stet.New(ctx, cfg)
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()
	for !engine.Owner() { // so that what is started begins at once
		select {
		case err := <-ended:
			panic(fmt.Sprint("the engine has ended before it began: ", err))
		case <-time.After(time.Millisecond):
		}
	}
	return engine, func() {
		cancel()
		if err := <-ended; err != nil {
			panic(err)
		}
	}
}

// result starts a run and waits for its result.
func result[In, Out any](engine *stet.Engine, w *stet.Workflow[In, Out], in In) (Out, error) {
	run, err := w.Start(context.Background(), engine, in)
	if err != nil {
		panic(err)
	}
	return run.Wait(context.Background())
}
