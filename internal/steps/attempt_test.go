package steps_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// run is what attempts deliver to.
type run struct {
	mu      sync.Mutex
	leaving bool
	idle    bool // nobody drives it
	driven  int
	ends    []steps.End
	beats   []string

	emissions []steps.Emission
}

func (r *run) Leaving(*steps.Attempt) bool { return r.leaving }

func (r *run) Ended(end *steps.End) func() steps.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = append(r.ends, *end)
	if !r.idle {
		return nil
	}
	return func() steps.Task {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.driven++
		return nil
	}
}

func (r *run) Emit(e steps.Emission) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.emissions = append(r.emissions, e)
}

func (r *run) Beat(beat steps.Heartbeat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beats = append(r.beats, string(beat.Detail))
}

// one returns the only end.
func (r *run) one(t *testing.T) runner.BodyResult {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ends) != 1 {
		t.Fatalf("expected one end, found %+v", r.ends)
	}
	if end := r.ends[0]; end.ID != 7 || end.Attempt != 2 {
		t.Errorf("expected the end of attempt 2 of operation 7, found %d of %d", end.Attempt, end.ID)
	}
	return r.ends[0].Result
}

// row is the run as it stands in the store.
var row = store.Run{No: 3, ID: "order-1", Workflow: "order", Headers: []byte(`{"k":"v"}`), Incarnation: 4}

func newEnv(t *testing.T) *steps.Env {
	begun := time.Now()
	now := func() store.Time { return store.TimeOf(begun).Add(time.Since(begun)) }
	return &steps.Env{Pool: newPool(t, 10), Now: now}
}

func (r *run) attempt(env *steps.Env, change func(*runner.Body), fn runner.BodyFunc) *steps.Attempt {
	b := runner.Body{ID: 7, Location: location.Loc("").Name("s", 1), Attempt: 2, Detail: []byte("former"), Func: fn}
	if change != nil {
		change(&b)
	}
	return env.Activation(context.Background(), r, &row, store.Lease{}).NewAttempt(b)
}

func succeed(context.Context, *runner.Body) runner.BodyResult {
	return runner.BodyResult{Value: []byte("ok")}
}

// TestAttemptDeliversItsEnd: whichever way a body ends, the run gets one end, and is
// driven if nobody drives it.
func TestAttemptDeliversItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		body   runner.BodyFunc
		failed string // the code
	}{
		"returns": {body: succeed},
		"panics":  {body: func(context.Context, *runner.Body) runner.BodyResult { panic("no") }, failed: stored.CodePanic},
		"exits": {body: func(context.Context, *runner.Body) runner.BodyResult {
			runtime.Goexit()
			return runner.BodyResult{}
		}, failed: stored.CodePanic},
	} {
		t.Run(name, func(t *testing.T) {
			for _, idle := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					env, r := newEnv(t), &run{idle: idle}
					before := env.Now()
					env.Pool.Start(r.attempt(env, nil, func(ctx context.Context, b *runner.Body) runner.BodyResult {
						time.Sleep(time.Minute)
						return c.body(ctx, b)
					}))
					time.Sleep(time.Hour)
					synctest.Wait()
					got := r.one(t)
					if failed := got.Failure != nil; failed != (c.failed != "") || failed && got.Failure.Code != c.failed {
						t.Errorf("expected the failure %q, found %+v", c.failed, got)
					}
					if got.Started != before || got.Ended != before.Add(time.Minute) {
						t.Errorf("expected a minute from %s, found %s to %s", before, got.Started, got.Ended)
					}
					if (r.driven == 1) != idle {
						t.Errorf("driven %d times", r.driven)
					}
					if len(env.Pool.Running()) > 0 {
						t.Error("the pool has no room again")
					}
				})
			}
		})
	}
}

// TestAttemptThatDoesNotBegin: a run is told of a body that it has cancelled itself; of
// others that do not begin it hears nothing.
func TestAttemptThatDoesNotBegin(t *testing.T) {
	never := func(context.Context, *runner.Body) runner.BodyResult { panic("begun") }
	env := newEnv(t)

	unwanted := &run{}
	a := unwanted.attempt(env, nil, never)
	a.Cancel(steps.ErrUnwanted)
	a.Execute()
	if got := unwanted.one(t); !got.Never || !got.Final {
		t.Errorf("expected an end that is no attempt, found %+v", got)
	}

	stopped := &run{}
	a = stopped.attempt(env, nil, never)
	a.Cancel(context.Canceled)
	a.Execute()
	leaving := &run{leaving: true}
	a = leaving.attempt(env, nil, never)
	a.Cancel(steps.ErrUnwanted)
	a.Execute()
	if len(stopped.ends)+len(leaving.ends) > 0 {
		t.Errorf("expected no ends, found %+v, %+v", stopped.ends, leaving.ends)
	}
}

