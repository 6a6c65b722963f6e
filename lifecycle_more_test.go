package stet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestTokensAndRewind: a promise that was made before the cut keeps its token, and
// the resolution that it had; one that is made anew has a new one, and the old token
// counts no more.
func TestTokensAndRewind(t *testing.T) {
	var mu sync.Mutex
	var tokens []string
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		if err := stet.Do(ctx, "draft", func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		p, err := stet.NewPromise[string](ctx, "decision")
		if err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "tell", func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			tokens = append(tokens, p.Token())
			return nil
		}); err != nil {
			return "", err
		}
		return p.Await(ctx)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	last := func(n int) string {
		mu.Lock()
		defer mu.Unlock()
		if len(tokens) != n {
			t.Fatalf("%d tokens were told, want %d", len(tokens), n)
		}
		return tokens[n-1]
	}
	r := begin(t, e, w, "")
	waitStatus(t, e, r.ID(), store.Suspended)
	first := last(1)
	if err := e.Resolve(ctx, first, "yes"); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, r); got != "yes" {
		t.Fatal(got)
	}
	ok, err := e.Rewind(ctx, r.ID(), "tell", "")
	done(t, ok, err)
	if got := outcome(t, r); got != "yes" || last(2) != first {
		t.Errorf("after a rewind behind the promise: %q, the same token %t", got, last(2) == first)
	}
	ok, err = e.Rewind(ctx, r.ID(), "draft", "")
	done(t, ok, err)
	waitStatus(t, e, r.ID(), store.Suspended)
	second := last(3)
	if second == first {
		t.Fatal("a promise that is made anew has its former token")
	}
	if err := e.Resolve(ctx, first, "late"); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("the former token: %v", err)
	}
	if err := e.Resolve(ctx, second, "no"); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, r); got != "no" {
		t.Errorf("got %q", got)
	}
}

// TestChildrenAndRewind: a child begun in what is taken back is begun anew; one from
// before is the same.
func TestChildrenAndRewind(t *testing.T) {
	c := newCalls()
	kid := stet.Define("kid", func(ctx stet.Context, name string) (string, error) { return c.step(ctx, name) })
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		a, err := kid.Call(ctx, "a")
		if err != nil {
			return "", err
		}
		s, err := c.step(ctx, "s")
		if err != nil {
			return "", err
		}
		b, err := kid.Call(ctx, "b", stet.As("second"))
		return a + s + b, err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w, kid}})
	ctx := testContext(t)
	r := begin(t, e, w, "")
	if got := outcome(t, r); got != "a1s1b1" {
		t.Fatal(got)
	}
	ok, err := e.Rewind(ctx, r.ID(), "s", "")
	done(t, ok, err)
	if got := outcome(t, r); got != "a1s2b2" {
		t.Errorf("got %q", got)
	}
	c.want(t, "a s b s b")
	page, err := e.List(ctx, store.Filter{Workflows: []string{"kid"}})
	if err != nil || len(page.Runs) != 3 {
		t.Errorf("%d children are kept, want 3: finished ones are records; %v", len(page.Runs), err)
	}
}

func TestPauseWithChildren(t *testing.T) {
	kid := stet.Define("kid", func(ctx stet.Context, _ int) (int, error) { return 1, stet.Sleep(ctx, "long", time.Hour) })
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) { return kid.Call(ctx, 0) })
	e := serve(t, stet.Config{Workflows: []stet.Definition{w, kid}})
	ctx := testContext(t)
	r := begin(t, e, w, 0)
	waitStatus(t, e, r.ID(), store.Suspended)
	var child string
	for child == "" {
		page, err := e.List(ctx, store.Filter{Workflows: []string{"kid"}, Statuses: []store.Status{store.Suspended}})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Runs) == 1 {
			child = page.Runs[0].ID
		}
	}
	marks := func(want store.Marks) {
		t.Helper()
		for _, id := range []string{r.ID(), child} {
			if info, err := e.Get(ctx, id); err != nil || info.Marks != want {
				t.Errorf("run %s has the marks %q, want %q; %v", id, info.Marks, want, err)
			}
		}
	}
	ok, err := e.Pause(ctx, r.ID(), "", stet.WithChildren{})
	done(t, ok, err)
	marks(store.Paused)
	ok, err = e.Resume(ctx, r.ID(), stet.WithChildren{})
	done(t, ok, err)
	marks(0)
	ok, err = e.Cancel(ctx, r.ID(), "", stet.WithChildren{})
	refused(t, ok, err, stet.ErrInvalid, "WithChildren is for Pause and Resume")
}

