package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

var (
	errNegative = errors.New("negative")
	ask         = stet.Update[int, string]("ask")
	// answerer answers requests: it rejects negative numbers, fails 13, leaves 1000 open, and ends with 0, or in failure
	// with 99.
	answerer = stet.Define("answerer", func(ctx stet.Context, _ int) (string, error) {
		for {
			r, err := ask.Receive(ctx)
			if err != nil {
				return "", err
			}
			switch {
			case r.Value < 0:
				err = r.Reject(ctx, errNegative)
			case r.Value == 13:
				err = r.Fail(ctx, errNegative)
			case r.Value == 1000:
			case r.Value == 0:
				return "ended", nil
			case r.Value == 99:
				return "", errNegative
			default:
				err = r.Answer(ctx, fmt.Sprint("it is ", r.Value))
			}
			if err != nil {
				return "", err
			}
		}
	})
)

func answererConfig(cfg stet.Config) stet.Config {
	cfg.Workflows = []stet.Definition{answerer}
	cfg.Errors = []stet.ErrorCode{stet.Sentinel("negative", errNegative)}
	return cfg
}

func startAnswerer(t *testing.T, e *stet.Engine) string {
	t.Helper()
	run, err := answerer.Start(testContext(t), e, 0)
	if err != nil {
		t.Fatal(err)
	}
	return run.ID()
}

// TestUpdateIsAnswered by the run to a caller in any process.
func TestUpdateIsAnswered(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		cfg.Poll = 0
		owner := serve(t, answererConfig(cfg))
		other, err := stet.New(t.Context(), answererConfig(stet.Config{Store: s, Poll: 10 * time.Millisecond}))
		if err != nil {
			t.Fatal(err)
		}
		ctx := testContext(t)
		for _, e := range []*stet.Engine{owner, other} {
			id := startAnswerer(t, owner)
			if got, err := ask.Call(ctx, e, id, 7); err != nil || got != "it is 7" {
				t.Errorf("got %q, %v", got, err)
			}
			if _, err := ask.Call(ctx, e, id, -1); !errors.Is(err, stet.ErrRefused) || !errors.Is(err, errNegative) {
				t.Errorf("a rejected request: %v", err)
			}
			if _, err := ask.Call(ctx, e, id, 13); errors.Is(err, stet.ErrRefused) || !errors.Is(err, errNegative) {
				t.Errorf("what fails: %v", err)
			}
			if _, err := ask.Call(ctx, e, id, 0); !errors.Is(err, stet.ErrUnanswered) ||
				!strings.Contains(err.Error(), "is succeeded") {
				t.Errorf("what the end leaves open: %v", err)
			}
			if _, err := ask.Call(ctx, e, id, 1); !errors.Is(err, stet.ErrTerminal) {
				t.Errorf("after the end: %v", err)
			}
		}
	})
}

// untilReceived blocks until the run has received a request.
func untilReceived(t *testing.T, e *stet.Engine, id string) {
	t.Helper()
	untilHistory(t, e, id, func(entry stet.HistoryEntry) bool {
		return entry.Kind == store.KindReceive && entry.State == store.Done
	})
}

