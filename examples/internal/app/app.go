// Package app is what the examples share: a program that executes one run of a
// workflow on a file and waits for it.
package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/sqlite"
)

// Main calls work with a context that ends with the first signal, and ends the
// process with its error.
func Main(name string, work func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := work(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Serve executes the workflows on a file while work uses the engine.
func Serve(ctx context.Context, db string, workflows []stet.Definition, work func(context.Context, *stet.Engine) error) error {
	file, err := sqlite.Open(db)
	if err != nil {
		return err
	}
	defer file.Close()
	engine, err := stet.NewContext(ctx, stet.Config{Store: file, Workflows: workflows})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- engine.Run(ctx)
	}()
	err = work(ctx, engine)
	stop()
	return errors.Join(err, <-served)
}
