package runner

import (
	"fmt"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/runner/turnlog"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// op is what every durable operation has, whatever its kind.
type op struct {
	sched.Source
	is   kind // the operation of which this is a part
	run  *Run
	id   int64 // order of request
	loc  location.Loc
	in   *segment // of a loop; nil: not in one
	kind store.Kind
	rec  *record // what the history holds for it; nil: nothing
	born int64
	// generation is that of the run when the code first called the operation. What it
	// hands out is derived from it.
	generation int
	asked      store.Time
	deadline   store.Time // of a timer or a wait; of a step: its next attempt; 0: none
	closed     bool       // cancelled or withdrawn: what arrives for it is dropped
	refused    bool       // closed or cancelled while it is awaited: the code sees ErrCancelled
	started    bool       // took effect: registered, timer set, or body queued
	arrived    bool       // is in the lane of its kind
	expected   bool       // is in a heap of the replay, or has taken effect or will

	slot turnlog.Slot // where its entry stands
	// early is a recorded completion that remained when this was called and not recorded,
	// of an operation that takes effect when it is called.
	early *record

	value   []byte
	failure *stored.Failure
}

// kind is what is particular to the operations of one kind. Each kind is a type that
// embeds op, in a file of its own. It replaces those of op's methods that do not fit.
type kind interface {
	// start lets the operation take effect. The run is live. It is called for an
	// operation that was called when that goes live or a branch waits for it, perhaps
	// several times.
	start()
	// abandon is called when the branch that waits for the operation is cancelled, or
	// another case of its Select has won. It reports whether the branch waits for its
	// end all the same.
	abandon() (stays bool)
	// withdraw is called when the operation is closed. It records that.
	withdraw()
	// outcome completes the entry with which the operation is handed over: all that is
	// not common to operations. A failure is filled in.
	outcome(e *store.Entry)
	// recall takes the outcome from the value of its record.
	recall(value []byte) error
	// show completes the description of the wait for it.
	show(w *Wait)
}

// postponed is a kind whose operations end while the run stands still.
type postponed interface {
	// postpone records the outcome; it is handed over when the run goes on.
	postpone()
}

// withdrawnLate is a kind of which something stands elsewhere. One that was closed in a
// replay is withdrawn when the run goes live.
type withdrawnLate interface{ withdrawLate() }

// declare makes o, which is empty, the operation that is a part of is, or finds what is
// recorded of it.
func (b *Branch) declare(o *op, is kind, call Call, kind store.Kind) {
	b.declareAt(o, is, b.Locate(call), kind, b.segment())
}

// declareAt is declare for an operation at a location that it did not count.
func (b *Branch) declareAt(o *op, is kind, loc location.Loc, kind store.Kind, in *segment) {
	r := b.run
	r.sched.Accepted()
	o.Op = o
	o.is, o.run, o.id, o.loc, o.in, o.kind, o.born, o.asked = is, r, r.sched.NextID(), loc, in, kind, r.seq, r.now
	o.generation = r.cfg.Run.Generation
	if rec := r.replay.ask(o); rec != nil {
		if rec.Kind != kind {
			r.stall(&Stall{
				Location: o.loc.String(), Recorded: rec.describe(), Asked: describe(kind, o.loc), Nearest: r.nearest(o.loc),
				Remedy: "give the new operation another name and put " + r.removedCall(rec) +
					" where the former one stood, or restore the former code; then resume the run",
			})
			b.Halt()
		}
		o.rec, o.slot = rec, turnlog.Recorded(max(rec.Size, len(rec.Value)))
		o.born, o.generation = rec.Born, rec.Generation
		in.count(1, o.slot.Size())
		return
	}
	if rec := r.gone[string(o.loc)]; rec != nil {
		r.stall(&Stall{
			Location: o.loc.String(), Recorded: rec.describe(),
			Asked:  describe(kind, o.loc) + ", after Removed has accepted what is recorded",
			Remedy: "take that Removed away, or give the operation another name",
		})
		b.Halt()
	}
	if kind == store.KindUndo {
		r.count(in, 1, 0) // a run over its budget is undone, too
		return
	}
	b.spend(o.loc, in)
}

// self returns the operation's common part.
func (o *op) self() *op { return o }

// Awaited is called when a branch begins to wait for the operation.
func (o *op) Awaited() { o.run.expect(o) }

// Abandoned is called when the branch that waits for the operation is cancelled. It
// reports whether the branch waits for its end all the same.
func (o *op) Abandoned() (stays bool) { return o.is.abandon() }

func (o *op) abandon() bool {
	o.close()
	return false
}

func (o *op) withdraw() {
	if o.slot.Written() && o.run.live && (o.rec == nil || o.rec.State != store.Withdrawn || o.slot.New()) {
		o.run.write(o, store.Entry{State: store.Withdrawn})
	}
}

func (o *op) outcome(*store.Entry) {}

func (o *op) recall(value []byte) error {
	o.value = value
	return nil
}

func (o *op) show(w *Wait) { w.until(o.deadline) }

// startsNow reports whether the operation takes effect for the first time.
func (o *op) startsNow() bool {
	first := !o.started
	o.started = true
	return first
}

// takesEffectAtOnce lets an operation take effect although no branch waits for it, or
// when the run goes live. While a recorded completion remains, one that is not recorded
// is new in the code: what takes effect when it is called is recorded before the next
// completion. It is judged when the run goes live, because a cancel may close it until
// then.
func (o *op) takesEffectAtOnce() {
	if !o.run.live {
		o.early = o.run.remaining()
	}
	o.run.expect(o)
}

// expect lets an operation take effect that is awaited, or notes it in a replay.
func (r *Run) expect(o *op) {
	switch {
	case o.Settled():
	case r.live:
		r.start(o)
	default:
		r.replay.expect(o)
	}
}

// start lets an operation take effect. The run is live.
func (r *Run) start(o *op) {
	if o.closed {
		if x, ok := o.is.(withdrawnLate); ok {
			x.withdrawLate()
		}
		return
	}
	if !o.Settled() {
		o.is.start()
	}
}

// close ends an operation that was cancelled or has lost.
func (o *op) close() {
	if o.closed || o.Settled() {
		return
	}
	o.closed = true
	o.uncount()
	o.is.withdraw()
}

// uncount takes an operation that leaves no entry from the size of the history.
func (o *op) uncount() {
	if !o.slot.Written() {
		o.run.count(o.in, -1, 0)
	}
}

// handOver gives a completion to the code: the next number, the time, an entry in the
// turn, and the wake of the branches that wait. While the run stands still it is only
// recorded.
func (r *Run) handOver(o *op) {
	if r.pause != nil {
		o.is.(postponed).postpone() // only attempts end then
		return
	}
	r.nextCompletion()
	e := store.Entry{State: store.Done, Seq: r.seq, At: r.now, Started: o.asked, Ended: r.now, Value: o.value}
	if o.failure != nil {
		e.State, e.Value = store.FailedEntry, stored.EncodeFailure(o.failure)
	}
	o.is.outcome(&e)
	r.write(o, e)
	r.sched.Settle(&o.Source)
}

// nextCompletion counts a completion that is handed over for the first time.
func (r *Run) nextCompletion() {
	r.seq++
	r.pos++
	r.now = max(r.now, r.bound)
}

// write puts the operation's entry into the filling turn, in place of an earlier one
// there.
func (r *Run) write(o *op, e store.Entry) {
	e.Loc, e.Kind, e.Born, e.Generation = string(o.loc), o.kind, o.born, o.generation
	r.count(o.in, 0, r.log.Put(&o.slot, e))
}

// waitOp blocks on one operation and returns ErrCancelled or the operation's failure.
func (b *Branch) waitOp(call Call, o *op) error {
	w := b.NewWait(call)
	w.Add(&o.Source)
	if _, err := b.Block(w); err != nil {
		return err
	}
	if o.refused {
		return ErrCancelled
	}
	if o.failure != nil {
		if o.failure.Code == stored.CodeTimeout && o.kind != store.KindStep {
			return ErrTimeout
		}
		return o.failure
	}
	return nil
}

// spend counts one more entry, or fails the run if that exceeds its budget.
func (b *Branch) spend(loc location.Loc, in *segment) {
	r := b.run
	// While completions remain, what is recorded counts in full although the code
	// had not got so far when it called this.
	if (r.entries >= r.limits.Entries || r.bytes >= r.limits.Bytes) && (r.live || r.remaining() == nil) {
		b.Fail(&stored.Failure{Code: stored.CodeBudget, Location: loc.String(), Message: fmt.Sprintf(
			"operation %s exceeds the budget of a run: %d entries (limit %d) with %d bytes (limit %d); "+
				"use Loop or continue-as-new for work without an end",
			loc, r.entries, r.limits.Entries, r.bytes, r.limits.Bytes)})
	}
	r.count(in, 1, 0)
}
