package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// patient is a run that operators do everything to, while its process is killed.
type patient struct {
	fixed atomic.Bool // its step b succeeds

	mu   sync.Mutex
	keys map[string]map[string]bool // idempotency keys by step
}

func (p *patient) step(ctx stet.Context, name string) (string, error) {
	return stet.Step(ctx, name, func(ctx context.Context) (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.keys[name] == nil {
			p.keys[name] = map[string]bool{}
		}
		p.keys[name][stet.IdempotencyKey(ctx)] = true
		if name == "b" && !p.fixed.Load() {
			return "", stet.Permanent(errors.New("b is broken"))
		}
		return name, nil
	})
}

func (p *patient) workflow() *stet.Workflow[string, string] {
	return stet.Define("patient", func(ctx stet.Context, _ string) (string, error) {
		first, err := word.Receive(ctx)
		if err != nil {
			return "", err
		}
		all := []string{first}
		for _, name := range []string{"a", "b", "c"} {
			v, err := p.step(ctx, name)
			if err != nil {
				return "", err
			}
			all = append(all, v)
		}
		last, err := other.Receive(ctx)
		return strings.Join(append(all, last), " "), err
	})
}

// treat makes every request about a patient once, and sends the run with the ID the outcomes.
func (p *patient) treat(ctx context.Context, e *stet.Engine, id string) error {
	p.fixed.Store(false)
	p.mu.Lock()
	p.keys = map[string]map[string]bool{}
	p.mu.Unlock()
	w := p.workflow()
	r, err := w.Start(ctx, e, "", stet.ID("patient"))
	if err != nil {
		return err
	}
	var told []string
	wait := func(id string) {
		out, err := w.Handle(e, id).Wait(ctx)
		if err != nil {
			out = "failed"
		}
		told = append(told, out)
	}
	verb := func(ok bool, err error) {
		if !ok || err != nil {
			told = append(told, fmt.Sprint(ok, err))
		}
	}
	verb(e.Runs().Pause(ctx, r.ID(), stet.Act{Why: "first"}))
	if err := word.Send(ctx, e, r.ID(), "hello"); err != nil {
		return err
	}
	verb(e.Runs().Resume(ctx, r.ID(), stet.Act{}))
	wait(r.ID())
	p.fixed.Store(true)
	verb(e.Runs().Retry(ctx, r.ID(), stet.Act{Why: "second"}))
	if err := other.Send(ctx, e, r.ID(), "bye"); err != nil {
		return err
	}
	wait(r.ID())
	verb(e.Runs().Rewind(ctx, r.ID(), "b", stet.Act{Why: "third"}))
	wait(r.ID())
	fork, err := e.Runs().Fork(ctx, r.ID(), "c", stet.Act{Why: "fourth"}, stet.ID("fork"))
	verb(err == nil, err)
	wait(fork)
	verb(e.Runs().EditResult(ctx, r.ID(), "c", "C", stet.Act{Why: "fifth"}))
	wait(r.ID())
	return word.Send(ctx, e, id, strings.Join(told, "; "))
}

// check checks that each act is in the audits once, and which keys went out.
func (p *patient) check(ctx context.Context, e *stet.Engine, _ string) error {
	var acts []string
	for _, id := range []string{"patient", "fork"} {
		audit, err := e.Runs().Audit(ctx, id)
		if err != nil {
			return err
		}
		for _, a := range audit {
			acts = append(acts, a.Verb+" "+a.Why)
		}
	}
	if got, want := strings.Join(acts, ", "),
		"pause first, resume , retry second, rewind third, edit fifth, fork fourth"; got != want {
		return fmt.Errorf("the audits have %q, want %q", got, want)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, want := range map[string]int{"a": 1, "b": 2, "c": 3} {
		if keys := slices.Collect(maps.Keys(p.keys[name])); len(keys) != want {
			return fmt.Errorf("step %s has gone out with %d keys, want %d: "+
				"a retry keeps them, a rewind and a fork make new ones", name, len(keys), want)
		}
	}
	return nil
}

// TestVerbsCrashEverywhere: whatever commit the process dies at, each verb is carried
// out once, and does what it says. Values are encrypted on the way.
func TestVerbsCrashEverywhere(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for _, parked := range crashRooms(s.name) {
			t.Run(fmt.Sprintf("%s/parked %d", s.name, parked), func(t *testing.T) {
				t.Parallel()
				p := &patient{}
				w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) { return word.Receive(ctx) })
				got, err := stettest.CrashEverywhere(t, w, "", stettest.On(s.open),
					stettest.WithConfig(stet.Config{
						Workflows: []stet.Definition{p.workflow()}, MaxParkedBytes: parked,
						Payloads: stet.Payloads{Keys: []stet.PayloadKey{payloadKey("k")}, Compress: 10},
					}),
					crashFaults(t, s.name),
					stettest.Driving(p.treat), stettest.Checking(p.check))
				if want := "failed; hello a b c bye; hello a b c bye; hello a b c bye; hello a b C bye"; err != nil || got != want {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
			})
		}
	}
}

