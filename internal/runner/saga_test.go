package runner

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// plan says how a random program ends and when it is undone.
type plan struct {
	onFailure, onCancel bool
	asks, fails         bool
}

// sagaOf makes a random program one that is undone.
func sagaOf(random *rand.Rand, p *program) *program {
	flip := func(n int) bool { return random.IntN(n) == 0 }
	if flip(8) {
		p.again = 1
	}
	for _, block := range arms(&p.root) {
		for _, s := range *block {
			if s.kind == "saga" && !flip(3) { // something to undo
				step := &stmt{kind: "keep", name: p.name("ke"), times: 1 + random.IntN(3), limit: 1}
				s.arms[0] = slices.Insert(s.arms[0], random.IntN(len(s.arms[0])+1), step)
			}
		}
	}
	p.saga = &plan{onFailure: !flip(4), onCancel: !flip(4), asks: flip(3), fails: !flip(3)}
	return p
}

// end is the end of the program's code.
func (p *plan) end(d *driver, b *Branch, err error) error {
	if p == nil {
		return err
	}
	if p.asks {
		d.asked = true
		b.Rollback()
	}
	if err == nil && p.fails {
		return errProgram
	}
	return err
}

// wants reports whether a run that ends so is undone.
func (d *driver) wants(status store.Status) bool {
	p := d.prog.saga
	return p != nil && (status == store.Failed && (p.onFailure || d.asked) || status == store.Cancelled &&
		(p.onCancel || d.asked))
}

// undoneSaga is a saga whose undoing has ended.
type undoneSaga struct {
	scope       location.Loc
	from, until int64 // the last completions when its code had ended, and its undoing
}

// saga is a saga that mostly fails, and then is mostly undone. The code goes on, or fails too.
func (x *execution) saga(b *Branch, s *stmt) error {
	var u undoneSaga
	var failed error
	undo := false
	err := b.Saga(Saga{Call: at(s.name), Func: func() bool {
		u.scope = b.Location()
		if failed = x.ended(b, x.run(b, s.arms[0])); failed == nil && s.times > 1 {
			failed = errProgram
		}
		x.see(b, "%s ends with %v", s.name, failed)
		u.from = b.run.j.Seq()
		undo = failed != nil && s.limit > 1
		return undo
	}})
	if err == nil {
		err = failed
	}
	if u.until = b.run.j.Seq(); undo {
		x.d.sagas = append(x.d.sagas, u)
	}
	x.note(b, s, fmt.Sprint("undone: ", undo), err)
	if s.fail || err == ErrCancelled {
		return err
	}
	return nil
}

// undoneWithin reports whether a saga within another one has undone a step: one that was
// cancelled, with the branch in which it was, before the other one undid what is its own.
func (d *driver) undoneWithin(scope, step location.Loc, undone int64) bool {
	return slices.ContainsFunc(d.sagas, func(u undoneSaga) bool {
		return scope.Contains(u.scope) && u.scope.Contains(step) && u.from < undone && undone <= u.until
	})
}

// verifySagas returns what is wrong with what sagas have undone, or "": all that has
// completed in them, in the reverse order.
func (d *driver) verifySagas() string {
	for _, u := range d.sagas {
		if u.until > d.j.seq() {
			continue // not durable
		}
		undos := map[int64]int64{} // numbers of steps, by those of their undoing
		for _, e := range d.j.entries {
			loc := location.Loc(e.Loc)
			if !u.scope.Contains(loc) || e.State != store.Done || !e.Owes || e.Seq > u.from {
				continue
			}
			undo := d.j.entries[string(loc.Name("undo", 1))]
			if !undo.Kind.Undoes() || undo.State != store.Done || undo.Seq > u.until {
				return fmt.Sprintf("the saga %s has ended at %d and was undone by %d; of %s, completion %d, there is %+v",
					u.scope, u.from, u.until, loc, e.Seq, undo)
			}
			if undo.Seq > u.from && !d.undoneWithin(u.scope, loc, undo.Seq) {
				undos[undo.Seq] = e.Seq
				d.undoneBySagas++
			}
		}
		last := u.from + 1
		for _, seq := range slices.Sorted(maps.Keys(undos)) {
			if undos[seq] >= last {
				return fmt.Sprintf("the saga %s has undone completion %d after %d", u.scope, undos[seq], last)
			}
			last = undos[seq]
		}
	}
	return ""
}

