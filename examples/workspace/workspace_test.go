package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

// folder makes a workspace with two texts.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "one two\nthree\n", "b.txt": "four\n", "other.md": "not a text"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var want = Summary{Files: 2, Words: 4, Lines: 3, Longest: "three"}

// TestRelease ends a run in every way while it has the lock: the next one gets it, and only then.
func TestRelease(t *testing.T) {
	broken := errors.New("the disk is broken")
	for name, c := range map[string]struct {
		write stettest.Body // the first run's
		act   func(ctx context.Context, e *stet.Engine, id string) error
		err   error
	}{
		"success": {stettest.Takes(time.Hour, stettest.Returns(nil)), nil, nil},
		"failure": {stettest.Takes(time.Hour, stettest.Fails(stet.Permanent(broken))), nil, broken},
		"cancel": {stettest.Hangs(), func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := e.Runs().Cancel(ctx, id, stet.Act{})
			return err
		}, stet.ErrCancelled},
		"terminate": {stettest.Hangs(), func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := e.Runs().Terminate(ctx, id, stet.Act{})
			return err
		}, stet.ErrCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := newWorkspace(), folder(t)
			cfg := stet.Config{
				Workflows: []stet.Definition{w.summaries, w.locks},
				Errors:    []stet.ErrorCode{stet.Sentinel("broken", broken)},
			}
			stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
				w.engine = env.Engine
				var calls atomic.Int32
				env.Replace("write", func(ctx context.Context) (any, error) {
					if calls.Add(1) == 1 {
						return c.write(ctx)
					}
					return nil, nil
				})
				first, err := w.summaries.Start(t.Context(), env.Engine, dir)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute) // of the bubble: the first one has the lock
				second, err := w.summaries.Start(t.Context(), env.Engine, dir)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if info, err := second.Info(t.Context()); err != nil || info.Status.Terminal() {
					t.Errorf("the second one does not wait: %+v, %v", info, err)
				}
				if c.act != nil {
					if err := c.act(t.Context(), env.Engine, first.ID()); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := first.Wait(t.Context()); !errors.Is(err, c.err) {
					t.Errorf("the first one ends with %v, want %v", err, c.err)
				}
				if got, err := second.Wait(t.Context()); err != nil || got != want {
					t.Errorf("the second one ends with %+v, %v", got, err)
				}
			})
		})
	}
}

func TestSurvivesACrashAtEveryCommit(t *testing.T) {
	w, dir := newWorkspace(), folder(t)
	got, err := stettest.CrashEverywhere(t, w.summaries, dir,
		stettest.Ready(func(e *stet.Engine) { w.engine = e }),
		stettest.WithConfig(stet.Config{Workflows: []stet.Definition{w.locks}}))
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestProgram(t *testing.T) {
	db, dir := t.TempDir()+"/workspace.db", folder(t)
	for range 2 { // the second run gets the lock as well
		var out bytes.Buffer
		if err := run(t.Context(), db, dir, &out); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != "2 files, 4 words, 3 lines, longest word \"three\"\n" {
			t.Errorf("it prints %q", got)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, summaryFile)); err != nil {
		t.Error(err)
	}
}
