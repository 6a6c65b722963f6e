package server_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// counted is a store that notes which reads it is asked for.
type counted struct {
	store.Store
	mu    sync.Mutex
	reads []string
}

func (c *counted) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = append(c.reads, what)
}

// taken returns the reads since the last call.
func (c *counted) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	reads := c.reads
	c.reads = nil
	return reads
}

func (c *counted) List(ctx context.Context, f store.Filter) (store.Page, error) {
	if f.Values && f.Longest >= 0 {
		c.note("a list with values")
	} else {
		c.note("a list")
	}
	return c.Store.List(ctx, f)
}

func (c *counted) Describe(ctx context.Context) (store.Description, error) {
	c.note("a description")
	return c.Store.Describe(ctx)
}

func (c *counted) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	c.note("a history")
	return c.Store.History(ctx, q)
}

func (c *counted) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	c.note("an inbox")
	return c.Store.Inbox(ctx, run, ids...)
}

func (c *counted) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	c.note("an audit")
	return c.Store.Audit(ctx, run)
}

func (c *counted) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	c.note("feeds")
	return c.Store.Feeds(ctx, q)
}

func (c *counted) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	c.note("a stream")
	return c.Store.Stream(ctx, q)
}

var errBusy = errors.New("busy")

// TestAViewOfARunReadsItsRowWithoutValues holds how many reads of the store a request for a part
// of a run is: its row, without input and output, at most twice, and the part. A history is read
// without values, and again with those that fit into the page; a shape needs the audit, too. Of a
// run that lives it also needs the nodes, and of one whose steps were tried again, or waited, the
// short values of these.
func TestAViewOfARunReadsItsRowWithoutValues(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { _ = db.Close() })
	short := stet.Define("short", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "one", func(context.Context) (int, error) { return n, nil })
	})
	again := stet.Define("again", func(ctx stet.Context, n int) (int, error) {
		var failed bool
		return stet.Step(ctx, "one", func(context.Context) (int, error) {
			if !failed {
				//stetvet:ignore captured the first attempt in this process fails
				failed = true
				return 0, errBusy
			}
			return n, nil
		}, stet.Retry{First: time.Millisecond})
	})
	waits := stet.Define("waits", func(ctx stet.Context, n int) (int, error) {
		return n, stet.Sleep(ctx, "night", 8*time.Hour)
	})
	workflows := []stet.Definition{short, again, waits}
	engine := func(s store.Store) *stet.Engine {
		t.Helper()
		e, err := stet.New(t.Context(), stet.Config{Store: s, Logger: quiet(), Workflows: workflows})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	owner := engine(db)
	stop := running(t, owner)
	run, err := short.Start(t.Context(), owner, 1, stet.ID("r-1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run, err = again.Start(t.Context(), owner, 1, stet.ID("r-2")); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := waits.Start(t.Context(), owner, 1, stet.ID("r-3")); err != nil {
		t.Fatal(err)
	}
	reads := &counted{Store: db}
	w := &world{t: t, engine: engine(reads), store: db, stop: func() {}}
	w.handler, err = server.New(w.engine, server.Options{
		Access: []access.Authenticator{server.Func(byName)}, Logger: quiet(), Rate: stet.None,
	})
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]int{
		"r-1/history": 3, "r-1/inbox": 2, "r-1/audit": 3, "r-1/shape": 3, "r-1/promises": 3, "r-1/values": 2,
		"r-1/children": 2, "r-1/streams/lines": 3, "r-2/shape": 4, "r-3/shape": 4,
	}
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		t.Run(part, func(t *testing.T) {
			reads.taken()
			resp := w.do("operator", "GET", "runs/"+part, nil)
			if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s (%v)", resp.Status, err)
			}
			got := reads.taken()
			if len(got) == 0 || len(got) > parts[part] {
				t.Errorf("expected 1 to %d reads, found %d: %s", parts[part], len(got), strings.Join(got, ", "))
			}
			if part != "r-1/children" && slices.Contains(got, "a list with values") {
				t.Errorf("expected no read of input and output, found %s", strings.Join(got, ", "))
			}
		})
	}
}
