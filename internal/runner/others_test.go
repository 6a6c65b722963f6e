package runner

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// outside is what a store would hold of the runs that one run has started or
// watches.
type outside struct {
	started   map[string]*store.Start // by ID
	former    map[string]bool         // of these, by a former incarnation
	cancelled map[string]bool
	ended     map[string]bool
	watches   map[string]store.Item // by the ID of the item; not answered
	watched   map[string]string     // the run of a watch
	messages  map[string]bool       // sent, by the ID of the item
}

func (o *outside) init() {
	o.started, o.cancelled, o.ended, o.former = map[string]*store.Start{}, map[string]bool{}, map[string]bool{},
		map[string]bool{}
	o.watches, o.watched, o.messages = map[string]store.Item{}, map[string]string{}, map[string]bool{}
}

// carry carries out what a turn sends.
func (j *durable) carry(sends []store.Command) {
	if j.out.started == nil {
		j.out.init()
	}
	for _, c := range sends {
		switch {
		case c.Start != nil:
			if j.out.started[c.Start.ID] != nil && !j.retried {
				j.violate("child %s is started twice", c.Start.ID)
			}
			if c.Start.Parent != j.run.No {
				j.violate("child %s has the parent %d", c.Start.ID, c.Start.Parent)
			}
			j.out.started[c.Start.ID] = c.Start
		case c.Item.Kind == store.ItemCancel:
			if j.out.started[c.RunID] == nil {
				j.violate("run %s is cancelled and was never started", c.RunID)
			}
			j.out.cancelled[c.RunID] = true
		case c.Item.Kind == store.ItemWatch:
			j.out.watches[c.Item.ID], j.out.watched[c.Item.ID] = *c.Item, c.RunID
		case c.Item.Kind == store.ItemAsk || c.Item.Kind == store.ItemGiveBack:
			j.asks(c.RunID, c.Item)
		case c.Item.Kind == store.ItemMessage || c.Item.Kind == store.ItemUpdate || c.Item.Kind == store.ItemResolution:
			if j.out.messages[c.Item.ID] {
				j.violate("message %s is sent twice", c.Item.ID)
			}
			j.out.messages[c.Item.ID] = true
		case c.Item.Kind >= store.ItemEvent:
			j.hears(c.RunID, c.Item)
		default:
			j.violate("a %s is sent to %s", c.Item.Kind, c.RunID)
		}
	}
}

// shards gives starts a home, as an engine does, so that the turn can be
// validated.
func shards(turn *store.Turn) {
	for _, sends := range turn.Sent(store.Committed) {
		for _, c := range sends {
			if c.Start != nil {
				c.Start.Shard = store.Shard{Group: store.DefaultGroup}
			}
		}
	}
}

// awaited returns the children and watches whose ends are awaited and were not
// told, in order. Those of children that were cancelled are left out.
func (o *outside) awaited() []string {
	var names []string
	for id, start := range o.started {
		if start.ParentLoc != "" && !o.ended[id] && !o.cancelled[id] {
			names = append(names, id)
		}
	}
	slices.Sort(names)
	return slices.AppendSeq(names, func(yield func(string) bool) {
		for _, id := range slices.Sorted(maps.Keys(o.watches)) {
			if !yield(id) {
				return
			}
		}
	})
}

// endOf is how a run ends in these tests: it follows from the name.
func endOf(name, runID string) store.Item {
	end := stored.End{RunID: runID, Status: store.Succeeded, Output: []byte("of " + name)}
	it := store.Item{Kind: store.ItemEnd, Name: name}
	switch hashOf(location.Loc(name)) >> 8 % 5 {
	case 0:
		end.Status, end.Output = store.Failed, stored.EncodeFailure(&stored.Failure{Code: stored.CodeError,
			Message: "failed " + name})
	case 1:
		end.Status, end.Output, end.Reason = store.Cancelled, nil, "cancelled"
	case 2:
		end.Output = make([]byte, store.LargeValue)
	}
	it.Value = end.Encode()
	return it
}

// endOther ends a run that this one awaits. It reports false if there is none.
func (d *driver) endOther() bool {
	names := d.j.out.awaited()
	if len(names) == 0 {
		return false
	}
	i := 0
	if d.random != nil {
		i = d.random.IntN(len(names))
	}
	name := names[i]
	if watch, ok := d.j.out.watches[name]; ok {
		delete(d.j.out.watches, name)
		id := d.j.out.watched[name]
		if d.j.out.started[id] != nil {
			d.j.out.ended[id] = true
		}
		it := endOf(watch.Name, id)
		if d.j.out.cancelled[id] && hashOf(location.Loc(name))%3 > 0 {
			it.Value = stored.End{RunID: id, Status: store.Cancelled, Reason: "cancelled"}.Encode()
		}
		if hashOf(location.Loc(name))>>4%6 == 0 {
			it.Failed, it.Value = true, nil // there is no such run
		}
		d.give(it)
		return true
	}
	d.endChild(name)
	return true
}

