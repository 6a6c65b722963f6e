package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// TestCrashesLoseNoPermitOfSteps: processes die at their commits, before and after
// them, while steps that use a queue wait, execute, fail, are retried and cancelled.
// At no commit are there more permits than the limit allows, and in the end every
// permit has come back. Where nothing is cancelled or terminated no process executes
// more bodies than that.
func TestCrashesLoseNoPermitOfSteps(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for seed := range crashSeeds(t, s.name, 4) {
			t.Run(fmt.Sprint(s.name, "/", seed), func(t *testing.T) {
				t.Parallel()
				stepPermitsSurvive(t, s.open(t), seed)
			})
		}
	}
}

// limitedSteps is a workflow whose branches use the queue, with retries, deadlines,
// compensations and losers that are cancelled while they wait.
func limitedSteps(l *actLog, cancels bool) *stet.Workflow[int, string] {
	body := func(n, part int) func(context.Context) error {
		return func(c context.Context) error {
			l.begin(fmt.Sprint(n, "-", part))
			defer l.end()
			switch (n + part) % 5 {
			case 1:
				return stet.Permanent(errors.New("no"))
			case 2:
				if stet.Attempt(c) < 3 {
					return errors.New("not yet")
				}
			}
			return takes(c, time.Millisecond)
		}
	}
	return stet.Define("limited-steps", func(ctx stet.Context, n int) (string, error) {
		use := stet.Permit{Queue: "q", Key: []string{"", "a", "b"}[n%3], Priority: n % 2}
		var parts []stet.Awaitable
		for part := range 3 {
			parts = append(parts, stet.Go(ctx, fmt.Sprint("part-", part), func(ctx stet.Context) (string, error) {
				var opts = []stet.StepOption{use, stet.Retry{First: time.Millisecond}}
				if part == 1 {
					opts = append(opts, stet.UndoDo(func(context.Context) error { return nil }))
				}
				return "", stet.Do(ctx, "body", body(n, part), opts...)
			}))
		}
		if cancels && n%2 == 0 {
			// The branches that have not ended end with this function.
			return "", stet.Sleep(ctx, "moment", time.Duration(n%5)*time.Millisecond)
		}
		return "", stet.Join(ctx, parts...)
	}, stet.UndoOnFailure)
}

