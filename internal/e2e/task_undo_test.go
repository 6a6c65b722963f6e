package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Each test of this file shows one promise about compensations that workers execute, or that need a permit.

var (
	refundTask = stet.Task[int, string]("refund")
	errNoStock = errors.New("no stock")
)

// refunded is a workflow whose step is undone by a worker when the run fails, or at once if it has a scope.
func refunded(opts ...stet.UndoOption) *stet.Workflow[int, int] {
	return stet.Define("refunded", func(ctx stet.Context, n int) (int, error) {
		charge, err := stet.Step(ctx, "charge", func(context.Context) (int, error) { return 100 + n, nil },
			refundTask.Undo(opts...))
		if err != nil {
			return 0, err
		}
		return charge, stet.Do(ctx, "ship", func(context.Context) error { return stet.Permanent(errNoStock) })
	}, stet.UndoOnFailure|stet.UndoOnCancel)
}

func (w *worker) refund() stet.LeasedTask {
	w.Helper()
	got := w.lease(1, time.Minute, "refund")
	if len(got) == 0 { // a worker is first told what was cancelled
		got = w.lease(1, time.Minute, "refund")
	}
	if len(got) != 1 {
		w.Fatalf("%d refunds were leased, want 1", len(got))
	}
	return got[0]
}

// TestAWorkerUndoes: it gets what the step has returned, at the step's place, under a key of its own. Meanwhile the run
// is being undone, and no cancel reaches the task.
func TestAWorkerUndoes(t *testing.T) {
	t.Parallel()
	flow := refunded()
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 7)
		task := w.refund()
		if string(task.Input) != "107" || task.Location != "charge/undo" || task.Attempt != 1 || task.RunID != r.ID() {
			t.Errorf("the worker has got %+v", task)
		}
		if granted, err := r.Cancel(t.Context(), stet.Act{}); !errors.Is(err, stet.ErrRefused) || granted {
			t.Errorf("a cancel while the run is being undone: %t, %v", granted, err)
		}
		info, err := r.Info(t.Context())
		if err != nil || info.Status.Terminal() || info.Marks&store.Undoing == 0 {
			t.Fatalf("%+v, %v", info, err)
		}
		if w.state(task.Lease) != stet.LeaseIsHeld {
			t.Error("the lease does not stand after a cancel")
		}
		w.must(e.Tasks().Complete(t.Context(), task.Lease, []byte(`"ref"`)))
		waitStatus(t, e, r.ID(), store.Failed)
		untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 0))
		if owed := owes(t, e, r.ID()); owed != "" {
			t.Errorf("still owed: %s", owed)
		}
	})
}

// owes returns the places that a run owes an undoing.
func owes(t *testing.T, e *stet.Engine, id string) string {
	t.Helper()
	entries, err := e.Runs().History(t.Context(), id, stet.HistoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, entry := range entries {
		if entry.Owes && !entry.Undone {
			places = append(places, entry.Location)
		}
	}
	return strings.Join(places, " ")
}

// TestAnUndoByAWorkerFails: its retries are those of a step. When they are used up the run stalls, and a resume offers
// it with all its attempts.
func TestAnUndoByAWorkerFails(t *testing.T) {
	t.Parallel()
	flow := refunded(stet.Retry{Attempts: 2, First: time.Second})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		for range 2 {
			for attempt := range 2 {
				task := w.refund()
				if task.Attempt < attempt+1 {
					t.Errorf("attempt %d, want %d at least", task.Attempt, attempt+1)
				}
				_, err := e.Tasks().Fail(t.Context(), task.Lease, stet.TaskFailure{Message: "bank is closed"})
				w.must(err)
			}
			waitStatus(t, e, r.ID(), store.Stalled)
			info, err := r.Info(t.Context())
			if err != nil || !strings.Contains(info.Reason, "charge/undo") || !strings.Contains(info.Reason, "bank is closed") {
				t.Errorf("%q, %v", info.Reason, err)
			}
			untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 0))
			if _, err := e.Runs().Resume(t.Context(), r.ID(), stet.Act{}); err != nil {
				t.Fatal(err)
			}
		}
		task := w.refund()
		w.must(e.Tasks().Complete(t.Context(), task.Lease, []byte(`"ref"`)))
		waitStatus(t, e, r.ID(), store.Failed)
	})
}

