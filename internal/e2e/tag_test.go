package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestTagsOfARun: given at start, changed by the run, found by listing, and as
// they were after every kind of end.
func TestTagsOfARun(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, fail bool) (int, error) {
		if err := stet.SetTags(ctx, stet.Tags{"stage": "begun", "tenant": "ibm"}); err != nil {
			return 0, err
		}
		if _, err := word.Receive(ctx); err != nil {
			return 0, stet.SetTags(ctx, stet.Tags{"stage": "cancelled"})
		}
		if err := stet.SetTags(ctx, stet.Tags{"stage": "", "area": ""}); err != nil || fail {
			return 0, errors.New("failed")
		}
		return 0, nil
	})
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		cfg.Workflows, cfg.Poll = []stet.Definition{w}, 0
		e := serve(t, cfg)
		other := client(t, s, w)
		ctx := testContext(t)
		found := func(tags ...store.Pair) string {
			page, err := other.Store().List(ctx, store.Filter{Tags: tags})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range page.Runs {
				ids = append(ids, r.ID)
			}
			return strings.Join(ids, " ")
		}
		for id, fail := range map[string]bool{"good": false, "bad": true, "cancelled": false} {
			if _, err := w.Start(ctx, other, fail, stet.ID(id), stet.Tags{"tenant": "acme", "area": "north"}); err != nil {
				t.Fatal(err)
			}
			waitStatus(t, e, id, store.Suspended)
			if got := found(store.Pair{Key: "stage", Value: "begun"}, store.Pair{Key: "tenant", Value: "ibm"},
				store.Pair{Key: "area", Value: "north"}); got != id {
				t.Errorf("under way is found %q, want %q", got, id)
			}
			if id == "cancelled" {
				if _, err := e.Runs().Cancel(ctx, id, stet.Act{}); err != nil {
					t.Fatal(err)
				}
			} else if err := word.Send(ctx, other, id, "go on"); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Runs().Wait(ctx, id); err != nil {
				t.Fatal(err)
			}
			if id == "cancelled" {
				if got := found(store.Pair{Key: "stage", Value: "cancelled"}); got != id {
					t.Errorf("the cancelled run is not found: %q", got)
				}
				continue
			}
			info, err := other.Runs().Info(ctx, id)
			if want := "map[tenant:ibm]"; err != nil || fmt.Sprint(info.Tags) != want {
				t.Errorf("%s: the tags are %v (%v), want %s", id, info.Tags, err, want)
			}
		}
	})
}

// TestTagsAndHeadersThatCannotBe start nothing.
func TestTagsAndHeadersThatCannotBe(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(stet.Context, int) (int, error) { return 0, nil })
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	many := stet.Tags{}
	for i := range store.MaxTags + 1 {
		many[fmt.Sprint(i)] = "x"
	}
	for what, row := range map[string]struct {
		option stet.StartOption
		want   error
	}{
		"an empty key": {stet.Tags{"": "x"}, stet.ErrInvalid}, "a key with a space": {stet.Tags{"a b": "x"}, stet.ErrInvalid},
		"a key with an equal sign":         {stet.Tags{"a=b": "x"}, stet.ErrInvalid},
		"a long key":                       {stet.Tags{strings.Repeat("k", 65): "x"}, stet.ErrInvalid},
		"an empty value":                   {stet.Tags{"a": ""}, stet.ErrInvalid},
		"a long value":                     {stet.Tags{"a": strings.Repeat("v", 256)}, stet.ErrInvalid},
		"a value with a control character": {stet.Tags{"a": "x\ny"}, stet.ErrInvalid}, "too many": {many, stet.ErrInvalid},
		"a header without a key": {stet.Headers{"": "x"}, stet.ErrInvalid},
		"large headers":          {stet.Headers{"k": strings.Repeat("v", 5000)}, stet.ErrTooLarge},
	} {
		if _, err := w.Start(ctx, e, 0, row.option); !errors.Is(err, row.want) {
			t.Errorf("%s: %v; want %v", what, err, row.want)
		}
	}
	if err := word.Send(ctx, e, "none", "w", stet.Headers{"": "x"}); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("a message with a bad header: %v", err)
	}
	page, err := e.Store().List(ctx, store.Filter{})
	if err != nil || len(page.Runs) != 0 {
		t.Errorf("%d runs were started (%v)", len(page.Runs), err)
	}
}

// TestHeadersAccompanyARun: into its code, also in a replay, its steps and its
// children, and with what its steps send.
func TestHeadersAccompanyARun(t *testing.T) {
	t.Parallel()
	child := stet.Define("child", func(ctx stet.Context, _ int) (string, error) {
		return stet.Step(ctx, "look", func(c context.Context) (string, error) {
			info, _ := stet.StepOf(c)
			return info.Headers["trace"] + "/" + stet.Header(ctx, "tenant"), nil
		})
	})
	letters := stet.Message[string]("letters")
	receiver := stet.Define("receiver", func(ctx stet.Context, _ int) (stet.Headers, error) {
		all := stet.Headers{}
		for range 2 {
			got, err := letters.ReceiveDelivery(ctx)
			if err != nil {
				return nil, err
			}
			if got.Sent.IsZero() {
				return nil, errors.New("it was never sent")
			}
			for key, value := range got.Headers {
				all[got.Value+"."+key] = value
			}
		}
		return all, nil
	})
	var e *stet.Engine
	w := stet.Define("w", func(ctx stet.Context, to string) (string, error) {
		if err := stet.Do(ctx, "send", func(ctx context.Context) error {
			return errors.Join(letters.Send(ctx, e, to, "plain"),
				letters.Send(ctx, e, to, "own", stet.Headers{"tenant": "other", "more": "x"}))
		}); err != nil {
			return "", err
		}
		if _, err := word.Receive(ctx); err != nil { // and is evicted
			return "", err
		}
		got, err := child.Call(ctx, 0)
		return got + "/" + stet.Header(ctx, "trace") + stet.Header(ctx, "none"), err
	})
	e = serve(t, stet.Config{Workflows: []stet.Definition{w, child, receiver}, MaxParkedBytes: stet.None})
	ctx := testContext(t)
	to, err := receiver.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	run, err := w.Start(ctx, e, to.ID(), stet.Headers{"trace": "7f", "tenant": "old"}, stet.Headers{"tenant": "acme"})
	if err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, run.ID(), store.Suspended)
	if err := word.Send(ctx, e, run.ID(), "go on"); err != nil {
		t.Fatal(err)
	}
	if got, err := run.Wait(ctx); err != nil || got != "7f/acme/7f" {
		t.Errorf("the run and its child have %q, %v", got, err)
	}
	want := stet.Headers{"plain.trace": "7f", "plain.tenant": "acme", "own.trace": "7f", "own.tenant": "other",
		"own.more": "x"}
	if got, err := to.Wait(ctx); err != nil || !maps.Equal(got, want) {
		t.Errorf("the messages carry %v, %v; want %v", got, err, want)
	}
	info, err := e.Runs().Info(ctx, run.ID())
	if err != nil || !maps.Equal(info.Headers, stet.Headers{"trace": "7f", "tenant": "acme"}) {
		t.Errorf("the run has %v, %v", info.Headers, err)
	}
}