// sweptAway is a store whose process dies at a sweep, before it or after it.
type sweptAway struct {
	store.Store
	left  int
	after bool
	die   func()
	died  bool
}

func (s *sweptAway) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	if s.died {
		return store.Swept{}, errDead
	}
	if s.left--; s.left != 0 {
		return s.Store.Sweep(ctx, req)
	}
	s.died = true
	if s.after {
		if _, err := s.Store.Sweep(ctx, req); err != nil {
			return store.Swept{}, err
		}
	}
	s.die()
	return store.Swept{}, errDead
}

// TestSweepsThroughCrashes kills the process at each sweep: in the end exactly the expired runs are deleted, one with
// many entries too.
func TestSweepsThroughCrashes(t *testing.T) {
	t.Parallel()
	const many = 600 // more than one sweep deletes
	ended := stet.Define("ended", func(ctx stet.Context, n int) (int, error) {
		got, err := stet.Map(ctx, "m", make([]int, n), func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
		})
		return len(got), err
	}, stet.KeepFor(stet.AtOnce))
	waiting := stet.Define("waiting", func(ctx stet.Context, again bool) (string, error) {
		// A child belongs to the incarnation if it was created after that began.
		if err := stet.Sleep(ctx, "a moment", time.Microsecond); err != nil {
			return "", err
		}
		n, err := ended.Call(ctx, 1, stet.Named(fmt.Sprint("again ", again)))
		if err != nil || again {
			return "", errors.Join(err, stet.ContinueAsNew(false))
		}
		text, err := word.Receive(ctx)
		return fmt.Sprint(n, text), err
	}, stet.KeepFor(stet.AtOnce))
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			ways := []bool{true, false}
			if testing.Short() && s.name != "memory" {
				ways = ways[:1] // each takes its time on a disk
			}
			sweeps := 0
			for _, after := range ways {
				for at, reached := 1, true; reached; at++ {
					synctest.Test(t, func(t *testing.T) {
						open := s.open(t)
						d := &sweptAway{Store: open(), left: at, after: after}
						cfg := stet.Config{
							Workflows: []stet.Definition{ended, waiting}, Poll: time.Hour, LeaseTTL: time.Hour,
							Logger: slog.New(slog.DiscardHandler),
						}
						first := newProcess(t, d, cfg)
						d.die = first.handle.die
						first.start()
						outside := client(t, open(), ended, waiting)
						for i, n := range []int{many, 1, 2} {
							begin(t, outside, ended, n, stet.ID(fmt.Sprint("over", i)))
						}
						r := begin(t, outside, waiting, true, stet.ID("live"))
						select {
						case <-first.handle.died:
						case <-time.After(5 * time.Minute):
							reached = false
						}
						first.bury(t)
						last := newProcess(t, open(), cfg)
						last.start()
						defer last.bury(t)
						time.Sleep(10 * time.Minute)
						for i := range 3 {
							if _, err := outside.Runs().Info(t.Context(), fmt.Sprint("over", i)); !errors.Is(err, stet.ErrNotFound) {
								t.Errorf("sweep %d: run %d is still there: %v", at, i, err)
							}
						}
						// A child that a live run refers to is kept, that of a former incarnation is not.
						page, err := outside.Store().List(t.Context(), store.Filter{Workflows: []string{"ended"}})
						if err != nil || len(page.Runs) != 1 {
							t.Errorf("sweep %d: %d children are there, %v", at, len(page.Runs), err)
						}
						if err := word.Send(t.Context(), outside, r.ID(), " there"); err != nil {
							t.Fatal(err)
						}
						if got := outcome(t, r); got != "1 there" {
							t.Errorf("sweep %d: the live run gives %q", at, got)
						}
					})
					if reached {
						sweeps++
					}
				}
			}
			if sweeps < 3*len(ways) {
				t.Errorf("only %d sweeps were cut", sweeps)
			}
		})
	}
}
