package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/stet-run/stet"
)

// Job is the input of a run.
type Job struct {
	Dir Path `json:"dir"` // absolute
}

// Sum is the result of a run.
type Sum struct {
	Files      int            `json:"files"`
	Bytes      int64          `json:"bytes"`
	Lines      int64          `json:"lines"`
	ByExt      map[string]Ext `json:"by_ext"`
	Digest     string         `json:"digest"` // SHA-256 over the sorted lines of sha256sum
	Unreadable []Unreadable   `json:"unreadable,omitempty"`
}

// Ext adds up the files with one extension.
type Ext struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	Lines int64 `json:"lines"`
}

// tree holds values for the workflow's steps that are not part of its history.
type tree struct {
	own []string // absolute paths of this program's files, which are not listed
}

// sum lists the folder, page by page, and then sums up its files, batch by
// batch. Every page and every batch is a step: it is recorded when it is done,
// and a run that was killed goes on with those that are not.
//
// All batches are requested at once. Config.MaxSteps decides how many are worked on at a time, so that it may change
// from one start to the next.
func (t *tree) sum(ctx stet.Context, job Job) (Sum, error) {
	total := newTotal()
	var files []File
	for page := (Page{}); !page.Last; {
		after := page.End
		var err error
		page, err = stet.Step(ctx, "list", func(context.Context) (Page, error) {
			return listPage(string(job.Dir), t.own, after)
		})
		if err != nil {
			return Sum{}, err
		}
		files = append(files, page.Files...)
		total.leaveOut(page.Unreadable...)
	}

	sums, err := stet.Map(ctx, "batch", batches(files), func(ctx stet.Context, batch []File) ([]FileSum, error) {
		return stet.Step(ctx, "sum", func(ctx context.Context) ([]FileSum, error) {
			return sumFiles(ctx, string(job.Dir), batch)
		})
	})
	if err != nil {
		return Sum{}, err
	}
	for _, batch := range sums {
		for _, file := range batch {
			total.add(file)
		}
	}
	return total.result(), nil
}

// total adds up files.
type total struct {
	sum   Sum
	lines []string // as sha256sum prints them
}

func newTotal() *total { return &total{sum: Sum{ByExt: map[string]Ext{}}} }

func (t *total) add(file FileSum) {
	if file.Error != "" {
		t.leaveOut(Unreadable{file.Path, file.Error})
		return
	}
	t.sum.Files++
	t.sum.Bytes += file.Bytes
	t.sum.Lines += file.Lines
	ext := extension(file.Path)
	e := t.sum.ByExt[ext]
	t.sum.ByExt[ext] = Ext{e.Files + 1, e.Bytes + file.Bytes, e.Lines + file.Lines}
	t.lines = append(t.lines, checksumLine(file.SHA256, file.Path))
}

func (t *total) leaveOut(list ...Unreadable) {
	t.sum.Unreadable = append(t.sum.Unreadable, list...)
}

func (t *total) result() Sum {
	slices.Sort(t.lines)
	hash := sha256.New()
	for _, line := range t.lines {
		hash.Write([]byte(line)) // a hash gives no error
	}
	t.sum.Digest = hex.EncodeToString(hash.Sum(nil))
	return t.sum
}
