// Package flow is what a team puts around stet: a context of its own, and steps without one.
package flow

import (
	"context"

	"github.com/stet-run/stet"
)

type Context struct {
	stet.Context
	Tenant string
}

// Workflow is good: a context around another one keeps it.
func Workflow(name string, f func(Context, string) error) *stet.Workflow[string, int] {
	return stet.Define(name, func(ctx stet.Context, tenant string) (int, error) {
		outer := Context{Context: ctx}
		outer.Tenant, outer.Context = tenant, ctx
		return 0, f(outer, tenant)
	})
}

// Once executes f as a step.
func Once[T any](ctx Context, name string, f func() (T, error)) (T, error) {
	return stet.Step(ctx.Context, name, func(context.Context) (T, error) { return f() })
}

// Call executes f as a step.
func Call(ctx Context, f func(context.Context, int) (int, error), in int) (int, error) {
	return stet.Step(ctx.Context, "call", func(ctx context.Context) (int, error) { return f(ctx, in) })
}

// With executes f as a step, which is given the context of the workflow to read from.
func (c Context) With(name string, f func(*Context) error) error {
	return stet.Do(c.Context, name, func(context.Context) error { return f(&Context{Tenant: c.Tenant}) })
}
