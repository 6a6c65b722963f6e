// Package runs knows the other runs whose end a run waits for: the children that it has
// started, and runs that it watches. It starts and watches them in the turn, takes their
// ends from the inbox, and withdraws the wait, with a cancel of the child, when nothing
// awaits it any more.
//
// A child ends with the scope that has started it: when that is cancelled or has ended,
// the child's entry is withdrawn and the turn asks it to cancel. A run that ends without
// the end of its code (terminated, misused) cancels the children that remain in the turn
// that ends it. How another run has ended comes as an inbox item by the name of the child
// or of the watch. One by a name that nothing waits for is
//
//   - of an older incarnation, and a dead letter; or
//   - of an older generation or known, and consumed.
//
// When a run ends, what it still waits for is withdrawn too: if it is resumed, it asks
// those that are withdrawn, and awaited, how they have ended meanwhile.
package runs

import (
	"cmp"
	"context"
	"slices"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Runs are the other runs whose end a run waits for. Its methods are called by the
// goroutine that has the baton.
type Runs struct {
	j       *journal.Journal
	knows   func(workflow string) (bool, error)
	look    func(func(context.Context) error) error
	owe     func(o *journal.Op, undo *attempts.Undo)
	byName  map[string]*awaited    // by what their ends are called by
	again   map[location.Loc]int64 // how often children were started again, if they were
	early   []store.Item           // ends that were delivered before the run was live
	arrived journal.Lane           // their end is there
}

// New returns the other runs of a run: none so far. knows reports whether any node has
// ever registered a workflow; its error breaks the activation. nil: all are known. owe is
// called when a child that carries a compensation is handed over as succeeded.
// look calls a function that reads the store; nil: it needs none.
func New(j *journal.Journal, knows func(workflow string) (bool, error), look func(func(context.Context) error) error,
	owe func(*journal.Op, *attempts.Undo),
) *Runs {
	return &Runs{j: j, knows: knows, look: look, owe: owe, byName: map[string]*awaited{}}
}

// Owing returns the locations of children that carry a compensation, have been started and
// are not known to have ended, the newest first.
func (r *Runs) Owing() []location.Loc {
	var places []location.Loc
	for _, o := range slices.Backward(r.open(func(o *awaited) bool {
		c, ok := o.Is.(*child)
		return ok && c.undo != nil && c.owned && o.Written() && !o.Settled()
	})) {
		places = append(places, o.Loc)
	}
	return places
}

// Next hands over the end of the other run that has come first. It reports whether there
// was one.
func (r *Runs) Next() bool { return r.arrived.Next() }

// Arrived returns how many ends are to be looked at.
func (r *Runs) Arrived() int { return len(r.arrived) }

// Len returns how many other runs are awaited.
func (r *Runs) Len() int { return len(r.byName) }

// add lets an operation on another run take effect: now, or when the run goes live.
func (r *Runs) add(o *awaited) {
	if o.linked && !o.link.Detached && (o.Rec == nil || o.Rec.State == store.Open || o.Rec.State == store.Withdrawn) {
		r.byName[o.link.Name()] = o
		o.In.OnPrune(func() { r.prune(o) })
	}
	if o.Rec == nil {
		o.TakeEffectAtOnce()
	}
}

// forget notes that nothing waits for the other run.
func (r *Runs) forget(o *awaited) { delete(r.byName, o.link.Name()) }

// prune is the end of an operation whose iteration is pruned. A child that was left, or
// a watched run, may end later: nothing awaits it.
func (r *Runs) prune(o *awaited) {
	if r.byName[o.link.Name()] == o {
		r.forget(o)
	}
	o.Closed, o.forgotten = true, true
	if o.end != nil {
		o.end = nil
		r.j.Answer(o.item.no, nil)
	}
}

// restarted notes how often the child at a location was started again.
func (r *Runs) restarted(loc location.Loc, again int64) {
	if r.again == nil {
		r.again = map[location.Loc]int64{}
	}
	r.again[loc] = again
}

// Deliver takes the end of another run from the inbox. One that nothing waits for is of
// an older incarnation, and a dead letter, or of an older generation or known already,
// and consumed.
func (r *Runs) Deliver(it store.Item) {
	j := r.j
	if !j.Live() {
		r.early = append(r.early, it)
		j.Log.See(&it)
		return
	}
	o := r.byName[it.Name]
	switch {
	case o == nil && r.outdated(&it):
		j.Log.DeadLetter(it.No)
		return
	case o == nil || o.Settled() || o.Closed || o.end != nil || it.No < o.link.Since:
		j.Answer(it.No, nil)
		return
	}
	o.item = endItem{it.No, it.ID, it.Sent}
	value := it.Value
	if it.Failed {
		value = o.link.Stands // of a run that was there once
	}
	if value == nil {
		o.end = &stored.End{RunID: o.link.RunID} // no status: there is none
	} else {
		end, err := stored.DecodeEnd(value)
		if err != nil {
			j.Owner.Damaged(o.Loc, err)
			return
		}
		o.end = &end
	}
	j.Log.See(&it)
	o.arrive()
}

// GoLive looks at the ends that have come before the run was live.
func (r *Runs) GoLive() {
	ends := r.early
	r.early = nil
	for i := range ends {
		ends[i].State = store.Seen // noted when they came
		r.Deliver(ends[i])
	}
}

// outdated reports whether an end that nothing waits for was for an older incarnation. A
// child does not know in which one it was started, but its ID was derived from the seed
// of that.
func (r *Runs) outdated(it *store.Item) bool {
	j := r.j
	switch run := j.Run; {
	case run.Incarnation == 0:
		return false
	case it.Incarnation > 0: // the answer to a watch
		return it.Outdated(run.Incarnation)
	}
	for generation := range j.Run.Generation + 1 {
		for again := range r.again[location.Loc(it.Loc)] + 1 {
			if it.Name == ChildID(j.Run.Seed, generation, location.Loc(it.Loc), again) {
				return false
			}
		}
	}
	return true
}

// open returns the operations that some test accepts, in the order of request.
func (r *Runs) open(test func(o *awaited) bool) []*awaited {
	var open []*awaited
	for _, o := range r.byName {
		if test(o) {
			open = append(open, o)
		}
	}
	slices.SortFunc(open, func(a, b *awaited) int { return cmp.Compare(a.ID, b.ID) })
	return open
}

// End records of what the run still waits for, as it ends, that it does not any more. A
// run that is taken up again asks again how those have ended.
func (r *Runs) End() {
	for _, o := range r.open(func(o *awaited) bool {
		return o.Written() && !o.Settled() && (o.Rec == nil || o.Rec.State != store.Withdrawn)
	}) {
		if o.owned() {
			o.link.Dropped = stored.DroppedAtEnd(r.j.Seq())
		}
		o.Write(store.Entry{State: store.Withdrawn, Value: o.link.Encode()})
	}
}

// owned reports whether the other run is a child that is cancelled with its scope.
func (o *awaited) owned() bool {
	child, ok := o.Is.(*child)
	return ok && child.owned
}

// Orphans returns the commands that cancel the children which end with the run and are
// not closed. A run that ends without the end of its code has some.
func (r *Runs) Orphans() []store.Command {
	j := r.j
	var sends []store.Command
	for _, o := range r.open(func(o *awaited) bool {
		return o.owned() && o.link.Former == "" && o.Written() && (!o.Settled() || o.Closed)
	}) {
		sends = append(sends, history.Orphan(o.J.Run, o.Loc, o.link.RunID))
	}
	return append(sends, history.Orphans(j.Run, j.Entries, j.IsOrphan)...)
}
