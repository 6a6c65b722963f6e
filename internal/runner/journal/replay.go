package journal

import (
	"cmp"
	"slices"

	"github.com/stet-run/stet/internal/heap"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Record is an entry of the history and what replay has done with it.
type Record struct {
	*store.Entry
	asked  bool
	handed bool
	// Accepted by Removed, and not called.
	accepted bool
	gone     bool // … and to be handed over to nothing
}

// Numbered reports whether the record is a completion that has its place in the order. A
// number below 1 is none.
func (rec *Record) Numbered() bool { return rec.Seq > 0 }

// IsOwed reports whether the record is of a completed step that carries a
// compensation.
func (rec *Record) IsOwed() bool { return rec.Entry.Owes && rec.State == store.Done }

// cut reports whether the record says for readers that a body was executed whose step was withdrawn. A replay goes as
// if nothing was recorded: what withdraws a step is not its own record.
func (rec *Record) cut() bool {
	return rec.Kind == store.KindStep && rec.State == store.Withdrawn && rec.Started != 0
}

// replay is what of the history was not handed over or called.
type replay struct {
	records  map[string]*Record
	sorted   []Record      // all, by location
	numbered []*Record     // by number
	lowest   int           // numbered before this index were handed over
	unasked  int           // records without a number that the code has not called
	awaited  heap.Min[*Op] // numbered and waited for at some time, by number
	undone   heap.Min[*Op] // done without a number and waited for at some time, by location
	pending  []*Op         // to take effect when the run goes live
	fresh    []*Op         // called and not recorded, for messages
	cancel   *Record       // of the whole run
	undos    []*Record     // of compensations, which are replayed after the code has ended
}

func (p *replay) init(entries []store.Entry) {
	p.awaited.Before = func(a, b *Op) bool { return a.Rec.Seq < b.Rec.Seq }
	p.undone.Before = func(a, b *Op) bool { return a.Loc < b.Loc }
	if len(entries) == 0 {
		return
	}
	p.records = make(map[string]*Record, len(entries))
	p.sorted = make([]Record, len(entries))
	for i := range entries {
		rec := &p.sorted[i]
		rec.Entry = &entries[i]
		p.records[rec.Loc] = rec
		switch {
		case rec.Kind == store.KindUndo:
			p.undos = append(p.undos, rec)
		case rec.Numbered():
			p.numbered = append(p.numbered, rec)
		case rec.Kind == store.KindShown, rec.Kind == store.KindCancel, rec.cut():
			rec.asked = true // by no call, but it stands
		default:
			p.unasked++
		}
		if rec.Kind == store.KindCancel {
			p.cancel, rec.asked = rec, true
		}
	}
	slices.SortFunc(p.numbered, func(a, b *Record) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortFunc(p.undos, func(a, b *Record) int { return cmp.Compare(a.Seq, b.Seq) })
}

// ask returns what is recorded at the location of an operation that the code calls.
func (p *replay) ask(loc location.Loc) *Record {
	rec := p.records[string(loc)]
	if rec != nil {
		rec.accepted, rec.gone = false, false
		p.account(rec)
	}
	return rec
}

// account notes that the code knows of a record.
func (p *replay) account(rec *Record) {
	if !rec.asked {
		rec.asked = true
		if !rec.Numbered() {
			p.unasked--
		}
	}
}

// expect notes that a branch waits for an operation while the run replays.
func (p *replay) expect(o *Op) {
	if o.expected {
		return
	}
	o.expected = true
	done := o.Rec != nil && (o.Rec.State == store.Done || o.Rec.State == store.FailedEntry)
	switch {
	case o.Rec != nil && o.Rec.Numbered():
		p.awaited.Push(o)
	case done:
		p.undone.Push(o)
	default:
		if o.Rec == nil {
			p.fresh = append(p.fresh, o)
		}
		p.pending = append(p.pending, o)
	}
}

// pop returns the first operation of the heap that some branch still waits for.
// One that no branch waits for any more comes back if one does again.
func pop(h *heap.Min[*Op]) *Op {
	for h.Len() > 0 {
		o := h.Pop()
		o.expected = false
		if !o.Closed && !o.Settled() && (o.IsAwaited() || o.Always) {
			return o
		}
	}
	return nil
}

// Next is what comes next in a replay.
type Next uint8

const (
	// HandedOver: a completion was handed over, or the run has stalled.
	HandedOver Next = iota
	// Cancels: the cancel of the whole run was counted and is to be carried out.
	Cancels
	// Passed: all that is recorded was handed over and called.
	Passed
)

// Next hands over the next recorded completion.
func (j *Journal) Next() Next {
	j.PassGone()
	if lowest := j.Remaining(); lowest != nil {
		if lowest == j.cancel {
			j.recall(j.cancel)
			return Cancels
		}
		o := pop(&j.awaited)
		if o == nil {
			j.Owner.Stall(j.Blocked())
			return HandedOver
		}
		j.recallOp(o)
		return HandedOver
	}
	if o := pop(&j.awaited); o != nil { // called after it was thought to be gone
		j.recallOp(o)
		return HandedOver
	}
	if o := pop(&j.undone); o != nil {
		o.RecallUnnumbered()
		return HandedOver
	}
	if j.unasked > 0 {
		j.Owner.Stall(j.Unasked())
		return HandedOver
	}
	return Passed
}

// recall counts a recorded completion as handed over.
func (j *Journal) recall(rec *Record) {
	if !rec.handed {
		rec.handed = true
		j.handed++
	}
	j.seq = max(j.seq, rec.Seq)
	resume(j, rec.Kind, rec.At)
	j.now = max(j.now, rec.At)
}

// recallOp hands over a recorded completion.
func (j *Journal) recallOp(o *Op) {
	if _, gone := o.Is.(*removedOp); !gone {
		if _, ok := o.recallValue(); !ok {
			return
		}
	}
	j.recall(o.Rec)
	if o.Rec.IsOwed() {
		j.Owner.Owes(o.Rec, o.Rec.Seq, o)
	}
	o.settle()
}

// RecallUnnumbered hands over an operation that was done before it had a number.
func (o *Op) RecallUnnumbered() {
	value, ok := o.recallValue()
	if !ok {
		return
	}
	j := o.J
	j.NextCompletion()
	j.handed++
	e := *o.Rec.Entry
	e.Seq, e.At, e.Value = j.seq, j.now, value
	j.Log.Put(&o.slot, e)
	if o.Rec.IsOwed() {
		j.Owner.Owes(o.Rec, e.Seq, o)
	}
	o.settle()
}

// recallValue takes an operation's outcome from its record, and returns the record's
// value. ok is false if it cannot be had.
func (o *Op) recallValue() (value []byte, ok bool) {
	value, err := o.J.FetchValue(o.Rec.Entry)
	if err != nil {
		return nil, false
	}
	if o.Rec.State == store.FailedEntry {
		o.Failure, err = stored.DecodeFailure(value)
	} else {
		err = o.Is.Recall(value)
	}
	if err != nil {
		o.J.Owner.Damaged(o.Loc, err)
		return nil, false
	}
	return value, true
}

// GoLive makes the run live, or stalls it: then it reports false. What it calls before
// lets nothing stand elsewhere that the code has no more. After that, what was called and
// is not recorded takes effect, in the order of the calls.
func (j *Journal) GoLive(before func()) bool {
	if s := j.inserted(); s != nil {
		j.Owner.Stall(s)
		return false
	}
	j.live = true
	pending := j.pending
	for i := range j.sorted {
		if rec := &j.sorted[i]; rec.accepted {
			if j.gone == nil {
				j.gone = map[string]*Record{}
			}
			j.gone[rec.Loc] = rec
		}
	}
	before()
	j.replay = replay{cancel: j.cancel}
	slices.SortFunc(pending, func(a, b *Op) int { return cmp.Compare(a.ID, b.ID) })
	for _, o := range pending {
		o.start()
	}
	return true
}

// Pending returns the operations that take effect when the run goes live.
func (j *Journal) Pending() []*Op { return j.pending }

// Forget drops them: the code does not fit the history.
func (j *Journal) Forget() { j.pending = nil }

// Pend lets an operation take effect, or be withdrawn, when the run goes live.
func (o *Op) Pend() { o.J.pending = append(o.J.pending, o) }

// Remaining returns the recorded completion with the lowest number that was not handed
// over and is not gone, or nil.
func (j *Journal) Remaining() *Record {
	for j.lowest < len(j.numbered) && j.numbered[j.lowest].handed {
		j.lowest++
	}
	for _, rec := range j.numbered[j.lowest:] {
		if !rec.handed && !rec.gone {
			return rec
		}
	}
	return nil
}

// Ended stalls a run whose code has ended before its history. It reports whether it has.
func (j *Journal) Ended() bool {
	switch {
	case j.Remaining() != nil:
		j.Owner.Stall(j.Blocked())
	case j.unasked > 0:
		j.Owner.Stall(j.Unasked())
	default:
		return false
	}
	return true
}

// RecordAt returns what the replay has for a location, or nil.
func (j *Journal) RecordAt(loc location.Loc) *Record { return j.records[string(loc)] }

// Cancelled returns the recorded cancel of the whole run, or nil.
func (j *Journal) Cancelled() *Record { return j.cancel }

// Undos returns the recorded compensations. They take part in the replay from ReplayUndos
// on.
func (j *Journal) Undos() []*Record { return j.undos }

// ReplayUndos lets recorded compensations take part in the replay: the code has ended.
func (j *Journal) ReplayUndos(records []*Record) {
	for _, rec := range records {
		if rec.Numbered() {
			j.numbered = append(j.numbered, rec)
		} else {
			j.unasked++
		}
	}
}

// IsOrphan reports whether an entry of the history is one that the code does not call.
func (j *Journal) IsOrphan(e *store.Entry) bool {
	if j.live {
		return j.gone[e.Loc] != nil // accepted by Removed
	}
	rec := j.records[e.Loc]
	return !rec.asked || rec.accepted
}

// Reorder changes the order in which a replay hands over recorded completions, for tests
// of what depends on it.
func (j *Journal) Reorder(before func(a, b *Op) bool) { j.awaited.Before = before }