// TestTheTimeOfAnUndoByAWorker: nobody executes it, so its time is over, and the run waits for a person.
func TestTheTimeOfAnUndoByAWorker(t *testing.T) {
	t.Parallel()
	flow := refunded(stet.Retry{Overall: 10 * time.Second})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		waitStatus(t, e, r.ID(), store.Stalled)
		untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 0))
		w.must2(e.Runs().Resume(t.Context(), r.ID(), stet.Act{}))
		task := w.refund()
		w.must(e.Tasks().Complete(t.Context(), task.Lease, []byte(`"ref"`)))
		waitStatus(t, e, r.ID(), store.Failed)
	})
}

func (w *worker) must2(_ bool, err error) {
	w.Helper()
	w.must(err)
}

// TestVerbsAndAnUndoByAWorker: the verbs of operators take an offered or leased compensation with them.
func TestVerbsAndAnUndoByAWorker(t *testing.T) {
	t.Parallel()
	flow := refunded()
	for _, c := range []struct {
		verb string
		act  func(ctx context.Context, e *stet.Engine, id string) (bool, error)
		ends store.Status
	}{
		{"terminate", func(ctx context.Context, e *stet.Engine, id string) (bool, error) {
			return e.Runs().Terminate(ctx, id, stet.Act{})
		}, store.Cancelled},
		{"pause and terminate", func(ctx context.Context, e *stet.Engine, id string) (bool, error) {
			if _, err := e.Runs().Pause(ctx, id, stet.Act{}); err != nil {
				return false, err
			}
			return e.Runs().Terminate(ctx, id, stet.Act{})
		}, store.Cancelled},
		{"edit", func(ctx context.Context, e *stet.Engine, id string) (bool, error) {
			if _, err := e.Runs().Pause(ctx, id, stet.Act{}); err != nil {
				return false, err
			}
			if _, err := e.Runs().EditResult(ctx, id, "charge/undo", nil, stet.Act{}); err != nil {
				return false, err
			}
			return e.Runs().Resume(ctx, id, stet.Act{})
		}, store.Failed},
	} {
		for _, leased := range []bool{false, true} {
			t.Run(fmt.Sprint(c.verb, " leased ", leased), func(t *testing.T) {
				inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
					r := begin(t, e, flow, 1)
					untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 1))
					var task stet.LeasedTask
					if leased {
						task = w.refund()
					}
					w.must2(c.act(t.Context(), e, r.ID()))
					waitStatus(t, e, r.ID(), c.ends)
					untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 0))
					if leased && w.state(task.Lease) != stet.LeaseIsCancelled {
						t.Errorf("the lease is %s", w.state(task.Lease))
					}
					if got := w.lease(1, 0, "refund"); len(got) > 0 {
						t.Errorf("the worker has got %+v", got)
					}
				})
			})
		}
	}
}

// TestARewindTakesAnUndoBack: the run fails again, and its compensation is another one.
func TestARewindTakesAnUndoBack(t *testing.T) {
	t.Parallel()
	flow := refunded()
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		task := w.refund()
		for _, act := range []func() (bool, error){
			func() (bool, error) { return e.Runs().Pause(t.Context(), r.ID(), stet.Act{}) },
			func() (bool, error) { return e.Runs().Rewind(t.Context(), r.ID(), "/", stet.Act{}) },
			func() (bool, error) { return e.Runs().Resume(t.Context(), r.ID(), stet.Act{}) },
		} {
			w.must2(act())
		}
		again := w.refund()
		if w.state(task.Lease) != stet.LeaseIsCancelled || again.Key == task.Key {
			t.Errorf("the lease before the rewind is %s; its key is that of the next one: %t",
				w.state(task.Lease), again.Key == task.Key)
		}
		w.must(e.Tasks().Complete(t.Context(), again.Lease, []byte(`"ref"`)))
		waitStatus(t, e, r.ID(), store.Failed)
		untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 0))
	})
}

