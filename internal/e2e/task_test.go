package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// Each test of this file shows one promise about tasks.

var doubleTask = stet.Task[int, int]("double")

// worker is a worker of tasks in a test.
type worker struct {
	testing.TB
	e    *stet.Engine
	name string
}

// lease leases up to most tasks, at most waiting so long.
func (w *worker) lease(most int, wait time.Duration, names ...string) []stet.LeasedTask {
	w.Helper()
	return w.request(stet.LeaseRequest{Max: most, Wait: wait, Names: names}).Tasks
}

func (w *worker) request(r stet.LeaseRequest) *stet.Leased {
	w.Helper()
	r.Worker = w.name
	if r.Names == nil {
		r.Names = []string{"double"}
	}
	got, err := w.e.Tasks().Lease(w.Context(), r)
	if err != nil {
		w.Fatal(err)
	}
	return got
}

// one leases one task, which must be there within a minute.
func (w *worker) one() stet.LeasedTask {
	w.Helper()
	got := w.lease(1, time.Minute)
	if len(got) != 1 {
		w.Fatalf("%d tasks were leased, want 1", len(got))
	}
	return got[0]
}

// none looks that no task is there.
func (w *worker) none() {
	w.Helper()
	if got := w.lease(10, 0); len(got) > 0 {
		w.Fatalf("leased %+v, want nothing", got)
	}
}

func (w *worker) complete(task *stet.LeasedTask) error {
	var n int
	if err := json.Unmarshal(task.Input, &n); err != nil {
		return err
	}
	return w.e.Tasks().Complete(w.Context(), task.Lease, fmt.Append(nil, 2*n))
}

func (w *worker) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// state returns how a lease stands after a heartbeat.
func (w *worker) state(lease string) stet.LeaseState {
	w.Helper()
	got, err := w.e.Tasks().Heartbeat(w.Context(), 0, stet.TaskBeat{Lease: lease})
	if err != nil {
		w.Fatal(err)
	}
	return got[0].State
}

// doubles is a workflow with one task.
func doubles(opts ...stet.TaskOption) *stet.Workflow[int, int] {
	return stet.Define("doubles", func(ctx stet.Context, n int) (int, error) { return doubleTask.Run(ctx, n, opts...) })
}

// inTime runs a test with an engine and a worker in virtual time.
func inTime(t *testing.T, w stet.Definition, fn func(t *testing.T, e *stet.Engine, w *worker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		createQueue(t, e, stet.DefaultTaskQueue, stet.QueueSettings{}) // so that it can be looked at
		fn(t, e, &worker{t, e, "w1"})
	})
}

// failure is the code and the attempts of a step's failure.
func failure(t *testing.T, r *stet.Run[int]) string {
	t.Helper()
	_, err := r.Wait(testContext(t))
	var step *stet.StepError
	if !errors.As(err, &step) {
		return fmt.Sprint(err)
	}
	last := step.Causes[len(step.Causes)-1]
	var f *stet.Failure
	if !errors.As(last, &f) {
		return fmt.Sprint(step.Attempts, " ", last)
	}
	return fmt.Sprint(step.Attempts, " ", f.Code, ": ", f.Message)
}

func TestTaskIsAStepThatAWorkerExecutes(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			flow := doubles()
			e := serve(t, stet.Config{Store: s.open(t)(), Workflows: []stet.Definition{flow}, MaxParkedBytes: stet.None})
			w := &worker{t, e, "w1"}
			r := begin(t, e, flow, 21, stet.ID("r"), stet.Headers{"tenant": "acme"})
			task := w.one()
			if task.Name != "double" || string(task.Input) != "21" || task.Attempt != 1 || task.RunID != "r" ||
				task.Workflow != "doubles" || task.Location != "double" || task.Headers["tenant"] != "acme" ||
				len(task.Key) != 32 || task.Queue != stet.DefaultTaskQueue || len(task.Lease) < 32 {
				t.Errorf("leased %+v", task)
			}
			w.none()
			list, err := e.Tasks().List(t.Context(), stet.DefaultTaskQueue, 0)
			if err != nil || len(list) != 1 || list[0].State != stet.TaskLeased || list[0].Worker != "w1" ||
				list[0].RunID != "r" || list[0].Location != "double" {
				t.Errorf("listed %+v, %v", list, err)
			}
			w.must(w.complete(&task))
			if got := outcome(t, r); got != "42" {
				t.Error(got)
			}
			w.must(w.complete(&task)) // the answer was lost
			if _, err := e.Tasks().Fail(t.Context(), task.Lease, stet.TaskFailure{}); !errors.Is(err, stet.ErrLeaseGone) {
				t.Errorf("a completed task fails: %v", err)
			}
			if got := w.state(task.Lease); got != stet.LeaseIsGone {
				t.Error(got)
			}
			untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 0))
		})
	}
}

