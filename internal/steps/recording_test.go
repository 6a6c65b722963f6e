package steps_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// body returns the body that a run requests for its first step.
func body(t *testing.T, env *steps.Env) runner.Body {
	t.Helper()
	r := runner.New(runner.Config{
		Run:    row,
		Limits: runner.Limits{Value: 10},
		Code: func(b *runner.Branch) ([]byte, *stored.Failure) {
			_, _ = b.Step(runner.Step{Call: runner.Call{Name: "s"}, Func: succeed})
			return nil, nil
		},
	})
	t.Cleanup(r.Unwind)
	r.Advance(env.Now(), env.Now())
	r.Take()
	r.Committed()
	bodies := slices.Collect(r.Bodies())
	if len(bodies) != 1 {
		t.Fatalf("expected one body, found %+v", bodies)
	}
	return bodies[0]
}

// TestRecording: the record of a success is the entry that the run would write; with it
// the attempt does not time out any more, and after the timeout there is none.
func TestRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, r := newEnv(t), &run{}
		b := body(t, env)
		b.Timeout = time.Second
		lease := store.Lease{Epoch: 9}
		begun := env.Now()
		try := func(wait time.Duration, value string) (rec *store.Recording, f *stored.Failure, ok bool) {
			b.Func = func(ctx context.Context, _ *runner.Body) (result runner.BodyResult) {
				time.Sleep(wait)
				a := steps.AttemptOf(ctx)
				var err error
				if rec, f, ok, err = a.Recording(ctx, []byte(value)); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				if rec != nil {
					if result, err = a.Recorded(ctx, rec.Entry); err != nil {
						t.Error(err)
					}
				}
				return result
			}
			r.ends = nil
			env.Activation(context.Background(), r, &row, lease).NewAttempt(b).Execute()
			synctest.Wait() // for the timeout
			return rec, f, ok
		}
		rec, f, ok := try(0, "value")
		if f != nil || !ok || rec.Run != 3 || rec.Incarnation != 4 || rec.Lease.Epoch != 9 {
			t.Fatalf("found %+v, %+v, %t", rec, f, ok)
		}
		e := rec.Entry
		if e.Loc != string(b.Location) || string(e.Value) != "value" || e.State != store.Done || e.Started != begun {
			t.Errorf("found the entry %+v", e)
		}
		if end := r.ends[0].Result; len(r.ends) != 1 || string(end.Value) != "value" || end.Recorded == nil {
			t.Errorf("found the ends %+v", r.ends)
		}
		if rec, f, ok = try(0, "longer than ten bytes"); f == nil || !ok || rec != nil {
			t.Errorf("a value that is too large: found %+v, %+v, %t", rec, f, ok)
		}
		if rec, f, ok = try(time.Hour, "late"); ok || f != nil || rec != nil {
			t.Errorf("after the timeout: found %+v, %+v, %t", rec, f, ok)
		}
	})
}
