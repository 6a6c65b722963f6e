package runner

import (
	"sort"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/turnlog"
	"github.com/stet-run/stet/store"
)

// Removed stands where the code had an operation or branches of that name, and
// accepts what is recorded of them: at the location, and below it. It counts as
// one use of the name. In a replay it waits for the last completion at the
// location, of its keys or of its iterations, as the operation did, so that what
// follows comes in the same order again; what else is below, in a branch that Go
// began, is handed over to nobody, because the code need not have waited for it. A
// version of a change with that name is accepted too. A child that has not ended
// ends with the run, unless it goes on without its parent.
func (b *Branch) Removed(call Call) {
	if b.Enter(call) != nil {
		return
	}
	r := b.run
	r.sched.Accepted()
	call.Site = 0
	loc := b.Locate(call)
	if r.live {
		return
	}
	last := r.replay.remove(loc)
	if call.Key == "" {
		if rec := r.replay.records[string(versionLocation(b.Location(), call.Name))]; rec != nil {
			r.replay.account(rec)
		}
	}
	if last == nil || last.handed {
		return
	}
	last.gone = false
	o := new(removedOp)
	o.op = op{
		is: o, run: r, id: r.sched.NextID(), loc: location.Loc(last.Loc), kind: last.Kind, rec: last, born: last.Born,
		asked: r.now, slot: turnlog.Recorded(max(last.Size, len(last.Value))), in: b.segment(),
	}
	o.Op = &o.op
	_ = b.waitOp(call, &o.op) // a cancel: the next operation says so
}

// removedOp is an operation that the code has no more: its completion is waited for, its
// outcome is not.
type removedOp struct{ op }

func (o *removedOp) start() {} // it has a number, so it is handed over in the replay

// abandon keeps the branch waiting, as the operation might have: it is handed over in
// any case.
func (o *removedOp) abandon() (stays bool) {
	o.refused = true
	return true
}

// remove accepts what is recorded at loc and below, unless the code has asked
// for it. It returns the last completion that the operation there waited for, or
// nil.
func (p *replay) remove(loc location.Loc) (last *record) {
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
		if waited && rec.Seq > 0 && (last == nil || rec.Seq > last.Seq) {
			last = rec
		}
	}
	return last
}

// passGone hands over to nobody the completions that are gone, up to the first
// one that is not.
func (r *Run) passGone() {
	p := &r.replay
	for ; p.lowest < len(p.numbered); p.lowest++ {
		rec := p.numbered[p.lowest]
		switch {
		case rec.handed:
		case rec.gone:
			r.recall(rec)
			if rec.owes() {
				r.undo.debts = append(r.undo.debts, &debt{loc: location.Loc(rec.Loc), seq: rec.Seq})
			}
		default:
			return
		}
	}
}
