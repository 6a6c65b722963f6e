package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// progress is how far a run has come, by its durable entries.
type progress struct {
	engine *stet.Engine
	id     string

	listed bool // the listing is recorded, and batches known
	total  int  // batches
	done   int
}

// showProgress draws a bar on a terminal until the returned function is called.
func showProgress(ctx context.Context, engine *stet.Engine, id string, out *os.File) (hide func()) {
	if info, err := out.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	hidden := make(chan struct{})
	go func() {
		defer close(hidden)
		p := progress{engine: engine, id: id}
		p.draw(ctx, out)
	}()
	return func() { stop(); <-hidden }
}

// draw draws the bar until ctx ends, and removes it.
func (p *progress) draw(ctx context.Context, out io.Writer) {
	defer fmt.Fprint(out, "\r\x1b[K")
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := p.read(ctx); err != nil {
			return // the run itself goes on, or reports the error
		}
		fmt.Fprintf(out, "\r%s", p.bar())
	}
}

// read counts the recorded batches. It reads values only until it knows how many there will be.
func (p *progress) read(ctx context.Context) error {
	entries, err := p.engine.Runs().History(ctx, p.id, stet.HistoryQuery{Values: !p.listed})
	if err != nil {
		return err
	}
	var files []File
	p.done = 0
	for i := range entries {
		e := &entries[i]
		if isSum(e) {
			p.done++
		} else if !p.listed {
			var page Page
			if err := e.Decode(&page); err != nil {
				return err
			}
			files = append(files, page.Files...)
			if page.Last {
				p.listed, p.total = true, len(batches(files))
			}
		}
	}
	return nil
}

// isSum reports whether an entry is a recorded batch.
func isSum(e *stet.HistoryEntry) bool {
	return e.State == store.Done && strings.HasSuffix(e.Location, "/sum")
}

func (p *progress) bar() string {
	if !p.listed {
		return "listing"
	}
	const width = 40
	full := width * p.done / max(p.total, 1)
	return fmt.Sprintf("[%-*s] %d of %d batches", width, strings.Repeat("=", full), p.done, p.total)
}
