package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
)

// begins are what has begun under a permit, in order: by a worker, or as a step.
type begins struct {
	mu   sync.Mutex
	what []string
	at   []time.Time
}

func (b *begins) add(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.what, b.at = append(b.what, what), append(b.at, time.Now())
}

// mixed is a workflow whose body a step executes for even inputs, a worker for odd ones. The key is the
// hundreds of the input.
func mixed(b *begins) *stet.Workflow[int, int] {
	return stet.Define("mixed", func(ctx stet.Context, n int) (int, error) {
		use := stet.Permit{Queue: "q", Key: fmt.Sprint(n / 100)}
		if n%2 == 1 {
			return doubleTask.Run(ctx, n, use)
		}
		return stet.Step(ctx, "own", func(context.Context) (int, error) {
			b.add(fmt.Sprint(n))
			time.Sleep(time.Second) // meanwhile the worker asks again: a task has its turn only if one does
			return n, nil
		}, use)
	})
}

// work leases and completes tasks one by one, until so many have begun.
func (w *worker) work(b *begins, until int) {
	for {
		b.mu.Lock()
		n := len(b.what)
		b.mu.Unlock()
		if n >= until {
			return
		}
		for _, task := range w.lease(1, time.Minute) {
			b.add(string(task.Input))
			w.must(w.complete(&task))
		}
	}
}

// T2: a queue's rate counts steps and tasks together.
func TestRateHoldsForStepsAndTasksTogether(t *testing.T) {
	t.Parallel()
	const rate, each, per = 4, 8, 10 * time.Minute
	b := &begins{}
	flow := mixed(b)
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		createQueue(t, e, "q", stet.QueueSettings{Rate: rate, Per: per})
		for n := range 2 * each {
			begin(t, e, flow, n)
		}
		w.work(b, 2*each)
	})
	tasks := 0
	for i, what := range b.what {
		if (what[len(what)-1]-'0')%2 == 1 {
			tasks++
		}
		// A worker hears of its permit by an answer, a step by a commit: both a moment later.
		if i >= rate && b.at[i].Sub(b.at[i-rate]) < per-2*time.Second {
			t.Errorf("%d have begun within %v: %v", rate+1, b.at[i].Sub(b.at[i-rate]), b.what[i-rate:i+1])
		}
	}
	if took := b.at[2*each-1].Sub(b.at[0]); tasks != each || took > 2*each/rate*per {
		t.Errorf("%d of %d were tasks; all have begun after %v", tasks, 2*each, took)
	}
}

// T2: keys take turns, be it a step or a task that waits.
func TestKeysTakeTurnsForStepsAndTasksTogether(t *testing.T) {
	t.Parallel()
	b := &begins{}
	flow := mixed(b)
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		createQueue(t, e, "q", stet.QueueSettings{Concurrency: 1})
		begin(t, e, flow, 901) // nothing else begins until it is leased and ends
		first := func() stet.LeasedTask {
			for {
				if got := w.lease(1, time.Minute); len(got) == 1 {
					return got[0]
				}
			}
		}()
		for waiting, n := range []int{101, 102, 103, 104, 202, 201, 203} {
			begin(t, e, flow, n)
			untilQueue(t, e, "q", stands(1, waiting+1))
		}
		leased := make(chan struct{})
		go func() {
			defer close(leased)
			w.work(b, 7)
		}()
		time.Sleep(time.Second) // it waits in the queue
		w.must(w.complete(&first))
		<-leased
	})
	if len(b.what) != 7 {
		t.Fatal(b.what)
	}
	for i := range 6 {
		if b.what[i][0] == b.what[i+1][0] {
			t.Errorf("one key had two turns while another waited: %v", b.what)
			break
		}
	}
	slices.Sort(b.what)
	if !slices.Equal(b.what, []string{"101", "102", "103", "104", "201", "202", "203"}) {
		t.Errorf("begun are %v", b.what)
	}
}

// T7: the detail of a heartbeat is kept at most once a second, and the last one that was is there for the next
// worker.
func TestDetailsAreKeptOnceASecond(t *testing.T) {
	t.Parallel()
	flow := doubles()
	inTime(t, flow, func(t *testing.T, e *stet.Engine, w *worker) {
		r := begin(t, e, flow, 1)
		task := w.one()
		beat := func(detail string) {
			t.Helper()
			got, err := e.Tasks().Heartbeat(t.Context(), 0, stet.TaskBeat{Lease: task.Lease, Detail: []byte(detail)})
			if err != nil || got[0].State != stet.LeaseIsHeld {
				t.Fatal(got, err)
			}
		}
		next := func(want string) {
			t.Helper()
			if got, err := e.Tasks().Release(t.Context(), task.Lease); err != nil || got[0].State != stet.LeaseIsReleased {
				t.Fatal(got, err)
			}
			if task = w.one(); string(task.Detail) != want {
				t.Errorf("expected the detail %s, found %s", want, task.Detail)
			}
		}
		time.Sleep(time.Minute / 4)
		beat("1")
		for n := range 5 {
			time.Sleep(100 * time.Millisecond)
			beat(fmt.Sprint(2 + n)) // within the second
		}
		next("1")
		time.Sleep(2 * time.Second)
		beat("8")
		time.Sleep(2 * time.Second)
		beat("9")
		next("9")
		w.must(w.complete(&task))
		if got := outcome(t, r); got != "2" {
			t.Error(got)
		}
	})
}
