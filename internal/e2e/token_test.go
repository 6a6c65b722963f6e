package e2e_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// forged returns a token for the place of the given one, with the incarnation if it is not
// negative, and a secret that was guessed.
func forged(t *testing.T, token string, incarnation int) string {
	t.Helper()
	parts := strings.Split(token, ".")
	place, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	_, loc, _ := strings.Cut(string(place), ":")
	if incarnation >= 0 {
		place = fmt.Appendf(nil, "%d:%s", incarnation, loc)
	}
	parts[2] = base64.RawURLEncoding.EncodeToString(place)
	parts[3] = base64.RawURLEncoding.EncodeToString(make([]byte, 16))
	return strings.Join(parts, ".")
}

// TestForgedTokensLearnNothing: whatever the state of a run, and whatever incarnation a
// token names, one that was guessed is ErrNotFound. A true one of an earlier incarnation
// is ErrTerminal, after several continuations too.
func TestForgedTokensLearnNothing(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 1)
	w := stet.Define("asks", func(ctx stet.Context, n int) (int, error) {
		p, err := stet.NewPromise[int](ctx, "decision")
		if err != nil {
			return 0, err
		}
		if err := stet.Do(ctx, "tell", func(context.Context) error { tokens <- p.Token(); return nil }); err != nil {
			return 0, err
		}
		got, err := p.Await(ctx)
		if err != nil || n == 0 {
			return got, err
		}
		return 0, stet.ContinueAsNew(n - 1)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, 3, stet.ID("r"))
	var old []string
	for incarnation := range 4 {
		token := <-tokens
		for named := -1; named < 5; named++ {
			false1 := forged(t, token, named)
			_, lookErr := e.Promise(ctx, false1)
			if err := e.Resolve(ctx, false1, 1); !errors.Is(err, stet.ErrNotFound) || !errors.Is(lookErr, stet.ErrNotFound) {
				t.Errorf("in incarnation %d, naming %d: %v, %v; want ErrNotFound", incarnation, named, err, lookErr)
			}
		}
		for i, o := range old {
			if err := e.Resolve(ctx, o, 1); !errors.Is(err, stet.ErrTerminal) {
				t.Errorf("in incarnation %d, the token of %d: %v; want ErrTerminal", incarnation, i, err)
			}
		}
		old = append(old, token)
		if err := e.Resolve(ctx, token, 1); err != nil {
			t.Fatal(err)
		}
	}
	outcome(t, r)
	for _, o := range old {
		if err := e.Resolve(ctx, forged(t, o, -1), 1); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("after the end: %v; want ErrNotFound", err)
		}
	}
	if p, err := e.Promise(ctx, old[3]); err != nil || !p.Assigned || p.Rejected || p.At.IsZero() {
		t.Errorf("the last promise is %+v, %v", p, err)
	}
}

// TestPromisesOfARun lists them with their tokens, and says which are assigned, also while
// the run has not taken that up.
func TestPromisesOfARun(t *testing.T) {
	t.Parallel()
	w := stet.Define("asks", func(ctx stet.Context, _ int) (int, error) {
		var all [3]*stet.Promise[int]
		for i := range all {
			var err error
			if all[i], err = stet.NewPromise[int](ctx, fmt.Sprint("p", i)); err != nil {
				return 0, err
			}
		}
		return all[0].Await(ctx)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, 0, stet.ID("r"))
	waitStatus(t, e, "r", store.Suspended)
	promises := func() []stet.PromiseInfo {
		t.Helper()
		list, err := e.Runs().Promises(ctx, "r")
		if err != nil || len(list) != 3 {
			t.Fatal(list, err)
		}
		return list
	}
	list := promises()
	for i := range list {
		if p, err := e.Promise(ctx, list[i].Token); err != nil || *p != list[i] || p.Assigned {
			t.Errorf("%+v, %v; want %+v", p, err, list[i])
		}
	}
	if err := errors.Join(e.Resolve(ctx, list[1].Token, 1), e.Reject(ctx, list[2].Token, errors.New("no"))); err != nil {
		t.Fatal(err)
	}
	list = promises()
	if list[0].Assigned || !list[1].Assigned || list[1].Rejected || !list[2].Rejected {
		t.Errorf("%+v", list)
	}
	if err := e.Resolve(ctx, list[0].Token, 7); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, r); got != "7" {
		t.Error(got)
	}
	if list = promises(); !list[0].Assigned {
		t.Errorf("%+v", list[0])
	}
	if _, err := e.Runs().Promises(ctx, "none"); !errors.Is(err, stet.ErrNotFound) {
		t.Error(err)
	}
}