func TestFailedTaskIsRetriedByTheStepsPolicy(t *testing.T) {
	t.Parallel()
	flow := doubles(stet.Retry{Attempts: 3, First: time.Second, Jitter: stet.None})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		task := w.one()
		retry, err := e.Tasks().Fail(t.Context(), task.Lease, stet.TaskFailure{Message: "busy", Code: "busy"})
		if err != nil || !retry {
			t.Fatal(retry, err)
		}
		begun := time.Now()
		second := w.one()
		if second.Attempt != 2 || second.Key != task.Key || second.Lease == task.Lease || time.Since(begun) < time.Second {
			t.Errorf("after %s: %+v", time.Since(begun), second)
		}
		_, err = e.Tasks().Fail(t.Context(), second.Lease, stet.TaskFailure{Message: "later", After: time.Minute})
		w.must(err)
		begun = time.Now()
		third := w.request(stet.LeaseRequest{Wait: time.Minute}).Tasks
		if len(third) == 0 {
			third = w.request(stet.LeaseRequest{Wait: time.Minute}).Tasks
		}
		if third[0].Attempt != 3 || time.Since(begun) < time.Minute {
			t.Errorf("after %s: %+v", time.Since(begun), third)
		}
		if retry, err = e.Tasks().Fail(t.Context(), third[0].Lease, stet.TaskFailure{Message: "no", Code: "step"}); retry {
			t.Error("the last attempt is to be retried", err)
		}
		if got := failure(t, r); got != "3 error: step: no" {
			t.Error(got)
		}
	})
}

func TestPermanentFailureOfATask(t *testing.T) {
	t.Parallel()
	flow := doubles()
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		retry, err := e.Tasks().Fail(t.Context(), w.one().Lease,
			stet.TaskFailure{Message: "no such image", Code: "missing", Permanent: true})
		if retry || err != nil {
			t.Error(retry, err)
		}
		if got := failure(t, r); got != "1 missing: no such image" {
			t.Error(got)
		}
	})
}

func TestResultThatDoesNotFitIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	flow := doubles(stet.Retry{Attempts: 1})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		w.must(e.Tasks().Complete(t.Context(), w.one().Lease, json.RawMessage(`"two"`)))
		if got := failure(t, r); got[:11] != "1 encoding:" {
			t.Error(got)
		}
	})
}

// T8: an expired lease offers the same attempt again, before others; while nobody has it a late
// completion counts, and afterwards it does not.
func TestExpiredLease(t *testing.T) {
	t.Parallel()
	flow := doubles()
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1, stet.ID("first"))
		first := w.one()
		begin(t, e, flow, 2, stet.ID("second"))
		untilQueue(t, e, stet.DefaultTaskQueue, stands(1, 1))
		time.Sleep(31 * time.Second)
		if got := w.state(first.Lease); got != stet.LeaseIsGone {
			t.Error(got)
		}
		list, err := e.Tasks().List(t.Context(), stet.DefaultTaskQueue, 0)
		if err != nil || len(list) != 2 || list[0].State != stet.TaskExpired || list[0].Worker != "w1" || list[0].Lost != 1 {
			t.Errorf("listed %+v, %v", list, err)
		}
		w2 := &worker{t, e, "w2"}
		again := w2.one()
		if again.RunID != "first" || again.Attempt != 1 || again.Key != first.Key || again.Lease == first.Lease {
			t.Errorf("leased %+v", again)
		}
		if err := w.complete(&first); !errors.Is(err, stet.ErrLeaseGone) {
			t.Errorf("a lease that another worker has now completes: %v", err)
		}
		time.Sleep(31 * time.Second)
		w2.must(w2.complete(&again)) // late, and nobody has it
		if got := outcome(t, r); got != "2" {
			t.Error(got)
		}
		if second := w.one(); second.RunID != "second" {
			t.Errorf("leased %+v", second)
		}
	})
}

