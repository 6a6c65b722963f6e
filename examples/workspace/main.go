// Command workspace sums up the texts of a folder that several runs share.
//
//	go run ./examples/workspace [--db FILE] FOLDER
//
// The folder has a lock, which is itself a run. A run that works in the folder gives the lock back on success, failure
// and cancel. Start the command several times at once on one file: the runs take turns.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/examples/internal/app"
)

func main() { app.Folder("workspace", run) }

// run sums up one folder and prints its summary.
func run(ctx context.Context, db, folder string, out io.Writer) error {
	w := newWorkspace()
	engine, file, err := app.Open(ctx, db, stet.Config{Workflows: []stet.Definition{w.summaries, w.locks}})
	if err != nil {
		return err
	}
	defer file.Close()
	w.engine = engine
	return app.Serve(ctx, engine, func(ctx context.Context) error {
		r, err := w.summaries.Start(ctx, engine, folder)
		if err != nil {
			return err
		}
		s, err := r.Wait(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%d files, %d words, %d lines, longest word %q\n", s.Files, s.Words, s.Lines, s.Longest)
		return err
	})
}
