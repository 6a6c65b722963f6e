package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// auditor is a store that reads, after each commit, the permits that stand.
type auditor struct {
	store.Store
	t     testing.TB
	queue string
	limit int

	mu     sync.Mutex
	record store.RunNo
	most   int
}

func (a *auditor) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	result, err := a.Store.Commit(ctx, b)
	if err == nil {
		if err := a.audit(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) &&
			!errors.Is(err, store.ErrUnavailable) {
			a.t.Errorf("reading the permits: %v", err)
		}
	}
	return result, err
}

func (a *auditor) audit(ctx context.Context) error {
	if a.record == 0 {
		page, err := a.Store.List(ctx, store.Filter{IDs: []string{permit.EntityID(a.queue)}})
		if err != nil || len(page.Runs) == 0 {
			return err
		}
		a.record = page.Runs[0].No
	}
	entries, err := a.Store.History(ctx, store.HistoryQuery{Run: a.record})
	if err != nil {
		return err
	}
	permits := 0
	for i := range entries {
		if entries[i].Loc[0] == 'p' {
			permits++
		}
	}
	a.most = max(a.most, permits)
	if permits > a.limit {
		a.t.Errorf("%d permits stand, of %d", permits, a.limit)
	}
	return nil
}

// TestCrashesLoseNoPermitAndDoubleNone: processes die at their commits, before and
// after them, while runs end, fail, are cancelled, terminated, paused and retried.
// At no commit are there more permits than the limit allows, and in the end every
// permit has come back. Where no run is cancelled or terminated, which a body that does
// not look at its context outlives, no process executes more bodies than that.
func TestCrashesLoseNoPermitAndDoubleNone(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for seed := range crashSeeds(t, s.name, 4) {
			t.Run(fmt.Sprint(s.name, "/", seed), func(t *testing.T) {
				t.Parallel()
				permitsSurvive(t, s.open(t), seed)
			})
		}
	}
}

func permitsSurvive(t *testing.T, open func() store.Store, seed uint64) {
	const limit, lives, perLife = 3, 6, 6
	rng := rand.New(rand.NewPCG(seed, 11))
	release := seed%2 == 1
	ends := seed >= 2 // runs are cancelled and terminated
	workflow := func(l *actLog) *stet.Workflow[int, string] {
		return stet.Define("limited", func(ctx stet.Context, n int) (string, error) {
			for i := range 2 {
				if err := stet.Do(ctx, fmt.Sprint("body-", i), func(c context.Context) error {
					l.begin(fmt.Sprint(n))
					defer l.end()
					if n%7 == 3 && i == 1 {
						return stet.Permanent(errors.New("no"))
					}
					return takes(c, time.Millisecond)
				}); err != nil {
					return "", err
				}
				if _, err := word.Receive(ctx, stet.Within(time.Duration(1+n%3)*time.Millisecond),
					stet.Key(fmt.Sprint(i))); err != nil && !errors.Is(err, stet.ErrTimeout) {
					return "", err
				}
			}
			return "", nil
		})
	}
	ctx := testContext(t)
	outside := workflow(&actLog{})
	sender := client(t, open(), outside)
	var ids []string
	for life := range lives {
		l := &actLog{}
		a := &auditor{Store: open(), t: t, queue: "q", limit: limit}
		d := &dying{Store: a, left: int64(5 + rng.IntN(40)), before: rng.IntN(2) == 0}
		p := newProcess(t, d, stet.Config{
			PoisonLimit: stet.None, Workflows: []stet.Definition{workflow(l)}, Poll: 5 * time.Millisecond,
			MaxParkedBytes: []int{stet.None, 0}[seed/2%2],
		})
		d.die = p.handle.die
		if life == 0 {
			d.left = 1 << 40 // until the queue is there
		}
		p.start()
		t.Cleanup(func() { p.bury(t) })
		if life == 0 {
			createQueue(t, sender, "q", stet.QueueSettings{Concurrency: limit, ReleaseWhileSuspended: release})
			d.mu.Lock()
			d.left = int64(5 + rng.IntN(40))
			d.mu.Unlock()
		}
		for range perLife {
			id := fmt.Sprint("run-", len(ids))
			q := stet.OnQueue{Name: "q", Key: []string{"", "a", "b"}[rng.IntN(3)], Priority: rng.IntN(2)}
			if _, err := outside.Start(ctx, sender, len(ids), stet.ID(id), q); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		for n := range 12 {
			id := ids[rng.IntN(len(ids))]
			wait, cancel := context.WithTimeout(ctx, time.Millisecond<<(2*rng.IntN(3)))
			var err error
			switch n % 6 {
			case 0, 1:
				if !ends {
					break
				}
				if n%6 == 1 {
					_, err = sender.Runs().Terminate(wait, id, stet.Act{})
					break
				}
				_, err = sender.Runs().Cancel(wait, id, stet.Act{})
			case 2:
				_, err = sender.Runs().Retry(wait, id, stet.Act{})
			case 3:
				_, err = sender.Runs().Pause(wait, id, stet.Act{})
			case 4:
				_, err = sender.Runs().Resume(wait, id, stet.Act{})
			case 5:
				err = word.Send(wait, sender, id, "hello")
			}
			if err != nil && !errors.Is(err, stet.ErrTerminal) && !errors.Is(err, stet.ErrRefused) && wait.Err() == nil {
				t.Fatal(err)
			}
			cancel()
		}
		if life < lives-1 {
			select {
			case <-p.handle.died:
			case <-time.After(100 * time.Millisecond): // it had fewer commits
				p.handle.die()
			}
		} else {
			d.mu.Lock()
			d.left = 1 << 40
			d.mu.Unlock()
			if !p.handle.dead.Load() {
				p.handle.die()
			}
		}
		p.bury(t)
		if l.most > limit && !ends {
			t.Errorf("life %d: a process has executed %d bodies at once", life, l.most)
		}
	}
	l := &actLog{}
	a := &auditor{Store: open(), t: t, queue: "q", limit: limit}
	final := serve(t, stet.Config{Store: a, Workflows: []stet.Definition{workflow(l)}, Poll: 5 * time.Millisecond})
	var resumed sync.WaitGroup // all at once: a paused run holds a permit that others wait for
	for _, id := range ids {
		resumed.Go(func() {
			if err := resumePaused(ctx, final, id); err != nil {
				t.Error(id, err)
			}
		})
	}
	resumed.Wait()
	info := untilQueue(t, final, "q", func(i *stet.QueueInfo) bool {
		return i.Held == 0 && i.Waiting == 0 &&
			i.Delayed == 0
	})
	if info.Granted < int64(len(ids))/2 || l.most > limit && !ends {
		t.Errorf("%+v; %d bodies at once", info, l.most)
	}
}
