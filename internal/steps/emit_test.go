package steps_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
)

// taken returns the emissions that were delivered since the last time.
func (r *run) taken() []steps.Emission {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.emissions
	r.emissions = nil
	return taken
}

// text is what an emission has, in its order.
func text(e steps.Emission) (text string) {
	for _, it := range e.Items {
		text += it.Stream + string(it.Value)
	}
	return text
}

// TestItemsAreDeliveredSoon: the first at once, with those that are emitted with it; the others
// together every 100 ms, in order; and what is left before the end of the attempt.
func TestItemsAreDeliveredSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, r := newEnv(t), &run{}
		var late *steps.Attempt
		env.Pool.Start(r.attempt(env, nil, func(ctx context.Context, _ *runner.Body) runner.BodyResult {
			late = steps.AttemptOf(ctx)
			for i, item := range []string{"a", "b", "c", "d", "e"} {
				if err := late.Emit(ctx, steps.Emitted{Stream: "s", Value: []byte(item)}); err != nil {
					t.Error(err)
				}
				if i > 0 {
					time.Sleep(30 * time.Millisecond)
				}
			}
			return runner.BodyResult{}
		}))
		time.Sleep(10 * time.Millisecond)
		first := r.taken()
		if len(first) != 1 || text(first[0]) != "sasb" || first[0].ID != 7 || first[0].Attempt != 2 {
			t.Fatalf("after 10 ms it has delivered %+v", first)
		}
		time.Sleep(100 * time.Millisecond)
		if others := r.taken(); len(others) != 0 {
			t.Errorf("while others are on their way it has delivered %+v", others)
		}
		first[0].Settled()
		if next := r.taken(); len(next) != 1 || text(next[0]) != "scsdse" {
			t.Errorf("then it has delivered %+v", next)
		}
		time.Sleep(time.Second)
		r.one(t)
		if err := late.Emit(t.Context(), steps.Emitted{Stream: "s"}); !errors.Is(err, steps.ErrEnded) || len(r.taken()) > 0 {
			t.Errorf("after its end: %v", err)
		}
	})
}

// TestItemsAreDeliveredEvery100ms: what is emitted all the time is delivered ten times a second, and
// after a rest the next item at once.
func TestItemsAreDeliveredEvery100ms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, r := newEnv(t), &run{}
		emit := func(ctx context.Context) {
			if err := steps.AttemptOf(ctx).Emit(ctx, steps.Emitted{Stream: "s"}); err != nil {
				t.Error(err)
			}
			time.Sleep(9 * time.Millisecond)
		}
		env.Pool.Start(r.attempt(env, nil, func(ctx context.Context, _ *runner.Body) runner.BodyResult {
			for range 1000 {
				emit(ctx)
			}
			time.Sleep(time.Minute)
			emit(ctx)
			time.Sleep(time.Minute)
			return runner.BodyResult{}
		}))
		items, parts := 0, 0
		settle := func() {
			for _, e := range r.taken() {
				items, parts = items+len(e.Items), parts+1
				e.Settled()
			}
		}
		for range 9000 / 5 {
			time.Sleep(5 * time.Millisecond)
			settle()
		}
		time.Sleep(time.Second)
		settle()
		if items != 1000 || parts < 85 || parts > 105 {
			t.Errorf("in 9 s %d items were delivered in %d parts", items, parts)
		}
		time.Sleep(58*time.Second + 20*time.Millisecond) // a moment after the next item
		for range 100 {
			settle()
			if items == 1001 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if items != 1001 {
			t.Error("the item after a rest was not delivered within a second")
		}
		time.Sleep(2 * time.Minute)
		r.one(t)
	})
}

// TestEmitWaitsForRoom until what is on its way has arrived, or a context ends.
func TestEmitWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, r := newEnv(t), &run{}
		kib := []byte(strings.Repeat("x", 1<<10))
		count, stopped := 0, errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		var last error
		a := r.attempt(env, nil, func(c context.Context, _ *runner.Body) runner.BodyResult {
			for ; last == nil; count++ {
				last = steps.AttemptOf(c).Emit(ctx, steps.Emitted{Stream: "s", Value: kib})
			}
			<-c.Done()
			if err := steps.AttemptOf(c).Emit(t.Context(), steps.Emitted{Stream: "s", Value: kib}); err == nil {
				t.Error("its context has ended, and it emits")
			}
			return runner.BodyResult{}
		})
		env.Pool.Start(a)
		time.Sleep(time.Hour)
		synctest.Wait()
		flying := r.taken()
		if before := count; len(flying) != 1 || before < 100 || before > 128 {
			t.Fatalf("%d KiB were emitted, and %d parts are on their way", before, len(flying))
		}
		before := count
		flying[0].Settled()
		synctest.Wait()
		if more := count - before; more < 50 || more > 64 {
			t.Errorf("after a part has arrived %d KiB were emitted", more)
		}
		cancel(stopped)
		synctest.Wait()
		if !errors.Is(last, stopped) {
			t.Errorf("it ends with %v", last)
		}
		a.Cancel(steps.ErrUnwanted)
		synctest.Wait()
		r.one(t)
	})
}
