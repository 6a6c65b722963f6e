package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestBadInput calls the API with input that it must refuse: each with the error's name, a text that describes the
// input, and no change.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			ctx := testContext(t)
			open := s.open(t)
			type order struct {
				Total int `json:"total"`
			}
			w := stet.Define("order", func(_ stet.Context, o order) (int, error) { return o.Total, nil })
			e := serve(t, stet.Config{Store: open(), Workflows: []stet.Definition{w}, MaxValue: 1000})
			if _, err := w.Start(ctx, e, order{1}, stet.ID("one")); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Handle(e, "one").Wait(ctx); err != nil {
				t.Fatal(err)
			}
			before := state(t, open())
			word := stet.Message[string]("word")
			start := func(opts ...stet.StartOption) error {
				_, err := w.Start(ctx, e, order{2}, opts...)
				return err
			}
			for _, c := range []struct {
				what string
				err  error
				want error
				text string
			}{
				{"unknown workflow", second(stet.Ref[int, int]("nosuch").Start(ctx, e, 1)), stet.ErrUnknownWorkflow, `"nosuch"`},
				{"empty ID", start(stet.ID("")), stet.ErrInvalid, "1 to 255 bytes, found 0"},
				{"long ID", start(stet.ID(strings.Repeat("x", 256))), stet.ErrInvalid, "found 256"},
				{"control character", start(stet.ID("a\x00b")), stet.ErrInvalid, "printable"},
				{"superseded ID", start(stet.ID("a@12")), stet.ErrInvalid, "superseded"},
				{"negative delay", start(stet.StartAfter(-1)), stet.ErrInvalid, "StartAfter"},
				{"unknown policy", start(stet.Existing(9)), stet.ErrInvalid, "found 9"},
				{"other input", start(stet.ID("one")), stet.ErrExists, "another input"},
				{"refused existing", start(stet.ID("one"), stet.RefuseExisting), stet.ErrExists, "one"},
				{"large input", second(stet.Ref[string, int]("order").Start(ctx, e, strings.Repeat("x", 2000))), stet.ErrTooLarge, "2003 bytes"},
				{"input that is no JSON", second(stet.Ref[any, int]("order").Start(ctx, e, make(chan int))), stet.ErrInvalid, "chan int"},
				{"first message without a name", start(stet.FirstMessage(stet.Message[int](""), 1)), stet.ErrInvalid, "name"},
				{"message to nobody", word.Send(ctx, e, "none", "x"), stet.ErrNotFound, `"none"`},
				{"message to an ended run", word.Send(ctx, e, "one", "x"), stet.ErrTerminal, "succeeded"},
				{"large message", word.Send(ctx, e, "one", strings.Repeat("x", 2000)), stet.ErrTooLarge, "2003"},
				{"long key", word.Send(ctx, e, "one", "x", stet.SendKey(strings.Repeat("k", 256))), stet.ErrInvalid, "found 256"},
				{"empty key", word.Send(ctx, e, "one", "x", stet.SendKey("")), stet.ErrInvalid, "found 0"},
				{"wait for nobody", second(w.Handle(e, "none").Wait(ctx)), stet.ErrNotFound, `"none"`},
				{"cancel nobody", second(e.Runs().Cancel(ctx, "none", stet.Act{})), stet.ErrNotFound, `"none"`},
				{"resume an ended run", second(e.Runs().Resume(ctx, "one", stet.Act{})), stet.ErrTerminal, "succeeded"},
				{"token of nothing", e.Resolve(ctx, "nonsense", 1), stet.ErrNotFound, "expected p1."},
				{"token of another run", e.Resolve(ctx, "p1.b25l.MDoC.AAAAAAAAAAAAAAAAAAAAAA", 1), stet.ErrNotFound, "promise"},
				{"reject without a reason", e.Reject(ctx, "x", nil), stet.ErrInvalid, "nil"},
				{"bad cursor", second(e.Store().List(ctx, store.Filter{Cursor: "zzz"})), store.ErrBadCursor, "zzz"},
				{"bad limit", second(e.Store().List(ctx, store.Filter{Limit: -1})), store.ErrInvalid, "-1"},
				{"bad status", second(e.Runs().Count(ctx, store.Filter{Statuses: []store.Status{77}})), store.ErrInvalid, "77"},
				{"history of nobody", second(e.Runs().History(ctx, "none", stet.HistoryQuery{})), stet.ErrNotFound, `"none"`},
				{"history after nonsense", second(e.Runs().History(ctx, "one", stet.HistoryQuery{After: "a//b"})), stet.ErrInvalid, "After"},
			} {
				if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.text) {
					t.Errorf("%s: got %v; want %v with %q", c.what, c.err, c.want, c.text)
				}
			}
			if after := state(t, open()); after != before {
				t.Errorf("something has changed:\n%s\nbefore:\n%s", after, before)
			}

			// A wrong shape is found by the code that has the type: the run stalls, and names the place.
			r, err := stet.Ref[map[string]string, int]("order").Start(ctx, e, map[string]string{"total": "many"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Wait(ctx); !errors.Is(err, stet.ErrInput) || !strings.Contains(err.Error(), "field total") {
				t.Errorf("wrong shape: got %v", err)
			}
		})
	}
}