func TestFifthExpiryIsAFailure(t *testing.T) {
	t.Parallel()
	flow := doubles(stet.Retry{Attempts: 1})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		var last stet.LeasedTask
		for range 5 {
			last = w.one()
			if last.Attempt != 1 {
				t.Errorf("leased %+v", last)
			}
			time.Sleep(31 * time.Second)
		}
		if got := failure(t, r); got[:7] != "1 lost:" {
			t.Error(got)
		}
		if err := w.complete(&last); !errors.Is(err, stet.ErrLeaseGone) {
			t.Error(err)
		}
	})
}

// T7: a heartbeat renews the lease and the attempt's timeout; its detail is there afterwards.
func TestHeartbeatRenewsLeaseAndTimeout(t *testing.T) {
	t.Parallel()
	flow := doubles(stet.Retry{Timeout: 20 * time.Second, First: stet.None})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		task := w.one()
		for n := range 5 {
			time.Sleep(15 * time.Second)
			got, err := e.Tasks().Heartbeat(t.Context(), 0, stet.TaskBeat{Lease: task.Lease, Detail: fmt.Append(nil, n)})
			if err != nil || got[0].State != stet.LeaseIsHeld || time.Until(got[0].Expires) < 29*time.Second {
				t.Fatal(got, err)
			}
		}
		time.Sleep(25 * time.Second) // its time is over, and the lease is not
		second := w.one()
		if second.Attempt != 2 || string(second.Detail) != "4" {
			t.Errorf("leased %+v", second)
		}
		if err := w.complete(&task); !errors.Is(err, stet.ErrLeaseGone) {
			t.Error(err)
		}
		got, err := e.Tasks().Heartbeat(t.Context(), time.Second, stet.TaskBeat{Lease: second.Lease, Detail: []byte("7")})
		if err != nil || got[0].State != stet.LeaseIsHeld {
			t.Fatal(got, err)
		}
		w.must(w.complete(&second))
		if got := outcome(t, r); got != "2" {
			t.Error(got)
		}
	})
}

func TestReleasedTaskIsOfferedAgain(t *testing.T) {
	t.Parallel()
	flow := doubles(stet.Retry{Attempts: 1})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		for range 7 { // more often than an attempt may expire
			task := w.one()
			got, err := e.Tasks().Release(t.Context(), task.Lease, "no lease")
			if err != nil || got[0].State != stet.LeaseIsReleased || got[1].State != stet.LeaseIsGone {
				t.Fatal(got, err)
			}
			if err := w.complete(&task); !errors.Is(err, stet.ErrLeaseGone) {
				t.Error(err)
			}
		}
		task := w.one()
		w.must(w.complete(&task))
		if got := outcome(t, r); got != "2" {
			t.Error(got)
		}
	})
}

// T2, T5: a lease is a permit, with the limits, keys and priorities of the queue, for steps and
// tasks together.
func TestLeaseIsAPermit(t *testing.T) {
	t.Parallel()
	var l actLog
	var gate chan struct{} // of the bubble
	flow := stet.Define("mixed", func(ctx stet.Context, n int) (int, error) {
		use := stet.Permit{Queue: "q", Priority: n % 10}
		if n < 10 {
			return doubleTask.Run(ctx, n, use)
		}
		return stet.Step(ctx, "own", func(context.Context) (int, error) {
			l.begin(fmt.Sprint(n))
			<-gate
			return n, nil
		}, use)
	})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		gate = make(chan struct{})
		createQueue(t, e, "q", stet.QueueSettings{Concurrency: 2})
		for _, n := range []int{1, 2, 3, 19} {
			begin(t, e, flow, n)
		}
		untilQueue(t, e, "q", stands(1, 3)) // the step has a permit, as soon as it asks
		got := w.lease(10, time.Minute)
		if len(got) != 1 || string(got[0].Input) != "3" { // the highest priority
			t.Fatalf("leased %+v", got)
		}
		w.none()
		begin(t, e, flow, 18)
		untilQueue(t, e, "q", stands(2, 3))
		w.must(w.complete(&got[0]))
		untilQueue(t, e, "q", stands(2, 2)) // the step comes before the tasks
		w.none()
		close(gate)
		got = w.lease(10, time.Minute)
		for len(got) < 2 {
			got = append(got, w.lease(10, time.Minute)...)
		}
		if string(got[0].Input) != "2" || string(got[1].Input) != "1" {
			t.Errorf("leased %+v", got)
		}
	})
}

