// Command review writes a text, asks a person, and publishes it or not.
//
//	go run ./examples/review [--db FILE] [--out FOLDER] TOPIC POINT…
//
// It prints a token and waits. The reviewer is another process, which has only the
// token:
//
//	stet --db review.db resolve TOKEN '{"approved":true}'
//	stet --db review.db reject TOKEN 'not now'
//
// Killed at any moment and started again with the same arguments, it goes on with the same token.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/examples/internal/app"
)

func main() {
	db := flag.String("db", "review.db", "SQLite `file` that keeps the runs")
	out := flag.String("out", ".", "`folder` in which texts are published")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: review [flags] TOPIC POINT…")
		flag.PrintDefaults()
		os.Exit(2)
	}
	app.Main("review", func(ctx context.Context) error {
		return run(ctx, *db, *out, Brief{flag.Arg(0), flag.Args()[1:]}, os.Stdout)
	})
}

// run reviews one brief and prints the outcome.
func run(ctx context.Context, db, folder string, b Brief, out io.Writer) error {
	p := &pipeline{folderDesk{folder, out}}
	review := stet.Define("review", p.review, stet.IDFrom(func(b Brief) string { return b.Topic }))
	engine, file, err := app.Open(ctx, db, stet.Config{Workflows: []stet.Definition{review}})
	if err != nil {
		return err
	}
	defer file.Close()
	return app.Serve(ctx, engine, func(ctx context.Context) error {
		r, err := review.Start(ctx, engine, b)
		if err != nil {
			return err
		}
		outcome, err := r.Wait(ctx)
		if err != nil {
			return err
		}
		if !outcome.Published {
			_, err = fmt.Fprintln(out, "not published:", outcome.Comment)
			return err
		}
		_, err = fmt.Fprintln(out, "published")
		return err
	})
}

// folderDesk writes texts by itself, asks on a terminal, and publishes into files.
type folderDesk struct {
	folder string
	out    io.Writer
}

func (folderDesk) Draft(_ context.Context, b Brief) (string, error) {
	if len(b.Points) == 0 {
		return "", stet.Permanent(errors.New("a brief without points"))
	}
	return b.Topic + "\n\n" + strings.Join(b.Points, "\n"), nil
}

func (folderDesk) Refine(_ context.Context, text string) (string, error) { return refined(text), nil }

func (d folderDesk) Notify(_ context.Context, token, text string) error {
	_, err := fmt.Fprintf(d.out, "%s\n\ndecide with: stet resolve %s '{\"approved\":true}'\n", text, token)
	return err
}

// Publish writes a file that is named after the key: a second call has no further effect.
func (d folderDesk) Publish(_ context.Context, text, key string) error {
	return os.WriteFile(filepath.Join(d.folder, key+".txt"), []byte(text+"\n"), 0o644)
}
