package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// TestUndoOfChildrenCrashesEverywhere: whatever commit the process dies at, children are
// undone in the order with steps, and the code goes on.
func TestUndoOfChildrenCrashesEverywhere(t *testing.T) {
	t.Parallel()
	hotel := stet.Define("hotel", func(ctx stet.Context, city string) (string, error) {
		return say(ctx, "book", "room in "+city)
	})
	trip := stet.Define("trip", func(ctx stet.Context, _ string) (string, error) {
		back := stet.Undo(func(_ context.Context, room string) error {
			if room == "" {
				return stet.Permanent(errors.New("no room is given"))
			}
			return nil
		})
		_, err := stet.Saga(ctx, "book", func(ctx stet.Context) (string, error) {
			if _, err := hotel.Call(ctx, "Oslo", back, stet.Named("first")); err != nil {
				return "", err
			}
			if _, err := say(ctx, "car", "car", back); err != nil {
				return "", err
			}
			other, err := hotel.Go(ctx, "Bergen", back, stet.Named("second"))
			if err != nil {
				return "", err
			}
			if _, err := other.Await(ctx); err != nil {
				return "", err
			}
			return "", errSoldOut
		})
		if !errors.Is(err, errSoldOut) {
			return "", err
		}
		return "home", nil
	})
	got, err := stettest.CrashEverywhere(t, trip, "",
		stettest.WithConfig(stet.Config{Workflows: []stet.Definition{hotel}}),
		stettest.Checking(func(ctx context.Context, e *stet.Engine, id string) error {
			undone, _, err := undoneBy(ctx, e, id)
			if want := []string{"book/second", "book/car", "book/first"}; err == nil && !slices.Equal(undone, want) {
				err = fmt.Errorf("undone were %q, want %q", undone, want)
			}
			return err
		}))
	if got != "home" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestUndoOfAChildOnEveryStore: a child that has succeeded, and that nobody has awaited, is
// undone when its parent is cancelled. A detached child can have no compensation.
func TestUndoOfAChildOnEveryStore(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		undone, refused := make(chan string, 1), make(chan error, 1)
		child := stet.Define("child", func(stet.Context, int) (string, error) { return "made", nil })
		parent := stet.Define("parent", func(ctx stet.Context, _ int) (int, error) {
			back := stet.Undo(func(_ context.Context, value string) error { undone <- value; return nil })
			_, err := child.Detach(ctx, 0, back)
			//stetvet:ignore channel the code holds the run where the test wants it
			select {
			case refused <- err:
			default: // a replay
			}
			if _, err := child.Go(ctx, 0, back); err != nil {
				return 0, err
			}
			return stet.Message[int]("never").Receive(ctx)
		})
		cfg.Workflows = []stet.Definition{child, parent}
		serve(t, cfg)
		e := client(t, s, child, parent)
		r, err := parent.Start(testContext(t), e, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-refused; !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("the detached child: %v", err)
		}
		waitStatus(t, e, r.ID(), store.Suspended)
		kids := children(t, e, r.ID())
		if len(kids) != 1 {
			t.Fatalf("the children are %+v", kids)
		}
		waitStatus(t, e, kids[0].ID, store.Succeeded)
		if _, err := r.Cancel(testContext(t), stet.Act{}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(testContext(t)); !errors.Is(err, stet.ErrCancelled) {
			t.Errorf("the parent ends with %v", err)
		}
		select {
		case value := <-undone:
			if value != "made" {
				t.Errorf("undone was %q", value)
			}
		default:
			t.Error("the child was not undone")
		}
		replays(t, e, r.ID())
	})
}
