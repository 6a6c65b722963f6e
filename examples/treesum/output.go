package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"io/fs"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// printTable prints the result for a person, the largest kinds of files first.
func printTable(out io.Writer, sum Sum, resumed int) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "extension\tfiles\tbytes\tlines\t")
	exts := make([]string, 0, len(sum.ByExt))
	for ext := range sum.ByExt {
		exts = append(exts, ext)
	}
	slices.SortFunc(exts, func(a, b string) int {
		return cmp.Or(cmp.Compare(sum.ByExt[b].Bytes, sum.ByExt[a].Bytes), cmp.Compare(a, b))
	})
	for i, ext := range exts {
		if i == 15 {
			fmt.Fprintf(w, "(%d more)\t\t\t\t\n", len(exts)-i)
			break
		}
		e := sum.ByExt[ext]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", cmp.Or(ext, "(none)"), e.Files, e.Bytes, e.Lines)
	}
	fmt.Fprintf(w, "total\t%d\t%d\t%d\t\n", sum.Files, sum.Bytes, sum.Lines)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, u := range sum.Unreadable {
		fmt.Fprintf(out, "unreadable: %q: %s\n", u.Path, u.Error)
	}
	_, err := fmt.Fprintf(out, "digest %s\nresumed after %d operations\n", sum.Digest, resumed)
	return err
}

// writeReport writes the table of all files from what the run has recorded, to
// a new file that then takes the place of the old one.
func writeReport(ctx context.Context, engine *stet.Engine, id, path string) (err error) {
	entries, err := engine.History(ctx, id, stet.HistoryQuery{Values: true})
	if err != nil {
		return err
	}
	var files []FileSum
	for i := range entries {
		if !strings.HasSuffix(entries[i].Location, "/sum") {
			continue
		}
		var batch []FileSum
		if err := entries[i].Decode(&batch); err != nil {
			return err
		}
		files = append(files, batch...)
	}
	slices.SortFunc(files, func(a, b FileSum) int { return cmp.Compare(a.Path, b.Path) })

	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	w := bufio.NewWriter(tmp)
	for _, f := range files {
		if f.Error != "" {
			fmt.Fprintf(w, "unreadable: %s\t\t\t%q\n", f.Error, f.Path)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%q\n", f.SHA256, f.Bytes, f.Lines, f.Path)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// effects is the log of the starts of step bodies; nil: none.
type effects struct{ file *os.File }

func openEffects(path string) (*effects, error) {
	if path == "" {
		return &effects{}, nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return &effects{f}, err
}

// Close closes the log.
func (x *effects) Close() error {
	if x.file == nil {
		return nil
	}
	return x.file.Close()
}

// around notes the start of a step body, in one write, and calls it.
func (x *effects) around(ctx context.Context, step stet.StepInfo, next func(context.Context) error) error {
	if x.file != nil {
		if _, err := fmt.Fprintf(x.file, "%s %s %d\n", step.RunID, step.Location, step.Attempt); err != nil {
			return err
		}
	}
	return next(ctx)
}

// showProgress draws a bar on a terminal until the returned function is called.
// It shows what is durable: the batches recorded in the store.
func showProgress(ctx context.Context, engine *stet.Engine, o options, skip []string, out io.Writer) (hide func()) {
	if f, ok := out.(*os.File); !ok || !isTerminal(f) {
		return func() {}
	}
	files := 0
	err := walk(o.dir, skip, "", func(_ string, _ fs.FileInfo, err error) error { files++; return nil })
	if err != nil {
		return func() {} // the run will say it
	}
	expected := max((files+batchSize-1)/batchSize, 1)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				fmt.Fprint(out, "\r\x1b[K")
				return
			case <-tick.C:
			}
			if entries, err := engine.History(ctx, o.id, stet.HistoryQuery{}); err == nil {
				fmt.Fprintf(out, "\r%s", bar(recordedBatches(entries), expected))
			}
		}
	}()
	return func() { close(stop); <-done }
}

func recordedBatches(entries []stet.Entry) int {
	n := 0
	for _, e := range entries {
		if e.State == store.Done && strings.HasSuffix(e.Location, "/sum") {
			n++
		}
	}
	return n
}

func bar(done, expected int) string {
	const width = 40
	share := min(float64(done)/float64(expected), 1)
	full := int(share * width)
	return fmt.Sprintf("[%s%s] %3.0f %%", strings.Repeat("=", full), strings.Repeat(" ", width-full), share*100)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