func second[A any](_ A, err error) error { return err }

// state is everything that can be seen of a store's runs.
func state(t *testing.T, s store.Store) string {
	t.Helper()
	page, err := s.List(context.Background(), store.Filter{Limit: 100, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, r := range page.Runs {
		entries, err := s.History(context.Background(), store.HistoryQuery{Run: r.No, Values: true})
		if err != nil {
			t.Fatal(err)
		}
		items, err := s.Inbox(context.Background(), r.No)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%+v %+v %+v\n", r, entries, items)
	}
	return text
}

// TestBadConfig collects everything that is wrong into one error.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	fine := stet.Define("fine", func(stet.Context, int) (int, error) { return 0, nil })
	twice := stet.Define("fine", func(stet.Context, int) (int, error) { return 0, nil })
	bad := stet.Define("bad\nname", func(stet.Context, int) (int, error) { return 0, nil }, stet.Retry{Attempts: -5},
		stet.MaxRunTime(-time.Hour))
	_, err := stet.New(t.Context(), stet.Config{
		Workflows: []stet.Definition{fine, twice, bad, stet.Ref[int, int]("elsewhere"), nil},
		MaxSteps:  -3, LeaseTTL: time.Nanosecond, Grace: -7 * time.Second, Retry: stet.Retry{Factor: 0.5},
		Errors: []stet.ErrorCode{{}},
	})
	if !errors.Is(err, stet.ErrInvalid) {
		t.Fatalf("got %v", err)
	}
	for _, text := range []string{
		"Store: expected an open store", "defined twice, at ", "input_test.go", "bad\\nname", "Retry.Attempts", "MaxRunTime", "is a Ref",
		"Workflows[4]", "MaxSteps: expected 1 or more, found -3", "LeaseTTL", "Grace", "Retry.Factor",
	} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not say %q:\n%v", text, err)
		}
	}
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "the function is nil") {
			t.Errorf("Define with a nil function: %v", p)
		}
	}()
	stet.Define[int, int]("x", nil)
}

// TestBadArguments are refused inside a workflow, by the operation itself.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	w := stet.Define("args", func(ctx stet.Context, _ int) ([]string, error) {
		var texts []string
		add := func(err error) {
			if errors.Is(err, stet.ErrInvalid) || errors.Is(err, stet.ErrEmpty) {
				texts = append(texts, err.Error())
			} else {
				texts = append(texts, fmt.Sprint("not refused: ", err))
			}
		}
		add(stet.Sleep(ctx, "s", -time.Second))
		_, err := word.Receive(ctx, stet.Within(-1))
		add(err)
		_, err = word.ReceiveBatch(ctx, 0)
		add(err)
		_, err = stet.Map(ctx, "m", []int{1}, func(stet.Context, int) (int, error) { return 0, nil }, stet.MapLimit(-2))
		add(err)
		add(stet.Do(ctx, "d", func(context.Context) error { return nil }, stet.Retry{Jitter: 2}))
		_, _, err = stet.Race[int](ctx)
		add(err)
		_, err = stet.Select(ctx)
		add(err)
		_, err = stet.Go(ctx, "g", func(stet.Context) (int, error) { return 0, nil }).Result()
		add(err)
		return texts, nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	texts, err := run(t, e, w, 0)
	if err != nil || len(texts) != 8 {
		t.Fatal(texts, err)
	}
	for _, text := range texts {
		if strings.HasPrefix(text, "not refused") {
			t.Error(text)
		}
	}
}

// TestLeaseTTLBounds: on a store that several processes work on at a time a lease is neither too
// short to be renewed nor so long that a death holds runs for hours. Elsewhere it guards nothing.
func TestLeaseTTLBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slots int
		ttl   time.Duration
		ok    bool
	}{
		{16, time.Second - 1, false}, {16, time.Second, true}, {16, 0, true}, {16, 5 * time.Minute, true},
		{16, 5*time.Minute + 1, false}, {1, 24 * time.Hour, true}, {1, 3 * time.Millisecond, true},
	} {
		_, err := stet.New(t.Context(), stet.Config{Store: memory.New(memory.Slots(c.slots)), LeaseTTL: c.ttl})
		want := "expected 1s to 5m0s, found " + c.ttl.String()
		switch {
		case c.ok && err != nil:
			t.Errorf("%d slots, %s: %v", c.slots, c.ttl, err)
		case !c.ok && (!errors.Is(err, stet.ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%d slots, %s: expected an error with %q, found %v", c.slots, c.ttl, want, err)
		}
	}
}
