package runner

import (
	"cmp"
	"slices"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// children are the other runs whose end this run waits for: its children, and those
// that it watches.
type children struct {
	run    *Run
	byName map[string]*runOp      // by what their ends are called by
	again  map[location.Loc]int64 // how often children were started again, if they were
	early  []store.Item           // ends that were delivered before the run was live
}

// add lets an operation on another run take effect: now, or when the run goes live.
func (c *children) add(o *runOp) {
	if o.linked && !o.link.Detached && (o.Rec == nil || o.Rec.State == store.Open || o.Rec.State == store.Withdrawn) {
		c.byName[o.link.Name()] = o
		o.In.OnPrune(func() { c.prune(o) })
	}
	if o.Rec == nil {
		o.TakeEffectAtOnce()
	}
}

// forget notes that nothing waits for the other run.
func (c *children) forget(o *runOp) { delete(c.byName, o.link.Name()) }

// prune is the end of an operation whose iteration is pruned. A child that was left, or
// a watched run, may end later: nothing awaits it.
func (c *children) prune(o *runOp) {
	if c.byName[o.link.Name()] == o {
		c.forget(o)
	}
	o.Closed, o.forgotten = true, true
	if o.end != nil {
		o.end = nil
		c.run.j.Answer(o.item.no, nil)
	}
}

// restarted notes how often the child at a location was started again.
func (c *children) restarted(loc location.Loc, again int64) {
	if c.again == nil {
		c.again = map[location.Loc]int64{}
	}
	c.again[loc] = again
}

// deliver takes the end of another run from the inbox. One that nothing waits for is of
// an older incarnation, and a dead letter, or of an older generation or known already,
// and consumed.
func (c *children) deliver(it store.Item) {
	r := c.run
	if !r.j.Live() {
		c.early = append(c.early, it)
		r.j.Log.See(&it)
		return
	}
	o := c.byName[it.Name]
	switch {
	case o == nil && c.outdated(&it):
		r.j.Log.DeadLetter(it.No)
		return
	case o == nil || o.Settled() || o.Closed || o.end != nil:
		r.j.Answer(it.No, nil)
		return
	}
	o.item = endItem{it.No, it.ID, it.Sent}
	if it.Failed {
		o.end = &stored.End{RunID: o.link.RunID} // no status: there is none
	} else {
		end, err := stored.DecodeEnd(it.Value)
		if err != nil {
			r.damaged(o.Loc, err)
			return
		}
		o.end = &end
	}
	r.j.Log.See(&it)
	o.arrive()
}

// goLive looks at the ends that have come before the run was live.
func (c *children) goLive() {
	ends := c.early
	c.early = nil
	for i := range ends {
		ends[i].State = store.Seen // noted when they came
		c.deliver(ends[i])
	}
}

// outdated reports whether an end that nothing waits for was for an older incarnation. A
// child does not know in which one it was started, but its ID was derived from the seed
// of that.
func (c *children) outdated(it *store.Item) bool {
	r := c.run
	switch run := &r.cfg.Run; {
	case run.Incarnation == 0:
		return false
	case it.Incarnation > 0: // the answer to a watch
		return it.Outdated(run.Incarnation)
	}
	for generation := range r.cfg.Run.Generation + 1 {
		for again := range c.again[location.Loc(it.Loc)] + 1 {
			if it.Name == r.childOf(generation, location.Loc(it.Loc), again) {
				return false
			}
		}
	}
	return true
}

// open returns the operations that some test accepts, in the order of request.
func (c *children) open(test func(o *runOp) bool) []*runOp {
	var open []*runOp
	for _, o := range c.byName {
		if test(o) {
			open = append(open, o)
		}
	}
	slices.SortFunc(open, func(a, b *runOp) int { return cmp.Compare(a.ID, b.ID) })
	return open
}

// end records of what the run still waits for, as it ends, that it does not any more. A
// run that is taken up again asks again how those have ended.
func (c *children) end() {
	for _, o := range c.open(func(o *runOp) bool {
		return o.Written() && !o.Settled() && (o.Rec == nil || o.Rec.State != store.Withdrawn)
	}) {
		if o.owned() {
			o.link.Dropped = stored.DroppedAtEnd(c.run.j.Seq())
		}
		o.Write(store.Entry{State: store.Withdrawn, Value: o.link.Encode()})
	}
}

// owned reports whether the other run is a child that is cancelled with its scope.
func (o *runOp) owned() bool {
	child, ok := o.Is.(*childOp)
	return ok && child.owned
}

// orphans returns the commands that cancel the children which end with the run and are
// not closed. A run that ends without the end of its code has some.
func (c *children) orphans() []store.Command {
	r := c.run
	var sends []store.Command
	for _, o := range c.open(func(o *runOp) bool {
		return o.owned() && o.link.Former == "" && o.Written() && (!o.Settled() || o.Closed)
	}) {
		sends = append(sends, history.Orphan(&r.cfg.Run, o.Loc, o.link.RunID))
	}
	return append(sends, history.Orphans(&r.cfg.Run, r.cfg.Entries, r.j.IsOrphan)...)
}
