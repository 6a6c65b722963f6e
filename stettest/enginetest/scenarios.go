package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-run/stet"
)

// scenario is a workflow, the acts of the outside on its run, and the run's end.
type scenario struct {
	name string
	want string // the result; or, if it begins with "error ", a part of the error
	// workflows returns the workflow of the run, and after it others that it needs.
	// outside is an engine that outlives the processes.
	workflows func(outside *stet.Engine) []stet.Definition
	start     []stet.StartOption

	// Functions that are nil do nothing; prepare and drive can be repeated.
	prepare func(ctx context.Context, e *stet.Engine) error            // is called before the start
	drive   func(ctx context.Context, e *stet.Engine, id string) error // is called beside the run
	check   func(ctx context.Context, e *stet.Engine, id string) error // is called at the end
}

var (
	word   = stet.Message[string]("word")
	never  = stet.Message[string]("never")
	double = stet.Update[int, int]("double")
	lines  = stet.Stream[string]("lines")
	newest = stet.Stream[string]("newest")
	last   = stet.Value[string]("last")
)

// say is a step that returns a value.
func say(ctx stet.Context, name, value string, opts ...stet.StepOption) (string, error) {
	return stet.Step(ctx, name, func(ctx context.Context) (string, error) { return value, stet.Spent(ctx, 2) }, opts...)
}

func define(name string, fn func(stet.Context, string) (string, error), opts ...stet.DefineOption) []stet.Definition {
	return []stet.Definition{stet.Define(name, fn, opts...)}
}

var quick = stet.Retry{First: time.Millisecond, Jitter: stet.None}

