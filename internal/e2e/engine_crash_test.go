package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// crashCase is a workflow that is killed at every commit.
type crashCase struct {
	name     string
	workflow func(func() *stet.Engine) *stet.Workflow[string, string]
	options  []stet.StartOption
	want     string
	drive    func(ctx context.Context, e *stet.Engine, id string) error // what the outside does; repeatable
	check    func(ctx context.Context, e *stet.Engine, id string) error // what it finds in the end; nil: nothing
}

var crashCases = []crashCase{
	{
		name: "steps and sleeps", want: "abc",
		workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				a, err := say(ctx, "a", "a")
				if err != nil {
					return "", err
				}
				if err := stet.Sleep(ctx, "nap", time.Millisecond); err != nil {
					return "", err
				}
				tries := 0
				b, err := stet.Step(ctx, "b", func(c context.Context) (string, error) {
					//stetvet:ignore captured the test counts what this process executes
					if tries++; stet.Attempt(c) < 3 {
						return "", errors.New("again")
					}
					return "b", nil
				}, stet.Retry{First: time.Millisecond, Jitter: stet.None})
				if err != nil {
					return "", err
				}
				if err := stet.SleepUntil(ctx, "past", stet.Now(ctx)); err != nil {
					return "", err
				}
				c, err := say(ctx, "c", "c")
				return a + b + c, err
			})
		},
	},
	{
		name: "messages and promises", want: "one two three yes timeout",
		options: []stet.StartOption{stet.FirstMessage(word, "one")},
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			for _, w := range []string{"two", "three"} {
				if err := word.Send(ctx, e, id, w, stet.SendKey(w)); err != nil && !errors.Is(err, stet.ErrTerminal) {
					return err
				}
			}
			return nil
		},
		workflow: func(engine func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				var words []string
				for range 3 {
					w, err := word.Receive(ctx)
					if err != nil {
						return "", err
					}
					words = append(words, w)
				}
				p, err := stet.NewPromise[string](ctx, "p")
				if err != nil {
					return "", err
				}
				err = stet.Do(ctx, "resolve", func(c context.Context) error {
					if err := engine().Resolve(c, p.Token(), "yes"); !errors.Is(err, stet.ErrAlreadyResolved) {
						return err
					}
					return nil
				}, stet.Retry{Attempts: stet.None, First: time.Millisecond})
				if err != nil {
					return "", err
				}
				yes, err := p.Await(ctx)
				if err != nil {
					return "", err
				}
				words = append(words, yes)
				if _, err := never.Receive(ctx, stet.Within(time.Millisecond)); errors.Is(err, stet.ErrTimeout) {
					words = append(words, "timeout")
				}
				return strings.Join(words, " "), nil
			})
		},
	},
	{
		name: "branches", want: "012345 all[xy] any[1 ye2e3e1] race[1 y] sel1",
		workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				parts, err := stet.Map(ctx, "map", []int{0, 1, 2, 3, 4, 5}, func(ctx stet.Context, i int) (string, error) {
					return say(ctx, "part", fmt.Sprint(i))
				}, stet.MapLimit(2))
				if err != nil {
					return "", err
				}
				branch := func(name string, fail bool) func(stet.Context) (string, error) {
					return func(ctx stet.Context) (string, error) {
						v, err := say(ctx, "s", name)
						if err == nil && fail {
							err = errors.New("no " + name)
						}
						return v, err
					}
				}
				all, err := stet.All(ctx, stet.Go(ctx, "a1", branch("x", false)), stet.Go(ctx, "a2", branch("y", false)))
				if err != nil {
					return "", err
				}
				anyone, one, err := stet.Any(ctx, stet.Go(ctx, "b1", branch("x", true)), stet.Go(ctx, "b2", branch("y", false)))
				if err != nil {
					return "", err
				}
				racer, race, err := stet.Race(ctx,
					stet.Go(ctx, "c1", func(ctx stet.Context) (string, error) { return "x", stet.Sleep(ctx, "long", time.Hour) }),
					stet.Go(ctx, "c2", branch("y", false)))
				if err != nil {
					return "", err
				}
				var open stet.Settled[string]
				long := stet.Go(ctx, "e1", func(ctx stet.Context) (string, error) { return never.Receive(ctx) })
				open.Add(long, stet.Go(ctx, "e2", branch("y", true)))
				for open.Len() > 0 {
					f, err := open.Next(ctx)
					if err != nil {
						return "", err
					}
					if _, err := f.Result(); err == nil {
						long.Cancel(ctx)
					} else if f != long {
						open.Add(stet.Go(ctx, "e3", branch("z", false)))
					} else if !errors.Is(err, stet.ErrCancelled) {
						return "", err
					}
					one += f.Name()
				}
				slow := stet.Go(ctx, "d1", func(ctx stet.Context) (string, error) { return never.Receive(ctx) })
				index, err := stet.Select(ctx, slow.Case(), stet.AfterDelay("soon", time.Millisecond))
				if err != nil {
					return "", err
				}
				return fmt.Sprintf("%s all%v any[%d %s] race[%d %s] sel%d",
					strings.Join(parts, ""), "["+strings.Join(all, "")+"]", anyone, one, racer, race, index), nil
			})
		},
	},
	showCase,
	longCase,
	{
		name: "a loop beside a branch", want: "0a1b2a3b4a5b6a, 5 asides",
		workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				beside := stet.Go(ctx, "beside", func(ctx stet.Context) (int, error) {
					return stet.Loop(ctx, "asides", 0, func(ctx stet.Context, n int) (next stet.Next[int, int], err error) {
						if _, err := say(ctx, "aside", ""); err != nil || n == 5 {
							return next.Break(n), err
						}
						return next.Continue(n + 1), nil
					}, stet.LoopOptions{Every: 1, Keep: 2})
				})
				text, err := stet.Loop(ctx, "poll", "",
					func(ctx stet.Context, text string) (next stet.Next[string, string], err error) {
						a, err := say(ctx, "fetch", string("ab"[len(text)/2%2]))
						if err != nil {
							return next, err
						}
						if text += fmt.Sprint(len(text)/2, a); len(text) == 14 {
							return next.Break(text), nil
						}
						return next.Continue(text), stet.Sleep(ctx, "nap", time.Microsecond)
					}, stet.LoopOptions{Every: 2, Keep: 1})
				if err != nil {
					return "", err
				}
				n, err := beside.Await(ctx)
				return fmt.Sprintf("%s, %d asides", text, n), err
			})
		},
	},
	{
		name: "continue as new", want: "abcd and e",
		options: []stet.StartOption{stet.FirstMessage(word, "b"), stet.FirstMessage(word, "d")},
		workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, s string) (string, error) {
				if len(s) == 4 {
					e, err := say(ctx, "last", "e")
					return s + " and " + e, err
				}
				beside := stet.Go(ctx, "beside", func(ctx stet.Context) (string, error) { return never.Receive(ctx) })
				a, err := say(ctx, "first", string("abcd"[len(s)]))
				if err != nil {
					return "", err
				}
				b, err := word.Receive(ctx)
				if err != nil || beside == nil {
					return "", err
				}
				return "", stet.ContinueAsNew(s + a + b)
			})
		},
	},
	{
		name: "versions", want: "1 1 [1 1] 1 2 [1 1 1]",
		options: []stet.StartOption{stet.FirstMessage(word, "one")},
		workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				first := stet.Version(ctx, "first", 1)
				if _, err := word.Receive(ctx); err != nil {
					return "", err
				}
				second := stet.Version(ctx, "second", 1)
				branches, err := stet.Map(ctx, "each", []string{"a", "b"}, func(ctx stet.Context, name string) (int, error) {
					if err := stet.Sleep(ctx, "nap", time.Millisecond); err != nil {
						return 0, err
					}
					version := stet.Version(ctx, "in branches", 1)
					_, err := say(ctx, name, "")
					return version, err
				})
				if err != nil {
					return "", err
				}
				stet.Removed(ctx, "never was")
				p, err := stet.NewPromise[int](ctx, "p")
				if err != nil {
					return "", err
				}
				//stetvet:ignore error only the start of it matters here
				_, _ = p.Await(ctx, stet.Within(time.Millisecond))
				third, newer := stet.Version(ctx, "second", 2), stet.Version(ctx, "third", 2)
				loop, err := stet.Loop(ctx, "poll", []int{},
					func(ctx stet.Context, got []int) (next stet.Next[[]int, []int], err error) {
						got = append(got, stet.Version(ctx, "third", 1))
						if _, err := say(ctx, "fetch", ""); err != nil || len(got) == 3 {
							return next.Break(got), err
						}
						return next.Continue(got), nil
					}, stet.LoopOptions{Every: 2, Keep: 1})
				return fmt.Sprint(first, second, branches, third, newer, loop), err
			})
		},
	},
	eventsCase,
	{
		name: "cancel with clean-up", want: "cancelled",
		drive: cancelAsleep,
		workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				if _, err := say(ctx, "first", ""); err != nil && !errors.Is(err, stet.ErrCancelled) {
					return "", err
				}
				err := stet.Sleep(ctx, "long", time.Hour)
				if !errors.Is(err, stet.ErrCancelled) {
					return "", fmt.Errorf("slept: %v", err)
				}
				return say(stet.WithoutCancel(ctx), "clean", "")
			})
		},
	},
}

