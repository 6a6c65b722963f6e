package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/stet-run/stet"
)

// effects is the log of the starts of step bodies.
type effects struct{ log io.Writer }

// around notes the start of a step body, in one write, and calls it.
func (x effects) around(ctx context.Context, step stet.StepInfo, next func(context.Context) error) error {
	if _, err := fmt.Fprintf(x.log, "%s %s %d\n", step.RunID, step.Location, step.Attempt); err != nil {
		return err
	}
	return next(ctx)
}

func printJSON(out io.Writer, sum Sum, resumed int) error {
	return json.NewEncoder(out).Encode(struct {
		Sum
		Resumed int `json:"resumed"`
	}{sum, resumed})
}

// printTable prints the result for a person, the kinds with most bytes first.
func printTable(out io.Writer, sum Sum, resumed int) error {
	const most = 15
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "extension\tfiles\tbytes\tlines\t")
	exts := slices.SortedFunc(maps.Keys(sum.ByExt), func(a, b string) int {
		return cmp.Or(cmp.Compare(sum.ByExt[b].Bytes, sum.ByExt[a].Bytes), cmp.Compare(a, b))
	})
	for _, ext := range exts[:min(most, len(exts))] {
		e := sum.ByExt[ext]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", cmp.Or(printable(ext), "(none)"), e.Files, e.Bytes, e.Lines)
	}
	if len(exts) > most {
		fmt.Fprintf(w, "(%d more)\t\t\t\t\n", len(exts)-most)
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

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// tmpReport names the file that becomes the report when it is complete.
func tmpReport(name string) string { return name + ".tmp" }

// writeReport writes the table of all files, sorted by path, from the run's history. It takes the place of a former
// report in one act.
func writeReport(ctx context.Context, engine *stet.Engine, id, name string) error {
	files, err := recordedFiles(ctx, engine, id)
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b FileSum) int { return cmp.Compare(a.Path, b.Path) })
	tmp, err := os.Create(tmpReport(name))
	if err != nil {
		return err
	}
	if err := printFiles(tmp, files); err != nil {
		tmp.Close()
		os.Remove(tmp.Name())
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}

// recordedFiles reads the sums of all files, and the unreadable ones, from the run's history.
func recordedFiles(ctx context.Context, engine *stet.Engine, id string) ([]FileSum, error) {
	entries, err := engine.Runs().History(ctx, id, stet.HistoryQuery{Values: true})
	if err != nil {
		return nil, err
	}
	var files []FileSum
	for i := range entries {
		e := &entries[i]
		if isSum(e) {
			var batch []FileSum
			if err := e.Decode(&batch); err != nil {
				return nil, err
			}
			files = append(files, batch...)
			continue
		}
		var page Page
		if err := e.Decode(&page); err != nil {
			return nil, err
		}
		for _, u := range page.Unreadable {
			files = append(files, FileSum{Path: u.Path, Error: u.Error})
		}
	}
	return files, nil
}

func printFiles(out io.Writer, files []FileSum) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "sha256\tbytes\tlines\tpath\terror")
	for _, f := range files {
		fmt.Fprintf(w, "%s\t%d\t%d\t%q\t%s\n", f.SHA256, f.Bytes, f.Lines, f.Path, f.Error)
	}
	return w.Flush()
}