func stepPermitsSurvive(t *testing.T, open func() store.Store, seed uint64) {
	const limit, lives, perLife = 3, 6, 4
	rng := rand.New(rand.NewPCG(seed, 12))
	cancels := seed >= 2
	ctx := testContext(t)
	outside := limitedSteps(&actLog{}, cancels)
	sender := client(t, open(), outside)
	var ids []string
	for life := range lives {
		l := &actLog{}
		a := &auditor{Store: open(), t: t, queue: "q", limit: limit}
		d := &dying{Store: a, left: 1 << 40, before: rng.IntN(2) == 0}
		p := newProcess(t, d, stet.Config{
			PoisonLimit: stet.None, Workflows: []stet.Definition{limitedSteps(l, cancels)}, Poll: 5 * time.Millisecond,
			MaxParkedBytes: []int{stet.None, 0}[seed%2],
		})
		d.die = p.handle.die
		p.start()
		t.Cleanup(func() { p.bury(t) })
		if life == 0 {
			createQueue(t, sender, "q", stet.QueueSettings{Concurrency: limit})
		}
		d.mu.Lock()
		d.left = int64(5 + rng.IntN(40))
		d.mu.Unlock()
		for range perLife {
			id := fmt.Sprint("run-", len(ids))
			if _, err := outside.Start(ctx, sender, len(ids), stet.ID(id)); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		for n := range 8 {
			id := ids[rng.IntN(len(ids))]
			wait, cancel := context.WithTimeout(ctx, time.Millisecond<<(2*rng.IntN(3)))
			var err error
			switch {
			case n%4 == 0 && cancels:
				_, err = sender.Runs().Terminate(wait, id, stet.Act{})
			case n%4 == 1 && cancels:
				_, err = sender.Runs().Cancel(wait, id, stet.Act{})
			case n%4 == 2:
				_, err = sender.Runs().Pause(wait, id, stet.Act{})
			case n%4 == 3:
				_, err = sender.Runs().Resume(wait, id, stet.Act{})
			}
			if err != nil && !errors.Is(err, stet.ErrTerminal) && !errors.Is(err, stet.ErrRefused) && wait.Err() == nil {
				t.Fatal(err)
			}
			cancel()
		}
		select {
		case <-p.handle.died:
		case <-time.After(100 * time.Millisecond): // it had fewer commits
			p.handle.die()
		}
		p.bury(t)
		if l.most > limit && !cancels {
			t.Errorf("life %d: a process has executed %d bodies at once", life, l.most)
		}
	}
	l := &actLog{}
	a := &auditor{Store: open(), t: t, queue: "q", limit: limit}
	final := serve(t, stet.Config{Store: a, Workflows: []stet.Definition{limitedSteps(l, cancels)},
		Poll: 5 * time.Millisecond})
	for _, id := range ids {
		checkSpent(t, final, id) // some have not ended
	}
	ended := make(chan error)
	for _, id := range ids { // all at once: a paused run may hold a permit that others wait for
		go func() { ended <- resumePaused(ctx, final, id) }()
	}
	for range ids {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for _, id := range ids {
		checkSpent(t, final, id)
	}
	info := untilQueue(t, final, "q", func(i *stet.QueueInfo) bool {
		return i.Held == 0 && i.Waiting == 0 &&
			i.Delayed == 0
	})
	if !cancels && (info.Granted < int64(len(ids)) || l.most > limit) {
		t.Errorf("%+v; %d bodies at once", info, l.most)
	}
}

// TestLimitedRunAtEveryCommit: the process dies at each commit of a run that stands on a
// queue and whose steps use another one, fail, race and are undone.
func TestLimitedRunAtEveryCommit(t *testing.T) {
	t.Parallel()
	queues := map[string]stet.QueueSettings{"runs": {Concurrency: 1, ReleaseWhileSuspended: true},
		"steps": {Concurrency: 1, Rate: 100, Per: time.Second}}
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				race := func(name string, d time.Duration) *stet.Future[string] {
					return stet.Go(ctx, name, func(ctx stet.Context) (string, error) {
						return stet.Step(ctx, "body", func(c context.Context) (string, error) { return name, takes(c, d) },
							stet.OnStepQueue("steps"))
					})
				}
				_, first, err := stet.Race(ctx, race("a", time.Second), race("b", time.Hour)) // b waits, and is cancelled
				if err != nil {
					return "", err
				}
				again, err := stet.Step(ctx, "again", func(c context.Context) (int, error) {
					if stet.Attempt(c) < 3 {
						return 0, errors.New("not yet")
					}
					return 3, nil
				}, stet.Permit{Queue: "steps", Key: "k", Priority: 1})
				if err != nil {
					return "", err
				}
				if err := stet.Do(ctx, "kept", func(context.Context) error { return nil },
					stet.UndoDo(func(context.Context) error { return nil }), stet.OnStepQueue("steps")); err != nil {
					return "", err
				}
				return fmt.Sprint(first, again), nil
			})
			got, err := stettest.CrashEverywhere(t, w, "", stettest.On(s.open), crashFaults(t, s.name), stettest.Queues(queues),
				stettest.Starting(stet.OnQueue{Name: "runs", Key: "k"}),
				stettest.Checking(func(ctx context.Context, e *stet.Engine, _ string) error {
					for name := range queues {
						for {
							info, err := e.Queues().Info(ctx, name)
							if err != nil || info.Held+info.Waiting+info.Delayed == 0 {
								if err != nil {
									return err
								}
								break
							}
							if err := takes(ctx, time.Second); err != nil {
								return fmt.Errorf("queue %s: a permit has not come back: %+v", name, info)
							}
						}
					}
					return nil
				}))
			if err != nil || got != "a3" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
