package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Scenarios of entities, which are topics, queues and schedules; and of forks and large
// values.

var (
	jobs = stet.Topic[string]{Name: "jobs", Mode: stet.Consumed, Expiry: stet.None}
	news = stet.Topic[string]{Name: "news", Mode: stet.Broadcast}
)

// The queues of the scenarios.
const (
	oneAtATime = "one-at-a-time"
	fewCalls   = "few-calls"
	metered    = "metered"
)

func makeQueues(ctx context.Context, e *stet.Engine) error {
	return errors.Join(
		e.Queues().Create(ctx, oneAtATime, stet.QueueSettings{Concurrency: 1}),
		e.Queues().Create(ctx, fewCalls, stet.QueueSettings{Concurrency: 2, PerKey: 1, Rate: 1000}),
		e.Queues().Create(ctx, metered, stet.QueueSettings{Rate: 3000, RatePerKey: 1000}),
	)
}

var tick = stet.Ref[string, string]("tick")

var twice = stet.Task[int, int]("twice")

// worked has the input of each task that a worker has begun.
const worked = stet.Stream[int]("worked")

// checkWorked looks that each body of a task has added its item once, behind a mark unless it was
// the first.
func checkWorked(ctx context.Context, e *stet.Engine, id string) error {
	items, err := worked.Items(ctx, e, id, 0, 0)
	if err != nil {
		return err
	}
	room := map[string]bool{} // by location: the item of a later body may follow
	for _, it := range items {
		if may, had := room[it.Location]; had && !may && !it.Again {
			return fmt.Errorf("item %d of %s follows another one without a mark", it.Position, it.Location)
		}
		room[it.Location] = it.Again
	}
	if len(room) == 0 {
		return errors.New("the workers have added nothing")
	}
	return nil
}

// workTwice executes tasks, of whichever runs, until the run has ended. It fails each input that
// is even once.
func workTwice(ctx context.Context, e *stet.Engine, id string) error {
	for {
		info, err := e.Runs().Info(ctx, id)
		if err != nil || info.Status.Terminal() {
			return err
		}
		got, err := e.Tasks().Lease(ctx, stet.LeaseRequest{Worker: id, Names: []string{string(twice)}, Max: 2,
			Wait: 100 * time.Millisecond, For: time.Second, Request: fmt.Sprint(id, " ", time.Now().UnixNano())})
		if err != nil {
			return err
		}
		for _, task := range got.Tasks {
			var in int
			if err := json.Unmarshal(task.Input, &in); err != nil {
				return err
			}
			item := stet.TaskItem{Stream: string(worked), Value: task.Input}
			if err := e.Tasks().Append(ctx, task.Lease, 1, item); err != nil {
				if errors.Is(err, stet.ErrLeaseGone) || errors.Is(err, stet.ErrLeaseCancelled) {
					continue
				}
				return err
			}
			if in%2 == 0 && task.Attempt == 1 {
				_, err = e.Tasks().Fail(ctx, task.Lease, stet.TaskFailure{Message: "even"})
			} else {
				err = e.Tasks().Complete(ctx, task.Lease, fmt.Append(nil, 2*in))
			}
			if err != nil && !errors.Is(err, stet.ErrLeaseGone) && !errors.Is(err, stet.ErrLeaseCancelled) {
				return err
			}
		}
	}
}

// holds has the only permit of a queue, and calls leaf, which needs one.
var leaf = stet.Define("leaf", func(stet.Context, string) (string, error) { return "leaf", nil })

var holds = stet.Define("holds", func(ctx stet.Context, queue string) (string, error) {
	return leaf.Call(ctx, "", stet.ID("leaf of "+queue), stet.OnQueue{Name: queue})
})

// unlock waits until a run is locked by its parent, and raises the limit of the queue.
func unlock(ctx context.Context, e *stet.Engine, queue string) error {
	for {
		info, err := e.Runs().Info(ctx, "leaf of "+queue)
		switch {
		case errors.Is(err, stet.ErrNotFound):
		case err != nil:
			return err
		case info.Status.Terminal():
			return nil
		case info.Marks&store.Locked != 0:
			if info.Why[0].Code != "locked" {
				return fmt.Errorf("%s: %+v", info.Marks, info.Why)
			}
			return e.Queues().Set(ctx, queue, stet.QueueSettings{Concurrency: 2}, stet.Act{By: "ada", Why: "a lock"})
		}
		rest(ctx, 10*time.Millisecond)
	}
}

