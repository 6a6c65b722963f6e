package runner

import (
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/store"
)

// op is a durable operation of a run.
type op struct {
	journal.Op
	run *Interpreter
}

// declare makes o, which is empty, the operation that is a part of is, or finds what is
// recorded of it.
func (b *Branch) declare(o *op, is journal.Kind, call Call, kind store.Kind) {
	o.run = b.run
	b.run.j.Declare(&b.Branch, &o.Op, is, call, kind)
}

// declareAt is like declare for an operation at a location that it did not count.
func (b *Branch) declareAt(o *op, is journal.Kind, loc location.Loc, kind store.Kind, in *journal.Segment) {
	o.run = b.run
	b.run.j.DeclareAt(&b.Branch, &o.Op, is, loc, kind, in)
}

// Version returns which version of a change the run takes, or the innermost loop
// iteration around the call: what is recorded; otherwise 0 if former code has passed this
// point; otherwise the newest, which is recorded. It blocks no branch, and a cancel does
// not refuse it.
func (b *Branch) Version(call Call, newest int) int { return b.run.j.Version(&b.Branch, call, newest) }

// Removed stands where the code had an operation or branches of that name, and accepts
// what is recorded of them: at the location, and below it. It counts as one use of the
// name.
func (b *Branch) Removed(call Call) { b.run.j.Removed(&b.Branch, call) }