// TestUpdateGetsTheRunsFailure: of a run that has failed or was cancelled, whether
// the update was received or not.
func TestUpdateGetsTheRunsFailure(t *testing.T) {
	t.Parallel()
	db := memory.New()
	e := serve(t, answererConfig(stet.Config{Store: db}))
	ctx := testContext(t)
	id := startAnswerer(t, e)
	open := make(chan error, 2)
	for _, u := range []stet.Update[int, string]{ask, "never-received"} {
		go func() {
			_, err := u.Call(ctx, e, id, 1000)
			open <- err
		}()
	}
	untilReceived(t, e, id)
	info, err := e.Runs().Info(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for { // until the other one is there
		items, err := db.Inbox(ctx, info.Number)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(items, func(it store.Item) bool { return it.Name == "never-received" }) {
			break
		}
	}
	if _, err := ask.Call(ctx, e, id, 99); !errors.Is(err, stet.ErrUnanswered) || !errors.Is(err, errNegative) {
		t.Errorf("the update that made it fail: %v", err)
	}
	for range 2 {
		err := <-open
		var failed *stet.RunError
		if !errors.Is(err, stet.ErrUnanswered) || !errors.As(err, &failed) || failed.Status != store.Failed {
			t.Errorf("an open update: %v", err)
		}
	}
	id = startAnswerer(t, e)
	go func() {
		_, err := ask.Call(ctx, e, id, 1000)
		open <- err
	}()
	untilReceived(t, e, id)
	if _, err := e.Runs().Terminate(ctx, id, stet.Act{Why: "enough"}); err != nil {
		t.Fatal(err)
	}
	if err := <-open; !errors.Is(err, stet.ErrUnanswered) || !errors.Is(err, stet.ErrCancelled) {
		t.Errorf("an update of a terminated run: %v", err)
	}
}

// TestUpdateWithAKey is one request, however often it is sent.
func TestUpdateWithAKey(t *testing.T) {
	t.Parallel()
	e := serve(t, answererConfig(stet.Config{}))
	ctx := testContext(t)
	id := startAnswerer(t, e)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if got, err := ask.Call(ctx, e, id, 7, stet.SendKey("k")); err != nil || got != "it is 7" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if _, err := ask.Call(ctx, e, id, 8, stet.SendKey("k")); !errors.Is(err, stet.ErrKeyUsed) {
		t.Errorf("another request with the key: %v", err)
	}
	if _, err := stet.Update[int, string]("other").Call(ctx, e, id, 7,
		stet.SendKey("k")); !errors.Is(err, stet.ErrKeyUsed) {
		t.Errorf("another update with the key: %v", err)
	}
	if _, err := ask.Call(ctx, e, id, 7, stet.SendKey("")); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("an empty key: %v", err)
	}
	history, err := e.Runs().History(ctx, id, stet.HistoryQuery{})
	if err != nil || len(history) > 2 {
		t.Errorf("one request was received %d times (%v)", len(history), err)
	}
	if _, err := ask.Call(ctx, e, id, 0, stet.SendKey("end")); !errors.Is(err, stet.ErrUnanswered) {
		t.Errorf("the end: %v", err)
	}
	if got, err := ask.Call(ctx, e, id, 7, stet.SendKey("k")); err != nil || got != "it is 7" {
		t.Errorf("after the end: %q, %v", got, err)
	}
	if _, err := ask.Call(ctx, e, id, 0, stet.SendKey("end")); !errors.Is(err, stet.ErrUnanswered) {
		t.Errorf("the end again: %v", err)
	}
}

// TestUpdateIsAskedForAgainWhileTheRunGoesOn: the run, whose former incarnation has
// received it, does not receive it again.
func TestUpdateIsAskedForAgainWhileTheRunGoesOn(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, _ store.Store) {
		executes, release := make(chan struct{}), make(chan struct{})
		w := stet.Define("w", func(ctx stet.Context, renewed bool) (string, error) {
			if !renewed {
				r, err := ask.Receive(ctx)
				if err == nil {
					err = r.Answer(ctx, "the first answer")
				}
				if err != nil {
					return "", err
				}
				return "", stet.ContinueAsNew(true)
			}
			var got []int
			stet.Go(ctx, "serve", func(ctx stet.Context) (any, error) {
				return nil, ask.Serve(ctx, nil, func(_ stet.Context, n int) (string, error) {
					got = append(got, n)
					return "a later answer", nil
				})
			})
			err := stet.Do(ctx, "wait", func(context.Context) error {
				close(executes)
				<-release
				return nil
			})
			return fmt.Sprint(got), err
		})
		cfg.Workflows = []stet.Definition{w}
		e := serve(t, cfg)
		ctx := testContext(t)
		run, err := w.Start(ctx, e, false)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"the first answer", "the first answer", "a later answer", "a later answer"} {
			if i == 1 {
				<-executes
			}
			if got, err := ask.Call(ctx, e, run.ID(), i/2, stet.SendKey(fmt.Sprint("k", i/2))); err != nil || got != want {
				t.Errorf("call %d: %q, %v", i, got, err)
			}
		}
		close(release)
		if got, err := run.Wait(ctx); err != nil || got != "[1]" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestUpdateStandsWhenItsCallerLeaves, and the answer can be fetched later.
func TestUpdateStandsWhenItsCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, updateStandsWhenItsCallerLeaves)
}

