package torture_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// lossy is a store as the harness sees it on a busy machine: of its reads some fail, and of its commands' answers some
// are lost, whether or not they were carried out.
type lossy struct {
	store.Store

	mu    sync.Mutex
	calls map[string]int // by method
	lost  map[string]int // those that failed
}

// loses reports whether this call of a method is one of those that fail: the second, and at random one of so many.
func (l *lossy) loses(method string, of int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[method]++
	lost := l.calls[method] == 2 || rand.IntN(of) == 0
	if lost {
		l.lost[method]++
	}
	return lost
}

func (l *lossy) unavailable(method string) error {
	if l.loses(method, 5) {
		return fmt.Errorf("%s: %w: the connection is lost", method, store.ErrUnavailable)
	}
	return nil
}

func (l *lossy) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	if l.loses("not carried out", 11) {
		return nil, 0, fmt.Errorf("%w: %w", store.ErrUnknown, context.DeadlineExceeded)
	}
	answers, now, err := l.Store.Apply(ctx, commands)
	if err == nil && l.loses("carried out", 7) {
		return nil, 0, fmt.Errorf("%w: %w", store.ErrUnknown, context.DeadlineExceeded)
	}
	return answers, now, err
}

func (l *lossy) Describe(ctx context.Context) (store.Description, error) {
	if err := l.unavailable("describe"); err != nil {
		return store.Description{}, err
	}
	return l.Store.Describe(ctx)
}

func (l *lossy) List(ctx context.Context, f store.Filter) (store.Page, error) {
	if err := l.unavailable("list"); err != nil {
		return store.Page{}, err
	}
	return l.Store.List(ctx, f)
}

func (l *lossy) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	if err := l.unavailable("count"); err != nil {
		return nil, err
	}
	return l.Store.Count(ctx, f)
}

func (l *lossy) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	if err := l.unavailable("history"); err != nil {
		return nil, err
	}
	return l.Store.History(ctx, q)
}

func (l *lossy) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	if err := l.unavailable("inbox"); err != nil {
		return nil, err
	}
	return l.Store.Inbox(ctx, run, ids...)
}

func (l *lossy) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	if err := l.unavailable("stream"); err != nil {
		return nil, err
	}
	return l.Store.Stream(ctx, q)
}

func (l *lossy) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	if err := l.unavailable("audit"); err != nil {
		return nil, err
	}
	return l.Store.Audit(ctx, run)
}

// TestWhatIsUnknownBreaksNothing: answers that the harness does not get, as on a busy machine, are no broken promises,
// and no end of the torture. What may have been carried out or not is judged as that.
func TestWhatIsUnknownBreaksNothing(t *testing.T) {
	soak.Faults(t)
	longer(t, 4*time.Second, func(d time.Duration, last bool) bool {
		cfg := config(t)
		open := cfg.Open
		var opened *lossy
		cfg.Open = func(ctx context.Context) (store.Store, error) {
			db, err := open(ctx)
			if err != nil {
				return nil, err
			}
			opened = &lossy{Store: db, calls: map[string]int{}, lost: map[string]int{}}
			return opened, nil
		}
		cfg.For, cfg.NoPoison = d, true
		report := tortured(t, cfg)
		if !report.OK {
			t.Errorf("seed %d: there are violations or troubles", report.Seed)
		}
		enough := true
		for _, method := range []string{"carried out", "not carried out", "describe", "list", "count", "history", "inbox",
			"stream", "audit"} {
			if opened.lost[method] > 0 {
				continue
			}
			if enough = false; last {
				t.Errorf("seed %d: no answer of %q was lost", report.Seed, method)
			}
		}
		return enough || t.Failed()
	})
}
