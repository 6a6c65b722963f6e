package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store/sqlite"
)

var brief = Brief{"Rivers", []string{"they flow", "they end"}}

// memoryDesk notes the acts at it.
type memoryDesk struct {
	folderDesk
	mu        sync.Mutex
	done      []string
	token     string // the reviewer's last one
	published map[string]string
}

func newDesk() *memoryDesk {
	return &memoryDesk{published: map[string]string{}}
}

func (d *memoryDesk) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, what)
}

func (d *memoryDesk) Draft(ctx context.Context, b Brief) (string, error) {
	d.note("draft")
	return d.folderDesk.Draft(ctx, b)
}

func (d *memoryDesk) Refine(ctx context.Context, text string) (string, error) {
	d.note("refine")
	return d.folderDesk.Refine(ctx, text)
}

func (d *memoryDesk) Notify(_ context.Context, token, _ string) error {
	d.note("notify")
	d.mu.Lock()
	defer d.mu.Unlock()
	d.token = token
	return nil
}

// awaitToken returns the token once the reviewer has it. It sleeps under virtual time.
func (d *memoryDesk) awaitToken() string {
	for {
		d.mu.Lock()
		token := d.token
		d.token = ""
		d.mu.Unlock()
		if token != "" {
			return token
		}
		time.Sleep(time.Minute)
	}
}

func (d *memoryDesk) Publish(_ context.Context, text, key string) error {
	d.note("publish")
	d.mu.Lock()
	defer d.mu.Unlock()
	d.published[key] = text
	return nil
}

// TestReview decides in each way. Nothing is done again after the decision.
func TestReview(t *testing.T) {
	const text = "Rivers.\n\nThey flow.\nThey end."
	for name, c := range map[string]struct {
		decide func(ctx context.Context, e *stet.Engine, token string) error // nil: nobody does
		want   Outcome
		err    string
	}{
		"approved": {func(ctx context.Context, e *stet.Engine, token string) error {
			return e.Resolve(ctx, token, Decision{Approved: true, Comment: "fine"})
		}, Outcome{Published: true, Text: text, Comment: "fine"}, ""},
		"refused": {func(ctx context.Context, e *stet.Engine, token string) error {
			return e.Resolve(ctx, token, Decision{Comment: "too short"})
		}, Outcome{Comment: "too short"}, ""},
		"rejected": {func(ctx context.Context, e *stet.Engine, token string) error {
			return e.Reject(ctx, token, errors.New("no reviewer"))
		}, Outcome{}, "no reviewer"},
		"too late": {nil, Outcome{Comment: "nobody has decided within 168h0m0s"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			w := stet.Define("review", (&pipeline{d}).review)
			stettest.Run(t, stet.Config{Workflows: []stet.Definition{w}}, func(t *testing.T, env *stettest.Env) {
				r, err := w.Start(t.Context(), env.Engine, brief)
				if err != nil {
					t.Fatal(err)
				}
				token := d.awaitToken()
				if c.decide != nil {
					time.Sleep(48 * time.Hour) // the reviewer is busy
					if err := c.decide(t.Context(), env.Engine, token); err != nil {
						t.Fatal(err)
					}
				}
				got, err := r.Wait(t.Context())
				if got != c.want || (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %+v, %v", got, err)
				}
			})
			want := []string{"draft", "refine", "notify"}
			if c.want.Published {
				want = append(want, "publish")
			}
			if !slices.Equal(d.done, want) {
				t.Errorf("done: %q, want %q", d.done, want)
			}
		})
	}
}

// TestSurvivesACrashAtEveryCommit puts the reviewer into a process that is not killed.
func TestSurvivesACrashAtEveryCommit(t *testing.T) {
	d := newDesk()
	outcome, err := stettest.CrashEverywhere(t, stet.Define("review", (&pipeline{d}).review), brief,
		stettest.Driving(func(ctx context.Context, e *stet.Engine, _ string) error {
			return e.Resolve(ctx, d.awaitToken(), Decision{Approved: true})
		}))
	if err != nil || !outcome.Published {
		t.Fatalf("got %+v, %v", outcome, err)
	}
	if len(d.published) != 1 {
		t.Errorf("published under %d keys: expected the same in every attempt", len(d.published))
	}
}

// TestTwoProcesses lets the program wait on a file, and a reviewer decide with only the file and the token.
func TestTwoProcesses(t *testing.T) {
	db, folder := t.TempDir()+"/review.db", t.TempDir()
	out, printed := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(t.Context(), db, folder, brief, printed)
		printed.Close()
	}()
	lines := bufio.NewScanner(out)
	token := ""
	for token == "" && lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "decide with: stet resolve "); ok {
			token, _, _ = strings.Cut(rest, " ")
		}
	}
	file, err := sqlite.Open(context.Background(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reviewer, err := stet.New(t.Context(), stet.Config{Store: file})
	if err != nil {
		t.Fatal(err)
	}
	if err := reviewer.Resolve(t.Context(), token, Decision{Approved: true}); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "published" {
		t.Errorf("the program says %q", lines.Text())
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if texts, err := filepath.Glob(filepath.Join(folder, "*.txt")); err != nil || len(texts) != 1 {
		t.Errorf("published: %q, %v", texts, err)
	}
}