func updateStandsWhenItsCallerLeaves(t *testing.T) {
	e := serve(t, answererConfig(stet.Config{}))
	ctx := testContext(t)
	id := startAnswerer(t, e)
	silent := stet.Update[int, string]("silent")
	gone, leave := context.WithCancelCause(ctx)
	leave(errors.New("the caller has left"))
	if _, err := silent.Call(gone, e, id, 1); err == nil {
		t.Error("a call whose context has ended succeeds")
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := silent.Call(short, e, id, 1, stet.SendKey("k")); !errors.Is(err, stet.ErrPending) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that nobody answers in time: %v", err)
	}
	if _, err := ask.Call(ctx, e, id, 0); !errors.Is(err, stet.ErrUnanswered) {
		t.Errorf("the end: %v", err)
	}
	if _, err := silent.Call(ctx, e, id, 1, stet.SendKey("k")); !errors.Is(err, stet.ErrUnanswered) {
		t.Errorf("the call again: %v", err)
	}
}

// TestUpdatesThatCannotBe change nothing.
func TestUpdatesThatCannotBe(t *testing.T) {
	t.Parallel()
	e := serve(t, answererConfig(stet.Config{MaxValue: 1000}))
	ctx := testContext(t)
	id := startAnswerer(t, e)
	_, noneErr := ask.Call(ctx, e, "none", 1)
	_, largeErr := stet.Update[string, string]("ask").Call(ctx, e, id, strings.Repeat("x", 2000))
	_, nameErr := stet.Update[int, string]("a/b\x01").Call(ctx, e, id, 1)
	_, jsonErr := stet.Update[chan int, string]("ask").Call(ctx, e, id, nil)
	_, typeErr := stet.Update[string, string]("ask").Call(ctx, e, id, "a text")
	for what, row := range map[string]struct{ err, want error }{
		"of no run": {noneErr, stet.ErrNotFound}, "too large": {largeErr, stet.ErrTooLarge}, "of a bad name": {nameErr, stet.ErrInvalid},
		"that cannot be encoded": {jsonErr, stet.ErrInvalid}, "that cannot be decoded": {typeErr, stet.ErrRefused},
	} {
		if !errors.Is(row.err, row.want) {
			t.Errorf("an update %s: %v; want %v", what, row.err, row.want)
		}
	}
	if got, err := ask.Call(ctx, e, id, 7); err != nil || got != "it is 7" {
		t.Errorf("afterwards: %q, %v", got, err)
	}
	_, answerErr := stet.Update[int, int]("ask").Call(ctx, e, id, 8)
	if answerErr == nil || !strings.Contains(answerErr.Error(), "cannot unmarshal string") {
		t.Errorf("an answer of another type: %v", answerErr)
	}
}

// TestUpdatesInOrder: first in, first out, and a lost Case consumes none.
func TestUpdatesInOrder(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		var r *stet.Request[int, string]
		won, err := stet.Select(ctx, stet.AfterDelay("at once", 0), ask.Case(&r))
		if err != nil || won != 0 {
			return fmt.Sprint("won ", won), err
		}
		var order []int
		for len(order) < 3 {
			var next *stet.Request[int, string]
			if _, err := stet.Select(ctx, ask.Case(&next, stet.Named("case"))); err != nil {
				return "", err
			}
			order = append(order, next.Value)
			if err := next.Answer(ctx, fmt.Sprint(order)); err != nil {
				return "", err
			}
		}
		_, err = ask.Receive(ctx, stet.Named("no more"), stet.Within(time.Millisecond))
		return fmt.Sprint(order, errors.Is(err, stet.ErrTimeout)), nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	run, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, run.ID(), store.Suspended)
	for i := 1; i <= 3; i++ {
		if got, err := ask.Call(ctx, e, run.ID(), i); err != nil || !strings.HasSuffix(got, fmt.Sprintf("%d]", i)) {
			t.Errorf("call %d: %q, %v", i, got, err)
		}
	}
	if got, err := run.Wait(ctx); err != nil || got != "[1 2 3] true" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestAnswersThatCannotBe leave the request open, with FailOnBug.