// A worker that waits gets its turn between steps, by the queue's order.
func TestWaitingWorkerHasItsTurn(t *testing.T) {
	t.Parallel()
	var gate chan struct{}
	flow := stet.Define("mixed", func(ctx stet.Context, n int) (int, error) {
		use := stet.Permit{Queue: "q"}
		if n == 0 {
			return doubleTask.Run(ctx, n, use)
		}
		return stet.Step(ctx, "own", func(context.Context) (int, error) {
			<-gate
			return n, nil
		}, use)
	})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		gate = make(chan struct{}, 100)
		createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
		begin(t, e, flow, 1)
		untilQueue(t, e, "q", stands(1, 0))
		begin(t, e, flow, 0)
		untilQueue(t, e, "q", stands(1, 1))
		begin(t, e, flow, 2)
		untilQueue(t, e, "q", stands(1, 2))
		leased := make(chan []stet.LeasedTask)
		go func() { leased <- w.lease(1, time.Minute) }()
		synctest.Wait() // it waits in the queue
		gate <- struct{}{}
		if got := <-leased; len(got) != 1 {
			t.Error("the step that had asked later was first")
		}
		close(gate)
	})
}

// T10, T5: a cancel does not wait for the worker, which is told by its heartbeat, and by a lease
// that waits.
func TestCancelledTask(t *testing.T) {
	t.Parallel()
	flow := doubles()
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		for _, waits := range []bool{false, true} {
			r := begin(t, e, flow, 1)
			task := w.one()
			told := make(chan *stet.Leased, 1)
			if waits {
				go func() { told <- w.request(stet.LeaseRequest{Wait: time.Minute}) }()
				synctest.Wait()
			}
			begun := time.Now()
			if _, err := r.Cancel(t.Context(), stet.Act{}); err != nil {
				t.Fatal(err)
			}
			if got := outcome(t, r); got != "cancelled" && !testing.Short() && time.Since(begun) > time.Second {
				t.Error(got)
			}
			if waits {
				if got := <-told; len(got.Cancelled) != 1 || got.Cancelled[0] != task.Lease || time.Since(begun) > 5*time.Second {
					t.Errorf("after %s: %+v", time.Since(begun), got)
				}
			} else if got := w.state(task.Lease); got != stet.LeaseIsCancelled {
				t.Error(got)
			}
			if err := w.complete(&task); !errors.Is(err, stet.ErrLeaseCancelled) {
				t.Error(err)
			}
			if got := w.request(stet.LeaseRequest{}); len(got.Cancelled) > 0 {
				t.Errorf("told twice: %+v", got)
			}
			untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 0))
			time.Sleep(time.Minute)
			if got := w.state(task.Lease); got != stet.LeaseIsGone {
				t.Error(got)
			}
		}
	})
}

// T10: of a task with an Undo the outcome is awaited, and undone.
func TestCancelledTaskWithUndo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		act    func(w *worker, e *stet.Engine, task *stet.LeasedTask) error
		undone int
	}{
		{"completes", func(w *worker, _ *stet.Engine, task *stet.LeasedTask) error { return w.complete(task) }, 1},
		{"fails", func(w *worker, e *stet.Engine, task *stet.LeasedTask) error {
			_, err := e.Tasks().Fail(w.Context(), task.Lease, stet.TaskFailure{Message: "cancelled"})
			return err
		}, 0},
		{"expires, and another one completes", func(w *worker, e *stet.Engine, task *stet.LeasedTask) error {
			time.Sleep(31 * time.Second)
			again := w.one()
			if state := w.state(again.Lease); state != stet.LeaseIsHeld || again.Key != task.Key {
				w.Errorf("%s: %+v", state, again)
			}
			return w.complete(&again)
		}, 1},
		{"is not leased", nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			undone := 0
			flow := doubles(stet.Undo(func(_ context.Context, n int) error { undone += n; return nil }))
			inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
				r := begin(t, e, flow, 1)
				var task stet.LeasedTask
				if c.act != nil {
					task = w.one()
				} else {
					untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 1))
				}
				if _, err := r.Cancel(t.Context(), stet.Act{}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if c.act != nil {
					if info, err := r.Info(t.Context()); err != nil || info.Status.Terminal() {
						t.Fatalf("the run has not waited for the worker: %+v, %v", info, err)
					}
					if got := w.request(stet.LeaseRequest{}); len(got.Cancelled) != 1 {
						t.Errorf("the worker is told %+v", got)
					}
					w.must(c.act(w, e, &task))
				}
				waitStatus(t, e, r.ID(), store.Cancelled)
				if undone != 2*c.undone {
					t.Errorf("undone is %d, want %d", undone, 2*c.undone)
				}
				untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 0))
			})
		})
	}
}