var entityScenarios = []scenario{
	{
		name: "locked", want: "leaf",
		workflows: func(*stet.Engine) []stet.Definition {
			return append(define("locked", func(ctx stet.Context, _ string) (string, error) {
				queue := "of " + stet.RunID(ctx)
				return holds.Call(ctx, queue, stet.OnQueue{Name: queue})
			}), holds, leaf)
		},
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			queue := "of " + id
			return errors.Join(e.Queues().Create(ctx, queue, stet.QueueSettings{Concurrency: 1}), unlock(ctx, e, queue))
		},
	},
	{
		name: "topics", want: "job news published",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("topics", func(ctx stet.Context, _ string) (string, error) {
				job, err := jobs.Receive(ctx)
				if err != nil {
					return "", err
				}
				text, err := news.Receive(ctx)
				if err != nil {
					return "", err
				}
				own := stet.Topic[string]{Name: "own-" + stet.RunID(ctx)}
				if _, err := stet.Publish(ctx, own, "published"); err != nil {
					return "", err
				}
				mine, err := own.Receive(ctx)
				return strings.Join([]string{job, text, mine}, " "), err
			})
		},
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := jobs.Publish(ctx, e, "job", stet.SendKey(id))
			if err == nil {
				_, err = news.Publish(ctx, e, "news", stet.SendKey(id))
			}
			return err
		},
	},
	{
		name: "queued", want: "a b", prepare: makeQueues,
		start: []stet.StartOption{stet.OnQueue{Name: oneAtATime}},
		workflows: func(*stet.Engine) []stet.Definition {
			child := stet.Define("queued-child", func(ctx stet.Context, in string) (string, error) {
				return say(ctx, "say", in)
			})
			return append(define("queued", func(ctx stet.Context, _ string) (string, error) {
				a, err := say(ctx, "a", "a")
				if err != nil {
					return "", err
				}
				b, err := child.Call(ctx, "b", stet.OnQueue{Name: fewCalls, Key: "k", Priority: 1})
				return a + " " + b, err
			}), child)
		},
	},
	{
		name: "limited", want: "xyz", prepare: makeQueues,
		workflows: func(*stet.Engine) []stet.Definition {
			return define("limited", func(ctx stet.Context, _ string) (string, error) {
				parts, err := stet.Map(ctx, "call", []string{"x", "y", "z"}, func(ctx stet.Context, in string) (string, error) {
					return say(ctx, "say", in, stet.Permit{Queue: fewCalls, Key: in})
				})
				return strings.Join(parts, ""), err
			})
		},
	},
	{
		name: "metered", want: "xyz", prepare: makeQueues,
		workflows: func(*stet.Engine) []stet.Definition {
			return define("metered", func(ctx stet.Context, _ string) (string, error) {
				parts, err := stet.Map(ctx, "call", []string{"x", "y", "z"}, func(ctx stet.Context, in string) (string, error) {
					return say(ctx, "say", in, stet.Permit{Queue: metered, Key: in, Cost: 3})
				})
				return strings.Join(parts, ""), err
			})
		},
	},
	{
		name: "worked", want: "[20 22 24]", prepare: makeQueues,
		workflows: func(*stet.Engine) []stet.Definition {
			return define("worked", func(ctx stet.Context, _ string) (string, error) {
				all, err := stet.Map(ctx, "twice", []int{10, 11, 12}, func(ctx stet.Context, n int) (int, error) {
					return twice.Run(ctx, n, stet.OnStepQueue(metered), quick)
				})
				return fmt.Sprint(all), err
			})
		},
		drive: workTwice, check: checkWorked,
	},
	{
		name: "scheduled", want: "ticked",
		workflows: func(*stet.Engine) []stet.Definition {
			return append(define("scheduled", func(ctx stet.Context, _ string) (string, error) { return word.Receive(ctx) }),
				stet.Define(tick.Name(), func(ctx stet.Context, _ string) (string, error) {
					if _, _, ok := stet.ScheduledFor(ctx); !ok {
						return "", stet.Permanent(errors.New("no schedule has started it"))
					}
					return say(ctx, "tick", "ticked")
				}))
		},
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			never := stet.Schedule{Every: 1000 * time.Hour, Overlap: stet.AllowOverlap, Paused: true}
			if err := tick.Schedule(ctx, e, id, "", never, stet.UntilCarriedOut()); err != nil {
				return err
			}
			runID, err := e.Schedules().Trigger(ctx, id, stet.Act{})
			if err != nil {
				return err
			}
			got, err := tick.Handle(e, runID).Wait(ctx)
			for errors.Is(err, stet.ErrNotFound) && ctx.Err() == nil { // it is on its way to another server
				rest(ctx, 10*time.Millisecond)
				got, err = tick.Handle(e, runID).Wait(ctx)
			}
			if err != nil {
				return err
			}
			if err := word.Send(ctx, e, id, got, stet.SendKey("tick")); err != nil && !errors.Is(err, stet.ErrTerminal) {
				return err
			}
			return nil
		},
		check: func(ctx context.Context, e *stet.Engine, id string) error {
			info, err := e.Schedules().Info(ctx, id)
			if err != nil {
				return err
			}
			for _, d := range info.Past {
				if !strings.HasPrefix(d.RunID, id+"/") || d.Count != 1 {
					return fmt.Errorf("expected that every trigger has started one run, found %+v", d)
				}
			}
			if n := int64(len(info.Past)); n == 0 || info.Started != n {
				return fmt.Errorf("expected a start for each of %d decisions, found %d", n, info.Started)
			}
			return insist(ctx, func() error { return e.Schedules().Delete(ctx, id, stet.Act{}) })
		},
	},
	{
		name: "forked", want: "first second",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("forked", func(ctx stet.Context, _ string) (string, error) {
				a, err := say(ctx, "a", "first")
				if err != nil {
					return "", err
				}
				b, err := say(ctx, "b", "second")
				return a + " " + b, err
			})
		},
		check: func(ctx context.Context, e *stet.Engine, id string) error {
			other := "fork-of-" + id
			err := insist(ctx, func() error {
				_, err := e.Runs().Fork(ctx, id, "b", stet.Act{Why: "what if"}, stet.ID(other))
				return err
			})
			if err != nil && !errors.Is(err, stet.ErrExists) { // the answer was lost
				return err
			}
			got, err := stet.Ref[string, string]("forked").Handle(e, other).Wait(ctx)
			if err != nil || got != "first second" {
				return fmt.Errorf("the fork gives %q: %w", got, err)
			}
			return nil
		},
	},
	{
		name: "large", want: "200000",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("large", func(ctx stet.Context, _ string) (string, error) {
				total := 0
				for _, name := range []string{"a", "b"} {
					text, err := say(ctx, name, strings.Repeat(name, 100_000))
					if err != nil {
						return "", err
					}
					if err := stet.Sleep(ctx, "nap-"+name, 5*time.Millisecond); err != nil {
						return "", err
					}
					total += len(text)
				}
				return fmt.Sprint(total), nil
			})
		},
	},
}