var scenarios = slices.Concat(entityScenarios, letterScenarios, failureScenarios, []scenario{
	{
		name: "steps", want: "abc",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("steps", func(ctx stet.Context, _ string) (string, error) {
				a, err := say(ctx, "a", "a")
				if err != nil {
					return "", err
				}
				if err := stet.Sleep(ctx, "nap", 5*time.Millisecond); err != nil {
					return "", err
				}
				b, err := stet.Step(ctx, "b", func(c context.Context) (string, error) {
					if stet.Attempt(c) < 3 {
						return "", errors.New("again")
					}
					return "b", nil
				}, quick)
				if err != nil {
					return "", err
				}
				c, err := say(ctx, "c", "c")
				return a + b + c, err
			})
		},
	},
	{
		name: "messages", want: "one two three timeout",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("messages", func(ctx stet.Context, _ string) (string, error) {
				var words []string
				for range 3 {
					w, err := word.Receive(ctx)
					if err != nil {
						return "", err
					}
					words = append(words, w)
				}
				if _, err := never.Receive(ctx, stet.Within(5*time.Millisecond)); errors.Is(err, stet.ErrTimeout) {
					words = append(words, "timeout")
				}
				return strings.Join(words, " "), nil
			})
		},
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			for _, w := range []string{"one", "two", "three"} {
				if err := word.Send(ctx, e, id, w, stet.SendKey(w)); err != nil && !errors.Is(err, stet.ErrTerminal) {
					return err
				}
			}
			return nil
		},
	},
	{
		name: "promise", want: "yes",
		workflows: func(outside *stet.Engine) []stet.Definition {
			return define("promise", func(ctx stet.Context, _ string) (string, error) {
				p, err := stet.NewPromise[string](ctx, "p")
				if err != nil {
					return "", err
				}
				err = stet.Do(ctx, "resolve", func(c context.Context) error {
					if err := outside.Resolve(c, p.Token(), "yes"); !errors.Is(err, stet.ErrAlreadyResolved) {
						return err
					}
					return nil
				}, stet.Retry{Attempts: stet.None, First: time.Millisecond})
				if err != nil {
					return "", err
				}
				return p.Await(ctx)
			})
		},
	},
	{
		name: "branches", want: "012345 all[xy] race[y]",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("branches", func(ctx stet.Context, _ string) (string, error) {
				parts, err := stet.Map(ctx, "map", []int{0, 1, 2, 3, 4, 5}, func(ctx stet.Context, i int) (string, error) {
					return say(ctx, "part", fmt.Sprint(i))
				}, stet.MapLimit(2))
				if err != nil {
					return "", err
				}
				branch := func(name string, d time.Duration) *stet.Future[string] {
					return stet.Go(ctx, name, func(ctx stet.Context) (string, error) {
						if err := stet.Sleep(ctx, "nap", d); err != nil {
							return "", err
						}
						return say(ctx, "s", name[len(name)-1:])
					})
				}
				all, err := stet.All(ctx, branch("allx", time.Millisecond), branch("ally", 0))
				if err != nil {
					return "", err
				}
				_, first, err := stet.Race(ctx, branch("racex", time.Hour), branch("racey", 0))
				return fmt.Sprintf("%s all[%s] race[%s]", strings.Join(parts, ""), strings.Join(all, ""), first), err
			})
		},
	},
	{
		name: "children", want: "1 2 3",
		workflows: func(*stet.Engine) []stet.Definition {
			child := stet.Define("child", func(ctx stet.Context, in string) (string, error) {
				return say(ctx, "say", in)
			})
			return append(define("children", func(ctx stet.Context, _ string) (string, error) {
				var words []string
				first, err := child.Go(ctx, "1", stet.Named("first"))
				if err != nil {
					return "", err
				}
				for _, in := range []string{"2", "3"} {
					w, err := child.Call(ctx, in)
					if err != nil {
						return "", err
					}
					words = append(words, w)
				}
				w, err := first.Await(ctx)
				return strings.Join(append([]string{w}, words...), " "), err
			}), child)
		},
	},
	{
		name: "loop", want: "0123",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("loop", func(ctx stet.Context, _ string) (string, error) {
				return stet.Loop(ctx, "l", "", func(ctx stet.Context, state string) (stet.Next[string, string], error) {
					var next stet.Next[string, string]
					part, err := say(ctx, "part", fmt.Sprint(len(state)))
					if err != nil {
						return next, err
					}
					if state += part; len(state) == 4 {
						return next.Break(state), nil
					}
					return next.Continue(state), nil
				})
			})
		},
	},
	{
		name: "continued", want: "...done",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("continued", func(ctx stet.Context, in string) (string, error) {
				part, err := say(ctx, "part", ".")
				if err != nil {
					return "", err
				}
				if in += part; len(in) < 3 {
					return "", stet.ContinueAsNew(in)
				}
				return in + "done", nil
			})
		},
	},
	{
		name: "updates", want: "2 4 6",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("updates", func(ctx stet.Context, _ string) (string, error) {
				var words []string
				for range 3 {
					r, err := double.Receive(ctx)
					if err != nil {
						return "", err
					}
					w, err := say(ctx, "compute", fmt.Sprint(2*r.Value))
					if err != nil {
						return "", err
					}
					if err := r.Answer(ctx, 2*r.Value); err != nil {
						return "", err
					}
					words = append(words, w)
				}
				return strings.Join(words, " "), nil
			})
		},
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			for i := 1; i <= 3; i++ {
				if got, err := double.Call(ctx, e, id, i, stet.SendKey(fmt.Sprint(i))); err != nil || got != 2*i {
					return fmt.Errorf("twice %d is %d: %w", i, got, err)
				}
			}
			return nil
		},
	},
	{
		name: "shows", want: "done",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("shows", func(ctx stet.Context, _ string) (string, error) {
				for _, text := range []string{"a", "b", "c"} {
					if err := errors.Join(lines.Append(ctx, text), newest.Append(ctx, text, stet.Keep(2))); err != nil {
						return "", err
					}
					if err := errors.Join(last.Set(ctx, text), stet.SetTags(ctx, stet.Tags{"at": text})); err != nil {
						return "", err
					}
					if _, err := say(ctx, "step", text); err != nil {
						return "", err
					}
				}
				return "done", nil
			})
		},
		check: func(ctx context.Context, e *stet.Engine, id string) error {
			items, err := lines.Items(ctx, e, id, 0, 0)
			if err != nil {
				return err
			}
			var got []string
			for _, item := range items {
				got = append(got, item.Value)
			}
			value, _, err := last.Get(ctx, e, id)
			if !slices.Equal(got, []string{"a", "b", "c"}) || value != "c" {
				return fmt.Errorf("the stream holds %q, the value is %q: %w", got, value, err)
			}
			few, err := newest.Items(ctx, e, id, 0, 0)
			if err == nil && (len(few) != 2 || few[0].Value != "b" || few[0].Skipped != 1 || few[1].Value != "c") {
				return fmt.Errorf("a stream that keeps two items holds %+v", few)
			}
			return err
		},
	},
	{
		name: "emits", want: "done",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("emits", func(ctx stet.Context, _ string) (string, error) {
				if err := lines.Append(ctx, "begin"); err != nil {
					return "", err
				}
				err := stet.Do(ctx, "ask", func(ctx context.Context) error {
					for _, text := range spoken {
						if err := lines.Emit(ctx, text); err != nil {
							return err
						}
					}
					if stet.Attempt(ctx) == 1 {
						return errors.New("once")
					}
					return nil
				}, quick)
				return "done", errors.Join(err, lines.Append(ctx, "end"))
			})
		},
		check: func(ctx context.Context, e *stet.Engine, id string) error {
			items, err := lines.Items(ctx, e, id, 0, 0)
			if err != nil {
				return err
			}
			return checkSpoken(items)
		},
	},
	{
		name: "stalled", want: "ab",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("stalled", func(ctx stet.Context, _ string) (string, error) {
				a, err := say(ctx, "a", "a")
				if err != nil {
					return "", err
				}
				//stetvet:ignore sync stands for code that is repaired while the run is stalled
				if _, ok := repaired.Load(stet.RunID(ctx)); !ok {
					wrong := stet.Go(ctx, "wrong", func(ctx stet.Context) (string, error) { return say(ctx, "b", "wrong") })
					return "", errors.Join(last.Set(ctx, "wrong"), stet.Stall("look at "+wrong.Name()))
				}
				b, err := say(ctx, "b", "b")
				return a + b, err
			})
		},
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			for {
				info, err := e.Runs().Info(ctx, id)
				switch {
				case err != nil:
					return err
				case info.Status.Terminal():
					return nil
				case info.Cause == stet.CauseCode:
					repaired.Store(id, true)
					if _, err := e.Runs().Resume(ctx, id, stet.Act{}); !errors.Is(err, stet.ErrPending) {
						return err
					}
				}
				rest(ctx, 10*time.Millisecond)
			}
		},
		check: func(ctx context.Context, e *stet.Engine, id string) error {
			v, shown, err := last.Get(ctx, e, id)
			if shown {
				return fmt.Errorf("expected no value of what was taken back, found %q", v)
			}
			return err
		},
	},
	{name: "scripted", want: "a wait b, c", workflows: scripted},
	{name: "audited", want: "found", workflows: audited},
	{
		name: "undone", want: "error no van",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("undone", func(ctx stet.Context, _ string) (string, error) {
				for _, name := range []string{"first", "second"} {
					_, err := say(ctx, name, name, stet.Undo(func(context.Context, string) error { return nil }))
					if err != nil {
						return "", err
					}
				}
				return "", stet.Do(ctx, "ship", func(context.Context) error { return stet.Permanent(errors.New("no van")) })
			})
		},
	},
	{
		name: "saga", want: "by foot: no van; outside stays",
		workflows: func(outside *stet.Engine) []stet.Definition {
			return define("saga", func(ctx stet.Context, _ string) (string, error) {
				run := outing{outside, stet.RunID(ctx)}
				reserve := func(ctx stet.Context, name string) error {
					_, err := say(ctx, name, name, stet.Undo(func(context.Context, string) error {
						sagas.undone(run, name)
						return nil
					}))
					return err
				}
				if err := reserve(ctx, "outside"); err != nil {
					return "", err
				}
				_, err := stet.Saga(ctx, "trip", func(ctx stet.Context) (string, error) {
					if err := errors.Join(reserve(ctx, "hotel"), reserve(ctx, "car")); err != nil {
						return "", err
					}
					return "", stet.Do(ctx, "van", func(context.Context) error { return stet.Permanent(errors.New("no van")) })
				})
				if err == nil || !strings.Contains(err.Error(), "no van") {
					return "", fmt.Errorf("the saga gives %w", err)
				}
				way, err := say(ctx, "other way", "by foot")
				return way + ": no van; outside stays", err
			})
		},
		check: func(_ context.Context, e *stet.Engine, id string) error {
			return undoneAre(e, id, "car", "hotel")
		},
	},
	{
		name: "cancelled", want: "error cancelled",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("cancelled", func(ctx stet.Context, _ string) (string, error) {
				if _, err := say(ctx, "a", "a"); err != nil {
					return "", err
				}
				if err := stet.Sleep(ctx, "long", time.Hour); !errors.Is(err, stet.ErrCancelled) {
					return "", fmt.Errorf("slept: %w", err)
				}
				return say(stet.WithoutCancel(ctx), "clean", "")
			})
		},
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := e.Runs().Cancel(ctx, id, stet.Act{Why: "enough"})
			return err
		},
	},
})

