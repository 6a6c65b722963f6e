package e2e_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
)

// TestPoisonRunStallsAlone has one run kill its process whenever it runs. It is
// stalled after its starts alone; the runs beside it end.
func TestPoisonRunStallsAlone(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			ctx := testContext(t)
			open := s.open(t)
			var current atomic.Pointer[process]
			var killed atomic.Bool
			w := stet.Define("maybe", func(ctx stet.Context, poison bool) (int, error) {
				return stet.Step(ctx, "s", func(c context.Context) (int, error) {
					if poison {
						killed.Store(true)
						current.Load().handle.die()
						<-c.Done()
						return 0, c.Err()
					}
					if killed.Load() || stet.RunID(ctx) == "" {
						return 1, nil
					}
					<-c.Done() // beside the poison: caught by its first death
					return 0, c.Err()
				})
			})
			outside := client(t, open(), w)
			bad, err := w.Start(ctx, outside, true, stet.ID("bad"))
			if err != nil {
				t.Fatal(err)
			}
			good, err := w.StartAll(ctx, outside, make([]bool, 5), nil)
			if err != nil {
				t.Fatal(err)
			}
			cfg := stet.Config{Workflows: []stet.Definition{w}, Poll: 10 * time.Millisecond, AloneFor: time.Second}
			starts := 0
			for {
				p := newProcess(t, open(), cfg)
				current.Store(p)
				p.start()
				starts++
				ended := make(chan error, 1)
				wait, cancel := context.WithCancel(ctx)
				go func() { _, err := bad.Wait(wait); ended <- err }()
				select {
				case <-p.handle.died:
					cancel()
					if err := <-ended; err == nil {
						t.Fatal("a run that kills its process has succeeded")
					}
					p.bury(t)
					if starts > 10 {
						t.Fatal("never stalled")
					}
					continue
				case err := <-ended:
					cancel()
					if !errors.Is(err, stet.ErrStalled) {
						t.Fatal(err)
					}
				}
				for _, r := range good {
					if _, err := r.Wait(ctx); err != nil {
						t.Error(err)
					}
				}
				p.bury(t)
				break
			}
			if want := 2 + 3; starts <= want || starts > 2*want {
				t.Errorf("stalled in the process number %d; want %d to %d", starts, want+1, 2*want)
			}
		})
	}
}

// TestSeveralPoisonRuns has poison runs begin one after the other beside an
// innocent run that commits nothing: it is not stalled for them.
func TestSeveralPoisonRuns(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			ctx := testContext(t)
			open := s.open(t)
			var current atomic.Pointer[process]
			calm := make(chan struct{})
			w := stet.Define("several", func(ctx stet.Context, poison bool) (int, error) {
				return stet.Step(ctx, "s", func(c context.Context) (int, error) {
					if poison {
						current.Load().handle.die()
						<-c.Done()
						return 0, c.Err()
					}
					select { // a long step
					case <-calm:
						return 1, nil
					case <-c.Done():
						return 0, c.Err()
					}
				})
			})
			outside := client(t, open(), w)
			innocent, err := w.Start(ctx, outside, false)
			if err != nil {
				t.Fatal(err)
			}
			var bad []*stet.Run[int]
			cfg := stet.Config{Workflows: []stet.Definition{w}, Poll: 10 * time.Millisecond, AloneFor: time.Second}
			for i := range 3 {
				r, err := w.Start(ctx, outside, true)
				if err != nil {
					t.Fatal(err)
				}
				bad = append(bad, r)
				deaths := 1 // once new, beside the innocent run that is alone
				if i == 0 {
					deaths = 2 // once new, once a suspect like the innocent run
				}
				for range deaths {
					p := newProcess(t, open(), cfg)
					current.Store(p)
					p.start()
					select {
					case <-p.handle.died:
					case <-ctx.Done():
						t.Fatal("nothing has killed the process")
					}
					p.bury(t)
				}
			}
			close(calm)
			for starts := 0; ; starts++ {
				p := newProcess(t, open(), cfg)
				current.Store(p)
				p.start()
				wait, cancel := context.WithCancel(ctx)
				ended := make(chan error, len(bad))
				for _, r := range bad {
					go func() { _, err := r.Wait(wait); ended <- err }()
				}
				stalled := 0
				for stalled < len(bad) {
					select {
					case err := <-ended:
						if errors.Is(err, stet.ErrStalled) {
							stalled++
							continue
						}
					case <-p.handle.died:
					}
					break
				}
				cancel()
				if stalled == len(bad) {
					if _, err := innocent.Wait(ctx); err != nil {
						t.Errorf("the innocent run: %v", err)
					}
					p.bury(t)
					return
				}
				p.bury(t)
				if starts > 20 {
					t.Fatal("the poison runs are never stalled")
				}
			}
		})
	}
}
