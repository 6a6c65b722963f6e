package torture

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// slow is a store as the harness sees it on a machine that is very busy: each request takes seconds.
type slow struct {
	store.Store
	takes      time.Duration
	under, top atomic.Int64 // requests to apply commands
}

func (s *slow) wait(ctx context.Context) error {
	select {
	case <-time.After(s.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slow) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	now := s.under.Add(1)
	defer s.under.Add(-1)
	for top := s.top.Load(); now > top && !s.top.CompareAndSwap(top, now); top = s.top.Load() {
	}
	if err := s.wait(ctx); err != nil {
		return nil, 0, err
	}
	return s.Store.Apply(ctx, commands)
}

func (s *slow) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Store.Inbox(ctx, run, ids...)
}

// TestASlowStoreIsPaidThrough: payments get their answers from a store that takes longer than the first patience of who
// pays, and their number does not grow without end meanwhile. On a busy machine no payment was ever answered, and the
// accounts that waited for them counted as stuck.
func TestASlowStoreIsPaidThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		account := stet.Define(accountRef.Name(), func(ctx stet.Context, _ account) (total int64, err error) {
			for range 3 {
				r, err := payments.Receive(ctx)
				if err != nil {
					return 0, err
				}
				if total += r.Value.Amount; r.Value.Amount < 0 {
					err = r.Reject(ctx, errRefusedPayment)
				} else {
					err = r.Answer(ctx, total)
				}
				if err != nil {
					return 0, err
				}
			}
			return total, nil
		})
		db := memory.New()
		engine, err := stet.New(t.Context(), stet.Config{Store: db, Workflows: []stet.Definition{account}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- engine.Run(ctx) }()
		synctest.Wait() // it has registered its workflow
		busy := &slow{Store: db.Join(), takes: 2500 * time.Millisecond}
		payer, err := stet.New(t.Context(), stet.Config{Store: busy})
		if err != nil {
			t.Fatal(err)
		}
		acks, err := openJournal(filepath.Join(t.TempDir(), "acks"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = acks.close() }() // in a temporary folder
		c := &client{name: "payer", engine: payer, acks: acks}
		if there, err := c.open(t.Context(), "account"); err != nil || !there {
			t.Fatal(there, err)
		}
		soon, done := context.WithTimeout(t.Context(), 5*time.Minute)
		defer done()
		if err := c.payAll(soon, "account"); err != nil || soon.Err() != nil {
			t.Errorf("expected that the account is closed, found %v, %v", err, soon.Err())
		}
		if top := busy.top.Load(); top > pendingPayments {
			t.Errorf("%d requests were under way at once; expected %d at most", top, pendingPayments)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
