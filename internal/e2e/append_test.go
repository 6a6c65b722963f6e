package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
)

// append adds items to the stream of tests, as JSON strings.
func (w *worker) append(lease string, number int64, items ...string) error {
	return appendTo(w.Context(), w.e, lease, number, items...)
}

func appendTo(ctx context.Context, e *stet.Engine, lease string, number int64, items ...string) error {
	list := make([]stet.TaskItem, len(items))
	for i, text := range items {
		list[i] = stet.TaskItem{Stream: string(emitted), Value: fmt.Appendf(nil, "%q", text)}
	}
	return e.Tasks().Append(ctx, lease, number, list...)
}

// untilHeard waits until the stream of run r holds what is wanted.
func untilHeard(t *testing.T, e *stet.Engine, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next, stop := iter.Pull2(emitted.Tail(ctx, e, "r", int64(len(want)-1)))
	defer stop()
	if _, err, ok := next(); err != nil || !ok {
		t.Fatal("the last item: ", err)
	}
	if got := heard(t, e); !slices.Equal(got, want) {
		t.Fatalf("there is %q, want %q", got, want)
	}
}

// TestWorkersAppendItems: they are there before the step ends, in order, with the step and its
// attempt, and a repeat adds nothing; those of another lease follow a mark, though the attempt is the
// same. The run leaves memory in between.
func TestWorkersAppendItems(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stet.Define("answers", func(ctx stet.Context, n int) (int, error) {
					if err := emitted.Append(ctx, "begin"); err != nil {
						return 0, err
					}
					got, err := doubleTask.Run(ctx, n, stet.Retry{First: stet.None})
					if err != nil {
						return 0, err
					}
					return got, emitted.Append(ctx, "end")
				})
				e := serve(t, stet.Config{Store: s.open(t)(), Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None})
				createQueue(t, e, stet.DefaultTaskQueue, stet.QueueSettings{})
				w1, w2 := &worker{t, e, "w1"}, &worker{t, e, "w2"}
				r := begin(t, e, w, 1, stet.ID("r"))

				first := w1.one()
				w1.must(w1.append(first.Lease, 1, "one", "two"))
				want := []string{"begin", "one double 1", "two double 1"}
				untilHeard(t, e, want...)
				w1.must(w1.append(first.Lease, 1, "one", "two")) // the answer was lost
				time.Sleep(time.Second)
				w1.must(w1.append(first.Lease, 2, "three"))
				want = append(want, "three double 1")
				untilHeard(t, e, want...)

				time.Sleep(31 * time.Second) // the lease expires, and nobody else has the task
				w1.must(w1.append(first.Lease, 3, "late"))
				want = append(want, "late double 1")
				untilHeard(t, e, want...)

				second := w2.one()
				if err := w1.append(first.Lease, 4, "too late"); !errors.Is(err, stet.ErrLeaseGone) {
					t.Errorf("a lease that another worker has now appends: %v", err)
				}
				w1.must(w1.append(first.Lease, 3, "late")) // a repeat has the answer that was given
				w2.must(w2.append(second.Lease, 1, "one"))
				w2.must(w2.append(second.Lease, 2, "two"))
				want = append(want, "double again 1", "one double 1", "two double 1")
				untilHeard(t, e, want...)
				if _, err := e.Tasks().Release(t.Context(), second.Lease); err != nil {
					t.Fatal(err)
				}
				third := w2.one()
				w2.must(w2.append(third.Lease, 1, "one"))
				want = append(want, "double again 1", "one double 1")
				_, err := e.Tasks().Fail(t.Context(), third.Lease, stet.TaskFailure{Message: "no"})
				w2.must(err)
				if err := w2.append(third.Lease, 2, "two"); !errors.Is(err, stet.ErrLeaseGone) {
					t.Errorf("a lease that has ended appends: %v", err)
				}

				last := w2.one()
				w2.must(w2.append(last.Lease, 1, "one"))
				w2.must(w2.complete(&last)) // at once: the items stand before the end
				if got := outcome(t, r); got != "2" {
					t.Error(got)
				}
				want = append(want, "double again 2", "one double 2", "end")
				untilHeard(t, e, want...)
				untilQueue(t, e, stet.DefaultTaskQueue, stands(0, 0))
			})
		})
	}
}

