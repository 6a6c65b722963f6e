package live_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/live"
	"github.com/stet-run/stet/server/internal/view"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// asked counts the questions that a store is asked.
type asked struct {
	store.Store
	lists, others atomic.Int64
}

func (s *asked) List(ctx context.Context, f store.Filter) (store.Page, error) {
	s.lists.Add(1)
	return s.Store.List(ctx, f)
}

func (s *asked) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	s.others.Add(1)
	return s.Store.Count(ctx, f)
}

func (s *asked) Describe(ctx context.Context) (store.Description, error) {
	s.others.Add(1)
	return s.Store.Describe(ctx)
}

func (s *asked) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	s.others.Add(1)
	return s.Store.History(ctx, q)
}

// TestViewersOfOneListShareItsReads: 50 viewers of a list and of the nodes, who began at
// different times, cost at most two queries per second for each of the two, and all of them
// learn of a new run.
func TestViewersOfOneListShareItsReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const viewers, seconds = 50, 30
		s := &asked{Store: memory.New()}
		defer s.Close()
		w := stet.Define("w", func(stet.Context, int) (int, error) { return 0, nil })
		e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{w},
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		reads := live.New(e)
		s.lists.Store(0)
		s.others.Store(0)
		var pages, nodes [viewers]int
		var group sync.WaitGroup
		for i := range viewers {
			group.Go(func() {
				who := &access.Identity{Name: fmt.Sprint("viewer-", i), Role: access.Viewer}
				f, err := reads.Follow(view.New(e, who, nil), live.Subjects{
					Lists: []store.Filter{{Limit: 50}}, Names: []string{""}, Nodes: true}, "")
				if err != nil {
					t.Error(err)
					return
				}
				f.Tell = func(event, _ string, _ any) error {
					pages[i] += map[string]int{"page": 1}[event]
					nodes[i] += map[string]int{"nodes": 1}[event]
					return nil
				}
				time.Sleep(time.Duration(i) * 37 * time.Millisecond)
				for range seconds {
					if err := f.Round(t.Context()); err != nil {
						t.Error(err)
					}
					time.Sleep(live.Every)
				}
			})
		}
		time.Sleep(10 * time.Second)
		if _, err := w.Start(t.Context(), e, 1); err != nil {
			t.Fatal(err)
		}
		group.Wait()
		took := seconds + 2 // the last viewer began two seconds after the first
		if n := s.lists.Load(); n < seconds/2 || n > int64(2*took) {
			t.Errorf("the list was read %d times in %d seconds", n, took)
		}
		if n := s.others.Load(); n < seconds/2 || n > int64(2*took) {
			t.Errorf("the nodes were read %d times in %d seconds", n, took)
		}
		for i := range viewers {
			if pages[i] != 2 || nodes[i] != 1 {
				t.Errorf("viewer %d was told of %d pages and %d nodes, expected 2 and 1", i, pages[i], nodes[i])
			}
		}
	})
}