// TestAttemptTimesOut: at the timeout of the attempt, or of all attempts, the attempt
// ends although the body does not return, and what the body returns later is dropped.
func TestAttemptTimesOut(t *testing.T) {
	for name, c := range map[string]struct {
		timeout, all, beat time.Duration
		after              time.Duration
		text               string
	}{
		"the attempt's":       {timeout: time.Second, after: time.Second, text: "attempt 2 took longer than 1s"},
		"of all attempts":     {all: time.Second, after: time.Second, text: "the time for all attempts was over"},
		"the earlier of both": {timeout: time.Minute, all: time.Second, after: time.Second, text: "for all attempts"},
		"renewed by beats": {
			timeout: time.Second, beat: 2900 * time.Millisecond, after: 3900 * time.Millisecond, text: "took longer",
		},
		"renewed, but not all": {
			timeout: time.Second, all: 2 * time.Second, beat: time.Hour, after: 2 * time.Second, text: "for all",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env, r := newEnv(t), &run{idle: true}
				begun := time.Now()
				var cause error
				env.Pool.Start(r.attempt(env, func(b *runner.Body) {
					b.Timeout = c.timeout
					if c.all > 0 {
						b.Deadline = env.Now().Add(c.all)
					}
				}, func(ctx context.Context, _ *runner.Body) runner.BodyResult {
					for ctx.Err() == nil && time.Since(begun) < c.beat {
						time.Sleep(100 * time.Millisecond)
						steps.Beat(ctx, nil)
						steps.Beat(steps.WithoutBeats(ctx), []byte("silent"))
					}
					<-ctx.Done()
					cause = context.Cause(ctx)
					time.Sleep(time.Hour)
					return runner.BodyResult{Value: []byte("late")}
				}))
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				got := r.one(t)
				if got.Failure == nil || got.Failure.Code != stored.CodeTimeout || !strings.Contains(got.Failure.Message, c.text) {
					t.Errorf("expected a timeout with %q, found %+v", c.text, got.Failure)
				}
				after := c.after + 100*time.Millisecond // the body has so long to say that no attempt is to follow
				if took := got.Ended.Sub(got.Started); took != after {
					t.Errorf("expected the end after %s, found %s", after, took)
				}
				if !errors.Is(cause, steps.ErrTimeout) || r.driven != 1 || len(r.beats) > 0 {
					t.Errorf("cause %v, driven %d times, beats %q", cause, r.driven, r.beats)
				}
			})
		})
	}
}

// TestBeatsAreLimited: details are delivered at most once a second.
func TestBeatsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, r := newEnv(t), &run{}
		r.attempt(env, nil, func(ctx context.Context, _ *runner.Body) runner.BodyResult {
			for _, detail := range []string{"a", "b", "c", "d", "e"} {
				steps.Beat(ctx, []byte(detail))
				time.Sleep(350 * time.Millisecond)
			}
			return runner.BodyResult{}
		}).Execute()
		if want := []string{"a", "c"}; !slices.Equal(r.beats, want) {
			t.Errorf("expected %q, found %q", want, r.beats)
		}
		steps.Beat(context.Background(), []byte("outside"))
	})
}

// TestTheLastBeatIsTold: an attempt that fails, or that the process stops, tells the detail that waits.
func TestTheLastBeatIsTold(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			env, r := newEnv(t), &run{}
			var a *steps.Attempt
			a = r.attempt(env, nil, func(ctx context.Context, _ *runner.Body) runner.BodyResult {
				for _, detail := range []string{"a", "b", "c"} {
					steps.Beat(ctx, []byte(detail))
				}
				if stopped {
					a.Cancel(context.Canceled)
				}
				return runner.BodyResult{Failure: &stored.Failure{Code: stored.CodeError}}
			})
			a.Execute()
			if want := []string{"a", "c"}; !slices.Equal(r.beats, want) {
				t.Errorf("expected %q, found %q", want, r.beats)
			}
		})
	}
}

// TestTheErrorOfAStoppedBodyCountsForNothing, whatever it says of itself. A success counts.
func TestTheErrorOfAStoppedBodyCountsForNothing(t *testing.T) {
	failure := &stored.Failure{Code: stored.CodeError}
	for name, c := range map[string]struct {
		result runner.BodyResult
		counts bool
	}{
		"failure":   {runner.BodyResult{Failure: failure}, false},
		"final":     {runner.BodyResult{Failure: failure, Final: true}, false},
		"permanent": {runner.BodyResult{Failure: failure, Final: true, Marked: true}, false},
		"success":   {runner.BodyResult{Value: []byte("v")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			env, r := newEnv(t), &run{}
			var a *steps.Attempt
			a = r.attempt(env, nil, func(context.Context, *runner.Body) runner.BodyResult {
				a.Cancel(context.Canceled)
				return c.result
			})
			a.Execute()
			if got := len(r.ends) == 1; got != c.counts {
				t.Errorf("it counts: %t; want %t", got, c.counts)
			}
		})
	}
}

// TestAttemptOf: the context of a body, and those derived from it, know the attempt.
func TestAttemptOf(t *testing.T) {
	env, r := newEnv(t), &run{}
	r.attempt(env, nil, func(ctx context.Context, _ *runner.Body) runner.BodyResult {
		a := steps.AttemptOf(steps.WithoutBeats(ctx))
		if a == nil || a.RunID != "order-1" || a.Workflow != "order" || a.Number() != 2 || string(a.Detail()) != "former" ||
			a.Location() != "s" || string(a.Headers) != `{"k":"v"}` || a.String() != "run order-1 step s" {
			t.Errorf("found %+v", a)
		}
		if _, ok := a.Replaced(); ok {
			t.Error("replaced by nobody")
		}
		a.Replace(5)
		if v, ok := steps.AttemptOf(ctx).Replaced(); !ok || v != 5 {
			t.Errorf("expected 5, found %v, %t", v, ok)
		}
		return succeed(ctx, nil)
	}).Execute()
	r.one(t)
	if steps.AttemptOf(context.Background()) != nil {
		t.Error("an attempt outside of a body")
	}
}
