package steps

import "context"

// bodyContext is the context of a body.
type bodyContext struct {
	context.Context
	attempt *Attempt
}

type (
	attemptKey struct{}
	silentKey  struct{}
)

func (c *bodyContext) Value(key any) any {
	if key == (attemptKey{}) {
		return c.attempt
	}
	return c.Context.Value(key)
}

// AttemptOf returns the attempt that ctx belongs to, or nil.
func AttemptOf(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

// Beat says that the attempt of ctx is alive: it renews its timeout and delivers detail to
// the run, at most once a second; nil: there is none. If there is no attempt it does
// nothing.
func Beat(ctx context.Context, detail []byte) {
	if a := AttemptOf(ctx); a != nil && ctx.Value(silentKey{}) == nil {
		a.beat(detail)
	}
}

// WithoutBeats returns a context of the same attempt in which Beat does nothing.
func WithoutBeats(ctx context.Context) context.Context {
	return context.WithValue(ctx, silentKey{}, true)
}
