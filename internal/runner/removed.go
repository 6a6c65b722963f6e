package runner

import (
	"sort"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// Removed stands where the code had an operation or branches of that name, and
// accepts what is recorded of them: at the location, and below it. It counts as
// one use of the name. In a replay it waits until the completion that is recorded
// at the location itself is handed over, as the operation did, so that what
// follows comes in the same order again; what is below is handed over to nobody.
// A version of a change with that name is accepted too.
func (b *Branch) Removed(call Call) {
	if b.enter(call) != nil {
		return
	}
	r := b.run
	r.refused = 0
	call.Site = 0
	loc := b.locate(call)
	if r.live {
		return
	}
	r.replay.remove(loc)
	if call.Key == "" {
		if rec := r.replay.records[string(versionLocation(b.Location(), call.Name))]; rec != nil {
			r.replay.account(rec)
		}
	}
	rec := r.replay.records[string(loc)]
	// A promise was not waited for where it was made.
	if rec == nil || rec.Seq == 0 || rec.Kind == store.KindPromise || !rec.gone || rec.handed {
		return
	}
	rec.gone = false
	r.nextID++
	o := &op{run: r, id: r.nextID, loc: loc, kind: rec.Kind, rec: rec, written: true, removed: true, keep: true, born: rec.Born, asked: r.now}
	_ = b.waitOp(call, o) // a cancel: the next operation says so
}

// remove accepts what is recorded at loc and below, unless the code has asked
// for it.
func (p *replay) remove(loc location.Loc) {
	i := sort.Search(len(p.sorted), func(i int) bool { return p.sorted[i].Loc >= string(loc) })
	for ; i < len(p.sorted); i++ {
		rec := &p.sorted[i]
		if rec.Loc != string(loc) && !loc.Contains(location.Loc(rec.Loc)) {
			return
		}
		if !rec.asked {
			p.account(rec)
			rec.gone = true
		}
	}
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
		default:
			return
		}
	}
}