// cancelAsleep cancels a run when it is suspended. It waits in virtual time.
func cancelAsleep(ctx context.Context, e *stet.Engine, id string) error {
	for {
		info, err := e.Runs().Info(ctx, id)
		if err != nil {
			return err
		}
		if info.Status == store.Suspended {
			_, err := e.Runs().Cancel(ctx, id, stet.Act{Why: "enough"})
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// crashFaults are what happens at every commit: each fault on the store in memory. A store on disk, where a crash takes
// fifty times as long, sees two of them on a day, others each day and in each test, so that five days have all: its
// crashes are those of the engine again. Where at least the usual cases are tried it sees all, too. With -short, under
// the race detector, it sees one.
func crashFaults(t *testing.T, store string) stettest.CrashOption {
	faults := []stettest.Fault{stettest.DieUnheard, stettest.DieBefore, stettest.DieAfter, stettest.LoseAnswer,
		stettest.FailOnce}
	switch {
	case store == "memory" || soak.Usual(t):
		return stettest.Faults(faults...)
	case testing.Short():
		return stettest.Faults(stettest.DieUnheard)
	}
	shift := fnv.New32a()
	shift.Write([]byte(t.Name()))
	day := soak.Part(t, int(shift.Sum32()%5), len(faults))
	return stettest.Faults(faults[day], faults[(day+2)%len(faults)])
}

// crashSeeds are the seeds of the random crashes that a store gets where n are usual: a third of them each day, one
// with -short if it is on disk, and STET_SOAK times as many if that is set.
func crashSeeds(t *testing.T, store string, n int) iter.Seq[uint64] {
	first, end := soak.Range(t, n)
	if testing.Short() && store != "memory" {
		end = first + 1
	}
	return func(yield func(uint64) bool) {
		for seed := first; seed < end && yield(uint64(seed)); seed++ {
		}
	}
}

// crashRooms are the values of MaxParkedBytes with which there is a crash at every commit.
// On a store on disk, where each takes fifty times as long, every run that suspends
// is evicted, which reads the most; STET_SOAK has the other too.
func crashRooms(store string) []int {
	if store == "memory" || soak.On() {
		return []int{stet.None, 0}
	}
	return []int{stet.None}
}

// TestCrashAtEveryCommit kills the process at each commit of each workflow, in
// each way, and has a new process finish it. The result is that of an
// undisturbed run, and no step runs again once its success is durable.
func TestCrashAtEveryCommit(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for _, c := range crashCases {
			for _, parked := range crashRooms(s.name) {
				t.Run(fmt.Sprintf("%s/%s/parked %d", s.name, c.name, parked), func(t *testing.T) {
					t.Parallel()
					var current atomic.Pointer[stet.Engine]
					out, err := stettest.CrashEverywhere(t, c.workflow(current.Load), "",
						stettest.On(s.open), stettest.WithConfig(stet.Config{MaxParkedBytes: parked}),
						crashFaults(t, s.name),
						stettest.Starting(c.options...), stettest.Driving(c.drive), stettest.Checking(c.check),
						stettest.Ready(func(e *stet.Engine) { current.Store(e) }))
					if errors.Is(err, stet.ErrCancelled) {
						out, err = "cancelled", nil
					}
					if err != nil || out != c.want {
						t.Errorf("the result is %q, %v; want %q", out, err, c.want)
					}
				})
			}
		}
	}
}
