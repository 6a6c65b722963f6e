package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestListedRuns: a listing says of each run what Info says of it, and leaves out what
// depends on values where it is made without them.
func TestListedRuns(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	w := stet.Define("w", func(ctx stet.Context, in string) (string, error) {
		if in == "bad" {
			return "", broken
		}
		return in + "!", stet.Do(ctx, "tag", func(context.Context) error { return nil })
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	for _, in := range []string{"good", "bad"} {
		r := begin(t, e, w, in, stet.ID(in), stet.Tags{"in": in}, stet.Headers{"h": in})
		_, err := r.Wait(ctx)
		if failed := (*stet.RunError)(nil); in == "bad" && !errors.As(err, &failed) {
			t.Fatal(err)
		}
	}
	listed, next, err := e.Runs().List(ctx, store.Filter{Values: true, Limit: 1})
	if err != nil || len(listed) != 1 || listed[0].ID != "bad" || next == "" {
		t.Fatalf("the first page is %+v, %q, %v", listed, next, err)
	}
	more, last, err := e.Runs().List(ctx, store.Filter{Values: true, Limit: 1, Cursor: next})
	if err != nil || len(more) != 1 || more[0].ID != "good" {
		t.Fatalf("the second page is %+v, %q, %v", more, last, err)
	}
	bad, good := listed[0], more[0]
	var in, out string
	if err := errors.Join(good.Input.Decode(&in), good.Output.Decode(&out)); err != nil || in != "good" || out != "good!" {
		t.Errorf("%q gives %q, %v", in, out, err)
	}
	if good.Err != nil || good.Status != store.Succeeded || good.Tags["in"] != "good" || good.Headers["h"] != "good" {
		t.Errorf("the run that has succeeded is %+v", good)
	}
	if failed := (*stet.RunError)(nil); !errors.As(bad.Err, &failed) || failed.RunID != "bad" ||
		bad.Status != store.Failed {
		t.Errorf("the run that has failed is %+v", bad)
	}
	info, err := e.Runs().Info(ctx, "good")
	if err != nil || info.Number != good.Number || !info.Ended.Equal(good.Ended) || info.Ended.Before(info.Created) {
		t.Errorf("info is %+v, listed was %+v, %v", info, good, err)
	}
	if !good.Wake.IsZero() || good.Parent != 0 || good.ParentLocation != "" || time.Since(good.Created) > time.Hour {
		t.Errorf("the run is %+v", good)
	}
	short, _, err := e.Runs().List(ctx, store.Filter{})
	if err != nil || len(short) != 2 {
		t.Fatal(short, err)
	}
	for _, r := range short {
		if r.Err != nil || r.Input.Bytes() != nil || r.Output.Bytes() != nil || r.InputSize == 0 {
			t.Errorf("without values a run is %+v", r)
		}
	}
	if _, _, err := e.Runs().List(ctx, store.Filter{Cursor: "no cursor"}); !errors.Is(err, store.ErrBadCursor) {
		t.Errorf("a bad cursor: %v", err)
	}
}
