package e2e_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// cutDeletion is a store that is away after the part of a deletion that it carries out.
type cutDeletion struct {
	store.Store
	cuts atomic.Int32
}

func (s *cutDeletion) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	swept, err := s.Store.Sweep(ctx, req)
	if err == nil && len(req.Runs) > 0 && s.cuts.Add(-1) >= 0 {
		return store.Swept{}, store.ErrUnavailable
	}
	return swept, err
}

// TestDeleteRefusesWhatIsNeeded: a run stays while it, a child or a parent that may ask for its end lives, and while
// somebody asks something of it. What was cut off goes on with the next call.
func TestDeleteRefusesWhatIsNeeded(t *testing.T) {
	t.Parallel()
	leaf := stet.Define("leaf", func(ctx stet.Context, _ string) (string, error) {
		for range 700 { // more than one act deletes
			if err := stet.Do(ctx, "s", func(context.Context) error { return nil }); err != nil {
				return "", err
			}
		}
		return "leaf", nil
	})
	tree := stet.Define("tree", func(ctx stet.Context, _ string) (string, error) {
		if _, err := leaf.Call(ctx, ""); err != nil {
			return "", err
		}
		if _, err := leaf.Detach(ctx, "", stet.Named("apart")); err != nil {
			return "", err
		}
		return word.Receive(ctx)
	})
	for name, run := range map[string]func(t *testing.T, e *stet.Engine, s *cutDeletion, child, detached string){
		"what lives": func(t *testing.T, e *stet.Engine, _ *cutDeletion, child, detached string) {
			ctx := context.Background()
			for id, want := range map[string]string{
				"tree-1": "it is suspended; cancel or terminate it first",
				child:    `its parent "tree-1" is suspended, and may ask for its end`,
			} {
				gone, err := e.Runs().Delete(ctx, id, stet.Act{Children: true})
				if !errors.Is(err, stet.ErrRefused) || !strings.Contains(err.Error(), want) || gone != nil {
					t.Errorf("deleting %s gives %v, %v; want %q", id, gone, err, want)
				}
			}
			if gone, err := e.Runs().Delete(ctx, detached, stet.Act{}); err != nil || len(gone) != 1 {
				t.Errorf("deleting a detached run gives %v, %v", gone, err)
			}
		},
		"what is cut off": func(t *testing.T, e *stet.Engine, s *cutDeletion, child, detached string) {
			ctx := context.Background()
			if err := word.Send(ctx, e, "tree-1", "end"); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Runs().Wait(ctx, "tree-1"); err != nil {
				t.Fatal(err)
			}
			s.cuts.Store(1)
			if _, err := e.Runs().Delete(ctx, "tree-1", stet.Act{Children: true}); !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("a store that is away: %v", err)
			}
			if ok, err := e.Runs().Rewind(ctx, child, "s", stet.Act{}); ok || err == nil {
				t.Error("a run that is deleted in part accepts a rewind")
			}
			gone, err := e.Runs().Delete(ctx, "tree-1", stet.Act{Children: true, Why: "again"})
			if err != nil || len(gone) == 0 || gone[len(gone)-1] != "tree-1" {
				t.Fatalf("deleting it once more gives %v, %v", gone, err)
			}
			list, err := e.Runs().Deletions(ctx)
			if err != nil || len(list) != 2 || list[0].RunID != "tree-1" || list[0].Why != "again" || list[1].RunID != child {
				t.Errorf("deletions are %+v, %v", list, err)
			}
			for id, there := range map[string]bool{"tree-1": false, child: false, detached: true} {
				if _, err := e.Runs().Info(ctx, id); errors.Is(err, stet.ErrNotFound) == there {
					t.Errorf("%s: %v", id, err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &cutDeletion{Store: memory.New()}
				served(t, stet.Config{Store: s, Workflows: []stet.Definition{leaf, tree}}, func(e *stet.Engine) {
					if _, err := tree.Start(context.Background(), e, "", stet.ID("tree-1")); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if info, err := e.Runs().Info(context.Background(), "tree-1"); err != nil || info.Status != store.Suspended {
						t.Fatalf("the run is %+v, %v", info, err)
					}
					page, _, err := e.Runs().List(context.Background(), store.Filter{Workflows: []string{"leaf"}})
					if err != nil || len(page) != 2 || page[1].ParentLocation == "" || page[0].ParentLocation != "" {
						t.Fatalf("the leaves are %+v, %v", page, err)
					}
					run(t, e, s, page[1].ID, page[0].ID)
				})
			})
		})
	}
}

// TestDeleteNeedsADecision: a request that nobody has decided keeps its run.
func TestDeleteNeedsADecision(t *testing.T) {
	t.Parallel()
	s := memory.New()
	fails := stet.Define("fails", func(stet.Context, string) (string, error) { return "", errors.New("no") })
	synctest.Test(t, func(t *testing.T) {
		served(t, stet.Config{Store: s, Workflows: []stet.Definition{fails}}, func(e *stet.Engine) {
			if _, err := fails.Start(context.Background(), e, "", stet.ID("r")); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Runs().Wait(context.Background(), "r"); err != nil {
				t.Fatal(err)
			}
		})
	})
	e, err := stet.New(t.Context(), stet.Config{Store: s}) // does not run
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Runs().Retry(ended, "r", stet.Act{}); err == nil {
		t.Fatal("a retry is decided without an owner")
	}
	if _, _, err := s.Apply(t.Context(), []store.Command{{RunID: "r", Item: &store.Item{Kind: store.ItemRetry, ID: "v",
		Origin: "v", Name: "ada"}}}); err != nil {
		t.Fatal(err)
	}
	_, err = e.Runs().Delete(t.Context(), "r", stet.Act{})
	if !errors.Is(err, stet.ErrRefused) || !strings.Contains(err.Error(), "a request that nobody has decided: retry") {
		t.Errorf("deleting it gives %v", err)
	}
	if list, err := e.Runs().Deletions(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("deletions are %v, %v", list, err)
	}
}