func TestAnswersThatCannotBe(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		r, err := stet.Update[int, any]("ask").Receive(ctx)
		if err != nil {
			return "", err
		}
		var got []bool
		for _, row := range []struct{ err, want error }{
			{r.Answer(ctx, strings.Repeat("x", 2000)), stet.ErrTooLarge}, {r.Answer(ctx, func() {}), stet.ErrInvalid},
			{r.Reject(ctx, nil), stet.ErrInvalid}, {r.Fail(ctx, nil), stet.ErrInvalid},
		} {
			got = append(got, errors.Is(row.err, row.want))
		}
		if err := r.Answer(ctx, "at last"); err != nil {
			return "", err
		}
		return fmt.Sprint(got), r.Answer(ctx, "the first one stands")
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxValue: 1000, OnBug: stet.FailOnBug})
	ctx := testContext(t)
	run, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ask.Call(ctx, e, run.ID(), 1); err != nil || got != "at last" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := run.Wait(ctx); err != nil || got != "[true true true true]" {
		t.Errorf("the run: %q, %v", got, err)
	}
}

// TestAnswerIsDurableBeforeItIsSeen: while the commit that holds it is under way
// the caller waits.
func TestAnswerIsDurableBeforeItIsSeen(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
		cfg.Poll = 0
		answered := make(chan struct{})
		g.beforeCommit = func(b *store.Batch) {
			if slices.ContainsFunc(b.Turns, func(t *store.Turn) bool { return len(t.Answers) > 0 }) {
				select {
				case <-answered:
					t.Error("the caller has an answer that is not durable")
				case <-time.After(20 * time.Millisecond): // it has had the time to come
				}
			}
		}
		e := serve(t, answererConfig(cfg))
		ctx := testContext(t)
		id := startAnswerer(t, e)
		got, err := ask.Call(ctx, e, id, 7)
		close(answered)
		if err != nil || got != "it is 7" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestServe answers in a branch of its own, with steps, and ends with the run.
func TestServe(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		served := 0
		server := stet.Go(ctx, "server", func(ctx stet.Context) (int, error) {
			return 0, ask.Serve(ctx, nil, func(ctx stet.Context, n int) (string, error) {
				served++
				if n == 13 {
					return "", errNegative
				}
				return stet.Step(ctx, "compute", func(context.Context) (string, error) { return strings.Repeat("x", n), nil })
			})
		})
		if _, err := word.Receive(ctx); err != nil {
			return 0, err
		}
		if served == 0 {
			_, err := server.Await(ctx)
			return 0, err
		}
		return served, nil
	})
	cfg := answererConfig(stet.Config{})
	cfg.Workflows = []stet.Definition{w}
	e := serve(t, cfg)
	ctx := testContext(t)
	run, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"", "x", "xx"} {
		if got, err := ask.Call(ctx, e, run.ID(), n); err != nil || got != want {
			t.Errorf("%d: %q, %v", n, got, err)
		}
	}
	if _, err := ask.Call(ctx, e, run.ID(), 13); !errors.Is(err, errNegative) {
		t.Errorf("what fails: %v", err)
	}
	if err := word.Send(ctx, e, run.ID(), "end"); err != nil {
		t.Fatal(err)
	}
	if got, err := run.Wait(ctx); err != nil || got != 4 {
		t.Errorf("served %d, %v", got, err)
	}
}

// TestUpdatesOfAFormerIncarnation: when the run continues as new, the update that was received fails, and the next
// incarnation gets the other one. Repeated with their keys, both find their answers.
func TestUpdatesOfAFormerIncarnation(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, part int) (string, error) {
		r, err := ask.Receive(ctx)
		if err != nil {
			return "", err
		}
		if part == 0 {
			if _, err := word.Receive(ctx); err != nil {
				return "", err
			}
			return "", stet.ContinueAsNew(1)
		}
		return "done", r.Answer(ctx, fmt.Sprint("part ", part))
	})
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		cfg.Workflows, cfg.Poll = []stet.Definition{w}, 0
		owner := serve(t, cfg)
		other := client(t, s, w)
		ctx := testContext(t)
		run, err := w.Start(ctx, owner, 0)
		if err != nil {
			t.Fatal(err)
		}
		open := make(chan error, 2)
		call := func(e *stet.Engine, key stet.SendKey) error {
			got, err := ask.Call(ctx, e, run.ID(), 1, key)
			if err == nil && got != "part 1" {
				err = fmt.Errorf("the answer is %q", got)
			}
			return err
		}
		for i, e := range []*stet.Engine{owner, other} {
			go func() { open <- call(e, stet.SendKey(fmt.Sprint("key-", i))) }()
		}
		untilReceived(t, owner, run.ID())
		info, err := owner.Runs().Info(ctx, run.ID())
		if err != nil {
			t.Fatal(err)
		}
		for { // until the other one is there
			items, err := s.Inbox(ctx, info.Number)
			if err != nil {
				t.Fatal(err)
			}
			if len(items) > 0 {
				break
			}
		}
		if err := word.Send(ctx, owner, run.ID(), "go on"); err != nil {
			t.Fatal(err)
		}
		first, second := <-open, <-open
		if lost := errors.Join(first, second); !errors.Is(lost, stet.ErrUnanswered) || first != nil && second != nil {
			t.Errorf("the answers are %v and %v; want one, and that the other one is unanswered", first, second)
		}
		again, unanswered := 0, 0
		for i := range 2 {
			switch err := call(other, stet.SendKey(fmt.Sprint("key-", i))); {
			case err == nil:
				again++
			case errors.Is(err, stet.ErrUnanswered):
				unanswered++
			default:
				t.Error(err)
			}
		}
		if again != 1 || unanswered != 1 {
			t.Errorf("repeated, %d are answered and %d are not", again, unanswered)
		}
	})
}

