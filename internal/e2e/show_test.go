package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet"
)

var (
	shownLog  = stet.Stream[string]("log")
	shownLast = stet.Value[string]("last")
	double    = stet.Update[int, int]("double")
)

// showCase is a run that says what it does and answers updates. Killed at any
// commit it has said all of it once, in order, and a caller has got its answer.
var showCase = crashCase{
	name: "values, streams and updates", want: "2 4 6 bad done",
	drive: func(ctx context.Context, e *stet.Engine, id string) error {
		for i := 1; i <= 3; i++ {
			got, err := double.Call(ctx, e, id, i, stet.SendKey(fmt.Sprint(i)))
			if err != nil {
				return err
			}
			if got != 2*i {
				return fmt.Errorf("twice %d is %d", i, got)
			}
		}
		if _, err := double.Call(ctx, e, id, -1, stet.SendKey("bad")); !errors.Is(err, stet.ErrRefused) {
			return fmt.Errorf("expected a refusal, got %w", err)
		}
		return nil
	},
	check: func(ctx context.Context, e *stet.Engine, id string) error {
		items, err := shownLog.Items(ctx, e, id, 0, 0)
		if err != nil {
			return err
		}
		want := []string{"begin", "2", "answered 2", "4", "answered 4", "6", "answered 6", "bad", "done"}
		var got []string
		for i, item := range items {
			if item.Position != int64(i+1) {
				return fmt.Errorf("item %d has the position %d", i, item.Position)
			}
			got = append(got, item.Value)
		}
		last, _, err := shownLast.Get(ctx, e, id)
		if !slices.Equal(got, want) || last != "done" || err != nil {
			return fmt.Errorf("the stream holds %q, the value is %q (%v)", got, last, err)
		}
		return nil
	},
	workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
		return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
			var words []string
			show := func(text string) error {
				return errors.Join(shownLog.Append(ctx, text), shownLast.Set(ctx, text))
			}
			if err := show("begin"); err != nil {
				return "", err
			}
			for len(words) < 4 {
				r, err := double.Receive(ctx)
				if err != nil {
					return "", err
				}
				if r.Value < 0 {
					words = append(words, "bad")
					if err := errors.Join(r.Reject(ctx, errors.New("negative")), show("bad")); err != nil {
						return "", err
					}
					continue
				}
				word, err := say(ctx, "compute", fmt.Sprint(2*r.Value))
				if err != nil {
					return "", err
				}
				words = append(words, word)
				if err := errors.Join(show(word), r.Answer(ctx, 2*r.Value), show("answered "+word)); err != nil {
					return "", err
				}
			}
			words = append(words, "done")
			return strings.Join(words, " "), show("done")
		})
	},
}

// compatShows is a run that has said something before its first completion.
var compatShows = compatCase{
	name: "streams and updates",
	code: func(ctx stet.Context, _ string) (string, error) {
		if err := errors.Join(shownLog.Append(ctx, "begin"), shownLast.Set(ctx, "begin"),
			stet.SetTags(ctx, stet.Tags{"kind": "compat"})); err != nil {
			return "", err
		}
		r, err := double.Receive(ctx)
		if err != nil {
			return "", err
		}
		if _, err := later.Receive(ctx); err != nil {
			return "", err
		}
		return fmt.Sprint("twice ", r.Value), errors.Join(r.Answer(ctx, 2*r.Value), shownLog.Append(ctx, "answered"))
	},
	play: func(w *compatWorld) {
		w.waits("double")
		answered := make(chan error, 1)
		go func() {
			_, err := double.Call(w.ctx, w.e, w.id, 21)
			answered <- err
		}()
		w.goOn("later")
		w.must(<-answered)
	},
}

// longCase shows each iteration of a loop whose history is pruned, in two
// incarnations. Killed at any commit the stream has all of it once.
var longCase = crashCase{
	name: "a stream of a pruned loop and of the next incarnation", want: "done",
	check: func(ctx context.Context, e *stet.Engine, id string) error {
		var want []string
		for part := range 2 {
			want = append(want, fmt.Sprint("begin ", part))
			for i := range 4 {
				want = append(want, fmt.Sprint("a", i), fmt.Sprint("b", i))
			}
		}
		items, err := shownLog.Items(ctx, e, id, 0, 0)
		if err != nil {
			return err
		}
		var got []string
		for _, item := range items {
			got = append(got, item.Value)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the stream holds %q, want %q", got, want)
		}
		info, err := e.Runs().Info(ctx, id)
		if err == nil && (len(info.Tags) != 1 || info.Tags["part"] != "1" || info.Headers["h"] != "x") {
			err = fmt.Errorf("the tags are %v, the headers %v", info.Tags, info.Headers)
		}
		return err
	},
	options: []stet.StartOption{stet.Headers{"h": "x"}},
	workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
		return stet.Define("w", func(ctx stet.Context, former string) (string, error) {
			part := len(former)
			if err := errors.Join(shownLog.Append(ctx, fmt.Sprint("begin ", part)),
				stet.SetTags(ctx, stet.Tags{"part": fmt.Sprint(part)})); err != nil {
				return "", err
			}
			_, err := stet.Loop(ctx, "loop", 0, func(ctx stet.Context, i int) (next stet.Next[int, int], err error) {
				if err := shownLog.Append(ctx, fmt.Sprint("a", i)); err != nil {
					return next, err
				}
				if _, err := say(ctx, "work", "x"); err != nil {
					return next, err
				}
				if err := shownLog.Append(ctx, fmt.Sprint("b", i)); err != nil {
					return next, err
				}
				if i == 3 {
					return next.Break(i), nil
				}
				return next.Continue(i + 1), nil
			}, stet.LoopOptions{Every: 2, Keep: 1})
			if err != nil || part > 0 {
				return "done", err
			}
			return "", stet.ContinueAsNew("x")
		})
	},
}
