package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
)

// kept returns what stream s of run r holds after a position, with what was missed.
func kept(t *testing.T, e *stet.Engine, s stet.Stream[int], after int64) (list []string) {
	t.Helper()
	items, err := s.Items(t.Context(), e, "r", after, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		text := fmt.Sprint(it.Position, "=", it.Value)
		if it.Rewound || it.Again {
			text = fmt.Sprint(it.Position, " mark")
		}
		if it.Skipped > 0 {
			text += fmt.Sprint(" after ", it.Skipped)
		}
		list = append(list, text)
	}
	return list
}

// TestStreamKeepsItsNewestItems, appended by code and emitted by bodies, whatever crashes and
// is rewound; a reader that is behind knows what it has missed.
func TestStreamKeepsItsNewestItems(t *testing.T) {
	t.Parallel()
	code, body := stet.Stream[int]("code"), stet.Stream[int]("body")
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := s.open(t)
				loaded, lost := make(chan struct{}), make(chan struct{})
				executions := 0
				w := stet.Define("counts", func(ctx stet.Context, _ int) (int, error) {
					for i := range 5 {
						if err := code.Append(ctx, i, stet.Keep(3)); err != nil {
							return 0, err
						}
						err := stet.Do(ctx, fmt.Sprint("count ", i), func(ctx context.Context) error {
							for n := range 4 {
								if err := body.Emit(ctx, 10*i+n, stet.Keep(5)); err != nil {
									return err
								}
							}
							if executions++; executions == 3 { // its process dies
								close(loaded)
								<-lost
								return errors.New("too late")
							}
							return nil
						})
						if err != nil {
							return 0, err
						}
					}
					return executions, errors.Join(code.Append(ctx, 5, stet.Keep(stet.None)), code.Append(ctx, 6))
				})
				check := func(e *stet.Engine, s stet.Stream[int], after int64, want ...string) {
					t.Helper()
					if got := kept(t, e, s, after); !slices.Equal(got, want) {
						t.Errorf("stream %s after %d has %q, want %q", s, after, got, want)
					}
				}
				p := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}})
				if _, err := w.Start(t.Context(), p.Engine, 1, stet.ID("r")); err != nil {
					t.Fatal(err)
				}
				<-loaded
				time.Sleep(100 * time.Millisecond) // after which it is durable
				check(p.Engine, code, 0, "1=0", "2=1", "3=2")
				check(p.Engine, body, 0, "8=13 after 7", "9=20", "10=21", "11=22", "12=23")
				check(p.Engine, body, 10, "11=22", "12=23")
				p.handle.die()
				close(lost)
				p.bury(t)

				p = startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}})
				r := w.Handle(p.Engine, "r")
				if _, err := r.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				// A replay has appended nothing again. The body that was lost is executed again.
				check(p.Engine, code, 0, "3=2 after 2", "4=3", "5=4", "6=5", "7=6")
				check(p.Engine, body, 20, "21=33", "22=40", "23=41", "24=42", "25=43")
				if ok, err := p.Runs().Rewind(t.Context(), "r", "count 4", stet.Act{}); !ok {
					t.Fatal(err)
				}
				if _, err := r.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				check(p.Engine, code, 0, "3=2 after 2", "4=3", "5=4", "6=5", "7=6", "8 mark", "9=5", "10=6")

				var seen []string
				for item, err := range body.Tail(t.Context(), p.Engine, "r", 2) {
					if err != nil {
						t.Fatal(err)
					}
					seen = append(seen, fmt.Sprint(item.Position, item.Skipped))
				}
				if want := []string{"26 23", "27 0", "28 0", "29 0", "30 0"}; !slices.Equal(seen, want) {
					t.Errorf("a reader that is behind sees %q, want %q", seen, want)
				}
				feeds, err := p.Runs().Feeds(t.Context(), "r")
				if err != nil || len(feeds) != 2 || feeds[1].Name != "code" || feeds[1].Last != 10 || feeds[1].Dropped != 2 {
					t.Errorf("the feeds are %+v, %v", feeds, err)
				}
				p.bury(t)
			})
		})
	}
}

// TestBadKeep is refused where it is given.
func TestBadKeep(t *testing.T) {
	t.Parallel()
	s := stet.Stream[int]("s")
	w := stet.Define("keeps", func(ctx stet.Context, _ int) (int, error) {
		if err := s.Append(ctx, 1, stet.Keep(-2)); !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("Append with Keep(-2): %v", err)
		}
		return 0, stet.Do(ctx, "emit", func(ctx context.Context) error {
			if err := s.Emit(ctx, 1, stet.Keep(-2)); !errors.Is(err, stet.ErrInvalid) {
				t.Errorf("Emit with Keep(-2): %v", err)
			}
			return s.Emit(ctx, 2, stet.Keep(0))
		})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	r, err := w.Start(t.Context(), e, 1, stet.ID("r"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := kept(t, e, s, 0); !slices.Equal(got, []string{"1=2"}) {
		t.Errorf("the stream holds %q", got)
	}
}
