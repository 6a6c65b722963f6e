package e2e_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestStartAllIsOneCommit: whatever is written meanwhile, a reader sees all of its runs or
// none; both through an engine that executes and through one that does not.
func TestStartAllIsOneCommit(t *testing.T) {
	t.Parallel()
	const many = 6_000
	for _, executes := range []bool{true, false} {
		for _, s := range testStores {
			t.Run(s.name+map[bool]string{true: "/executes", false: "/outside"}[executes], func(t *testing.T) {
				t.Parallel()
				open := s.open(t)
				w := stet.Define("many", func(stet.Context, int) (int, error) { return 0, nil })
				busy := stet.Define("busy", func(ctx stet.Context, n int) (int, error) {
					return stet.Step(ctx, "s", func(context.Context) (int, error) { return n, nil })
				})
				reader := open()
				var looks atomic.Int64
				look := func() {
					looks.Add(1)
					tally, err := reader.Count(context.Background(), store.Filter{Workflows: []string{"many"}})
					found := 0
					for _, one := range tally {
						found += int(one.Runs)
					}
					if err != nil || found != 0 && found != many {
						t.Errorf("%d of %d runs are there, %v", found, many, err)
					}
				}
				g := &gated{Store: open(), afterCommit: func(*store.Batch) {
					if looks.Load() < 200 {
						look()
					}
				}}
				e := serve(t, stet.Config{Store: g, Workflows: []stet.Definition{w, busy}})
				ctx := testContext(t)
				starter := e
				if !executes {
					starter = client(t, open(), w, busy)
				}
				var others sync.WaitGroup
				for range 4 {
					others.Go(func() {
						for n := range 20 {
							if _, err := busy.Start(ctx, e, n); err != nil {
								t.Error(err)
							}
						}
					})
				}
				if _, err := w.StartAll(ctx, starter, make([]int, many), nil); err != nil {
					t.Fatal(err)
				}
				look()
				others.Wait()
			})
		}
	}
}

// TestTooManyStarts: nothing is started by a call that would not be one commit.
func TestTooManyStarts(t *testing.T) {
	t.Parallel()
	w := stet.Define("many", func(stet.Context, string) (int, error) { return 0, nil })
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	if _, err := w.StartAll(t.Context(), e, make([]string, stet.MaxStarts+1), nil); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("it is %v; want it to be invalid", err)
	}
	large := make([]string, 40)
	for i := range large {
		large[i] = strings.Repeat("x", stet.MaxStartBytes/len(large))
	}
	if _, err := w.StartAll(t.Context(), e, large, nil); !errors.Is(err, stet.ErrTooLarge) {
		t.Errorf("it is %v; want it to be too large", err)
	}
	word := stet.Message[string]("word")
	small := make([]string, 40)
	_, err := w.StartAll(t.Context(), e, small, func(i int) []stet.StartOption {
		return []stet.StartOption{stet.FirstMessage(word, large[i])}
	})
	if !errors.Is(err, stet.ErrTooLarge) {
		t.Errorf("with messages it is %v; want it to be too large", err)
	}
	if runs, _, err := e.Runs().List(t.Context(), store.Filter{Limit: 1}); err != nil || len(runs) > 0 {
		t.Errorf("there is %+v, %v", runs, err)
	}
	if _, err := w.StartAll(t.Context(), e, large[:30], nil); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
}
