package journal

import (
	"sort"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/runner/turnlog"
	"github.com/stet-run/stet/store"
)

// Removed stands where the code had an operation or branches of that name, and
// accepts what is recorded of them: at the location, and below it. It counts as
// one use of the name. In a replay it waits for the last completion at the
// location, of its keys or of its iterations, as the operation did, so that what
// follows comes in the same order again. What is below in a branch that Go began is
// handed over to nothing, because the code need not have waited for it. A
// version of a change with that name is accepted too. A child that has not ended
// ends with the run, unless it goes on without its parent.
func (j *Journal) Removed(b *sched.Branch, call sched.Call) {
	if b.Enter(call) != nil {
		return
	}
	j.Scheduler.Accepted()
	call.Site = 0
	loc := b.Locate(call)
	if j.live {
		return
	}
	last := j.remove(loc)
	if call.Key == "" {
		if rec := j.RecordAt(VersionLocation(b.Location(), call.Name)); rec != nil {
			j.account(rec)
		}
	}
	if last == nil || last.handed {
		return
	}
	last.gone = false
	o := new(removedOp)
	o.Op = Op{
		Is: o, J: j, ID: j.Scheduler.NextID(), Loc: location.Loc(last.Loc), Kind: last.Kind, Rec: last, Born: last.Born,
		Asked: j.now, slot: turnlog.Recorded(max(last.Size, len(last.Value))), In: SegmentOf(b),
	}
	o.Source.Op = &o.Op
	_ = o.Wait(b, call) // a cancel: the next operation says so
}

// removedOp is an operation that the code has no more: its completion is waited for, its
// outcome is not.
type removedOp struct{ Op }

func (o *removedOp) Start() {} // it has a number, so it is handed over in the replay

// Abandon keeps the branch waiting, as the operation might have: it is handed over in
// any case.
func (o *removedOp) Abandon() (stays bool) {
	o.Refused = true
	return true
}

// disregard lets the replay take no notice of records that a body has left behind the
// pruning of its iteration.
func (p *replay) disregard(span store.Span) {
	for loc, rec := range p.records {
		if span.Contains(loc) {
			p.account(rec)
		}
	}
}

// remove accepts what is recorded at loc and below, unless the code has asked
// for it. It returns the last completion that the operation there waited for, or
// nil.
func (p *replay) remove(loc location.Loc) (last *Record) {
	i := sort.Search(len(p.sorted), func(i int) bool { return p.sorted[i].Loc >= string(loc) })
	for ; i < len(p.sorted); i++ {
		rec := &p.sorted[i]
		at := location.Loc(rec.Loc)
		if at != loc && !loc.Contains(at) {
			break
		}
		if rec.asked && !rec.accepted || rec.Kind == store.KindUndo {
			continue
		}
		p.account(rec)
		rec.accepted, rec.gone = true, true
		// What lasts was not waited for where it was made.
		lasts := rec.Kind == store.KindPromise || rec.Kind == store.KindChild || rec.Kind == store.KindRun
		waited := at == loc && !lasts || loc.Spans(at)
		if waited && rec.Numbered() && (last == nil || rec.Seq > last.Seq) {
			last = rec
		}
	}
	return last
}

// PassGone hands over to nothing the completions that are gone, up to the first
// one that is not.
func (j *Journal) PassGone() {
	p := &j.replay
	for ; p.lowest < len(p.numbered); p.lowest++ {
		rec := p.numbered[p.lowest]
		switch {
		case rec.handed:
		case rec.gone:
			j.recall(rec)
			if rec.IsOwed() {
				j.Owner.Owes(rec, rec.Seq, nil)
			}
			if rec.Kind == store.KindSagaUndo {
				j.Owner.Undone(location.Loc(rec.Loc).Parent())
			}
		default:
			return
		}
	}
}