// TestRefusedItems: what is wrong changes nothing, and says what to do.
func TestRefusedItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := doubles()
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxValue: 2000})
		createQueue(t, e, stet.DefaultTaskQueue, stet.QueueSettings{})
		one := &worker{t, e, "w1"}
		r := begin(t, e, w, 1, stet.ID("r"))
		lease := one.one().Lease
		good := stet.TaskItem{Stream: "s", Value: json.RawMessage("1")}
		large := stet.TaskItem{Stream: "s", Value: fmt.Appendf(nil, "%q", strings.Repeat("x", 1500))}
		for _, c := range []struct {
			lease  string
			number int64
			items  []stet.TaskItem
			want   error
			text   string
		}{
			{lease, 1, nil, stet.ErrInvalid, "items of a task: expected 1 to 1000, found 0"},
			{lease, 1, slices.Repeat([]stet.TaskItem{good}, 1001), stet.ErrInvalid,
				"items of a task: expected 1 to 1000, found 1001"},
			{lease, 0, []stet.TaskItem{good}, stet.ErrInvalid,
				"items of a task: expected a number of the request of 1 or more, found 0"},
			{lease, 1, []stet.TaskItem{{Stream: "s", Value: json.RawMessage("{")}}, stet.ErrInvalid,
				`items of a task: item of stream s: expected JSON, found "{"`},
			{lease, 1, []stet.TaskItem{good, {Value: good.Value}}, stet.ErrInvalid, "items of a task: stream"},
			{lease, 1, []stet.TaskItem{{Stream: "s", Keep: -2}}, stet.ErrInvalid,
				"items of a task: expected to Keep 1 or more items"},
			{lease, 1, []stet.TaskItem{large, large}, stet.ErrTooLarge, "items of a task has"},
			{"forged", 1, []stet.TaskItem{good}, stet.ErrLeaseGone, "expected a lease as a lease of tasks gives it"},
		} {
			if err := e.Tasks().Append(t.Context(), c.lease, c.number, c.items...); !errors.Is(err, c.want) ||
				!strings.HasPrefix(err.Error(), c.text) {
				t.Errorf("%v; want %s", err, c.text)
			}
		}
		one.must(e.Tasks().Append(t.Context(), lease, 1, large))
		if _, err := r.Cancel(t.Context(), stet.Act{}); err != nil {
			t.Fatal(err)
		}
		if err := e.Tasks().Append(t.Context(), lease, 2, good); !errors.Is(err, stet.ErrLeaseCancelled) {
			t.Errorf("a cancelled task appends: %v", err)
		}
	})
}

// TestItemsWaitForAPausedRun: a run that takes nothing refuses more than its inbox may hold, and has
// all of them, in order, when it goes on.
func TestItemsWaitForAPausedRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := doubles()
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxInbox: 5})
		createQueue(t, e, stet.DefaultTaskQueue, stet.QueueSettings{})
		one := &worker{t, e, "w1"}
		r := begin(t, e, w, 1, stet.ID("r"))
		task := one.one()
		if ok, err := e.Runs().Pause(t.Context(), "r", stet.Act{}); !ok {
			t.Fatal(err)
		}
		var want []string
		var err error
		for n := int64(1); err == nil && n < 100; n++ {
			text := fmt.Sprint("item ", n)
			if err = one.append(task.Lease, n, text); err == nil {
				want = append(want, text+" double 1")
			}
		}
		if !errors.Is(err, stet.ErrInboxFull) || len(want) != 5 {
			t.Fatalf("%d requests were taken, then %v", len(want), err)
		}
		if ok, err := e.Runs().Resume(t.Context(), "r", stet.Act{}); !ok {
			t.Fatal(err)
		}
		untilHeard(t, e, want...)
		time.Sleep(2 * time.Second) // as a worker that repeats
		one.must(one.append(task.Lease, 6, "item 6"))
		untilHeard(t, e, append(want, "item 6 double 1")...)
		one.must(one.complete(&task))
		if got := outcome(t, r); got != "2" {
			t.Error(got)
		}
	})
}

// itemsOfWorker are what works adds for each task.
const itemsOfWorker = 3

// addItems adds items for a task, in two requests that are repeated until they are answered, as a
// worker does. It reports whether the lease still counts.
func addItems(ctx context.Context, e *stet.Engine, lease string) bool {
	for number := int64(1); number <= 2; number++ {
		var items []string
		for i := 2 * (number - 1); i < min(2*number, itemsOfWorker); i++ {
			items = append(items, fmt.Sprint(lease, " ", i))
		}
		for {
			err := appendTo(ctx, e, lease, number, items...)
			switch {
			case err == nil:
			case ctx.Err() != nil || errors.Is(err, stet.ErrLeaseGone) || errors.Is(err, stet.ErrLeaseCancelled):
				return false
			default:
				continue
			}
			break
		}
	}
	return true
}

// checkItems looks that the items of each lease are in order, each once, behind a mark unless the
// lease was the first of its step; and that the last one of a step has added all.
func checkItems(ctx context.Context, e *stet.Engine, runID string) error {
	items, err := emitted.Items(ctx, e, runID, 0, 1000)
	if err != nil {
		return err
	}
	type lease struct {
		text string
		next int
	}
	leases := map[string]*lease{} // by location
	for _, it := range items {
		l := leases[it.Location]
		if l == nil || it.Again {
			l = &lease{}
			leases[it.Location] = l
		}
		if it.Again {
			continue
		}
		text, n, _ := strings.Cut(it.Value, " ")
		if l.next > 0 && text != l.text || n != fmt.Sprint(l.next) {
			return fmt.Errorf("item %d of %s is %q, behind %d of %q", it.Position, it.Location, it.Value, l.next, l.text)
		}
		l.text = text
		l.next++
	}
	for at, l := range leases {
		if l.next != itemsOfWorker {
			return fmt.Errorf("the last lease of %s has added %d items", at, l.next)
		}
	}
	if len(leases) < 7 {
		return fmt.Errorf("there are items of %d steps", len(leases))
	}
	return nil
}
