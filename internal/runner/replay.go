package runner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/heap"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// cancelLocation is where the cancel of the whole run is recorded. No operation
// can stand there: keys follow names.
var cancelLocation = location.Loc("").Key("cancel", 1)

// record is an entry of the history and what replay has done with it.
type record struct {
	*store.Entry
	asked  bool
	handed bool
	// Accepted by Removed, and asked for by nobody else.
	accepted bool
	gone     bool // … and to be handed over to nobody
}

// owes reports whether the record is of a completed step that carries a
// compensation.
func (rec *record) owes() bool { return rec.Owes && rec.State == store.Done }

// replay is the part of a run that returns what is recorded.
type replay struct {
	records  map[string]*record
	sorted   []record  // all, by location
	numbered []*record // by number
	lowest   int       // numbered before this index were handed over
	handed   int
	unasked  int           // records without a number that the code has not asked for
	awaited  heap.Min[*op] // numbered and waited for at some time, by number
	undone   heap.Min[*op] // done without a number and waited for at some time, by location
	pending  []*op         // to take effect when the run goes live
	fresh    []*op         // asked for and not recorded, for messages
	cancel   *record       // of the whole run
	undos    []*record     // of compensations, which are replayed after the code has ended
}

func (p *replay) init(entries []store.Entry) {
	p.awaited.Before = func(a, b *op) bool { return a.rec.Seq < b.rec.Seq }
	p.undone.Before = func(a, b *op) bool { return a.loc < b.loc }
	if len(entries) == 0 {
		return
	}
	p.records = make(map[string]*record, len(entries))
	p.sorted = make([]record, len(entries))
	for i := range entries {
		rec := &p.sorted[i]
		rec.Entry = &entries[i]
		p.records[rec.Loc] = rec
		switch {
		case rec.Kind == store.KindUndo:
			p.undos = append(p.undos, rec)
		case rec.Seq > 0:
			p.numbered = append(p.numbered, rec)
		case rec.Kind == store.KindShown:
			rec.asked = true // by nobody, but it stands
		default:
			p.unasked++
		}
		if rec.Kind == store.KindCancel {
			p.cancel, rec.asked = rec, true
		}
	}
	slices.SortFunc(p.numbered, func(a, b *record) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortFunc(p.undos, func(a, b *record) int { return cmp.Compare(a.Seq, b.Seq) })
}

// ask returns what is recorded for an operation that the code asks for.
func (p *replay) ask(o *op) *record {
	rec := p.records[string(o.loc)]
	if rec != nil {
		rec.accepted, rec.gone = false, false
		p.account(rec)
	}
	return rec
}

// account notes that the code knows of a record.
func (p *replay) account(rec *record) {
	if !rec.asked {
		rec.asked = true
		if rec.Seq == 0 {
			p.unasked--
		}
	}
}

// expect notes that a branch waits for an operation while the run replays.
func (p *replay) expect(o *op) {
	if o.expected {
		return
	}
	o.expected = true
	done := o.rec != nil && (o.rec.State == store.Done || o.rec.State == store.FailedEntry)
	switch {
	case o.rec != nil && o.rec.Seq > 0:
		p.awaited.Push(o)
	case done:
		p.undone.Push(o)
	default:
		if o.rec == nil {
			p.fresh = append(p.fresh, o)
		}
		p.pending = append(p.pending, o)
	}
}

// pop returns the first operation of the heap that some branch still waits for.
// One that nobody waits for any more comes back if somebody does again.
func pop(h *heap.Min[*op]) *op {
	for h.Len() > 0 {
		o := h.Pop()
		o.expected = false
		if !o.closed && !o.Settled() && o.IsAwaited() {
			return o
		}
	}
	return nil
}

// replayNext hands over the next recorded completion. When there is none left it
// makes the run live, or stalls it.
func (r *Run) replayNext() {
	p := &r.replay
	r.passGone()
	if lowest := r.remaining(); lowest != nil {
		if lowest == p.cancel {
			r.recall(p.cancel)
			r.cancelRun(p.cancel.Value)
			return
		}
		o := pop(&p.awaited)
		if o == nil {
			r.stall(r.blocked())
			return
		}
		r.recallOp(o)
		return
	}
	if o := pop(&p.awaited); o != nil { // asked for after it was thought to be gone
		r.recallOp(o)
		return
	}
	if o := pop(&p.undone); o != nil {
		r.recallUnnumbered(o)
		return
	}
	if p.unasked > 0 {
		r.stall(r.unasked())
		return
	}
	if r.undo.begun && r.undo.payer == nil {
		r.replayAbrupt()
		return
	}
	r.goLive()
}

// recall counts a recorded completion as handed over.
func (r *Run) recall(rec *record) {
	if !rec.handed {
		rec.handed = true
		r.replay.handed++
	}
	r.seq = max(r.seq, rec.Seq)
	r.now = max(r.now, rec.At)
}

func (r *Run) recallOp(o *op) {
	if _, gone := o.is.(*removedOp); !gone {
		if _, ok := r.recallValue(o); !ok {
			return
		}
	}
	r.recall(o.rec)
	if o.rec.owes() {
		r.owe(o, o.undoing(), o.rec.Seq, 0)
	}
	r.sched.Settle(&o.Source)
}

// recallUnnumbered hands over an operation that was done before it had a number.
func (r *Run) recallUnnumbered(o *op) {
	value, ok := r.recallValue(o)
	if !ok {
		return
	}
	r.nextCompletion()
	r.replay.handed++
	e := *o.rec.Entry
	e.Seq, e.At, e.Value = r.seq, r.now, value
	r.log.Put(&o.slot, e)
	if o.rec.owes() {
		r.owe(o, o.undoing(), e.Seq, 0)
	}
	r.sched.Settle(&o.Source)
}

// recallValue takes an operation's outcome from its record, and returns the record's
// value. ok is false if it cannot be had.
func (r *Run) recallValue(o *op) (value []byte, ok bool) {
	var err error
	if value = o.rec.Value; value == nil && o.rec.Size > 0 {
		if value, err = r.cfg.Fetch(o.rec.Loc); err != nil {
			r.broken = fmt.Errorf("fetch the value of %s: %w", o.loc, err)
			return nil, false
		}
	}
	if o.rec.State == store.FailedEntry {
		o.failure, err = stored.DecodeFailure(value)
	} else {
		err = o.is.recall(value)
	}
	if err != nil {
		r.damaged(o.loc, err)
		return nil, false
	}
	return value, true
}

// goLive lets what was asked for and is not recorded take effect, in the order
// of request.
func (r *Run) goLive() {
	if s := r.inserted(); s != nil {
		r.stall(s)
		return
	}
	r.live = true
	pending := r.replay.pending
	for i := range r.replay.sorted {
		if rec := &r.replay.sorted[i]; rec.accepted {
			if r.gone == nil {
				r.gone = map[string]*record{}
			}
			r.gone[rec.Loc] = rec
		}
	}
	r.topics.goLive()
	r.replay = replay{handed: r.replay.handed, cancel: r.replay.cancel}
	slices.SortFunc(pending, func(a, b *op) int { return cmp.Compare(a.id, b.id) })
	for _, o := range pending {
		r.start(o)
	}
	r.children.goLive()
	r.topics.deliverEarly()
	r.permits.goLive()
}

// inserted is the divergence in which the code calls what takes effect at once before
// completions that were recorded without it.
func (r *Run) inserted() *Stall {
	for _, o := range r.replay.pending {
		if o.early == nil || o.closed {
			continue
		}
		return &Stall{
			Location: location.Loc(o.early.Loc).String(), Recorded: o.early.describe(), Asked: describe(o.kind, o.loc) + " before it",
			Remedy: "if it is new, put it under a Version; else restore the former order; then resume the run",
		}
	}
	return nil
}