// A worker that is lost, late or stopped may have executed the task: the run does not learn of it. When
// the run is cancelled, the task is executed to its end, and undone.
func TestCancelUndoesATaskThatAWorkerMayHaveExecuted(t *testing.T) {
	t.Parallel()
	release := func(w *worker, task stet.LeasedTask) {
		_, err := w.e.Tasks().Release(w.Context(), task.Lease)
		w.must(err)
	}
	for _, c := range []struct {
		name string
		act  func(w *worker, cancel func())
	}{
		{"lost, and given back by another worker", func(w *worker, cancel func()) {
			w.one()
			time.Sleep(31 * time.Second)
			b := w.one()
			cancel()
			release(w, b)
		}},
		{"given back after the cancel", func(w *worker, cancel func()) {
			task := w.one()
			cancel()
			release(w, task)
		}},
		{"given back before the cancel", func(w *worker, cancel func()) {
			release(w, w.one())
			cancel()
		}},
		{"late, and waits for its next attempt", func(w *worker, cancel func()) {
			w.one()
			time.Sleep(21 * time.Second)
			cancel()
		}},
		{"late after the cancel", func(w *worker, cancel func()) {
			w.one()
			cancel()
			time.Sleep(21 * time.Second)
		}},
		{"late, and offered again", func(w *worker, cancel func()) {
			w.one()
			time.Sleep(31 * time.Second)
			cancel()
		}},
		{"lost too often", func(w *worker, cancel func()) {
			for range permit.MaxLost {
				w.request(stet.LeaseRequest{Max: 1, Wait: time.Minute, For: 10 * time.Second})
				time.Sleep(10 * time.Second)
			}
			cancel()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			undone := 0
			flow := doubles(stet.Undo(func(_ context.Context, n int) error { undone += n; return nil }),
				stet.Retry{First: 5 * time.Second, Max: 5 * time.Second, Timeout: 20 * time.Second})
			inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
				r := begin(t, e, flow, 1)
				c.act(w, func() {
					if _, err := r.Cancel(t.Context(), stet.Act{}); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				})
				synctest.Wait()
				if info, err := r.Info(t.Context()); err != nil || info.Status.Terminal() {
					t.Fatalf("the run has not waited for the task's end: %+v, %v", info, err)
				}
				task := w.one()
				w.must(w.complete(&task))
				waitStatus(t, e, r.ID(), store.Cancelled)
				if undone != 2 {
					t.Errorf("undone is %d, want 2", undone)
				}
				untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 0))
			})
		})
	}
}

