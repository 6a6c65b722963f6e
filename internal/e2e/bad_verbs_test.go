package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// halfSwept is a store whose sweeps stand still after the first one that has deleted
// something, until done is closed.
type halfSwept struct {
	store.Store
	begun bool
	done  chan struct{}
}

func (s *halfSwept) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	if s.begun {
		select {
		case <-s.done:
		case <-ctx.Done():
			return store.Swept{}, ctx.Err()
		}
	}
	swept, err := s.Store.Sweep(ctx, req)
	s.begun = s.begun || swept.Rows > 0
	return swept, err
}

// TestVerbsOnARunWhoseRetentionIsOver: while it is being deleted nothing of it is taken
// up again or copied; afterwards there is no such run.
func TestVerbsOnARunWhoseRetentionIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := stet.Define("w", func(ctx stet.Context, n int) (int, error) {
			got, err := stet.Map(ctx, "m", make([]int, n), func(ctx stet.Context, _ int) (int, error) {
				return stet.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
			})
			return len(got), err
		}, stet.KeepFor(stet.AtOnce))
		s := &halfSwept{Store: memory.New(), done: make(chan struct{})}
		e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{w}, Poll: time.Hour})
		r := begin(t, e, w, 600, stet.ID("r"))
		if _, err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		info, err := e.Runs().Info(t.Context(), "r")
		if err != nil || info.Marks&store.Expiring == 0 {
			t.Fatalf("the run is %+v, %v; it should be half deleted", info, err)
		}
		verbs := map[string]func() error{
			"fork":   func() error { _, err := e.Runs().Fork(t.Context(), "r", "/", stet.Act{}); return err },
			"rewind": func() error { _, err := e.Runs().Rewind(t.Context(), "r", "/", stet.Act{}); return err },
			"retry":  func() error { _, err := e.Runs().Retry(t.Context(), "r", stet.Act{}); return err },
			"edit":   func() error { _, err := e.Runs().EditResult(t.Context(), "r", "m/[0]/s", 2, stet.Act{}); return err },
			"pause":  func() error { _, err := e.Runs().Pause(t.Context(), "r", stet.Act{}); return err },
			"resume": func() error { _, err := e.Runs().Resume(t.Context(), "r", stet.Act{}); return err },
			"cancel": func() error { _, err := e.Runs().Cancel(t.Context(), "r", stet.Act{}); return err },
		}
		for name, verb := range verbs {
			err := verb()
			want := stet.ErrTerminal
			if name == "fork" {
				want = stet.ErrRefused
			}
			if !errors.Is(err, want) || !strings.Contains(err.Error(), "its retention is over") {
				t.Errorf("%s of a run that is being deleted: %v", name, err)
			}
		}
		close(s.done)
		time.Sleep(10 * time.Minute)
		for name, verb := range verbs {
			if err := verb(); !errors.Is(err, stet.ErrNotFound) {
				t.Errorf("%s of a run that was deleted: %v", name, err)
			}
		}
	})
}

// TestSecondResolution: the first one stands, whether it was a value or a failure, and
// whether the run has received it or not.
func TestSecondResolution(t *testing.T) {
	t.Parallel()
	for _, received := range []bool{false, true} {
		for first, want := range map[string]string{"resolve": "yes", "reject": "rejected: no"} {
			t.Run(fmt.Sprint(first, received), func(t *testing.T) {
				tokens := make(chan string, 1)
				w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
					p, err := stet.NewPromise[string](ctx, "p")
					if err != nil {
						return "", err
					}
					if err := stet.Do(ctx, "tell", func(context.Context) error { tokens <- p.Token(); return nil }); err != nil {
						return "", err
					}
					text := ""
					await := func() {
						if text, err = p.Await(ctx); err != nil {
							text = "rejected: " + err.Error()
						}
					}
					if received {
						await()
					}
					if _, err := word.Receive(ctx); err != nil {
						return "", err
					}
					if !received {
						await()
					}
					return text, nil
				})
				e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
				r := begin(t, e, w, 0)
				token := <-tokens
				give := map[string]func() error{
					"resolve": func() error { return e.Resolve(t.Context(), token, "yes") },
					"reject":  func() error { return e.Reject(t.Context(), token, errors.New("no")) },
				}
				if err := give[first](); err != nil {
					t.Fatal(err)
				}
				for name, again := range give {
					if err := again(); !errors.Is(err, stet.ErrAlreadyResolved) {
						t.Errorf("%s after %s: %v", name, first, err)
					}
				}
				if err := word.Send(t.Context(), e, r.ID(), "go on"); err != nil {
					t.Fatal(err)
				}
				if got := outcome(t, r); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

// TestVerbsWithoutTheKey: what would have to read values that are encrypted with a key
// that is not known says which, and changes nothing.
func TestVerbsWithoutTheKey(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, in string) (string, error) { return say(ctx, "s", in) })
	s := memory.New()
	e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{w},
		Payloads: stet.Payloads{Keys: []stet.PayloadKey{payloadKey("k")}}})
	r := begin(t, e, w, "secret", stet.ID("r"))
	if got := outcome(t, r); got != "secret" {
		t.Fatal(got)
	}
	other, err := stet.New(t.Context(), stet.Config{Store: s.Join(),
		Payloads: stet.Payloads{Keys: []stet.PayloadKey{payloadKey("another")}}})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := other.Runs().Fork(t.Context(), "r", "/", stet.Act{}); !errors.Is(err, stet.ErrUnknownKey) ||
		!strings.Contains(err.Error(), `"k"`) {
		t.Errorf("a fork: %q, %v", id, err)
	}
	page, err := e.Store().List(t.Context(), store.Filter{})
	if err != nil || len(page.Runs) != 1 {
		t.Errorf("there are %d runs, %v", len(page.Runs), err)
	}
}
