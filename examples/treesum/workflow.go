package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stet-run/stet"
)

// Job is the input of a run: what to sum up, and how.
type Job struct {
	Dir      string   `json:"dir"`
	Skip     []string `json:"skip,omitempty"` // paths that are not part of the tree
	Parallel int      `json:"parallel"`
}

// Sum is the result of a run.
type Sum struct {
	Files  int            `json:"files"`
	Bytes  int64          `json:"bytes"`
	Lines  int64          `json:"lines"`
	ByExt  map[string]Ext `json:"by_ext"`
	Digest string         `json:"digest"` // SHA-256 over the sorted lines of sha256sum
	// Unreadable lists the files that could not be read, the first thousand.
	Unreadable []Unreadable `json:"unreadable,omitempty"`
}

// Ext adds up the files with one extension.
type Ext struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	Lines int64 `json:"lines"`
}

// Unreadable is a file or folder that could not be read.
type Unreadable struct {
	Path  string `json:"path"`
	Error string `json:"error"`
}

// FileSum is what one file contributes.
type FileSum struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
	Bytes  int64  `json:"bytes"`
	Lines  int64  `json:"lines"`
	Error  string `json:"error,omitempty"`
}

const (
	pageSize  = 2000 // files in one recorded page of the listing
	batchSize = 100  // files that one step sums up
	maxShown  = 1000 // unreadable files in the result
)

// TreeSum walks a folder page by page and sums up the files of each page in
// batches, some at a time. Every page and every batch is a step: a run that is
// killed goes on after the last one that was recorded.
var TreeSum = stet.Define("treesum", treeSum)

func treeSum(ctx stet.Context, job Job) (Sum, error) {
	total := newTotal()
	for after := ""; ; {
		page, err := stet.Step(ctx, "list", func(context.Context) (Page, error) {
			return listFiles(job.Dir, job.Skip, after, pageSize)
		})
		if err != nil {
			return Sum{}, err
		}
		total.unreadable(page.Unreadable...)

		batches := slices.Collect(slices.Chunk(page.Files, batchSize))
		sums, err := stet.Map(ctx, "batch", batches, func(ctx stet.Context, files []string) ([]FileSum, error) {
			return stet.Step(ctx, "sum", func(c context.Context) ([]FileSum, error) { return sumFiles(c, job.Dir, files) })
		}, stet.Limit(job.Parallel), stet.KeyBy(func(files []string) string { return stableKey(files[0]) }))
		if err != nil {
			return Sum{}, err
		}
		for _, s := range slices.Concat(sums...) {
			total.add(s)
		}
		if page.Last {
			return total.sum(), nil
		}
		after = page.Files[len(page.Files)-1]
	}
}

// stableKey is a short key for a path, which may be longer than a key may be.
func stableKey(path string) string {
	hash := sha256.Sum256([]byte(path))
	return hex.EncodeToString(hash[:8])
}

// sumFiles sums up files. One that cannot be read carries its error.
func sumFiles(ctx context.Context, dir string, files []string) ([]FileSum, error) {
	sums := make([]FileSum, 0, len(files))
	for _, path := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sum, err := sumFile(dir, path)
		if err != nil {
			sum = FileSum{Path: path, Error: reason(err)}
		}
		sums = append(sums, sum)
	}
	return sums, nil
}

func sumFile(dir, path string) (FileSum, error) {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil {
		return FileSum{}, err
	}
	defer f.Close()
	hash, lines := sha256.New(), &lineCounter{}
	n, err := io.Copy(io.MultiWriter(hash, lines), f)
	if err != nil {
		return FileSum{}, err
	}
	return FileSum{Path: path, SHA256: hex.EncodeToString(hash.Sum(nil)), Bytes: n, Lines: lines.n}, nil
}

// lineCounter counts newlines, as wc -l does.
type lineCounter struct{ n int64 }

func (c *lineCounter) Write(p []byte) (int, error) {
	c.n += int64(strings.Count(string(p), "\n"))
	return len(p), nil
}

// total adds up files.
type total struct {
	result Sum
	lines  []string // as sha256sum prints them
}

func newTotal() *total { return &total{result: Sum{ByExt: map[string]Ext{}}} }

func (t *total) add(s FileSum) {
	if s.Error != "" {
		t.unreadable(Unreadable{s.Path, s.Error})
		return
	}
	t.result.Files++
	t.result.Bytes += s.Bytes
	t.result.Lines += s.Lines
	ext := extension(s.Path)
	e := t.result.ByExt[ext]
	t.result.ByExt[ext] = Ext{e.Files + 1, e.Bytes + s.Bytes, e.Lines + s.Lines}
	t.lines = append(t.lines, checksumLine(s))
}

func (t *total) unreadable(list ...Unreadable) {
	room := maxShown - len(t.result.Unreadable)
	t.result.Unreadable = append(t.result.Unreadable, list[:min(len(list), room)]...)
}

func (t *total) sum() Sum {
	slices.Sort(t.lines)
	digest := sha256.Sum256([]byte(strings.Join(t.lines, "")))
	t.result.Digest = hex.EncodeToString(digest[:])
	return t.result
}
