package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

var raise = stet.Update[int, int]("raise")

// account answers as many updates as it was told to, in its order, and returns the sum.
var account = stet.Define("account", func(ctx stet.Context, n int) (int, error) {
	sum := 0
	for range n {
		r, err := raise.Receive(ctx)
		if err != nil {
			return 0, err
		}
		sum += r.Value
		if err := r.Answer(ctx, sum); err != nil {
			return 0, err
		}
	}
	return sum, nil
})

// TestUpdateFromCodeIsExactlyOnce crashes a run at every commit: each update that its code sends is
// answered once, and a step that calls with its key gets that answer.
func TestUpdateFromCodeIsExactlyOnce(t *testing.T) {
	t.Parallel()
	clerk := stet.Define("clerk", func(ctx stet.Context, _ int) (string, error) {
		child, err := account.Go(ctx, 3)
		if err != nil {
			return "", err
		}
		id := child.RunID(ctx)
		var keys []stet.SendKey
		for i := range 3 {
			key, err := raise.SendFrom(ctx, id, 10+i, stet.Key(fmt.Sprint(i)))
			if err != nil {
				return "", err
			}
			keys = append(keys, key)
			if i == 1 {
				if err := stet.Do(ctx, "between", func(context.Context) error { return nil }); err != nil {
					return "", err
				}
			}
		}
		var answers []int
		for i, key := range keys {
			answer, err := stet.Step(ctx, fmt.Sprint("answer ", i), func(ctx context.Context) (int, error) {
				return raise.Call(ctx, stet.EngineOf(ctx), id, 10+i, key)
			})
			if err != nil {
				return "", err
			}
			answers = append(answers, answer)
		}
		sum, err := child.Await(ctx)
		return fmt.Sprint(answers, sum), err
	})
	others := stettest.WithConfig(stet.Config{Workflows: []stet.Definition{account}})
	got, err := stettest.CrashEverywhere(t, clerk, 0, others)
	if err != nil || got != "[10 21 33] 33" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestResolutionFromCodeIsExactlyOnce crashes a run at every commit: it assigns promises of another run,
// and one of its own.
func TestResolutionFromCodeIsExactlyOnce(t *testing.T) {
	t.Parallel()
	type tokens struct{ A, B string }
	assigns := stet.Define("assigns", func(ctx stet.Context, to tokens) (string, error) {
		if err := stet.ResolveFrom(ctx, to.A, "first"); err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "between", func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		return "done", stet.RejectFrom(ctx, to.B, errSoldOut)
	})
	waits := stet.Define("waits", func(ctx stet.Context, _ int) (string, error) {
		var made []*stet.Promise[string]
		for _, name := range []string{"a", "b", "own"} {
			p, err := stet.NewPromise[string](ctx, name)
			if err != nil {
				return "", err
			}
			made = append(made, p)
		}
		child, err := assigns.Go(ctx, tokens{made[0].Token(), made[1].Token()})
		if err == nil {
			err = stet.ResolveFrom(ctx, made[2].Token(), "own")
		}
		if err != nil {
			return "", err
		}
		var all []string
		for _, p := range made {
			v, err := p.Await(ctx)
			all = append(all, fmt.Sprint(v, err))
		}
		out, err := child.Await(ctx)
		return strings.Join(append(all, out), ", "), err
	})
	others := stettest.WithConfig(stet.Config{Workflows: []stet.Definition{assigns}})
	got, err := stettest.CrashEverywhere(t, waits, 0, others)
	if want := "first<nil>, sold out, own<nil>, done"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestResolutionFromCodeThatCannotBe: what the token says is known to the code, in each replay too; that
// another assignment came before is not, and is logged.
func TestResolutionFromCodeThatCannotBe(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, _ store.Store) {
		holds := stet.Define("holds", func(ctx stet.Context, _ int) (string, error) {
			p, err := stet.NewPromise[string](ctx, "p")
			if err == nil {
				err = shownText.Set(ctx, p.Token())
			}
			if err != nil {
				return "", err
			}
			if _, err := word.Receive(ctx); err != nil {
				return "", err
			}
			return p.Await(ctx)
		})
		assigns := stet.Define("assigns", func(ctx stet.Context, token string) (string, error) {
			err := stet.ResolveFrom(ctx, token, "late")
			if again := stet.Do(ctx, "after", func(context.Context) error { return nil }); again != nil {
				return "", again
			}
			return "sent", err
		})
		var log lockedBuffer
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		e := serve(t, with(cfg, holds, assigns))
		ctx := testContext(t)
		r := begin(t, e, holds, 0, stet.ID("r"))
		waitsFor(t, e, "r", "receive")
		token, _, err := shownText.Get(ctx, e, "r")
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Resolve(ctx, token, "first"); err != nil {
			t.Fatal(err)
		}
		if got := outcome(t, begin(t, e, assigns, token)); got != "sent" {
			t.Errorf("the second assignment: %s", got)
		}
		if text := log.String(); !strings.Contains(text, `msg="a resolution is dropped" resolution=p `) {
			t.Errorf("the log has no line about it:\n%s", text)
		}
		if err := word.Send(ctx, e, "r", "go on"); err != nil {
			t.Fatal(err)
		}
		if got := outcome(t, r); got != "first" {
			t.Errorf("it was assigned %q", got)
		}
		forged := token[:len(token)-22] + strings.Repeat("A", 22)
		for text, want := range map[string]error{token: stet.ErrTerminal, forged: stet.ErrNotFound} {
			s := begin(t, e, assigns, text)
			if _, err := s.Wait(ctx); !errors.Is(err, want) {
				t.Errorf("the token %s: %v, want %v", text, err, want)
			}
			replays(t, e, s.ID())
		}
		s := begin(t, e, assigns, "p1.x")
		if _, err := s.Wait(ctx); err == nil || !strings.Contains(err.Error(), "expected p1.RUN.PLACE.SECRET") {
			t.Errorf("what is no token: %v", err)
		}
	})
}