func (d *driver) endChild(id string) {
	d.j.out.ended[id] = true
	d.ends++
	it := endOf(id, id)
	d.chargeChild(d.j.out.started[id].ParentLoc, &it)
	d.give(it)
}

// endCancelled ends a child that was cancelled: nobody waits for it.
func (d *driver) endCancelled() bool {
	for _, id := range slices.Sorted(maps.Keys(d.j.out.cancelled)) {
		if start := d.j.out.started[id]; start != nil && start.ParentLoc != "" && !d.j.out.ended[id] {
			d.endChild(id)
			return true
		}
	}
	return false
}

// orphaned returns a child that should have been cancelled with this run, or "".
func (j *durable) orphaned() string {
	for id, start := range j.out.started {
		if start.ParentLoc == "" || j.out.former[id] || j.out.ended[id] || j.out.cancelled[id] ||
			j.pruned(location.Loc(start.ParentLoc)) {
			continue
		}
		e, there := j.entries[start.ParentLoc]
		if !there && (j.run.Generation > 0 || j.retried) {
			continue // its loop was pruned and then taken back
		}
		l, err := stored.DecodeLink(e.State, e.Value)
		if err != nil {
			return fmt.Sprintf("the entry of child %s cannot be read: %v", id, err)
		}
		if !l.Leave && e.State != store.Done && e.State != store.FailedEntry {
			return fmt.Sprintf("child %s at %s is %s and goes on without its parent", id, location.Loc(start.ParentLoc), e.State)
		}
	}
	return ""
}

// renew is called when the run continues as new, after what it has sent. It returns
// a child that should have been cancelled, or "".
func (j *durable) renew() string {
	if j.out.started == nil {
		return ""
	}
	orphan := ""
	for id, start := range j.out.started {
		if e, ok := j.entries[start.ParentLoc]; ok && !j.out.former[id] && !j.out.ended[id] && !j.out.cancelled[id] &&
			e.State == store.Open {
			if l, err := stored.DecodeLink(e.State, e.Value); err != nil || !l.Leave {
				orphan = id
			}
		}
		j.out.former[id] = true
	}
	return orphan
}

// child is a statement that starts a child, with what it does about it.
func (x *execution) child(b *Branch, s *stmt) error {
	c := Child{Call: at(s.name), Workflow: "w", Input: []byte(s.name), Leave: s.kind == "leave",
		Detached: s.kind == "detach", Fails: s.kind == "tied"}
	if x.d.prog.saga != nil && !c.Detached && s.every < 3 {
		c.Undo = x.compensation(s)
	}
	o, err := b.StartChild(c)
	if err != nil {
		x.note(b, s, "not started", err)
		return err
	}
	x.note(b, s, b.RunID(o), nil)
	if c.Detached || s.limit == 1 || c.Fails && s.limit == 2 {
		return nil // nobody awaits it
	}
	return x.await(b, s, o)
}

// ended is the error of a scope whose code has returned err, and counts those that a child
// has failed.
func (x *execution) ended(b *Branch, err error) error {
	if b.ScopeFailure() != nil {
		x.d.failedScopes++
	}
	return ended(b, err)
}

func (x *execution) watch(b *Branch, s *stmt) error {
	o, err := b.Watch(at(s.name), "run of "+s.name)
	if err != nil {
		return err
	}
	return x.await(b, s, o)
}

func (x *execution) await(b *Branch, s *stmt, o *RunFuture) error {
	if s.times > 1 {
		won, err := b.Select(at("select"), []Case{
			{Timer: &Timer{Call: at(s.name + "-timer"), At: b.Now().Add(s.delay)}}, {Run: o},
			{Receive: &Receive{Call: at(s.name + "-mail"), Names: []string{fmt.Sprint("m", s.mail)}, Max: 1}},
		})
		x.note(b, s, fmt.Sprint("selected ", won.Index, len(won.Value)), err)
		if err != nil || s.times == 2 {
			return err
		}
	}
	v, err := b.AwaitRun(at("await"), o)
	x.note(b, s, len(v), err)
	if err != ErrCancelled && !s.fail {
		return nil
	}
	return err
}