// TestAPausedUndoByAWorker: what is leased is completed; nothing more is offered before the run is resumed.
func TestAPausedUndoByAWorker(t *testing.T) {
	t.Parallel()
	flow := refunded()
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		task := w.refund()
		w.must2(e.Runs().Pause(t.Context(), r.ID(), stet.Act{}))
		_, err := e.Tasks().Fail(t.Context(), task.Lease, stet.TaskFailure{Message: "later"})
		w.must(err)
		if got := w.lease(1, time.Minute, "refund"); len(got) > 0 {
			t.Errorf("a paused run has offered %+v", got)
		}
		w.must2(e.Runs().Resume(t.Context(), r.ID(), stet.Act{}))
		task = w.refund()
		w.must(e.Tasks().Complete(t.Context(), task.Lease, []byte(`"ref"`)))
		waitStatus(t, e, r.ID(), store.Failed)
	})
}

// TestAnUndoWithAPermit: a compensation of Go code waits for a permit of its queue, and gives it back.
func TestAnUndoWithAPermit(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var most, now int
	flow := stet.Define("permitted", func(ctx stet.Context, n int) (int, error) {
		charge, err := stet.Step(ctx, "charge", func(context.Context) (int, error) { return n, nil },
			stet.Undo(func(ctx context.Context, _ int) error {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				return nil
			}, stet.Permit{Queue: "bank"}))
		if err != nil {
			return 0, err
		}
		return charge, errNoStock
	})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, _ *worker) {
		createQueue(t, e, "bank", stet.QueueSettings{Concurrency: 2})
		var runs []*stet.Run[int]
		for n := range 6 {
			runs = append(runs, begin(t, e, flow, n))
		}
		begun := time.Now()
		for _, r := range runs {
			waitStatus(t, e, r.ID(), store.Failed)
		}
		if took := time.Since(begun); most != 2 || took < 3*time.Second {
			t.Errorf("at most %d at once, in %s; want 2 in 3 s", most, took)
		}
		untilQueue(t, e, "bank", stands(0, 0))
	})
}

// TestWrongUndoByAWorker: what cannot be undone so is said where it is written.
func TestWrongUndoByAWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, says string }{
		{"type", "Undo takes a int, the step returns a string"}, {"name", "expected 1 to 64 bytes"}, {"queue", "queue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			flow := stet.Define("wrong", func(ctx stet.Context, _ int) (string, error) {
				undo := refundTask.Undo()
				switch c.name {
				case "name":
					undo = stet.Task[string, string]("").Undo()
				case "queue":
					undo = stet.Task[string, string]("x").Undo(stet.Permit{Queue: strings.Repeat("q", 2000)})
				}
				return stet.Step(ctx, "s", func(context.Context) (string, error) { return "", nil }, undo)
			})
			synctest.Test(t, func(t *testing.T) {
				e := serve(t, stet.Config{Workflows: []stet.Definition{flow}})
				r := begin(t, e, flow, 1)
				synctest.Wait()
				info, err := r.Info(t.Context())
				said := info.Reason
				if info.Status.Terminal() {
					_, failed := r.Wait(t.Context())
					said += fmt.Sprint(failed)
				}
				if err != nil || !strings.Contains(said, c.says) {
					t.Errorf("expected %q, found %q, %v", c.says, said, err)
				}
			})
		})
	}
}

// brittle is a result that cannot be read while it is broken.
type brittle struct{ N int }

var brittleBroken atomic.Bool

func (b *brittle) UnmarshalJSON(data []byte) error {
	if brittleBroken.Load() {
		return errors.New("broken")
	}
	return json.Unmarshal(data, &b.N)
}

func (b brittle) MarshalJSON() ([]byte, error) { return json.Marshal(b.N) }

// TestAnUndoThatNoWorkerCanGet stalls the run, and is not taken for done. It waits for no queue: there may be none.
func TestAnUndoThatNoWorkerCanGet(t *testing.T) {
	t.Parallel()
	flow := stet.Define("brittle", func(ctx stet.Context, n int) (int, error) {
		_, err := stet.Step(ctx, "charge", func(context.Context) (brittle, error) { return brittle{n}, nil },
			stet.Task[brittle, string]("refund").Undo())
		if err != nil {
			return 0, err
		}
		return 0, stet.Do(ctx, "ship", func(context.Context) error {
			brittleBroken.Store(true)
			return stet.Permanent(errNoStock)
		})
	})
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, stet.Config{Workflows: []stet.Definition{flow}})
		w := &worker{t, e, "w1"}
		r := begin(t, e, flow, 7)
		waitStatus(t, e, r.ID(), store.Stalled)
		if info, err := r.Info(t.Context()); err != nil || !strings.Contains(info.Reason, "broken") {
			t.Errorf("%q, %v", info.Reason, err)
		}
		if owed := owes(t, e, r.ID()); owed != "charge" {
			t.Errorf("owed is %q", owed)
		}
		brittleBroken.Store(false)
		w.must2(e.Runs().Resume(t.Context(), r.ID(), stet.Act{}))
		task := w.refund()
		w.must(e.Tasks().Complete(t.Context(), task.Lease, []byte(`"ref"`)))
		waitStatus(t, e, r.ID(), store.Failed)
	})
}

