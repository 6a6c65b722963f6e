package e2e_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestADeadlineIsNoWaitOfItsOwn: what a run waits for carries the deadline of the wait.
func TestADeadlineIsNoWaitOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		w := stet.Define("waits", func(ctx stet.Context, _ int) (int, error) {
			shipped, err := stet.NewPromise[int](ctx, "shipped")
			if err != nil {
				return 0, err
			}
			if _, err := shipped.Await(ctx, stet.Within(time.Hour)); err == nil {
				return 0, err
			}
			var answer int
			_, err = stet.Select(ctx, shipped.Case(), stet.Message[int]("answer").Case(&answer),
				stet.AfterDelay("late", 3*time.Hour), stet.AfterDelay("later", 4*time.Hour))
			return 0, err
		})
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		if _, err := w.Start(t.Context(), e, 1, stet.ID("r")); err != nil {
			t.Fatal(err)
		}
		at := func(kinds []string, until time.Duration) {
			t.Helper()
			waitStatus(t, e, "r", store.Suspended)
			info, err := e.Runs().Info(t.Context(), "r")
			if err != nil || len(info.WaitsFor) != len(kinds) {
				t.Fatalf("it waits for %+v, %v; expected %v", info.WaitsFor, err, kinds)
			}
			for i, w := range info.WaitsFor {
				if d := w.Until.Sub(begun).Round(time.Minute); w.Kind != kinds[i] || d != until {
					t.Errorf("it waits for %s %s until %s; expected %s until %s", w.Kind, w.Location, d, kinds[i], until)
				}
			}
		}
		at([]string{"promise"}, time.Hour)
		time.Sleep(time.Hour + time.Minute)
		at([]string{"promise", "receive"}, 4*time.Hour)
	})
}

// TestHistoryOfWhatHasNoType: the number of a version and the reason of a cancel are values
// like any other, and a fork has not begun before it was made.
func TestHistoryOfWhatHasNoType(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := stet.Define("versioned", func(ctx stet.Context, _ int) (int, error) {
			if stet.Version(ctx, "change", 3) != 3 {
				t.Error("it is of another version")
			}
			return 0, stet.Sleep(ctx, "long", 24*time.Hour)
		})
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		r, err := w.Start(t.Context(), e, 1, stet.ID("r"))
		if err != nil {
			t.Fatal(err)
		}
		waitStatus(t, e, "r", store.Suspended)
		if _, err := e.Runs().Cancel(t.Context(), "r", stet.Act{Why: "a test"}); err != nil {
			t.Fatal(err)
		}
		_, _ = r.Wait(t.Context())
		entries, err := e.Runs().History(t.Context(), "r", stet.HistoryQuery{Values: true})
		if err != nil {
			t.Fatal(err)
		}
		found := map[store.Kind]string{}
		for i := range entries {
			if value := entries[i].Value().Bytes(); len(value) > 0 {
				found[entries[i].Kind] = string(value[1:])
			}
		}
		if found[store.KindVersion] != "3" || found[store.KindCancel] != `"a test"` {
			t.Errorf("the values are %q", found)
		}

		time.Sleep(time.Hour)
		if _, err := e.Runs().Fork(t.Context(), "r", "/", stet.Act{}, stet.ID("fork")); err != nil {
			t.Fatal(err)
		}
		waitStatus(t, e, "fork", store.Suspended)
		info, err := e.Runs().Info(context.Background(), "fork")
		if err != nil || info.Started.Before(info.Created) {
			t.Errorf("the fork of %s has begun at %s, %v", info.Created, info.Started, err)
		}
	})
}