// TestPauseAgainstTheEnd races a pause with the completion of a run: either it is
// paused and goes on when it is resumed, or it has ended and the pause says so.
func TestPauseAgainstTheEnd(t *testing.T) {
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		for i := range 3 {
			if err := stet.Do(ctx, fmt.Sprint("s", i), func(context.Context) error { return nil }); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	paused := 0
	for i := range 60 {
		r := begin(t, e, w, i)
		ok, err := e.Pause(ctx, r.ID(), "")
		switch {
		case ok:
			paused++
			if info, err := e.Get(ctx, r.ID()); err != nil || info.Marks != store.Paused || info.Status.Terminal() {
				t.Fatalf("a paused run is %s %s, %v", info.Status, info.Marks, err)
			}
			ok, err := e.Resume(ctx, r.ID())
			done(t, ok, err)
		case !errors.Is(err, stet.ErrTerminal) && !(errors.Is(err, stet.ErrRefused) && strings.Contains(err.Error(), "succeeded")):
			t.Fatal(err)
		}
		if got := outcome(t, r); got != "done" {
			t.Fatal(got)
		}
	}
	t.Logf("%d of 60 were paused", paused)
}

// TestRetryTwice has many ask at once: one retry is carried out for each failure.
func TestRetryTwice(t *testing.T) {
	c := newCalls()
	w := three(c)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	c.set("c", true)
	r := begin(t, e, w, "")
	outcome(t, r)
	c.set("c", false)
	var accepted, other int
	var mu sync.Mutex
	var asks sync.WaitGroup
	for range 8 {
		asks.Go(func() {
			ok, err := e.Retry(ctx, r.ID(), "")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ok:
				accepted++
			case errors.Is(err, stet.ErrRefused):
				other++
			default:
				t.Error(err)
			}
		})
	}
	asks.Wait()
	if accepted != 1 || other != 7 {
		t.Errorf("%d retries were carried out and %d refused; want 1 and 7", accepted, other)
	}
	if got := outcome(t, r); got != "a1 b1 c2" {
		t.Error(got)
	}
	c.want(t, "a b c c")
	if audit, err := e.Audit(ctx, r.ID()); err != nil || len(audit) != 1 {
		t.Errorf("the audit is %+v, %v", audit, err)
	}
}

// TestRewindAgainstAClaim rewinds while messages wake the run: whatever comes first,
// nothing is lost and all of it is seen once, in order.
func TestRewindAgainstAClaim(t *testing.T) {
	name := stet.Message[int]("n")
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		var got []int
		for range 4 {
			n, err := name.Receive(ctx)
			if err != nil {
				return "", err
			}
			got = append(got, n)
		}
		return fmt.Sprint(got), nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, Poll: 5 * time.Millisecond})
	ctx := testContext(t)
	for range 15 {
		r := begin(t, e, w, 0)
		sent := make(chan error, 1)
		go func() {
			for i := range 4 {
				if err := name.Send(ctx, e, r.ID(), i); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		if ok, err := e.Pause(ctx, r.ID(), ""); ok {
			ok, err := e.Rewind(ctx, r.ID(), "/", "")
			done(t, ok, err)
			ok, err = e.Resume(ctx, r.ID())
			done(t, ok, err)
		} else if !errors.Is(err, stet.ErrTerminal) && !errors.Is(err, stet.ErrRefused) {
			t.Fatal(err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if got := outcome(t, r); got != "[0 1 2 3]" {
			t.Fatalf("got %s", got)
		}
		ok, err := e.Rewind(ctx, r.ID(), "n#3", "")
		done(t, ok, err)
		if got := outcome(t, r); got != "[0 1 2 3]" {
			t.Fatalf("after a rewind: %s", got)
		}
	}
}

// TestRewindMarksStreams: what was streamed stays, and the mark says from where on it
// comes anew.
func TestRewindMarksStreams(t *testing.T) {
	log := stet.Stream[string]("log")
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		for _, name := range []string{"a", "b"} {
			if err := stet.Do(ctx, name, func(context.Context) error { return nil }); err != nil {
				return "", err
			}
			if err := log.Append(ctx, name); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, 0)
	outcome(t, r)
	ok, err := e.Rewind(ctx, r.ID(), "b", "")
	done(t, ok, err)
	outcome(t, r)
	items, err := log.Items(ctx, e, r.ID(), 0, 10)
	var got []string
	for _, it := range items {
		if it.Rewound {
			it.Value = "mark"
		}
		got = append(got, it.Value)
	}
	if err != nil || strings.Join(got, " ") != "a b mark b" {
		t.Errorf("the stream is %q, %v; want a b mark b", got, err)
	}
}
