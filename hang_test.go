package stet_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// hanging is a store whose commits, and the claims behind them, do not end before
// their callers give up, once it hangs.
type hanging struct {
	store.Store
	from chan struct{} // closed when it hangs
}

func (h *hanging) hang(ctx context.Context) error {
	select {
	case <-h.from:
		<-ctx.Done()
		return ctx.Err()
	default:
		return nil
	}
}

func (h *hanging) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := h.hang(ctx); err != nil {
		return store.BatchResult{}, err
	}
	return h.Store.Commit(ctx, b)
}

func (h *hanging) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	if err := h.hang(ctx); err != nil {
		return store.Claims{}, err
	}
	return h.Store.Claim(ctx, r)
}

// TestStopWhileACommitHangs: a node of several whose store hangs in a commit ends within
// its grace and a lease when it is stopped.
func TestStopWhileACommitHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{memory.New(memory.Slots(4)), make(chan struct{})}
		begun := make(chan struct{})
		flow := stet.Define("flow", func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "step", func(context.Context) (int, error) {
				close(h.from)
				close(begun)
				return 1, nil
			})
		})
		const grace, lease = 2 * time.Second, 3 * time.Second
		e, err := stet.New(stet.Config{Store: h, Workflows: []stet.Definition{flow}, Grace: grace, LeaseTTL: lease, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = e.Run(ctx) }() // its error names what has not ended
		if _, err := flow.Start(t.Context(), e, 1); err != nil {
			t.Fatal(err)
		}
		<-begun
		time.Sleep(2 * lease) // the commit and the next claim hang
		cancel()
		stopped := time.Now()
		<-ended
		if took := time.Since(stopped); took > grace+lease+grace+time.Second {
			t.Errorf("Run went on for %s", took)
		}
	})
}
