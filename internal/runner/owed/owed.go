// Package owed knows what of a run is to be undone, if that is: the effects of completed
// steps and children that carry a compensation and were not undone. It executes nothing.
package owed

import (
	"cmp"
	"slices"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Effect is what a completed step with a compensation has done.
type Effect struct {
	Loc    location.Loc
	In     *journal.Segment
	Undo   *attempts.Undo // nil: the code has none any more
	Undone bool

	kind  store.Kind
	seq   int64
	pos   int64 // of its hand-over in this activation; 0: recorded before
	value []byte
	size  int // of the value; where it is positive and value is nil, fetch it
}

// Effects are those of a run. Its methods are called by the goroutine that has the baton.
type Effects struct {
	list     []*Effect
	heavy    []*Effect     // whose values can be dropped once they are durable
	recorded []store.Entry // of what is owed and of what is undone, as of the snapshot
}

// New returns the effects of a run with a history, whose code has called nothing yet.
func New(entries []store.Entry) Effects {
	var x Effects
	for i := range entries {
		if e := &entries[i]; e.State == store.Done && (e.Owes || e.Kind.Undoes()) {
			x.recorded = append(x.recorded, *e)
		}
	}
	return x
}

// Add notes a completed step that carries a compensation. pos is the position of the
// journal; 0: it is recorded.
func (x *Effects) Add(o *journal.Op, undo *attempts.Undo, seq, pos int64) {
	o.In.Owe()
	d := &Effect{Loc: o.Loc, In: o.In, kind: o.Kind, seq: seq, pos: pos, Undo: undo, value: o.Value, size: len(o.Value)}
	if d.size >= store.LargeValue {
		if pos > 0 {
			x.heavy = append(x.heavy, d)
		} else {
			d.value = nil
		}
	}
	x.list = append(x.list, d)
}

// Passed notes a recorded step that carries a compensation and that the code has no more.
func (x *Effects) Passed(loc location.Loc, seq int64) {
	x.list = append(x.list, &Effect{Loc: loc, seq: seq})
}

// Settle notes that a step was undone.
func (x *Effects) Settle(loc location.Loc) {
	for _, d := range x.list {
		if d.Loc == loc {
			d.Settle()
		}
	}
}

// Settle notes that it was undone.
func (d *Effect) Settle() {
	if !d.Undone {
		d.Undone, d.value = true, nil
		d.In.Undone()
	}
}

// Lighten drops large values that can be fetched, now that the journal is durable so far.
func (x *Effects) Lighten(durable int64) {
	for len(x.heavy) > 0 && x.heavy[0].pos <= durable {
		x.heavy[0].value = nil
		x.heavy = x.heavy[1:]
	}
}

// Forget drops what is owed in a span of the history that is deleted.
func (x *Effects) Forget(span store.Span) {
	x.list = slices.DeleteFunc(x.list, func(d *Effect) bool { return span.Contains(string(d.Loc)) })
	x.recorded = slices.DeleteFunc(x.recorded, func(e store.Entry) bool { return span.Contains(e.Loc) })
}

// Len returns how many are kept, undone or not.
func (x *Effects) Len() int { return len(x.list) }

// Held returns how many bytes of values are kept.
func (x *Effects) Held() int {
	n := 0
	for _, d := range x.list {
		n += len(d.value)
	}
	return n
}

// Any reports whether something was not undone.
func (x *Effects) Any() bool {
	return slices.ContainsFunc(x.list, func(d *Effect) bool { return !d.Undone })
}

// Newest returns what was not undone, the newest first.
func (x *Effects) Newest() []*Effect {
	list := slices.DeleteFunc(slices.Clone(x.list), func(d *Effect) bool { return d.Undone })
	slices.SortFunc(list, func(a, b *Effect) int { return cmp.Compare(b.seq, a.seq) })
	return list
}

// Within returns what was not undone in the scope of a saga, the newest first. Operations
// that have a key beside the scope's name are not in it.
func (x *Effects) Within(scope location.Loc) []*Effect {
	return slices.DeleteFunc(x.Newest(), func(d *Effect) bool { return !scope.Contains(d.Loc) || scope.Spans(d.Loc) })
}

// Value returns what the step or child has returned. fetch reads it where it was dropped.
func (d *Effect) Value(fetch func(loc string) ([]byte, error)) ([]byte, error) {
	if d.value != nil || d.size == 0 {
		return d.value, nil
	}
	value, err := fetch(string(d.Loc))
	if err != nil {
		return value, err
	}
	if d.kind != store.KindChild {
		var t stored.Tried
		t, err = stored.SplitTried(value)
		value = t.Value
		return value, err
	}
	link, err := stored.DecodeLink(store.Done, value)
	return link.Output, err
}

// Lacking is the divergence in which the code has no compensation for what the history
// says is owed, or nil.
func (x *Effects) Lacking() *journal.Stall {
	for _, d := range x.list {
		if d.Undo == nil && !d.Undone {
			return d.Lacking()
		}
	}
	return nil
}

// Lacking is the divergence in which the code has no compensation for the step.
func (d *Effect) Lacking() *journal.Stall {
	return &journal.Stall{
		Location: d.Loc.String(), Recorded: "a completed step that is owed its undoing",
		Asked:  "the step without a compensation",
		Remedy: "restore the step's Undo and resume the run, or terminate it, which lists what is owed",
	}
}

// List lists what is owed, as far as is known: first open, which has not ended and may have
// had an effect.
func (x *Effects) List(open []location.Loc) []string {
	var places []string
	for _, loc := range open {
		places = append(places, loc.String())
	}
	entries := slices.Clone(x.recorded)
	index := make(map[string]int, len(entries))
	for i := range entries {
		index[entries[i].Loc] = i
	}
	for _, d := range x.list {
		if i, recorded := index[string(d.Loc)]; recorded && !d.Undone {
			entries[i].Seq = d.seq // it may have had none
			continue
		}
		e := store.Entry{Loc: string(d.Loc), State: store.Done, Seq: d.seq, Owes: true}
		if d.Undone {
			e = store.Entry{Loc: string(history.UndoOf(d.Loc)), Kind: store.KindUndo, State: store.Done}
		}
		entries = append(entries, e)
	}
	return append(places, history.Owed(entries)...)
}
