// Command poller follows a folder as if it were a feed: its files, by name, are
// the entries, and a file named "end" closes it.
//
//	go run ./examples/poller [--db FILE] FOLDER
//	stet --db poller.db tail RUN found            # in another terminal
//	stet --db poller.db send RUN poll-now '{}'    # do not wait any longer
//
// Killed at any moment and started again, it goes on and prints no entry twice.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/examples/internal/app"
)

func main() { app.Folder("poller", run) }

// run follows one folder and prints its entries.
func run(ctx context.Context, db, folder string, out io.Writer) error {
	p := &poller{folderFeed(folder)}
	follow := stet.Define("follow", p.follow)
	engine, file, err := app.Open(ctx, db, stet.Config{Workflows: []stet.Definition{follow}})
	if err != nil {
		return err
	}
	defer file.Close()
	return app.Serve(ctx, engine, func(ctx context.Context) error {
		r, err := follow.Start(ctx, engine, "", stet.ID("follow-"+folder))
		if err != nil {
			return err
		}
		for item, err := range Found.Tail(ctx, engine, r.ID(), 0) {
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(out, "%d %s\n", item.Position, item.Value.Title); err != nil {
				return err
			}
		}
		seen, err := r.Wait(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "closed after %d entries\n", seen)
		return err
	})
}

// folderFeed is a folder.
type folderFeed string

// most is how many entries one poll brings.
const most = 100

func (f folderFeed) After(_ context.Context, cursor string) (entries []Entry, closed bool, err error) {
	files, err := os.ReadDir(string(f)) // sorted by name
	if err != nil {
		return nil, false, err
	}
	for _, file := range files {
		name := file.Name()
		switch {
		case name == "end":
			closed = true
		case name > cursor && len(entries) < most:
			entries = append(entries, Entry{name, name})
		case name > cursor:
			return entries, false, nil // there is more
		}
	}
	return entries, closed, nil
}
