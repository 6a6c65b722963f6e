package stet

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Context is what a workflow's code is given. Every durable operation takes it.
//
// It is not a context.Context: waiting, deadlines and cancel are durable
// operations here, not channels. It is valid in the function that it was given
// to, and not inside a step (which has a context.Context of its own), not in
// another branch, and not in a goroutine of the author's: an operation called
// through it there stalls the run with a message that says so (see OnBug).
//
// Code that has called runtime.LockOSThread, and not UnlockOSThread, when it calls an
// operation ends the process: branches share the thread of what drives the run. Lock it
// in a step.
type Context struct {
	branch *runner.Branch
	env    *environment
	shield bool
	values *values
}

// environment is what all contexts of an activation share.
type environment struct {
	engine *Engine
	run    *store.Run
	retry  Retry        // default of the workflow
	log    *slog.Logger // of Log; nil: not asked for yet

	headers Headers // decoded; nil: not asked for yet
}

// values is a list of key and value pairs, the innermost first.
type values struct {
	key, value any
	outer      *values
}

// Value returns what WithValue has stored for key, or nil.
func (c Context) Value(key any) any {
	for v := c.values; v != nil; v = v.outer {
		if v.key == key {
			return v.value
		}
	}
	return nil
}

// WithValue returns a context in which key has the value. Values are not
// recorded: derive them from the input or from results.
func WithValue(ctx Context, key, value any) Context {
	ctx.values = &values{key, value, ctx.values}
	return ctx
}

// WithoutCancel returns a context whose operations work although the run or
// branch has been cancelled: for cleaning up. Branches begun with it run to their
// end.
func WithoutCancel(ctx Context) Context {
	ctx.shield = true
	return ctx
}

// RunID returns the ID of the run.
func RunID(ctx Context) string {
	ctx.mustBeGiven()
	return ctx.env.run.ID
}

// Log returns a logger that knows the run, as run_id, workflow, place (where a child is in its parent) and
// trace_id (that of the header traceparent, if the run has one), and is silent
// in replay: a line is written when its code runs for the first time, and again
// only if a crash came before what follows was durable.
func Log(ctx Context) *slog.Logger {
	ctx.mustBeGiven()
	if env := ctx.env; env.log == nil {
		h := &liveHandler{env.engine.log.Handler(), ctx.branch.Replaying}
		env.log = stored.ChildOf(env.run).Log(slog.New(h).With("run_id", env.run.ID, "workflow", env.run.Workflow),
			env.engine.inner.ParentID)
		if id := stored.TraceID(env.run.Headers); id != "" {
			env.log = env.log.With("trace_id", id)
		}
	}
	return ctx.env.log
}

// liveHandler drops what is logged in replay.
type liveHandler struct {
	slog.Handler
	replaying func() bool
}

func (h *liveHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return !h.replaying() && h.Handler.Enabled(ctx, level)
}

func (h *liveHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &liveHandler{h.Handler.WithAttrs(attrs), h.replaying}
}

func (h *liveHandler) WithGroup(name string) slog.Handler {
	return &liveHandler{h.Handler.WithGroup(name), h.replaying}
}

// with returns ctx on another branch.
func (c Context) with(b *runner.Branch) Context {
	c.branch = b
	return c
}

// mustBeGiven panics if c is a zero Context.
func (c Context) mustBeGiven() {
	if c.branch == nil {
		panic("stet: an operation was called through a zero stet.Context: " +
			"use the one that the workflow's function, or the branch's, was given")
	}
}

// needs stops the run if an operation was given no function.
func (c Context) needs(given bool, what, name string) {
	c.mustBeGiven()
	if !given {
		c.branch.Fail(&stored.Failure{Code: stored.CodeMisuse, Stack: stored.Stack(), Message: fmt.Sprintf(
			"%s %q: the function is nil", what, name)})
	}
}

// call describes an operation that the caller of the caller asks for.
func (c Context) call(name, key string) runner.Call {
	c.mustBeGiven()
	var site [1]uintptr
	runtime.Callers(3, site[:])
	return runner.Call{Name: name, Key: key, Site: site[0], Shield: c.shield}
}
