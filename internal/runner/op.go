package runner

import (
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/runner/turnlog"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

const (
	promiseKind = store.KindPromise
	timerKind   = store.KindTimer
)

// op is one durable operation.
type op struct {
	sched.Source
	run  *Run
	id   int64 // order of request
	loc  location.Loc
	in   *segment // of a loop; nil: not in one
	kind store.Kind
	rec  *record // what the history holds for it; nil: nothing
	born int64
	// generation is that of the run when the operation was first asked for. What it
	// hands out is derived from it.
	generation int
	number     int64 // of the hand-over; 0: not handed over
	asked      store.Time
	closed     bool // cancelled or withdrawn: what arrives for it is dropped
	begun      bool // took effect: registered, timer set, or body queued

	slot     turnlog.Slot // where its entry stands
	size     int          // of that entry's value
	expected bool         // is in a heap of the replay, or has taken effect or will

	inbox    bool       // of a timer: it wins only against what the inbox held at its deadline
	deadline store.Time // of a sleep, timer or receive; next attempt of a step

	step    *Step
	keep    bool // carries a compensation
	whole   bool // a cancel waits for its end
	refused bool // was cancelled while kept: the code sees ErrCancelled
	removed bool // the code has it no more: its completion is waited for, its outcome is not
	attempt int  // attempts that have ended
	busy    bool // a body waits for the barrier, is given out, or its end has arrived
	queued  bool // of these, it waits
	given   bool // of these, it is given out
	barrier int64
	causes  []*stored.Failure
	detail  []byte
	trouble bool       // the run is to be paused for its failures
	pass    *pass      // its permit, while it waits for one or has one; nil: neither
	from    store.Time // when the first attempt started
	until   store.Time // when the last one ended

	recorded *store.Entry // is in the store already, without a completion number

	receive *Receive
	other   *other // of a child or an awaited run
	event   *topicWait
	publish *Publish
	early   *record // of a publication: a completion that remained when it was asked for and not recorded

	value    []byte
	failure  *stored.Failure
	messages []stored.Message
}

// request makes an operation of o, which is empty, or finds what is recorded of
// it.
func (b *Branch) request(o *op, call Call, kind store.Kind) *op {
	return b.requestAt(o, b.Locate(call), kind, b.segment())
}

// requestAt is request for an operation at a location that it did not count.
func (b *Branch) requestAt(o *op, loc location.Loc, kind store.Kind, in *segment) *op {
	r := b.run
	r.sched.Accepted()
	o.Op = o
	o.run, o.id, o.loc, o.in, o.kind, o.born, o.asked = r, r.sched.NextID(), loc, in, kind, r.seq, r.now
	o.generation = r.cfg.Run.Generation
	if rec := r.replay.ask(o); rec != nil {
		if rec.Kind != kind {
			r.stall(&Stall{
				Location: o.loc.String(), Recorded: rec.describe(), Asked: describe(kind, o.loc), Nearest: r.nearest(o.loc),
				Remedy: "give the new operation another name and put " + r.removedCall(rec) + " where the former one stood, or restore the former code; then resume the run",
			})
			b.Halt()
		}
		o.rec, o.slot, o.size = rec, turnlog.Recorded(), max(rec.Size, len(rec.Value))
		o.born, o.generation = rec.Born, rec.Generation
		in.count(1, o.size)
		return o
	}
	if rec := r.gone[string(o.loc)]; rec != nil {
		r.stall(&Stall{
			Location: o.loc.String(), Recorded: rec.describe(), Asked: describe(kind, o.loc) + ", after Removed has accepted what is recorded",
			Remedy: "take that Removed away, or give the operation another name",
		})
		b.Halt()
	}
	if kind == store.KindUndo {
		r.count(in, 1, 0) // a run over its budget is undone, too
		return o
	}
	b.spend(o.loc, in)
	return o
}

// spend counts one more entry, or fails the run if that exceeds its budget.
func (b *Branch) spend(loc location.Loc, in *segment) {
	r := b.run
	// While completions remain, what is recorded counts in full although the code
	// had not got so far when it asked for this.
	if (r.entries >= r.limits.Entries || r.bytes >= r.limits.Bytes) && (r.live || r.remaining() == nil) {
		b.Fail(&stored.Failure{Code: stored.CodeBudget, Location: loc.String(), Message: fmt.Sprintf(
			"operation %s exceeds the budget of a run: %d entries (limit %d) with %d bytes (limit %d); use Loop or continue-as-new for work without an end",
			loc, r.entries, r.limits.Entries, r.bytes, r.limits.Bytes)})
	}
	r.count(in, 1, 0)
}

// Awaited is called when a branch begins to wait for the operation.
func (o *op) Awaited() { o.run.expect(o) }

// Abandoned is called when the branch that waits for the operation is cancelled. One
// that must be seen to its end keeps its branch waiting.
func (o *op) Abandoned() (stays bool) {
	switch {
	case o.whole:
		o.cancelKept()
		return true
	case !o.lasting():
		o.close()
	}
	return false
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
	if o.Settled() && !o.closed {
		return
	}
	if o.closed && o.event != nil {
		r.closeEvent(o)
		return
	}
	if o.closed && o.other == nil {
		return
	}
	if o.kind == promiseKind {
		if !o.slot.Written() {
			r.write(o, store.Entry{State: store.Open, Started: r.now})
		}
		r.heat(o)
		return
	}
	if o.other != nil {
		r.startOther(o)
		return
	}
	if o.begun {
		return
	}
	o.begun = true
	switch o.kind {
	case store.KindStep, store.KindUndo:
		r.startStep(o)
	case store.KindReceive:
		r.startReceive(o)
	case store.KindEvent:
		r.startEvent(o)
	case store.KindPublish:
		r.startPublish(o)
	case store.KindLoop:
		r.entering.Push(o)
	default:
		r.startTimer(o)
	}
}

// close ends an operation that was cancelled or has lost.
func (o *op) close() {
	if o.closed || o.Settled() {
		return
	}
	o.closed = true
	r := o.run
	switch {
	case o.step != nil:
		r.dropBody(o)
	case o.kind == store.KindReceive && o.begun:
		r.heatNext(o)
	}
	if !o.slot.Written() {
		r.count(o.in, -1, 0) // it leaves none
	}
	if o.event != nil {
		r.closeEvent(o)
		return
	}
	if o.slot.Written() && r.live && (o.rec == nil || o.rec.State != store.Withdrawn || o.slot.New()) {
		r.write(o, store.Entry{State: store.Withdrawn})
	}
}

// handOver gives a completion to the code: the next number, the time, an entry
// in the turn, and the wake of who waits.
func (r *Run) handOver(o *op) {
	if r.pause != nil {
		r.shelve(o)
		return
	}
	r.seq++
	r.pos++
	r.now = max(r.now, r.bound)
	o.handed(r.seq)
	e := store.Entry{State: store.Done, Seq: r.seq, At: r.now, Attempt: o.attempt, Started: o.asked, Ended: r.now, Value: o.value}
	if o.step != nil {
		e.Started, e.Ended = o.from, o.until
	}
	if rec := o.recorded; rec != nil {
		e.Attempt, e.Started, e.Ended = rec.Attempt, rec.Started, rec.Ended
	}
	if o.keep && o.failure == nil {
		r.owe(o, r.seq, r.pos)
	}
	switch {
	case o.failure != nil:
		e.State, e.Value = store.FailedEntry, stored.EncodeFailure(o.failure)
	case o.messages != nil:
		e.Value = stored.EncodeReceipt(o.messages)
	case o.event != nil:
		e.Value = event.Encode(o.event.given)
	case o.other != nil:
		l := o.other.link
		l.Output = o.value
		e.Value = l.Encode()
	}
	r.write(o, e)
	r.sched.Settle(&o.Source)
}

// handed notes that the operation's outcome has been handed over.
func (o *op) handed(number int64) {
	o.number = number
}

// write puts the operation's entry into the filling turn, in place of an
// earlier one there.
func (r *Run) write(o *op, e store.Entry) {
	e.Loc, e.Kind, e.Born, e.Generation, e.Owes = string(o.loc), o.kind, o.born, o.generation, o.keep
	r.count(o.in, 0, len(e.Value)-o.size)
	o.size = len(e.Value)
	r.log.Put(&o.slot, e)
}

// Sleep waits until the run's time plus d.
func (b *Branch) Sleep(call Call, d time.Duration) error {
	return b.sleepUntil(call, b.run.now.Add(d))
}

// SleepUntil waits until at. A time that is past is over at once.
func (b *Branch) SleepUntil(call Call, at store.Time) error { return b.sleepUntil(call, at) }

func (b *Branch) sleepUntil(call Call, at store.Time) error {
	if err := b.Enter(call); err != nil {
		return err
	}
	return b.waitOp(call, b.timerOp(call, store.KindSleep, at))
}

// waitOp blocks on one operation and returns ErrCancelled or the operation's
// failure.
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