// TestUndosOfWorkersAtEveryCommit (invariants 2 and 22): the process dies at each commit. A step, a child and the step
// of a saga are undone by workers, one after the other.
func TestUndosOfWorkersAtEveryCommit(t *testing.T) {
	t.Parallel()
	child := stet.Define("child-refunded", func(_ stet.Context, n int) (int, error) { return 2 * n, nil })
	flow := stet.Define("all-undone", func(ctx stet.Context, n int) (string, error) {
		_, err := stet.Saga(ctx, "part", func(ctx stet.Context) (int, error) {
			_, err := stet.Step(ctx, "inside", func(context.Context) (int, error) { return n, nil }, refundTask.Undo())
			if err != nil {
				return 0, err
			}
			return 0, errNoStock
		})
		if !strings.Contains(fmt.Sprint(err), errNoStock.Error()) {
			return "", err
		}
		if _, err := doubleTask.Run(ctx, n, refundTask.Undo(stet.Permit{Queue: "q"})); err != nil {
			return "", err
		}
		_, err = child.Call(ctx, n, refundTask.Undo(stet.Retry{First: stet.None}))
		if err != nil {
			return "", err
		}
		err = stet.Do(ctx, "paid", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error { return nil }, stet.Permit{Queue: "q"}))
		if err != nil {
			return "", err
		}
		return "", stet.Rollback(errNoStock)
	})
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			_, err := stettest.CrashEverywhere(t, flow, 10, stettest.On(s.open), crashFaults(t, s.name),
				stettest.WithConfig(stet.Config{Workflows: []stet.Definition{child}}),
				stettest.Queues(map[string]stet.QueueSettings{"q": {Concurrency: 1}}), stettest.Driving(refunds),
				stettest.Checking(func(ctx context.Context, e *stet.Engine, runID string) error {
					entries, err := e.Runs().History(ctx, runID, stet.HistoryQuery{})
					if err != nil {
						return err
					}
					undone := 0
					for _, entry := range entries {
						if entry.Owes && !entry.Undone {
							return fmt.Errorf("%s is not undone", entry.Location)
						}
						if entry.Owes {
							undone++
						}
					}
					if undone != 4 {
						return fmt.Errorf("%d are undone, want 4", undone)
					}
					return emptied(ctx, e, "q", stet.DefaultTaskQueue)
				}))
			if !strings.Contains(fmt.Sprint(err), errNoStock.Error()) {
				t.Error(err)
			}
		})
	}
}

// emptied waits until nothing has a permit of the queues, or asks for one.
func emptied(ctx context.Context, e *stet.Engine, queues ...string) error {
	for _, name := range queues {
		for {
			info, err := e.Queues().Info(ctx, name)
			if err != nil {
				return err
			}
			if info.Held+info.Waiting == 0 {
				break
			}
			if err := takes(ctx, time.Second); err != nil {
				return fmt.Errorf("%s: %+v: %w", name, info, err)
			}
		}
	}
	return nil
}

// refunds executes tasks until the run has ended. Each refund fails at first.
func refunds(ctx context.Context, e *stet.Engine, runID string) error {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = e.Runs().Wait(ctx, runID)
	}()
	for n := 0; ctx.Err() == nil; n++ {
		got, err := e.Tasks().Lease(ctx, stet.LeaseRequest{Worker: "w", Names: []string{"double", "refund"},
			Wait: 10 * time.Second, Request: fmt.Sprint(n)})
		if err != nil {
			continue
		}
		for _, task := range got.Tasks {
			if task.Name == "refund" && task.Attempt == 1 {
				_, _ = e.Tasks().Fail(ctx, task.Lease, stet.TaskFailure{Message: "not yet"})
			} else {
				_ = e.Tasks().Complete(ctx, task.Lease, []byte(`21`))
			}
		}
	}
	return nil
}
