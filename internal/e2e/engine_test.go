package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

func TestStep(t *testing.T) {
	t.Parallel()
	w := stet.Define("double", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	got, err := run(t, e, w, 21)
	if err != nil || got != 42 {
		t.Fatalf("got %d, %v; want 42", got, err)
	}
}

func TestSleepAndRetry(t *testing.T) {
	t.Parallel()
	attempts := 0
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		if err := stet.Sleep(ctx, "nap", 20*time.Millisecond); err != nil {
			return 0, err
		}
		return stet.Step(ctx, "flaky", func(ctx context.Context) (int, error) {
			if attempts++; attempts < 3 {
				return 0, errors.New("not yet")
			}
			return stet.Attempt(ctx), nil
		}, stet.Retry{First: time.Millisecond})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	got, err := run(t, e, w, 0)
	if err != nil || got != 3 {
		t.Fatalf("got %d, %v; want 3", got, err)
	}
}

func TestMessageWakesSuspendedRun(t *testing.T) {
	t.Parallel()
	name := stet.Message[string]("name")
	w := stet.Define("greet", func(ctx stet.Context, _ int) (string, error) {
		a, err := name.Receive(ctx)
		if err != nil {
			return "", err
		}
		b, err := name.Receive(ctx, stet.Named("second"))
		return a + b, err
	})
	for _, parked := range []int{stet.None, 0} {
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: parked})
		ctx := testContext(t)
		r, err := w.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []string{"A", "B"} {
			waitStatus(t, e, r.ID(), store.Suspended)
			if err := name.Send(ctx, e, r.ID(), v); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := r.Wait(ctx); err != nil || got != "AB" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

// untilItem blocks until something of a kind has been sent to a run.
func untilItem(t testing.TB, s store.Store, id string, kind store.ItemKind) {
	t.Helper()
	items, err := watch(testContext(t), func(ctx context.Context) ([]store.Item, error) {
		page, err := s.List(ctx, store.Filter{IDs: []string{id}, Limit: 1})
		if err != nil || len(page.Runs) != 1 {
			return nil, err
		}
		return s.Inbox(ctx, page.Runs[0].No)
	}, func(items []store.Item) bool {
		return slices.ContainsFunc(items, func(it store.Item) bool { return it.Kind == kind })
	})
	if err != nil {
		t.Errorf("run %s: nothing of kind %d has come: %v; there is %+v", id, kind, err, items)
	}
}

func TestPromise(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 1)
	w := stet.Define("approve", func(ctx stet.Context, _ int) (bool, error) {
		p, err := stet.NewPromise[bool](ctx, "ok")
		if err != nil {
			return false, err
		}
		if err := stet.Do(ctx, "tell", func(context.Context) error { tokens <- p.Token(); return nil }); err != nil {
			return false, err
		}
		return p.Await(ctx)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None})
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	token := <-tokens
	if err := e.Resolve(ctx, token, true); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(ctx); err != nil || !got {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestBranches(t *testing.T) {
	t.Parallel()
	w := stet.Define("fan", func(ctx stet.Context, n int) (int, error) {
		items := make([]int, n)
		for i := range items {
			items[i] = i
		}
		squares, err := stet.Map(ctx, "sq", items, func(ctx stet.Context, i int) (int, error) {
			return stet.Step(ctx, "sq", func(context.Context) (int, error) { return i * i, nil })
		}, stet.MapLimit(4))
		if err != nil {
			return 0, err
		}
		sum := 0
		for _, s := range squares {
			sum += s
		}
		fast := stet.Go(ctx, "fast", func(ctx stet.Context) (int, error) { return 1, stet.Sleep(ctx, "s", time.Millisecond) })
		slow := stet.Go(ctx, "slow", func(ctx stet.Context) (int, error) { return 2, stet.Sleep(ctx, "s", time.Hour) })
		winner, first, err := stet.Race(ctx, fast, slow)
		return sum*10 + first + winner, err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	got, err := run(t, e, w, 50)
	if err != nil || got != 404251 { // and the winner is 0
		t.Fatalf("got %d, %v", got, err)
	}
}

// What the code sees of branches that fail says whose failure it is, live and recorded.
func TestFailuresOfBranchesCarryTheirNames(t *testing.T) {
	t.Parallel()
	errNo := errors.New("no")
	w := stet.Define("w", func(ctx stet.Context, mode string) (string, error) {
		bad := func(name string) *stet.Future[int] {
			return stet.Go(ctx, name, func(ctx stet.Context) (int, error) {
				return 0, stet.Do(ctx, "s", func(context.Context) error { return stet.Permanent(errNo) })
			})
		}
		good := stet.Go(ctx, "good", func(ctx stet.Context) (int, error) { return 1, stet.Sleep(ctx, "s", time.Hour) })
		var err error
		winner, names := -1, "b"
		switch mode {
		case "race":
			winner, _, err = stet.Race(ctx, good, bad("b"))
		case "all":
			_, err = stet.All(ctx, good, bad("b"))
		case "any":
			winner, _, err = stet.Any(ctx, bad("b"), bad("c"))
			names = "b c"
		case "join":
			err = stet.Join(ctx, bad("b"), bad("c"))
			names = "b c"
		}
		var one stet.BranchError
		var all stet.BranchErrors
		if !errors.As(err, &one) || one.Name != "b" || !errors.Is(one, errNo) || !errors.Is(err, errNo) {
			return "", fmt.Errorf("got %#v", err)
		}
		if errors.As(err, &all); len(all) > 0 && all[0].Name+" "+all[1].Name != names || len(all) == 0 && names != "b" {
			return "", fmt.Errorf("got %#v", err)
		}
		return fmt.Sprint(winner), nil
	})
	e := serve(t, stet.Config{
		Workflows: []stet.Definition{w}, Errors: []stet.ErrorCode{stet.Sentinel("no", errNo)},
	})
	for mode, want := range map[string]string{"race": "1", "all": "-1", "any": "-1", "join": "-1"} {
		if got, err := run(t, e, w, mode); err != nil || got != want {
			t.Errorf("%s: got %q, %v", mode, got, err)
		}
	}
}

func TestCancelCleansUp(t *testing.T) {
	t.Parallel()
	cleaned := make(chan error, 1)
	w := stet.Define("c", func(ctx stet.Context, _ int) (int, error) {
		defer func() {
			//stetvet:ignore channel the code holds the run where the test wants it
			cleaned <- stet.Do(stet.WithoutCancel(ctx), "clean", func(context.Context) error { return nil })
		}()
		return 0, stet.Sleep(ctx, "long", time.Hour)
	})
	for _, parked := range []int{stet.None, 0} {
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: parked})
		ctx := testContext(t)
		r, err := w.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		waitStatus(t, e, r.ID(), store.Suspended)
		ok, err := r.Cancel(ctx, stet.Act{Why: "no need"})
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if err := <-cleaned; err != nil {
			t.Fatal(err)
		}
		_, err = r.Wait(ctx)
		if !errors.Is(err, stet.ErrCancelled) {
			t.Fatal(err)
		}
	}
}