// outing is a run of a saga on the store of an engine.
type outing struct {
	outside *stet.Engine
	run     string
}

// undoings are what was undone, by run, in this order.
type undoings struct {
	mu   sync.Mutex
	list map[outing][]string
}

var sagas = undoings{list: map[outing][]string{}}

func (u *undoings) undone(run outing, name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list[run] = append(u.list[run], name)
}

func (u *undoings) of(run outing) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.list[run])
}

// repaired are the IDs of the stalled runs whose code is right now.
var repaired sync.Map

// spoken are the items that a body emits.
var spoken = []string{"one", "two", "three"}

// checkSpoken looks at a stream to which the code has appended one item before and one behind
// a body that emits. The body was executed several times: each execution has emitted what it
// did from the first item on, behind a mark if it is not the first, and the last one all.
func checkSpoken(items []stet.StreamItem[string]) error {
	bad := func(at int, why string) error { return fmt.Errorf("item %d of %+v: %s", at, items, why) }
	said, executions, attempt := 0, 1, 1
	for i, item := range items {
		switch last := i == len(items)-1; {
		case i == 0 || last:
			if item.Value != map[bool]string{false: "begin", true: "end"}[last] || item.Location != "" {
				return bad(i, "want what the code has appended")
			}
		case item.Location != "ask" || item.Attempt < attempt:
			return bad(i, "its place or attempt is wrong")
		case item.Again && i == 1:
			return bad(i, "nothing stands before the mark")
		case item.Again:
			said, attempt = 0, item.Attempt
			executions++
		case item.Attempt > attempt && i > 1:
			return bad(i, "it follows another attempt without a mark")
		case said >= len(spoken) || item.Value != spoken[said]:
			return bad(i, "it is not the next one of its execution")
		default:
			said++
			attempt = item.Attempt
		}
	}
	if said != len(spoken) || attempt < 2 {
		return bad(len(items), fmt.Sprintf("the last of %d executions has said %d items", executions, said))
	}
	return nil
}
