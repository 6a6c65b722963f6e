package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
)

var emitted = stet.Stream[string]("emitted")

// heard returns what the stream of run r holds.
func heard(t *testing.T, e *stet.Engine) []string {
	t.Helper()
	items, err := emitted.Items(t.Context(), e, "r", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]string, len(items))
	for i, it := range items {
		switch list[i] = it.Value; {
		case it.Rewound:
			list[i] = "rewound"
		case it.Again:
			list[i] = fmt.Sprintf("%s again %d", it.Location, it.Attempt)
		case it.Location != "":
			list[i] = fmt.Sprintf("%s %s %d", it.Value, it.Location, it.Attempt)
		}
	}
	return list
}

// TestBodiesEmitItems: they are there soon, in order, with the step and its attempt; those
// of a later attempt, and of one after a crash, follow a mark; and those of the code stand
// where they were appended.
func TestBodiesEmitItems(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := s.open(t)
				second, lost := make(chan struct{}), make(chan struct{})
				bodies := 0
				w := stet.Define("answers", func(ctx stet.Context, _ int) (int, error) {
					if err := emitted.Append(ctx, "begin"); err != nil {
						return 0, err
					}
					err := stet.Do(ctx, "ask", func(ctx context.Context) error {
						bodies++
						body := bodies
						if err := errors.Join(emitted.Emit(ctx, "one"), emitted.Emit(ctx, "two")); err != nil {
							return err
						}
						switch body {
						case 1:
							return errors.New("once")
						case 2: // its process dies
							close(second)
							<-lost
							return errors.New("too late")
						}
						return emitted.Emit(ctx, "three")
					})
					return 0, errors.Join(err, emitted.Append(ctx, "end"))
				})
				p := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}})
				if _, err := w.Start(t.Context(), p.Engine, 1, stet.ID("r")); err != nil {
					t.Fatal(err)
				}
				want := []string{"begin", "one ask 1", "two ask 1", "ask again 2", "one ask 2", "two ask 2"}
				<-second
				time.Sleep(100 * time.Millisecond) // after which they are durable
				if got := heard(t, p.Engine); !slices.Equal(got, want) {
					t.Errorf("while it executes there is %q, want %q", got, want)
				}
				p.handle.die()
				close(lost)
				p.bury(t)

				p = startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}})
				r := w.Handle(p.Engine, "r")
				if _, err := r.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				want = append(want, "ask again 2", "one ask 2", "two ask 2", "three ask 2", "end")
				if got := heard(t, p.Engine); !slices.Equal(got, want) {
					t.Errorf("at the end there is %q, want %q", got, want)
				}
				if ok, err := p.Runs().Rewind(t.Context(), "r", "ask", stet.Act{}); !ok {
					t.Fatal(err)
				}
				if _, err := r.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				want = append(want, "rewound", "one ask 1", "two ask 1", "three ask 1", "end")
				if got := heard(t, p.Engine); !slices.Equal(got, want) {
					t.Errorf("after a rewind there is %q, want %q", got, want)
				}
				p.bury(t)
			})
		})
	}
}

// TestManyEmittedItems of branches: each body's are in order, each once.
func TestManyEmittedItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const bodies, each = 3, 500
		text := strings.Repeat("x", 1000)
		w := stet.Define("answers", func(ctx stet.Context, _ int) ([]int, error) {
			return stet.Map(ctx, "ask", make([]int, bodies), func(ctx stet.Context, _ int) (int, error) {
				return stet.Step(ctx, "say", func(ctx context.Context) (int, error) {
					for i := range each {
						if err := emitted.Emit(ctx, fmt.Sprintf("%d %s", i, text)); err != nil {
							return i, err
						}
					}
					return each, nil
				})
			})
		})
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		if _, err := w.Start(t.Context(), e, 1, stet.ID("r")); err != nil {
			t.Fatal(err)
		}
		next := map[string]int{}
		for item, err := range emitted.Tail(t.Context(), e, "r", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(item.Value, fmt.Sprint(next[item.Location], " ")) {
				t.Fatalf("item %d of %s is %.9q, after %d", item.Position, item.Location, item.Value, next[item.Location])
			}
			next[item.Location]++
		}
		for at, n := range next {
			if n != each || len(next) != bodies {
				t.Errorf("%s has emitted %d items", at, n)
			}
		}
	})
}

// TestEmitWhereNoBodyIs: the context of code, of nothing, and of a body that has ended are
// refused with what to do, and so is an item that is too large.
func TestEmitWhereNoBodyIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var errs []error
		var after context.Context
		w := stet.Define("answers", func(ctx stet.Context, _ int) (int, error) {
			err := stet.Do(ctx, "ask", func(ctx context.Context) error {
				after = ctx
				if err := emitted.Emit(ctx, strings.Repeat("x", 2000)); !errors.Is(err, stet.ErrTooLarge) {
					t.Errorf("a large item: %v", err)
				}
				ended, cancel := context.WithCancel(ctx)
				cancel()
				if err := emitted.Emit(ended, "x"); !errors.Is(err, context.Canceled) {
					t.Errorf("with a context that has ended: %v", err)
				}
				return nil
			})
			return 0, err
		})
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxValue: 1000})
		r, err := w.Start(t.Context(), e, 1, stet.ID("r"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		errs = append(errs, emitted.Emit(after, "late"), emitted.Emit(t.Context(), "nowhere"))
		for i, want := range []string{
			`stream "emitted": the body of the step has ended`, `stream "emitted": expected the context of a step's body`,
		} {
			if !errors.Is(errs[i], stet.ErrInvalid) || !strings.HasPrefix(errs[i].Error(), want) {
				t.Errorf("%v; want %s", errs[i], want)
			}
		}
		if got := heard(t, e); len(got) > 0 {
			t.Errorf("there is %q", got)
		}
	})
}
