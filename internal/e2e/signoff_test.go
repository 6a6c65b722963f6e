package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// mumbling is a store that carries commits out, and whose answers to them are lost from a moment on, until the node has
// signed off. It takes no leases back.
type mumbling struct {
	store.Store

	mu      sync.Mutex
	lost    bool
	signed  bool     // off
	after   []string // what was sent after that
	refused []string // turns
}

var errLost = fmt.Errorf("%w: %w: the answer is lost", store.ErrUnavailable, store.ErrUnknown)

func (m *mumbling) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	result, err := m.Store.Commit(ctx, b)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, t := range result.Turns {
		if t.Verdict == store.Refused {
			m.refused = append(m.refused, fmt.Sprintf("run %d: %s", b.Turns[i].Run, t.Reason))
		}
	}
	if m.signed {
		m.after = append(m.after, fmt.Sprintf("batch %d", b.No))
	} else if m.lost && err == nil {
		return store.BatchResult{}, errLost
	}
	return result, err
}

func (m *mumbling) Release(ctx context.Context, leases []store.Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost {
		return store.ErrUnavailable
	}
	return m.Store.Release(ctx, leases)
}

func (m *mumbling) Register(ctx context.Context, n store.Node) (store.Time, error) {
	now, err := m.Store.Register(ctx, n)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.signed = m.signed || n.Stopped && err == nil
	return now, err
}

// TestNothingIsRepeatedAfterANodeHasSignedOff: a store forgets the last batch of a boot that has stopped, and would
// carry it out again. So a node takes itself off the list when it repeats nothing any more.
func TestNothingIsRepeatedAfterANodeHasSignedOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := memory.New(memory.Slots(4))
		s := &mumbling{Store: db}
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			if _, err := say(ctx, "first", "x"); err != nil {
				return 0, err
			}
			return 0, stet.Sleep(ctx, "long", time.Hour)
		})
		var log lockedBuffer
		e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{w}, LeaseTTL: 30 * time.Second,
			Grace: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		outside, err := stet.New(t.Context(), stet.Config{Store: db.Join()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		synctest.Wait()
		s.mu.Lock()
		s.lost = true
		s.mu.Unlock()
		if _, err := w.Start(t.Context(), outside, 0, stet.ID("r")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // its first turn is repeated
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !s.signed || len(s.after) > 0 || len(s.refused) > 0 {
			t.Errorf("expected that nothing is sent after the node has signed off (%t), found %q; refused: %q\n%s",
				s.signed, s.after, s.refused, log.String())
		}
	})
}
