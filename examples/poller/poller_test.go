package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

// growing is a feed to which an entry is added every day, from its first poll on.
type growing struct {
	days  int // until it is closed
	since time.Time
	polls int
}

func (g *growing) After(_ context.Context, cursor string) (entries []Entry, closed bool, err error) {
	if g.since.IsZero() {
		g.since = time.Now()
	}
	g.polls++
	there := min(int(time.Since(g.since)/(24*time.Hour)), g.days)
	for i := range there {
		if name := fmt.Sprintf("%04d", i); name > cursor {
			entries = append(entries, Entry{name, "day " + name})
		}
	}
	return entries, there == g.days, nil
}

// TestAMonth polls a feed for a month, every ten minutes.
func TestAMonth(t *testing.T) {
	g := &growing{days: 30}
	follow := stet.Define("follow", (&poller{g}).follow)
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{follow}}, func(t *testing.T, env *stettest.Env) {
		r, err := follow.Start(t.Context(), env.Engine, "")
		if err != nil {
			t.Fatal(err)
		}
		if seen, err := r.Wait(t.Context()); err != nil || seen != 30 {
			t.Fatalf("got %d, %v", seen, err)
		}
		items, err := Found.Items(t.Context(), env.Engine, r.ID(), 0, 1000)
		if err != nil || len(items) != 30 {
			t.Fatalf("%d items, %v", len(items), err)
		}
		for i, item := range items {
			if item.Value.Cursor != fmt.Sprintf("%04d", i) {
				t.Errorf("item %d is %+v", i, item)
			}
		}
		history, err := env.Engine.Runs().History(t.Context(), r.ID(), stet.HistoryQuery{})
		if err != nil || len(history) > 100 {
			t.Errorf("after %d polls %d entries are kept, %v", g.polls, len(history), err)
		}
	})
}

// TestPollNow does not wait for the pause to end.
func TestPollNow(t *testing.T) {
	g := &growing{days: 1}
	follow := stet.Define("follow", (&poller{g}).follow)
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{follow}}, func(t *testing.T, env *stettest.Env) {
		r, err := follow.Start(t.Context(), env.Engine, "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // of the bubble
		synctest.Wait()
		polls := g.polls
		if err := PollNow.Send(t.Context(), env.Engine, r.ID(), struct{}{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if polls != 1 || g.polls != 2 {
			t.Errorf("%d polls, then %d", polls, g.polls)
		}
	})
}

func TestSurvivesACrashAtEveryCommit(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c", "end"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen, err := stettest.CrashEverywhere(t, stet.Define("follow", (&poller{folderFeed(dir)}).follow), "",
		stettest.Checking(func(ctx context.Context, e *stet.Engine, id string) error {
			items, err := Found.Items(ctx, e, id, 0, 10)
			if err == nil && len(items) != 3 {
				err = fmt.Errorf("found: %+v", items)
			}
			return err
		}))
	if err != nil || seen != 3 {
		t.Errorf("got %d, %v", seen, err)
	}
}

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "end"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), t.TempDir()+"/poller.db", dir, &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "1 a\n2 b\nclosed after 2 entries\n" {
		t.Errorf("it prints %q", &out)
	}
}
