package journal

import (
	"errors"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/runner/turnlog"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

var (
	// ErrTimeout is the outcome of a wait whose deadline won.
	ErrTimeout = errors.New("timeout")
)

// Op is what every durable operation has, whatever its kind.
type Op struct {
	sched.Source
	Is   Kind // the operation of which this is a part
	J    *Journal
	ID   int64 // order of request
	Loc  location.Loc
	In   *Segment // of a loop; nil: not in one
	Kind store.Kind
	Rec  *Record // what the history holds for it; nil: nothing
	Born int64   // the number of the last completion before the call
	// Generation is that of the run when the code first called the operation. What it
	// hands out is derived from it.
	Generation int
	Asked      store.Time
	Deadline   store.Time // of a timer or a wait; of a step: its next attempt; 0: none
	Closed     bool       // cancelled or withdrawn: what arrives for it is dropped
	Refused    bool       // closed or cancelled while it is awaited: the code sees ErrCancelled
	Started    bool       // took effect: registered, timer set, or body queued
	Came       store.Time // of one that completes: when what it waited for had come; 0: that is not known
	// Always says that a replay hands a recorded completion over also if no branch waits for
	// it: something else may have.
	Always bool

	arrived  bool         // is in the lane of its kind
	expected bool         // is in a heap of the replay, or has taken effect or will
	slot     turnlog.Slot // where its entry stands
	// early is a recorded completion that remained when this was called and not recorded,
	// of an operation that takes effect when it is called.
	early *Record

	Value   []byte
	Failure *stored.Failure
}

// Kind is what is particular to the operations of one kind. Each kind is a type that
// embeds Op, in a file of its own. It replaces those of Op's methods that do not fit.
type Kind interface {
	// Start lets the operation take effect. The run is live. It is called for an
	// operation that was called when that goes live or a branch waits for it, perhaps
	// several times.
	Start()
	// Abandon is called when the branch that waits for the operation is cancelled, or
	// another case of its Select has won. It reports whether the branch waits for its
	// end all the same.
	Abandon() (stays bool)
	// Withdraw is called when the operation is closed. It records that.
	Withdraw()
	// Outcome returns the entry with which the operation is handed over, completed with
	// all that is not common to operations. A failure is filled in.
	Outcome(e store.Entry) store.Entry
	// Recall takes the outcome from the value of its record.
	Recall(value []byte) error
	// Show completes the description of the wait for it.
	Show(w *Wait)
}

// Postponed is a kind whose operations end while the run stands still.
type Postponed interface {
	// Postpone records the outcome; it is handed over when the run goes on.
	Postpone()
	// Retract does so when the turn has lost all that came with the outcome.
	Retract()
}

// Consequent is a kind whose hand-over does more than wake the branches that wait for it.
// HandedOver is called behind that, in a replay too.
type Consequent interface{ HandedOver() }

// settle wakes the branches that wait for an operation that was handed over.
func (o *Op) settle() {
	o.J.Scheduler.Settle(&o.Source)
	if x, ok := o.Is.(Consequent); ok {
		x.HandedOver()
	}
}

// WithdrawnLate is a kind of which something stands elsewhere. One that was closed in a
// replay is withdrawn when the run goes live.
type WithdrawnLate interface{ WithdrawLate() }

// Declare makes o, which is empty, the operation that is a part of is, or finds what is
// recorded of it. The branch is that of the code that calls it.
func (j *Journal) Declare(b *sched.Branch, o *Op, is Kind, call sched.Call, kind store.Kind) {
	j.DeclareAt(b, o, is, b.Locate(call), kind, SegmentOf(b))
}

// DeclareAt is like Declare for an operation at a location that the branch did not
// count.
func (j *Journal) DeclareAt(b *sched.Branch, o *Op, is Kind, loc location.Loc, kind store.Kind, in *Segment) {
	j.Scheduler.Accepted()
	o.Source.Op = o
	o.Is, o.J, o.ID, o.Loc, o.In, o.Kind = is, j, j.Scheduler.NextID(), loc, in, kind
	o.Born, o.Asked, o.Generation = j.seq, j.now, j.Run.Generation
	b.RefuseInPanic(loc)
	if rec := j.ask(loc); rec != nil && rec.cut() {
		o.slot = turnlog.Recorded(max(rec.Size, len(rec.Value))) // which its entry replaces
		in.count(1, o.slot.Size())
		return
	} else if rec != nil {
		if rec.Kind != kind {
			j.Owner.Stall(j.otherKind(rec, o))
			b.Halt()
		}
		o.Rec, o.slot = rec, turnlog.Recorded(max(rec.Size, len(rec.Value)))
		o.Born, o.Generation = rec.Born, rec.Generation
		in.count(1, o.slot.Size())
		return
	}
	if rec := j.gone[string(loc)]; rec != nil {
		j.Owner.Stall(j.removedAndAsked(rec, o))
		b.Halt()
	}
	if kind.Undoes() {
		j.Count(in, 1, 0) // a run over its budget is undone, too
		return
	}
	j.Spend(b, loc, in)
}

// Self returns the operation's common part.
func (o *Op) Self() *Op { return o }

// Awaited is called when a branch begins to wait for the operation.
func (o *Op) Awaited() { o.Expect() }

// Abandoned is called when the branch that waits for the operation is cancelled. It
// reports whether the branch waits for its end all the same.
func (o *Op) Abandoned() (stays bool) { return o.Is.Abandon() }

// Abandon closes the operation.
func (o *Op) Abandon() (stays bool) {
	o.Close()
	return false
}

// Withdraw records that the operation was withdrawn, if it is recorded.
func (o *Op) Withdraw() {
	if o.slot.Written() && o.J.live && (o.Rec == nil || o.Rec.State != store.Withdrawn || o.slot.New()) {
		o.Write(store.Entry{State: store.Withdrawn})
	}
}

// Outcome leaves the entry as it is.
func (o *Op) Outcome(e store.Entry) store.Entry { return e }

// Recall takes the value as it is.
func (o *Op) Recall(value []byte) error {
	o.Value = value
	return nil
}

// Show shows the deadline.
func (o *Op) Show(w *Wait) { w.EndsAt(o.Deadline) }

// StartsNow reports whether the operation takes effect for the first time.
func (o *Op) StartsNow() bool {
	first := !o.Started
	o.Started = true
	return first
}

// Written reports whether the operation has an entry in the history or in a turn.
func (o *Op) Written() bool { return o.slot.Written() }

// DeadlineOr returns the recorded deadline, which was fixed at the first call, or at.
func (o *Op) DeadlineOr(at store.Time) store.Time {
	if o.Rec != nil && o.Rec.Wake != 0 && !o.Rec.Numbered() {
		return o.Rec.Wake
	}
	return at
}

// ShortWait is the time below which a sleep or retry delay neither suspends its run nor
// is written down: its deadline follows from what is recorded.
const ShortWait = store.Time(1_000_000)

// Register writes down an operation that waits for long, with its deadline.
func (o *Op) Register() {
	if j := o.J; !o.slot.Written() && o.Deadline >= j.now+ShortWait {
		o.Write(store.Entry{State: store.Open, Wake: o.Deadline, Started: j.now})
	}
}

// TakeEffectAtOnce lets an operation take effect although no branch waits for it, or
// when the run goes live. While a recorded completion remains, one that is not recorded
// is new in the code: what takes effect when it is called is recorded before the next
// completion. It is judged when the run goes live, because a cancel may close it until
// then.
func (o *Op) TakeEffectAtOnce() {
	if !o.J.live {
		o.early = o.J.Remaining()
	}
	o.Expect()
}

// Expect lets an operation take effect that is awaited, or notes it in a replay.
func (o *Op) Expect() {
	switch {
	case o.Settled():
	case o.J.live:
		o.start()
	default:
		o.J.replay.expect(o)
	}
}

// start lets an operation take effect. The run is live.
func (o *Op) start() {
	if o.Closed {
		if x, ok := o.Is.(WithdrawnLate); ok {
			x.WithdrawLate()
		}
		return
	}
	if !o.Settled() {
		o.Is.Start()
	}
}

// Close ends an operation that was cancelled or has lost.
func (o *Op) Close() {
	if o.Closed || o.Settled() {
		return
	}
	o.Closed = true
	o.Uncount()
	o.Is.Withdraw()
}

// Cut writes down, for readers, a body of a withdrawn operation. What withdraws the operation is in this turn or in a
// former one, so a replay comes to it without the entry.
func (o *Op) Cut(e store.Entry) {
	j := o.J
	if j.IsPruned(o.Loc) {
		return
	}
	if !o.slot.Written() {
		j.Count(o.In, 1, 0)
	}
	e.State = store.Withdrawn
	o.Write(e)
}

// Uncount takes an operation that leaves no entry from the size of the history.
func (o *Op) Uncount() {
	if !o.slot.Written() {
		o.J.Count(o.In, -1, 0)
	}
}

// HandOver gives a completion to the code: the next number, the time, an entry in the
// turn, and the wake of the branches that wait. While the run stands still it is only
// recorded.
func (o *Op) HandOver() {
	j := o.J
	if j.Owner.StandsStill() {
		o.Is.(Postponed).Postpone() // only attempts end then
		return
	}
	resume(j, o.Kind, j.bound)
	j.NextCompletion()
	j.last, j.lastSlot = o, o.slot
	e := store.Entry{State: store.Done, Seq: j.seq, At: j.now, Started: o.Asked, Ended: j.now, Value: o.Value}
	if o.Came < j.now {
		e.Wake = o.Came
	}
	if o.Failure != nil {
		e.State, e.Value = store.FailedEntry, stored.EncodeFailure(o.Failure)
	}
	o.Write(o.Is.Outcome(e))
	o.settle()
}

// NextCompletion counts a completion that is handed over for the first time.
func (j *Journal) NextCompletion() {
	j.seq++
	j.pos++
	j.now = max(j.now, j.bound)
}

// Write puts the operation's entry into the filling turn, in place of an earlier one
// there.
func (o *Op) Write(e store.Entry) {
	e.Loc, e.Kind, e.Born, e.Generation = string(o.Loc), o.Kind, o.Born, o.Generation
	o.J.Count(o.In, 0, o.J.Log.Put(&o.slot, e))
}

// Number returns the number with which the operation was handed over, to the branch that
// waited for it and has just gone on.
func (o *Op) Number() int64 {
	if o.Rec != nil && o.Rec.Numbered() {
		return o.Rec.Seq
	}
	return o.J.seq
}

// Wait blocks the branch on the operation and returns ErrCancelled or the operation's
// failure.
func (o *Op) Wait(b *sched.Branch, call sched.Call) error {
	w := b.NewWait(call)
	w.Add(&o.Source)
	if _, err := b.Block(w); err != nil {
		return err
	}
	b.Reach(o.Loc)
	if o.Refused {
		return sched.ErrCancelled
	}
	if o.Failure != nil {
		if o.Failure.Code == stored.CodeTimeout && o.Kind != store.KindStep {
			return ErrTimeout
		}
		return o.Failure
	}
	return nil
}
