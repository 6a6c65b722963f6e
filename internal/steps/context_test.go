package steps_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/store"
)

type nameKey struct{}

// TestContextOfABody: it ends with the run's, by Cut, and when the body has returned, whether the
// body has asked for its end before that or asks later. Contexts that are derived from it end with it.
func TestContextOfABody(t *testing.T) {
	cause := errors.New("a cause")
	asks := func(ctx context.Context) { _ = ctx.Done() }
	for name, c := range map[string]struct {
		end   func(stop context.CancelCauseFunc, a *steps.Attempt)
		cause error
	}{
		"by the run": {func(stop context.CancelCauseFunc, _ *steps.Attempt) { stop(cause) }, cause},
		"by Cut":     {func(_ context.CancelCauseFunc, a *steps.Attempt) { a.Cut(cause) }, cause},
		"returned":   {nil, context.Canceled},
	} {
		for _, before := range []bool{false, true} {
			parent, stop := context.WithCancelCause(context.WithValue(t.Context(), nameKey{}, "run"))
			defer stop(nil)
			env, r := newEnv(t), &run{}
			var a *steps.Attempt
			var kept, derived context.Context
			a = env.Activation(parent, r, &row, store.Lease{}).NewAttempt(runner.Body{ID: 7, Attempt: 2,
				Func: func(ctx context.Context, _ *runner.Body) runner.BodyResult {
					kept = ctx
					if before {
						asks(ctx)
						var cancel context.CancelFunc
						derived, cancel = context.WithCancel(ctx)
						t.Cleanup(cancel)
					}
					if ctx.Err() != nil || context.Cause(ctx) != nil || ctx.Value(nameKey{}) != "run" || steps.AttemptOf(ctx) != a {
						t.Errorf("%s, %v: at first: %v, %v", name, before, ctx.Err(), ctx.Value(nameKey{}))
					}
					if c.end != nil {
						c.end(stop, a)
						if ctx.Err() != context.Canceled || context.Cause(ctx) != c.cause {
							t.Errorf("%s, %v: then: %v, %v", name, before, ctx.Err(), context.Cause(ctx))
						}
						<-ctx.Done()
					}
					return runner.BodyResult{Value: []byte("ok")}
				}})
			a.Execute()
			if kept.Err() != context.Canceled || context.Cause(kept) != c.cause {
				t.Errorf("%s, %v: behind the end: %v, %v", name, before, kept.Err(), context.Cause(kept))
			}
			<-kept.Done()
			if kept.Err() != context.Canceled || context.Cause(kept) != c.cause || steps.AttemptOf(kept) != a {
				t.Errorf("%s, %v: asked behind the end: %v, %v", name, before, kept.Err(), context.Cause(kept))
			}
			if derived == nil {
				continue
			}
			if <-derived.Done(); context.Cause(derived) != c.cause {
				t.Errorf("%s: the derived context: %v", name, context.Cause(derived))
			}
		}
	}
}
