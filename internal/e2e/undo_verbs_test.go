package e2e_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestOperatorsAndUndoing: the requests of a person about a run that is undone. A failing compensation can be edited to
// be done. A retry is refused. A rewind goes only to before the undone steps; then all steps are executed and undone
// again. A paused run goes on where it was.
func TestOperatorsAndUndoing(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		var mu sync.Mutex
		var effects []string
		keys := map[string]bool{}
		note := func(what string, c context.Context) {
			mu.Lock()
			defer mu.Unlock()
			effects = append(effects, what)
			keys[stet.IdempotencyKey(c)] = true
		}
		closed := true
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			for _, name := range []string{"a", "b"} {
				err := stet.Do(ctx, name, func(c context.Context) error { note("do "+name, c); return nil },
					stet.UndoDo(func(c context.Context) error {
						mu.Lock()
						fails := closed && name == "b"
						mu.Unlock()
						if fails {
							return stet.Permanent(errors.New("bank is closed"))
						}
						note("undo "+name, c)
						return nil
					}))
				if err != nil {
					return 0, err
				}
			}
			return 0, errSoldOut
		})
		cfg.Workflows = []stet.Definition{w}
		serve(t, cfg)
		e := client(t, s, w)
		ctx := testContext(t)
		r, err := w.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := func(status store.Status, list ...string) {
			t.Helper()
			waitStatus(t, e, r.ID(), status)
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(effects, list) {
				t.Errorf("the effects are %q, want %q", effects, list)
			}
			effects = nil
		}
		refused := func(what string, ok bool, err error, text string) {
			t.Helper()
			if ok || !errors.Is(err, stet.ErrRefused) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s is answered by %t, %v; want it refused: %s", what, ok, err, text)
			}
		}
		want(store.Stalled, "do a", "do b")
		ok, err := e.Runs().Retry(ctx, r.ID(), stet.Act{})
		refused("a retry", ok, err, "only one that has failed can be retried")
		ok, err = e.Runs().EditResult(ctx, r.ID(), "b", nil, stet.Act{})
		refused("the edit of a step that is being undone", ok, err, "step b was undone")
		ok, err = e.Runs().EditFailure(ctx, r.ID(), "b/undo", errSoldOut, stet.Act{})
		refused("the edit of a compensation to be failed", ok, err, "nothing else")
		if ok, err := e.Runs().EditResult(ctx, r.ID(), "b/undo", "by hand", stet.Act{Why: "called the bank"}); !ok {
			t.Fatal(err)
		}
		_, err = r.Wait(ctx)
		for errors.Is(err, stet.ErrStalled) { // from before the edit
			_, err = r.Wait(ctx)
		}
		var failed *stet.RunError
		if !errors.As(err, &failed) || failed.Status != store.Failed {
			t.Errorf("the run ends with %v", err)
		}
		want(store.Failed, "undo a")

		ok, err = e.Runs().Retry(ctx, r.ID(), stet.Act{})
		refused("a retry of a run that was undone", ok, err, "undoing has begun")
		ok, err = e.Runs().Rewind(ctx, r.ID(), "b", stet.Act{})
		refused("a rewind to behind an undone step", ok, err, "it has undone a")
		mu.Lock()
		closed = false
		before := len(keys)
		mu.Unlock()
		if ok, err := e.Runs().Rewind(ctx, r.ID(), "a", stet.Act{Why: "again"}); !ok {
			t.Fatal(err)
		}
		_, _ = r.Wait(ctx)
		want(store.Failed, "do a", "do b", "undo b", "undo a")
		mu.Lock()
		if len(keys) != before+4 {
			t.Errorf("%d keys, of which the redone ones have %d", len(keys), len(keys)-before)
		}
		mu.Unlock()
		info, err := r.Info(ctx)
		if err != nil || info.Generation != 1 || info.Marks != 0 {
			t.Errorf("the run stands as %+v, %v", info, err)
		}
	})
}

// TestPauseWhileUndoing leaves the run as it is until it is resumed; a cancel of the paused run is refused, a terminate
// lists the pending compensations.
func TestPauseWhileUndoing(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		begun, goOn := make(chan string, 10), make(chan struct{})
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			for _, name := range []string{"a", "b", "c"} {
				err := stet.Do(ctx, name, func(context.Context) error { return nil }, stet.UndoDo(func(c context.Context) error {
					begun <- name
					<-goOn
					return nil
				}))
				if err != nil {
					return 0, err
				}
			}
			return 0, errSoldOut
		})
		cfg.Workflows = []stet.Definition{w}
		e := serve(t, cfg)
		ctx := testContext(t)
		r, err := w.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		if name := <-begun; name != "c" {
			t.Errorf("%s is undone first", name)
		}
		paused := make(chan error, 1)
		go func() { _, err := e.Runs().Pause(ctx, r.ID(), stet.Act{Why: "wait"}); paused <- err }()
		for { // until the pause is in the inbox
			info, err := r.Info(ctx)
			if err != nil {
				t.Fatal(err)
			}
			items, err := s.Inbox(ctx, info.Number)
			if err != nil {
				t.Fatal(err)
			}
			if len(items) > 0 {
				break
			}
		}
		goOn <- struct{}{}
		var name string
		select {
		case err = <-paused:
		case name = <-begun: // it began before the run got the item
			goOn <- struct{}{}
			err = <-paused
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := r.Info(ctx)
		if err != nil || info.Marks&(store.Paused|store.Undoing) != store.Paused|store.Undoing {
			t.Fatalf("the run is %s, %s, %v", info.Status, info.Marks, err)
		}
		if ok, err := r.Cancel(ctx, stet.Act{}); ok || !errors.Is(err, stet.ErrRefused) {
			t.Errorf("the cancel is answered by %t, %v", ok, err)
		}
		if ok, err := e.Runs().Resume(ctx, r.ID(), stet.Act{}); !ok {
			t.Fatal(err)
		}
		if name == "" {
			if name = <-begun; name != "b" {
				t.Errorf("after the pause %s is undone", name)
			}
			goOn <- struct{}{}
		}
		if name := <-begun; name != "a" {
			t.Errorf("%s is undone last", name)
		}
		if ok, err := e.Runs().Terminate(ctx, r.ID(), stet.Act{}); !ok {
			t.Fatal(err)
		}
		goOn <- struct{}{}
		var failed *stet.RunError
		if _, err := r.Wait(ctx); !errors.As(err, &failed) || !slices.Equal(failed.Owed, []string{"a"}) {
			t.Errorf("the run ends with %v", err)
		}
	})
}