// The verbs of operators take an offered or leased task with them.
func TestVerbsAndTasks(t *testing.T) {
	t.Parallel()
	flow := doubles()
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprint("leased ", leased), func(t *testing.T) {
			inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
				ctx := t.Context()
				lease := func() (task stet.LeasedTask) {
					if leased {
						return w.one()
					}
					untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 1))
					return task
				}
				gone := func(task *stet.LeasedTask, wants ...stet.LeaseState) {
					t.Helper()
					if leased && w.state(task.Lease) != wants[0] {
						t.Errorf("the lease is %s, want %s", w.state(task.Lease), wants[0])
					}
				}
				r := begin(t, e, flow, 1)
				task := lease()
				if _, err := e.Runs().Pause(ctx, r.ID(), stet.Act{}); err != nil {
					t.Fatal(err)
				}
				if leased {
					w.must(w.complete(&task))
				}
				if _, err := e.Runs().Resume(ctx, r.ID(), stet.Act{}); err != nil {
					t.Fatal(err)
				}
				if !leased {
					task = w.one()
					w.must(w.complete(&task))
				}
				if got := outcome(t, r); got != "2" {
					t.Error(got)
				}

				r = begin(t, e, flow, 2)
				task = lease()
				for _, act := range []func() (bool, error){
					func() (bool, error) { return e.Runs().Pause(ctx, r.ID(), stet.Act{}) },
					func() (bool, error) { return e.Runs().Rewind(ctx, r.ID(), "/", stet.Act{}) },
					func() (bool, error) { return e.Runs().Resume(ctx, r.ID(), stet.Act{}) },
				} {
					if _, err := act(); err != nil {
						t.Fatal(err)
					}
				}
				gone(&task, stet.LeaseIsCancelled)
				again := w.one()
				if again.Key == task.Key {
					t.Error("a rewound task has the key of the former one")
				}
				w.must(w.complete(&again))
				if got := outcome(t, r); got != "4" {
					t.Error(got)
				}

				r = begin(t, e, flow, 3)
				task = lease()
				for _, act := range []func() (bool, error){
					func() (bool, error) { return e.Runs().Pause(ctx, r.ID(), stet.Act{}) },
					func() (bool, error) { return e.Runs().EditResult(ctx, r.ID(), "double", 7, stet.Act{}) },
					func() (bool, error) { return e.Runs().Resume(ctx, r.ID(), stet.Act{}) },
				} {
					if _, err := act(); err != nil {
						t.Fatal(err)
					}
				}
				gone(&task, stet.LeaseIsCancelled)
				if got := outcome(t, r); got != "7" {
					t.Error(got)
				}

				r = begin(t, e, flow, 4)
				task = lease()
				if _, err := e.Runs().Terminate(ctx, r.ID(), stet.Act{}); err != nil {
					t.Fatal(err)
				}
				gone(&task, stet.LeaseIsCancelled)
				untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 0))
				w.none()
			})
		})
	}
}

func TestOverallBoundsATask(t *testing.T) {
	t.Parallel()
	flow := doubles(stet.Retry{Overall: time.Minute})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		if got := failure(t, r); got != "0 timeout: no worker has ended task \"double\" of queue \"tasks\" by "+
			time.Now().UTC().Format("2006-01-02T15:04:05Z") && got[:10] != "0 timeout:" {
			t.Error(got)
		}
		w.none()
	})
}

// A lost answer of a lease: the same request gets the same leases.
func TestRepeatedLease(t *testing.T) {
	t.Parallel()
	flow := doubles()
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		begin(t, e, flow, 1)
		r := stet.LeaseRequest{Max: 5, Wait: time.Minute, Request: "a"}
		first := w.request(r).Tasks
		again := w.request(r).Tasks
		if len(first) != 1 || len(again) != 1 || first[0].Lease != again[0].Lease {
			t.Errorf("leased %+v, then %+v", first, again)
		}
		w2 := &worker{t, e, "w2"}
		if got := w2.request(stet.LeaseRequest{Max: 5, Request: "a"}).Tasks; len(got) > 0 {
			t.Errorf("another worker has leased %+v", got)
		}
	})
}

// A worker whose request ends takes nothing with it.
func TestAbandonedLease(t *testing.T) {
	t.Parallel()
	flow := doubles(stet.Permit{Queue: "q"})
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
		begin(t, e, flow, 1)
		held := w.one()
		begin(t, e, flow, 2)
		untilQueue(t, e, "q", stands(1, 1))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := e.Tasks().Lease(ctx, stet.LeaseRequest{Worker: "w2", Names: []string{"double"}, Wait: time.Minute})
			ended <- err
		}()
		synctest.Wait() // it waits in the queue
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		w.must(w.complete(&held))
		if task := w.one(); string(task.Input) != "2" {
			t.Errorf("leased %+v", task)
		}
	})
}

// writes counts the commits of a store.
type writes struct {
	store.Store
	n int
}

func (c *writes) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	c.n++
	return c.Store.Commit(ctx, b)
}

func (c *writes) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	c.n++
	return c.Store.Apply(ctx, commands)
}

