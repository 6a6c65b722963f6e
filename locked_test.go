package stet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestAChildThatWaitsForAPermitOfItsParentsIsLocked: it has the mark and the cause, with the IDs of the holders, until
// the lock is resolved. The holders are a parent on the queue, several ancestors, or one ancestor whose child is on no
// queue. The locked run is on the queue, or has a step that is.
func TestAChildThatWaitsForAPermitOfItsParentsIsLocked(t *testing.T) {
	life := "" // is added to the IDs of runs
	leaf := stet.Define("leaf", func(ctx stet.Context, onStep bool) (int, error) {
		if !onStep {
			return 1, nil
		}
		return 1, stet.Do(ctx, "call", func(context.Context) error { return nil }, stet.OnStepQueue("q"))
	})
	call := func(ctx stet.Context, onStep bool) (int, error) {
		var opts []stet.ChildOption
		if !onStep {
			opts = append(opts, stet.OnQueue{Name: "q", Key: "k"})
		}
		return leaf.Call(ctx, onStep, append(opts, stet.ID("leaf"+life))...)
	}
	middle := stet.Define("middle", call)
	for name, c := range map[string]struct {
		settings stet.QueueSettings
		top      func(ctx stet.Context, _ int) (int, error)
		text     string
	}{
		"the only permit": {stet.QueueSettings{Concurrency: 1},
			func(ctx stet.Context, _ int) (int, error) { return call(ctx, false) },
			"waits for a permit of queue q; its only permit is held by top, which only waits"},
		"of a step": {stet.QueueSettings{Concurrency: 1},
			func(ctx stet.Context, _ int) (int, error) { return call(ctx, true) },
			"waits for a permit of queue q for step call; its only permit is held by top, which only waits"},
		"of a key": {stet.QueueSettings{Concurrency: 5, PerKey: 1},
			func(ctx stet.Context, _ int) (int, error) { return call(ctx, false) },
			"waits for a permit of queue q; its only permit of key k is held by top, which only waits"},
		"several ancestors": {stet.QueueSettings{Concurrency: 2},
			func(ctx stet.Context, _ int) (int, error) {
				return middle.Call(ctx, false, stet.ID("middle"+life), stet.OnQueue{Name: "q"})
			}, "waits for a permit of queue q; all its 2 permits are held by middle, top, which only wait"},
		"with a run between": {stet.QueueSettings{Concurrency: 1},
			func(ctx stet.Context, _ int) (int, error) { return middle.Call(ctx, true, stet.ID("middle"+life)) },
			"waits for a permit of queue q for step call; its only permit is held by top, which only waits"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				life = ""
				top := stet.Define("top", c.top)
				e, err := stet.New(t.Context(), stet.Config{Store: memory.New(),
					Workflows: []stet.Definition{leaf, middle, top}})
				if err != nil {
					t.Fatal(err)
				}
				defer serve(t, e)()
				if err := e.Queues().Create(t.Context(), "q", c.settings); err != nil {
					t.Fatal(err)
				}
				start := func() {
					t.Helper()
					if _, err := top.Start(t.Context(), e, 1, stet.ID("top"+life),
						stet.OnQueue{Name: "q", Key: "k"}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				start()
				checkLocked(t, e, "leaf")
				checkQueueLocks(t, e, "leaf", c.text)
				info, err := e.Runs().Info(t.Context(), "leaf")
				if err != nil {
					t.Fatal(err)
				}
				if w := info.Why[0]; info.Marks&store.Locked == 0 || w.Code != "locked" || w.Text != c.text ||
					!strings.Contains(w.Help, "ReleaseWhileSuspended") || w.Since.IsZero() {
					t.Errorf("%s: %+v; want %s", info.Marks, w, c.text)
				}
				for _, id := range []string{"top", "middle"} {
					switch info, err := e.Runs().Info(t.Context(), id); {
					case errors.Is(err, stet.ErrNotFound):
					case err != nil || info.Marks&store.Locked != 0:
						t.Errorf("%+v, %v: want no mark", info, err)
					}
				}
				if ok, err := e.Runs().Cancel(t.Context(), "top", stet.Act{By: "ada"}); !ok || err != nil {
					t.Fatal(ok, err)
				}
				time.Sleep(time.Second)
				checkLocked(t, e)
				checkQueueLocks(t, e, "", "")
				life = "2"
				start()
				checkLocked(t, e, "leaf2")
				more := c.settings
				if more.PerKey++; c.settings.PerKey == 0 {
					more.PerKey, more.Concurrency = 0, more.Concurrency+1
				}
				if err := e.Queues().Set(t.Context(), "q", more, stet.Act{By: "ada", Why: "a lock"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				checkLocked(t, e)
				if info, err := e.Runs().Info(t.Context(), "top2"); err != nil || info.Status != store.Succeeded {
					t.Errorf("%+v, %v: want it to succeed", info, err)
				}
			})
		})
	}
}

// checkQueueLocks checks what queue q says of its locks: of one that keeps a run from going on, in the words of the
// run; of none if waiting is "".
func checkQueueLocks(t *testing.T, e *stet.Engine, waiting, text string) {
	t.Helper()
	info, err := e.Queues().Info(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	list, err := e.Queues().List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	for how, locks := range map[string][]stet.QueueLock{"Info": info.Locks, "List": list[0].Locks} {
		if waiting == "" {
			if len(locks) > 0 {
				t.Errorf("%s: %+v; want no lock", how, locks)
			}
			continue
		}
		_, held, _ := strings.Cut(text, "; ")
		held = strings.NewReplacer("its only", "the only", "all its", "all").Replace(held)
		if len(locks) != 1 || !slices.Equal(locks[0].Waiting, []string{waiting}) ||
			locks[0].String() != held+", for which "+waiting+" waits" {
			t.Errorf("%s: %+v; want one lock, of %s: %s", how, locks, waiting, held)
		}
	}
}

// checkLocked checks which runs are listed, and counted, as locked.
func checkLocked(t *testing.T, e *stet.Engine, want ...string) {
	t.Helper()
	f, err := store.ParseFilter("mark=locked")
	if err != nil {
		t.Fatal(err)
	}
	infos, _, err := e.Runs().List(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range infos {
		ids = append(ids, infos[i].ID)
	}
	if !slices.Equal(ids, want) {
		t.Errorf("the locked runs are %q; want %q", ids, want)
	}
	tallies, err := e.Runs().Count(t.Context(), f)
	n := 0
	for _, tally := range tallies {
		n += int(tally.Runs)
	}
	if err != nil || n != len(want) {
		t.Errorf("%d runs are counted as locked, %v; want %d", n, err, len(want))
	}
}