// undo is the compensation of a step, or nil. It checks what it is given. Some
// fail until a person has resumed the run.
func (x *execution) undo(s *stmt) *Undo {
	if s.kind != "keep" && (s.kind != "tx" || s.limit > 1 || x.d.prog.saga == nil) {
		return nil
	}
	return x.compensation(s)
}

// compensation is that of a step or a child.
func (x *execution) compensation(s *stmt) *Undo {
	d := x.d
	return &Undo{Policy: twice, Permit: limited(s), Func: func(_ context.Context, b *Body, value []byte) BodyResult {
		e := d.j.entries[string(b.Location.Parent())]
		want := e.Value
		if e.Kind == store.KindChild {
			link, err := stored.DecodeLink(e.State, e.Value)
			if want = link.Output; err != nil {
				d.j.violate("the entry of %s cannot be read: %v", b.Location.Parent(), err)
			}
		} else if t, err := stored.SplitTried(e.Value); err == nil {
			want = t.Value
		}
		if !bytes.Equal(want, value) || !e.Owes {
			d.j.violate("%s is given %q, recorded is %+v", b.Location, value, e)
		}
		if s.times == 2 && b.Attempt < 4 {
			return BodyResult{Failure: &stored.Failure{Code: stored.CodeError, Message: "not yet"}}
		}
		return BodyResult{}
	}}
}

// mend is what a person does about a run that has stalled because of a
// compensation. It reports whether the run has.
func (d *driver) mend(over *Outcome) bool {
	bug := d.panicked()
	if over.Status != store.Stalled || !bug && !strings.HasPrefix(over.Reason, "undo: ") {
		return false
	}
	d.leave()
	d.resumed()
	d.activate()
	return true
}

// panicked reports whether the code has had a bug.
func (d *driver) panicked() bool {
	over := d.r.over
	return over != nil && over.Stall != nil && over.Stall.Cause == stored.CausePanic
}

// resumed resumes the run if it has stalled because of a compensation, or of a bug.
func (d *driver) resumed() {
	if stored.CauseOf(&d.j.run) == stored.CausePanic {
		d.stopped++
		d.j.run.Status, d.j.run.Reason = store.Running, ""
		d.flight = nil
	}
	if d.j.run.Status == store.Stalled && strings.HasPrefix(d.j.run.Reason, "undo: ") {
		d.mended++
		d.j.run.Status, d.j.run.Reason = store.Running, ""
	}
}

// cancelledLate reports whether a cancel came after the code had ended, of which
// its history knows nothing.
func (d *driver) cancelledLate() bool {
	_, seen := d.j.entries[string(cancelLocation)]
	return d.j.run.Status == store.Cancelled && !seen
}

// charge notes that the body of a step that carries a compensation has had its effect,
// whether the run will know of it or not.
func (d *driver) charge(b *Body, result BodyResult) {
	if e, _ := b.Entry(0, 0, nil); e.Owes && result.Failure == nil {
		d.charged[string(b.Location)] = true
	}
}

// chargeChild notes that a child that carries a compensation has succeeded.
func (d *driver) chargeChild(loc string, end *store.Item) {
	e, err := stored.DecodeEnd(end.Value)
	if open := d.j.entries[loc]; err == nil && e.Status == store.Succeeded && open.Owes && open.State == store.Open {
		d.charged[loc] = true
	}
}

// loseBodies lets some of the bodies in flight have had their effect, before their process
// dies.
func (d *driver) loseBodies() {
	if d.renewed() {
		return
	}
	for _, b := range d.flight {
		if d.random != nil && d.random.IntN(2) == 0 && b.Attempt == 1 {
			d.chargesLost++
			d.charge(&b, b.Func(context.Background(), &b))
		}
	}
}

// uncompensated returns the steps that had an effect and are neither undone nor owed in a
// run that was to be undone, or that was terminated.
func (d *driver) uncompensated(undone, owed []string) []string {
	var missed []string
	for _, place := range slices.Sorted(maps.Keys(d.charged)) {
		loc := location.Loc(place)
		if text := loc.String(); !d.j.pruned(loc) && !slices.Contains(undone, text) && !slices.Contains(owed, text) {
			missed = append(missed, text)
		}
	}
	return missed
}

