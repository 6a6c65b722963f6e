package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestResultWithoutWaiting says whether the run has ended, and Wait looks once though its
// context has ended.
func TestResultWithoutWaiting(t *testing.T) {
	t.Parallel()
	word := stet.Message[string]("word")
	w := stet.Define("echo", func(ctx stet.Context, _ int) (string, error) {
		text, err := word.Receive(ctx)
		if text == "fail" {
			err = errors.New("it was told to")
		}
		return text, err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	for _, text := range []string{"hello", "fail"} {
		r := begin(t, e, w, 0)
		if out, ended, err := r.Result(ctx); out != "" || ended || err != nil {
			t.Errorf("%s: before its end: %q, %v, %v", text, out, ended, err)
		}
		if _, err := r.Wait(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Wait before its end: %v", text, err)
		}
		if err := word.Send(ctx, e, r.ID(), text); err != nil {
			t.Fatal(err)
		}
		want := outcome(t, r)
		for range 20 {
			out, err := r.Wait(gone)
			if err != nil {
				out = err.Error()
			}
			if out != want {
				t.Fatalf("%s: Wait with an ended context: %q; want %q", text, out, want)
			}
			if info, err := e.Runs().Wait(gone, r.ID()); err != nil || !info.Status.Terminal() {
				t.Fatalf("%s: %v, %v", text, info, err)
			}
		}
		out, ended, err := r.Result(ctx)
		failed := (*stet.RunError)(nil)
		if !ended || errors.As(err, &failed) != (text == "fail") || err == nil && out != text {
			t.Errorf("%s: %q, %v, %v", text, out, ended, err)
		}
	}
	none := w.Handle(e, "none")
	_, _, err := none.Result(ctx)
	_, err2 := none.Wait(gone)
	if !errors.Is(err, stet.ErrNotFound) || !errors.Is(err2, stet.ErrNotFound) {
		t.Errorf("no run: %v, %v", err, err2)
	}
}

// TestRunIDIsThatOfIDFrom, also where the text is too long for an ID.
func TestRunIDIsThatOfIDFrom(t *testing.T) {
	t.Parallel()
	w := stet.Define("named", func(_ stet.Context, name string) (string, error) { return name, nil },
		stet.IDFrom(func(name string) string { return name }))
	other := stet.Define("other", func(_ stet.Context, _ string) (string, error) { return "", nil },
		stet.IDFrom(func(name string) string { return name }))
	none := stet.Define("none", func(_ stet.Context, name string) (string, error) { return name, nil })
	e := serve(t, stet.Config{Workflows: []stet.Definition{w, other, none}})
	ctx := testContext(t)
	long := strings.Repeat("x", 300)
	for _, text := range []string{"a", long, long + "y", strings.Repeat("x", 224), strings.Repeat("x", 225)} {
		want, err := w.RunID(text)
		if err != nil || !strings.HasPrefix(want, "named/") {
			t.Fatal(want, err)
		}
		for range 2 {
			r := begin(t, e, w, text, stet.ReplaceEnded)
			if r.ID() != want || outcome(t, r) != text {
				t.Errorf("run %s; want %s", r.ID(), want)
			}
		}
		if id, err := other.RunID(text); err != nil || id == want {
			t.Errorf("another workflow has the same ID %s, %v", id, err)
		}
	}
	for _, bad := range []string{"", "a\n", "a@7"} {
		_, err := w.RunID(bad)
		if _, startErr := w.Start(ctx, e, bad); !errors.Is(err, stet.ErrInvalid) || !errors.Is(startErr, stet.ErrInvalid) {
			t.Errorf("%q: %v, %v; want ErrInvalid", bad, err, startErr)
		}
	}
	if _, err := none.RunID("a"); !errors.Is(err, stet.ErrInvalid) {
		t.Error(err)
	}
}

// TestEntriesDecode whatever has a value; the others say that they have none.
func TestEntriesDecode(t *testing.T) {
	t.Parallel()
	word := stet.Message[string]("word")
	child := stet.Define("child", func(_ stet.Context, n int) (int, error) { return n + 1, nil })
	w := stet.Define("all", func(ctx stet.Context, _ int) (int, error) {
		p, err := stet.NewPromise[string](ctx, "promise")
		if err != nil {
			return 0, err
		}
		_, err1 := stet.Step(ctx, "step", func(context.Context) (int, error) { return 1, nil })
		err2 := stet.Do(ctx, "do", func(context.Context) error { return nil })
		_, err3 := word.Receive(ctx, stet.Named("receive"))
		_, err4 := word.ReceiveBatch(ctx, 2, stet.Named("batch"))
		_, err5 := p.Await(ctx)
		_, err6 := child.Call(ctx, 2)
		_, err7 := stet.Step(ctx, "fails", func(context.Context) (int, error) { return 0, stet.Permanent(errors.New("no")) })
		if err7 == nil {
			return 0, errors.New("it has not failed")
		}
		return 0, errors.Join(err1, err2, err3, err4, err5, err6, stet.Sleep(ctx, "sleep", 1))
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w, child}})
	ctx := testContext(t)
	r := begin(t, e, w, 0, stet.ID("r"), stet.FirstMessage(word, "a"), stet.FirstMessage(word, "b"),
		stet.FirstMessage(word, "c"))
	waitStatus(t, e, "r", store.Suspended)
	list, err := e.Runs().Promises(ctx, "r")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := e.Resolve(ctx, list[0].Token, "yes"); err != nil {
		t.Fatal(err)
	}
	outcome(t, r)
	want := map[string]string{"step": "1", "receive": "a", "promise": "yes", "child": "3"}
	none := map[string]string{"do": "found none", "batch": "2 messages", "fails": "is failed", "sleep": "found none"}
	for _, values := range []bool{true, false} {
		history, err := e.Runs().History(ctx, "r", stet.HistoryQuery{Values: values})
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for i := range history {
			var got any
			err := history[i].Decode(&got)
			switch at := history[i].Location; {
			case want[at] == "" && none[at] == "":
				continue
			case !values || none[at] != "":
				if !errors.Is(err, stet.ErrInvalid) || values && !strings.Contains(err.Error(), none[at]) {
					t.Errorf("%s, values %v: %v; want ErrInvalid, %q", at, values, err, none[at])
				}
			case err != nil || fmt.Sprint(got) != want[at]:
				t.Errorf("%s: %v, %v; want %s", at, got, err, want[at])
			}
			seen++
		}
		if seen != len(want)+len(none) {
			t.Errorf("%d entries; want %d", seen, len(want)+len(none))
		}
	}
}
