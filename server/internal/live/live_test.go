package live_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// TestCommitsAreToldAtOnce: a follower is told of a commit of this process as soon as the pause
// between two hints allows, and not at its next tick; many commits in a row are told together;
// and a process with more followers takes more time, so that events cost it little.
func TestCommitsAreToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		n := stet.Message[int]("n")
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			for {
				got, err := n.Receive(ctx)
				if err != nil || got == 0 {
					return 0, err
				}
				if err := stet.Value[int]("n").Set(ctx, got); err != nil {
					return 0, err
				}
			}
		})
		e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{w},
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		defer func() {
			if stop(); <-ended != nil {
				t.Error("the engine has ended with an error")
			}
		}()
		if _, err := w.Start(ctx, e, 0, stet.ID("r")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		reads := live.New(e)
		var mu sync.Mutex
		told := map[string][]time.Duration{} // values, and how long after sent they came
		var sent time.Time
		open := func() (end func()) {
			f, err := reads.Follow(view.New(e, &access.Identity{Name: "vera", Role: access.Operator}, nil),
				live.Subjects{Runs: []string{"r"}}, "")
			if err != nil {
				t.Fatal(err)
			}
			f.Tell = func(event, _ string, data any) error {
				mu.Lock()
				defer mu.Unlock()
				if text := fmt.Sprintf("%s", data); event == "value" {
					_, text, _ = strings.Cut(text, `"value":`)
					told[text] = append(told[text], time.Since(sent))
				}
				return nil
			}
			hints, over, done := f.Listen(), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				defer f.Close()
				for f.Round(ctx) == nil {
					select {
					case <-hints:
					case <-over:
						return
					}
				}
			}()
			return func() { close(over); <-done }
		}
		send := func(value int) {
			t.Helper()
			mu.Lock()
			sent = time.Now()
			mu.Unlock()
			if err := n.Send(ctx, e, "r", value); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		end := open()
		time.Sleep(5 * time.Second)
		send(1)
		time.Sleep(5 * time.Second)
		for i := range 9 {
			send(2 + i)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		if d := told["1}"]; len(d) != 1 || d[0] > 5*time.Millisecond {
			t.Errorf("one commit is told after %v", d)
		}
		if len(told) != 3 || len(told["2}"]) != 1 || len(told["10}"]) != 1 || told["10}"][0] > 60*time.Millisecond {
			t.Errorf("of nine commits in nine milliseconds the first and the last are told, found %v", told)
		}
		mu.Unlock()
		ends := []func(){end}
		for range 299 {
			ends = append(ends, open())
		}
		time.Sleep(5 * time.Second)
		send(11)
		time.Sleep(100 * time.Millisecond)
		send(12)
		time.Sleep(5 * time.Second)
		mu.Lock()
		if d := told["12}"]; len(d) != 300 || d[0] < 400*time.Millisecond || d[0] > 700*time.Millisecond {
			t.Errorf("with 300 followers the second of two commits is told %d times, after %v", len(d), slices.Compact(d))
		}
		mu.Unlock()
		for _, end := range ends {
			end()
		}
	})
}