// verifyUndone returns what is wrong with what was undone of a run that has ended,
// or "": all that owes it in the reverse order of its completion, or nothing.
func (d *driver) verifyUndone(over *Outcome) string {
	if problem := d.verifySagas(); problem != "" {
		return problem
	}
	var owing, undone, open, bySagas []string
	entries := make([]store.Entry, 0, len(d.j.entries))
	for _, e := range d.j.entries {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b store.Entry) int { return int(a.Seq - b.Seq) })
	for _, e := range entries {
		switch loc := location.Loc(e.Loc); {
		case e.State != store.Done:
		case e.Kind == store.KindUndo:
			undone = append(undone, loc.Parent().String())
		case e.Kind == store.KindSagaUndo:
			bySagas = append(bySagas, loc.Parent().String())
		case e.Owes && e.Seq == 0:
			open = append(open, loc.String())
		case e.Owes:
			owing = slices.Insert(owing, 0, loc.String())
		}
	}
	owing = slices.DeleteFunc(owing, func(place string) bool { return slices.Contains(bySagas, place) })
	d.undone += len(undone)
	end, err := stored.DecodeEnding(nil)
	if over.Status == store.Cancelled {
		end, err = stored.DecodeEnding(d.j.run.Output)
	}
	if err != nil {
		return err.Error()
	}
	if over.Reason == "terminated" || d.wants(over.Status) {
		if missed := d.uncompensated(slices.Concat(undone, bySagas), end.Owed); missed != nil {
			return fmt.Sprintf("the run is %s (%s); %q had an effect and are neither undone (%q) nor owed (%q)",
				over.Status, over.Reason, missed, undone, end.Owed)
		}
	}
	yes := 0
	for _, it := range d.j.items {
		if it.Kind == store.ItemCancel && len(it.Verdict) > 0 && it.Verdict[0] == 'y' {
			yes++
		}
	}
	want := owing
	switch {
	case over.Reason == "terminated":
		if len(undone) > len(owing) || !slices.Equal(undone, owing[:len(undone)]) {
			return fmt.Sprintf("terminated while undone were %q, owed were %q", undone, owing)
		}
		// What has not ended comes first, if it may have had an effect.
		know := func(place string) bool { return slices.Contains(open, place) || slices.Contains(owing, place) }
		first := max(slices.IndexFunc(end.Owed, know), 0)
		if !slices.ContainsFunc(end.Owed, know) {
			first = len(end.Owed)
		}
		want, undone = slices.Concat(open, owing[len(undone):]), end.Owed[first:]
		slices.Sort(want[:len(open)]) // which are in no order
		if len(undone) >= len(open) {
			slices.Sort(undone[:len(open)])
		}
	case !d.wants(over.Status):
		want = nil
	case d.j.run.Marks != 0:
		return fmt.Sprintf("the run has ended with the marks %q", d.j.run.Marks)
	case len(end.Owed) > 0:
		return fmt.Sprintf("%q are said to be owed", end.Owed)
	}
	if !slices.Equal(undone, want) {
		return fmt.Sprintf("the run is %s (%s); undone or owed are %q, want %q", over.Status, over.Reason, undone, want)
	}
	if cancelled := over.Status == store.Cancelled && over.Reason != "terminated"; cancelled && yes != 1 || !cancelled &&
		yes > 0 && over.Reason != "terminated" {
		return fmt.Sprintf("the run is %s (%s), and %d cancels were accepted", over.Status, over.Reason, yes)
	}
	return ""
}

// TestRandomSagas cuts random programs whose steps carry compensations at random
// points, also while they are undone: what is owed is undone once, in the right
// order, with the value of its step, or listed. So is what bodies have done that were lost
// with their process.
func TestRandomSagas(t *testing.T) {
	seed := seedOf(t)
	var undone, mended, late, cuts, lost, bySagas int
	for i := range count(t, 3000) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		d := newDriver(t, sagaOf(random, generate(random, 4+random.IntN(25))), random)
		d.cruel = random.IntN(3) == 0
		often := 4 + random.IntN(40)
		over := d.run(func() bool { return random.IntN(often) == 0 })
		if d.cancelledLate() {
			late++
		}
		if problem := d.verify(over); problem != "" {
			t.Fatalf("program %d: %s", i, problem)
		}
		undone, mended, cuts, lost = undone+d.undone, mended+d.mended, cuts+d.cuts, lost+d.chargesLost
		bySagas += d.undoneBySagas
	}
	t.Logf("%d steps were undone at the end, %d by sagas, %d runs mended, %d cancelled after their code had ended, "+
		"%d cuts, %d effects of bodies that were lost", undone, bySagas, mended, late, cuts, lost)
	if !soak.Usual(t) {
		return // too few to see all
	}
	if undone == 0 || mended == 0 || late == 0 || cuts == 0 || lost == 0 || bySagas == 0 {
		t.Error("something of this never happened")
	}
}