// TestRewindOfARunThatShows: appended items stay, and are appended again behind a mark. An answered update stays so, an
// unanswered one is received again. A fork begins with empty streams.
func TestRewindOfARunThatShows(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		text := ""
		for _, name := range []string{"first", "second"} {
			r, err := stet.Update[int, string](name).Receive(ctx)
			if err != nil {
				return "", err
			}
			text += fmt.Sprint(r.Value)
			if err := speech.Append(ctx, name); err != nil {
				return "", err
			}
			if name == "first" {
				if err := r.Answer(ctx, "answered"); err != nil {
					return "", err
				}
			}
		}
		_, err := word.Receive(ctx)
		return text, err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	run, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	first, second := stet.Update[int, string]("first"), stet.Update[int, string]("second")
	if got, err := first.Call(ctx, e, run.ID(), 1); err != nil || got != "answered" {
		t.Fatalf("%q, %v", got, err)
	}
	open := make(chan error, 1)
	go func() {
		_, err := second.Call(ctx, e, run.ID(), 2)
		open <- err
	}()
	untilWaits(t, e, run.ID(), "word")
	if ok, err := e.Runs().Pause(ctx, run.ID(), stet.Act{}); !ok {
		t.Fatal(err)
	}
	said := func(id string) (text string) {
		items, err := speech.Items(ctx, e, id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			text += fmt.Sprintf(" %d %s", item.Position, item.Value)
			if item.Rewound {
				text += "rewound"
			}
		}
		return text
	}
	fork, err := e.Runs().Fork(ctx, run.ID(), "second", stet.Act{Why: "to look"})
	if err != nil {
		t.Fatal(err)
	}
	if got := said(fork); got != "" {
		t.Errorf("the fork begins with%s", got)
	}
	if ok, err := e.Runs().Rewind(ctx, run.ID(), "second", stet.Act{Why: "once more"}); !ok {
		t.Fatal(err)
	}
	if _, err := e.Runs().Resume(ctx, run.ID(), stet.Act{}); err != nil && !errors.Is(err, stet.ErrRefused) {
		t.Fatal(err)
	}
	untilWaits(t, e, run.ID(), "word")
	if got, want := said(run.ID()), " 1 first 2 second 3 rewound 4 second"; got != want {
		t.Errorf("the stream holds%s, want%s", got, want)
	}
	if err := word.Send(ctx, e, run.ID(), "end"); err != nil {
		t.Fatal(err)
	}
	if got, err := run.Wait(ctx); err != nil || got != "12" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := <-open; !errors.Is(err, stet.ErrUnanswered) {
		t.Errorf("the update that nobody has answered: %v", err)
	}
	if _, err := e.Runs().Terminate(ctx, fork, stet.Act{}); err != nil {
		t.Error(err)
	}
}

// untilWaits blocks until the run is suspended at a location.
func untilWaits(t *testing.T, e *stet.Engine, id, place string) {
	t.Helper()
	untilRun(t, e, id, func(info *stet.RunInfo) bool {
		if info.Status.Terminal() || info.Status == store.Stalled {
			t.Fatalf("the run is %s: %v %s", info.Status, info.Err, info.Reason)
		}
		return info.Status == store.Suspended && slices.ContainsFunc(info.WaitsFor,
			func(w stet.WaitInfo) bool { return w.Location == place })
	})
}
