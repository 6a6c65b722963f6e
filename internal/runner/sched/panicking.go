package sched

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
)

// RefuseInPanic stops the run if a deferred function begins an operation while the code
// panics. The operation would be recorded behind what the fixed code does before it.
func (b *Branch) RefuseInPanic(at location.Loc) {
	s := b.sched
	if s.OnPanic == nil || !calledFrom(inPanic) {
		return
	}
	place := panickedAt()
	if place == "" {
		return
	}
	f := &stored.Failure{Code: stored.CodePanic, Stack: stored.Stack(), Message: fmt.Sprintf(
		"panic at %s, while which a deferred function has called %s: it is not executed; "+
			"code that recovers calls operations when the function that has recovered has returned", place, at)}
	if s.OnPanic(f, b.loc) {
		b.Halt()
	}
}

// inPanic is where the runtime calls the deferred functions of code that panics.
var inPanic = func() (pc uintptr) {
	defer func() {
		_ = recover()
		var pcs [16]uintptr
		for _, at := range pcs[:runtime.Callers(0, pcs[:])] {
			if f := runtime.FuncForPC(at - 1); f != nil && f.Name() == "runtime.gopanic" {
				pc = at
			}
		}
	}()
	panic("where is this?")
}()

// panickedAt returns the place at which the code panics whose deferred function the caller
// is in, or "".
func panickedAt() string {
	pcs := make([]uintptr, 256) // an interpreter nests deeply
	n := runtime.Callers(2, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 2*len(pcs))
		n = runtime.Callers(2, pcs)
	}
	for i, pc := range pcs[:n] {
		if pc != inPanic {
			continue
		}
		frames := runtime.CallersFrames(pcs[i:n])
		for {
			frame, more := frames.Next()
			if !strings.HasPrefix(frame.Function, "runtime.") || !more {
				return fmt.Sprintf("%s:%d", frame.File, frame.Line)
			}
		}
	}
	return ""
}
