// Package app is what the examples share: a program that executes one run of a
// workflow on a file and waits for it.
package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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

// Folder is the main function of a program that does its work with one folder, which
// it is called with: run gets the file that keeps the runs, and the folder.
func Folder(name string, run func(ctx context.Context, db, folder string, out io.Writer) error) {
	db := flag.String("db", name+".db", "SQLite `file` that keeps the runs")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintf(os.Stderr, "usage: %s [flags] FOLDER\n", name)
		flag.PrintDefaults()
		os.Exit(2)
	}
	Main(name, func(ctx context.Context) error { return run(ctx, *db, flag.Arg(0), os.Stdout) })
}

// Open makes an engine on a file, with the rest of its config.
func Open(ctx context.Context, db string, cfg stet.Config) (*stet.Engine, io.Closer, error) {
	file, err := sqlite.Open(context.Background(), db)
	if err != nil {
		return nil, nil, err
	}
	cfg.Store = file
	engine, err := stet.New(ctx, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return engine, file, nil
}

// Serve has the engine execute its workflows while work uses it.
func Serve(ctx context.Context, engine *stet.Engine, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- engine.Run(ctx)
	}()
	err := work(ctx)
	stop()
	return errors.Join(err, <-served)
}
