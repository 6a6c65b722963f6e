package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/stet-run/stet"
)

// summaryFile is the file that is written into a workspace.
const summaryFile = "summary.json"

// Summary describes the texts of a workspace.
type Summary struct {
	Files   int    `json:"files"`
	Words   int    `json:"words"`
	Lines   int    `json:"lines"`
	Longest string `json:"longest"` // word
}

// workspace has the workflow, which sums up the texts of a shared folder. One run
// at a time works in a folder: the others wait for its lock.
type workspace struct {
	*keeper
	summaries *stet.Workflow[string, Summary]
}

func newWorkspace() *workspace {
	w := &workspace{keeper: newKeeper()}
	w.summaries = stet.Define("summarise", w.summarise)
	return w
}

func (w *workspace) summarise(ctx stet.Context, folder string) (Summary, error) {
	unlock, err := w.lock(ctx, folder)
	if err != nil {
		return Summary{}, err
	}
	defer unlock()

	texts, err := stet.Step(ctx, "read", func(context.Context) ([]string, error) { return read(folder) })
	if err != nil {
		return Summary{}, err
	}

	words := count(ctx, "words", texts, strings.Fields)
	lines := count(ctx, "lines", texts, func(text string) []string {
		return strings.Split(strings.TrimSuffix(text, "\n"),
			"\n")
	})
	longest := stet.Go(ctx, "longest", func(ctx stet.Context) (string, error) {
		return stet.Step(ctx, "find", func(context.Context) (string, error) { return longestWord(texts), nil })
	})
	if err := stet.Join(ctx, words, lines, longest); err != nil {
		return Summary{}, err
	}

	s := Summary{Files: len(texts)}
	s.Words, _ = words.Result() // Join has seen the errors
	s.Lines, _ = lines.Result()
	s.Longest, _ = longest.Result()
	return s, stet.Do(ctx, "write", func(context.Context) error { return write(folder, s) })
}

// count counts the parts of all texts in a branch of its own.
func count(ctx stet.Context, name string, texts []string, parts func(string) []string) *stet.Future[int] {
	return stet.Go(ctx, name, func(ctx stet.Context) (int, error) {
		return stet.Step(ctx, "count", func(context.Context) (int, error) {
			n := 0
			for _, text := range texts {
				n += len(parts(text))
			}
			return n, nil
		})
	})
}

func longestWord(texts []string) string {
	longest := ""
	for _, text := range texts {
		for _, word := range strings.Fields(text) {
			if len(word) > len(longest) {
				longest = word
			}
		}
	}
	return longest
}

// read returns the texts of a folder.
func read(folder string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, stet.Permanent(err)
	}
	texts := make([]string, len(names))
	for i, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts[i] = string(text)
	}
	return texts, nil
}

// write replaces the summary in one act, so that a reader sees a whole one.
func write(folder string, s Summary) error {
	data, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	file := filepath.Join(folder, summaryFile)
	if err := os.WriteFile(file+".new", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
