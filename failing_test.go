package stet_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestARunWhoseStepFailsAgainAndAgainIsMarked from the fifth failure on, so that a list finds it; the mark is gone when
// the step has succeeded, though the run executes another step. A process that takes the run up keeps the mark.
func TestARunWhoseStepFailsAgainAndAgainIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		works, ends := false, make(chan struct{})
		pays := stet.Define("pays", func(ctx stet.Context, _ int) (int, error) {
			every := stet.Retry{First: time.Minute, Factor: 1, Jitter: stet.None}
			if err := stet.Do(ctx, "charge", func(context.Context) error {
				if !works {
					return errors.New("the bank is away")
				}
				return nil
			}, every); err != nil {
				return 0, err
			}
			return 1, stet.Do(ctx, "ship", func(context.Context) error { <-ends; return nil })
		})
		cfg := stet.Config{Store: db.Join(), Workflows: []stet.Definition{pays}}
		outside, err := stet.New(t.Context(), stet.Config{Store: db.Join(), Workflows: cfg.Workflows})
		if err != nil {
			t.Fatal(err)
		}
		begin := func() (stop func()) {
			cfg.Store = db.Join()
			e, err := stet.New(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			return serve(t, e)
		}
		failing := func() []string {
			t.Helper()
			f, err := store.ParseFilter("mark=failing")
			if err != nil {
				t.Fatal(err)
			}
			infos, _, err := outside.Runs().List(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			ids := []string{}
			for i := range infos {
				ids = append(ids, infos[i].ID+" "+infos[i].Status.String())
			}
			return ids
		}
		stop := begin()
		if _, err := pays.Start(t.Context(), outside, 1, stet.ID("p")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*time.Minute + 30*time.Second) // four attempts
		if got := failing(); len(got) != 0 {
			t.Errorf("after four failures: expected no mark, found %v", got)
		}
		time.Sleep(time.Minute)
		if got := failing(); !slices.Equal(got, []string{"p suspended"}) {
			t.Errorf("after five failures: expected the mark, found %v", got)
		}
		info, err := outside.Runs().Info(t.Context(), "p")
		if err != nil || info.Why[0].Code != "retry" || info.Why[0].Text != "step charge has failed 5 times" ||
			info.Why[0].Until.IsZero() || info.Why[0].Since.IsZero() {
			t.Errorf("%+v, %v", info, err)
		}
		stop()
		stop = begin()
		time.Sleep(2 * time.Minute)
		if got := failing(); !slices.Equal(got, []string{"p suspended"}) {
			t.Errorf("after a restart: expected the mark, found %v", got)
		}
		works = true
		time.Sleep(2 * time.Minute) // it executes ship now
		if got := failing(); len(got) != 0 {
			t.Errorf("after a success: expected no mark, found %v", got)
		}
		close(ends)
		synctest.Wait()
		time.Sleep(time.Second)
		info, err = outside.Runs().Info(t.Context(), "p")
		if err != nil || info.Status != store.Succeeded || info.Marks != 0 {
			t.Errorf("expected a success without marks, found %+v, %v", info, err)
		}
		stop()
	})
}