// The mark: a poll of an idle worker costs at most two commits.
func TestIdlePollCostsNoCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flow := doubles()
		counted := &writes{Store: memory.New()}
		e := serve(t, stet.Config{Store: counted, Workflows: []stet.Definition{flow}})
		w := &worker{t, e, "w1"}
		r := begin(t, e, flow, 1)
		task := w.one()
		w.must(w.complete(&task))
		outcome(t, r)
		time.Sleep(time.Hour)
		before := counted.n
		for range 10 {
			w.lease(1, time.Minute)
		}
		if n := counted.n - before; n > 0 {
			t.Errorf("10 idle polls cost %d commits", n)
		}
	})
}

// In loops, scopes, races and branches a task is a step like others.
func tasksOfAllKinds() *stet.Workflow[int, string] {
	return stet.Define("all-kinds", func(ctx stet.Context, n int) (string, error) {
		sum, err := stet.Loop(ctx, "rounds", 0, func(ctx stet.Context, sum int) (next stet.Next[int, int], _ error) {
			d, err := doubleTask.Run(ctx, sum+1)
			if err != nil || d > 5 {
				return next.Break(d), err
			}
			return next.Continue(d), nil
		})
		if err != nil {
			return "", err
		}
		all, err := stet.Map(ctx, "map", []int{n, n + 1, n + 2}, func(ctx stet.Context, n int) (int, error) {
			return doubleTask.Run(ctx, n, stet.Permit{Queue: "q"})
		})
		if err != nil {
			return "", err
		}
		_, first, err := stet.Race(ctx,
			stet.Go(ctx, "task", func(ctx stet.Context) (string, error) {
				_, err := stet.Task[int, int]("nobody").Run(ctx, 1)
				return "task", err
			}),
			stet.Go(ctx, "sleep", func(ctx stet.Context) (string, error) {
				return "sleep", stet.Sleep(ctx, "moment", 2*time.Second)
			}))
		if err != nil {
			return "", err
		}
		odd, err := stet.Task[int, int]("odd").Run(ctx, 3, stet.Named("odd one"), stet.Retry{First: stet.None})
		if err != nil {
			return "", err
		}
		kept, err := doubleTask.Run(ctx, 50, stet.Named("kept"), stet.Key("k"),
			stet.UndoDo(func(context.Context) error { return nil }))
		return fmt.Sprint(sum, all, first, odd, kept), err
	})
}

// works executes tasks until the run has ended. It fails odd ones at first, and loses some
// answers.
func works(ctx context.Context, e *stet.Engine, runID string) error {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = e.Runs().Wait(ctx, runID)
	}()
	for n := 0; ctx.Err() == nil; n++ {
		r := stet.LeaseRequest{Worker: "w", Names: []string{"double", "odd"}, Max: 2, Wait: 10 * time.Second,
			Request: fmt.Sprint(n)}
		got, err := e.Tasks().Lease(ctx, r)
		for err != nil && ctx.Err() == nil { // as a worker repeats
			got, err = e.Tasks().Lease(ctx, r)
		}
		if err != nil {
			return nil
		}
		for _, task := range got.Tasks {
			if !addItems(ctx, e, task.Lease) {
				continue
			}
			for again := true; again && ctx.Err() == nil; {
				if task.Name == "odd" && task.Attempt == 1 {
					_, err = e.Tasks().Fail(ctx, task.Lease, stet.TaskFailure{Message: "odd"})
				} else {
					var v int
					if err := json.Unmarshal(task.Input, &v); err != nil {
						return err
					}
					err = e.Tasks().Complete(ctx, task.Lease, fmt.Append(nil, 2*v))
				}
				again = err != nil && !errors.Is(err, stet.ErrLeaseGone) && !errors.Is(err, stet.ErrLeaseCancelled)
			}
		}
	}
	return nil
}

// TestTasksAtEveryCommit: the process dies at each commit.
func TestTasksAtEveryCommit(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			got, err := stettest.CrashEverywhere(t, tasksOfAllKinds(), 10, stettest.On(s.open), crashFaults(t, s.name),
				stettest.Queues(map[string]stet.QueueSettings{"q": {Concurrency: 2}}), stettest.Driving(works),
				stettest.Checking(func(ctx context.Context, e *stet.Engine, runID string) error {
					if err := checkItems(ctx, e, runID); err != nil {
						return err
					}
					return emptied(ctx, e, "q", stet.DefaultTaskQueue)
				}))
			if want := "6 [20 22 24]sleep6 100"; err != nil || got != want {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		})
	}
}
