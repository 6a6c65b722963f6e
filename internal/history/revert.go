package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Takeback says what a retry or a rewind takes back of a history. It is computed
// from the history alone; nothing is executed.
//
// # What goes, what opens, what stands
//
// The cut is a completion number: completions below it stand, the others are
// taken back. Of the entries
//
//   - one that was asked for at or after the cut (Born) is gone: code that stands
//     does not ask for it;
//   - one that was asked for before the cut and completed at or after it is open
//     again, with what it had handed out (key, token, child), because code that
//     stands asks for it;
//   - the others stay as they are; but a child that was cancelled after the cut,
//     because nobody waited for it any more, is begun again when it is awaited
//     again, unless it has ended otherwise.
//
// A rewind to a location takes that back altogether: its own entry and what is
// inside it is gone as well, so that it is redone anew. Except what takes effect
// when it is asked for and not when it completes (promises, children, watches,
// versions): of these those that the standing code asks for are kept, or open
// again. A replay could not tell a new one from one that was inserted.
//
// A retry cuts at the failed record, and opens that too.
type Takeback struct {
	Cut      int64
	Prune    []store.Span
	Rewrites []store.Entry
	Returned []store.Item // what it has consumed, by number
	Children []string     // IDs of those begun there that end with their parent
	// Sends is what topics and queues are told: of events that were taken, of waits
	// that stood, and of permits. Of fills in whose they were.
	Sends []store.Command
	taken []event.Delivery

	Completions int // taken back
	Deleted     int // entries
	Reopened    int
}

// Refusal is why something cannot be done to a history.
type Refusal string

// Error returns the reason.
func (r Refusal) Error() string { return string(r) }

func refuseTo(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// past is a history that is to be changed.
type past struct {
	entries []store.Entry // in the order of locations, with values
	last    int64         // completion number
	loops   map[location.Loc]stored.LoopProgress
	born    map[location.Loc]int64 // of the loops
}

func newPast(entries []store.Entry) (*past, error) {
	p := &past{entries: entries, loops: map[location.Loc]stored.LoopProgress{}, born: map[location.Loc]int64{}}
	for i := range entries {
		e := &entries[i]
		p.last = max(p.last, e.Seq)
		if e.Kind != store.KindLoop || isIteration(e.Loc) {
			continue
		}
		progress, err := stored.DecodeLoop(e.Value)
		if err != nil {
			return nil, fmt.Errorf("entry %s: %w", location.Loc(e.Loc), err)
		}
		p.loops[location.Loc(e.Loc)], p.born[location.Loc(e.Loc)] = progress, e.Born
	}
	return p, nil
}

// isIteration reports whether a location is of a loop's iteration.
func isIteration(loc string) bool { return strings.HasPrefix(location.Loc(loc).Base(), "~") }

// lasting reports whether an operation takes effect when it is asked for.
func lasting(kind store.Kind) bool {
	switch kind {
	case store.KindPromise, store.KindChild, store.KindRun, store.KindVersion, store.KindPublish:
		return true
	}
	return false
}

// Rewind returns what a rewind to before a location takes back; the root is all of
// the run. entries are those of the run's incarnation in the order of locations,
// with values. A Refusal says why it cannot be; another error that something
// cannot be read.
func Rewind(entries []store.Entry, at location.Loc, now store.Time) (*Takeback, error) {
	p, err := newPast(entries)
	if err != nil {
		return nil, err
	}
	inside := func(e *store.Entry) bool { return e.Loc == string(at) || at == "" || at.Contains(location.Loc(e.Loc)) }
	cut, err := p.cutAt(at, inside)
	if err != nil {
		return nil, err
	}
	if err := p.allows(cut, at); err != nil {
		return nil, err
	}
	return p.takeBack(cut, now, func(e *store.Entry) bool {
		switch {
		case !inside(e), e.Loc == string(at) && isIteration(e.Loc):
			return false
		case e.Kind == store.KindVersion:
			return at == ""
		}
		return !lasting(e.Kind)
	}, false)
}

// cutAt returns the completion number of a location, or the first inside it.
func (p *past) cutAt(at location.Loc, inside func(*store.Entry) bool) (int64, error) {
	for loop, n := range at.Loops() {
		if oldest := p.loops[loop].Oldest; n < oldest {
			return 0, refuseTo("the history of %s before iteration %d is pruned", loop, oldest)
		}
	}
	var cut int64
	found, open := at == "", at == ""
	for i := range p.entries {
		e := &p.entries[i]
		if !inside(e) {
			continue
		}
		found, open = true, open || e.State != store.Withdrawn
		if entered := e.Loc == string(at) && isIteration(e.Loc); e.Seq > 0 && !entered && (cut == 0 || e.Seq < cut) {
			cut = e.Seq
		}
	}
	switch {
	case !found:
		return 0, p.unknown(at)
	case !open:
		return 0, refuseTo("%s was withdrawn before it completed, and has no place in the order: name what completed", at)
	case cut == 0:
		cut = p.last + 1
	}
	return cut, nil
}

func (p *past) unknown(at location.Loc) error {
	known := make([]location.Loc, len(p.entries))
	for i := range p.entries {
		known[i] = location.Loc(p.entries[i].Loc)
	}
	text := fmt.Sprintf("unknown location %s: nothing is recorded there", at)
	for i, near := range location.Nearest(at, known, 3) {
		if text += ", "; i == 0 {
			text += "nearest are "
		}
		text += near.String()
	}
	return Refusal(text)
}

// allows reports whether the history can be cut there.
func (p *past) allows(cut int64, at location.Loc) error {
	for loop, progress := range p.loops {
		if progress.Oldest > 0 && p.born[loop] < cut && cut <= progress.Number {
			return refuseTo("the cut lies in pruned history: of %s the iterations before %d are gone", loop, progress.Oldest)
		}
	}
	if earliest := p.compensated(); earliest != nil && cut > earliest.Seq {
		return refuseTo("it has undone %s, completion %d: it can be rewound to before that only, and %s is completion %d",
			location.Loc(earliest.Loc), earliest.Seq, at, cut)
	}
	return nil
}

// compensated returns the step with the lowest number whose compensation is
// recorded, or nil.
func (p *past) compensated() *store.Entry {
	var earliest *store.Entry
	for i := range p.entries {
		if p.entries[i].Kind != store.KindUndo {
			continue
		}
		step := p.at(string(location.Loc(p.entries[i].Loc).Parent()))
		if step != nil && (earliest == nil || step.Seq < earliest.Seq) {
			earliest = step
		}
	}
	return earliest
}

// at returns the entry at a location, or nil.
func (p *past) at(loc string) *store.Entry {
	i, found := slices.BinarySearchFunc(p.entries, loc, func(e store.Entry, loc string) int { return strings.Compare(e.Loc, loc) })
	if !found {
		return nil
	}
	return &p.entries[i]
}

// Retry returns what a retry of a failed run takes back: the record that its
// failure wraps, else the failed one with the highest number, and all that
// completed since. A Refusal says why it cannot be.
func Retry(run *store.Run, entries []store.Entry, now store.Time) (*Takeback, location.Loc, error) {
	p, err := newPast(entries)
	if err != nil {
		return nil, "", err
	}
	if run.Marks&store.Undoing != 0 || slices.ContainsFunc(entries, func(e store.Entry) bool { return e.Kind == store.KindUndo }) {
		return nil, "", Refusal("its undoing has begun: it can be rewound to before what is undone, and not retried")
	}
	failed, err := p.failed(run)
	if err != nil {
		return nil, "", err
	}
	at := location.Loc(failed.Loc)
	if err := p.allows(failed.Seq, at); err != nil {
		return nil, "", err
	}
	tb, err := p.takeBack(failed.Seq, now, func(*store.Entry) bool { return false }, true)
	return tb, at, err
}

// failed returns the record that a run's failure wraps, of several the one with
// the lowest number; else the failed one with the highest.
func (p *past) failed(run *store.Run) (*store.Entry, error) {
	var wrapped, last *store.Entry
	if failure, err := stored.DecodeFailure(run.Output); err == nil {
		places := map[string]*stored.Failure{}
		collect(failure, places)
		for i := range p.entries {
			e := &p.entries[i]
			if e.State != store.FailedEntry || e.Seq == 0 {
				continue
			}
			if last == nil || e.Seq > last.Seq {
				last = e
			}
			f := places[location.Loc(e.Loc).String()]
			if f != nil && f.Attempts == e.Attempt && (wrapped == nil || e.Seq < wrapped.Seq) {
				wrapped = e
			}
		}
	}
	if wrapped != nil {
		return wrapped, nil
	}
	if last == nil {
		return nil, Refusal("no operation of it has failed, its function itself did: mend the code, then rewind it")
	}
	return last, nil
}

// collect notes by location f and the failures that it wraps.
func collect(f *stored.Failure, into map[string]*stored.Failure) {
	if f == nil {
		return
	}
	if f.Location != "" {
		into[f.Location] = f
	}
	collect(f.Cause, into)
	for _, cause := range f.Causes {
		collect(cause, into)
	}
}

// takeBack takes back what is not below the cut. also says what else goes. same
// says that what is redone has the identity that it had.
func (p *past) takeBack(cut int64, now store.Time, also func(*store.Entry) bool, same bool) (*Takeback, error) {
	t := &Takeback{Cut: cut}
	kept := true // the entry before
	for i := range p.entries {
		e := &p.entries[i]
		taken := e.Seq >= cut
		gone := e.Born >= cut || also(e) || taken && (e.Kind == store.KindCancel || e.Kind == store.KindLoop)
		var open store.Entry
		var err error
		switch {
		case gone:
		case taken:
			if open, err = reopened(e, now); err != nil {
				return nil, err
			}
			gone = open.Loc == ""
		case e.Kind == store.KindChild && e.State == store.Withdrawn:
			if open, err = dropped(e, cut); err != nil {
				return nil, err
			}
		case e.Kind == store.KindLoop && !isIteration(e.Loc):
			if open, err = p.shortened(e, cut); err != nil {
				return nil, err
			}
		}
		if taken {
			t.Completions++
		}
		if gone || taken {
			if err := t.giveBack(e, gone && !same); err != nil {
				return nil, err
			}
		}
		switch {
		case gone && kept:
			t.Prune = append(t.Prune, spanOf(e.Loc))
		case gone:
			t.Prune[len(t.Prune)-1].To = spanOf(e.Loc).To
		case open.Loc != "":
			t.Rewrites = append(t.Rewrites, open)
		}
		if gone {
			t.Deleted++
		} else if taken {
			t.Reopened++
		}
		kept = !gone
	}
	slices.SortFunc(t.Returned, func(a, b store.Item) int { return int(a.No - b.No) })
	return t, nil
}

// spanOf returns the span of one location without what is inside it.
func spanOf(loc string) store.Span {
	if len(loc) < store.MaxLocation {
		return store.Span{From: loc, To: loc + "\x00"}
	}
	b := []byte(loc) // nothing is inside it; no location ends with the highest byte
	b[len(b)-1]++
	return store.Span{From: loc, To: string(b)}
}

// reopened returns an entry as it was before it completed, with what it had
// handed out, or an empty one if it has handed out nothing.
func reopened(e *store.Entry, now store.Time) (store.Entry, error) {
	open := store.Entry{Loc: e.Loc, Kind: e.Kind, State: store.Open, Born: e.Born, Generation: e.Generation, Started: e.Started}
	switch e.Kind {
	case store.KindStep:
		open.Started, open.Value = 0, stored.Progress{Since: now}.Encode() // of its fresh attempts
	case store.KindEvent:
		open.State = store.Withdrawn // it is registered anew
	case store.KindChild, store.KindRun:
		l, err := stored.DecodeLink(e.State, e.Value)
		if err != nil {
			return open, fmt.Errorf("entry %s: %w", location.Loc(e.Loc), err)
		}
		if l.RunID == "" {
			return store.Entry{}, nil // nothing was begun
		}
		// It asks anew how the other run has ended.
		open.State, open.Value = store.Withdrawn, stored.Link{
			RunID: l.RunID, Workflow: l.Workflow, Leave: l.Leave, Detached: l.Detached, Key: l.Key, Again: l.Again, Former: l.Former,
		}.Encode()
	}
	return open, nil
}

// dropped returns the entry of a child that was cancelled because nobody waited for
// it any more, if that is taken back, as it is until the child is begun again; else an
// empty one.
func dropped(e *store.Entry, cut int64) (store.Entry, error) {
	l, err := stored.DecodeLink(e.State, e.Value)
	if err != nil {
		return store.Entry{}, fmt.Errorf("entry %s: %w", location.Loc(e.Loc), err)
	}
	if l.Dropped <= cut {
		return store.Entry{}, nil
	}
	again := *e
	again.Size, again.Value = 0, stored.Link{Workflow: l.Workflow, Again: l.Again + 1, Former: l.RunID}.Encode()
	return again, nil
}

// shortened returns the entry of a loop as it stands with the cut, or an empty one
// if it stays as it is.
func (p *past) shortened(e *store.Entry, cut int64) (store.Entry, error) {
	progress := p.loops[location.Loc(e.Loc)]
	from, to := location.Loc(e.Loc).Iterations()
	reached := progress.Oldest
	for i := range p.entries {
		inner := &p.entries[i]
		if inner.Loc < from || inner.Loc >= to || inner.Seq == 0 || inner.Seq >= cut {
			continue
		}
		for loop, n := range location.Loc(inner.Loc).Loops() {
			if string(loop) == e.Loc {
				reached = max(reached, n)
			}
		}
	}
	if reached >= progress.Completed {
		return store.Entry{}, nil
	}
	progress.Completed = reached
	open := *e
	open.Size, open.Value = 0, progress.Encode()
	return open, nil
}

// giveBack notes what an entry that is taken back has consumed and begun. anew says
// that what it had handed out is worth nothing any more.
func (t *Takeback) giveBack(e *store.Entry, anew bool) error {
	bad := func(err error) error { return fmt.Errorf("entry %s: %w", location.Loc(e.Loc), err) }
	switch e.Kind {
	case store.KindReceive:
		if e.State != store.Done {
			return nil
		}
		messages, err := stored.DecodeReceipt(e.Value)
		if err != nil {
			return bad(err)
		}
		for _, m := range messages {
			kind := store.ItemMessage
			if m.Update {
				kind = store.ItemUpdate
			}
			t.Returned = append(t.Returned, store.Item{Kind: kind, No: m.No, Name: m.Name, ID: m.ID, Sent: m.Sent, Value: m.Value, Headers: m.Headers})
		}
	case store.KindStep:
		if _, back, ok := Unpermitted(e); ok {
			t.Sends = append(t.Sends, back)
		}
	case store.KindEvent:
		return t.giveBackEvent(e)
	case store.KindPromise:
		if anew || e.State != store.Done && e.State != store.FailedEntry {
			return nil // its resolution was for a token that nobody awaits
		}
		t.Returned = append(t.Returned, store.Item{
			Kind: store.ItemResolution, Generation: e.Generation, Loc: e.Loc, Failed: e.State == store.FailedEntry, Sent: e.At, Value: e.Value,
		})
	case store.KindChild:
		if !anew || e.State != store.Open {
			return nil
		}
		l, err := stored.DecodeLink(e.State, e.Value)
		if err != nil {
			return bad(err)
		}
		if !l.Leave && !l.Detached {
			t.Children = append(t.Children, l.RunID)
		}
	}
	return nil
}

// giveBackEvent notes the event that an entry has taken, or the wait that it has
// registered.
func (t *Takeback) giveBackEvent(e *store.Entry) error {
	var d event.Delivery
	var w event.Wait
	var err error
	switch e.State {
	case store.Done:
		if err = event.Decode(e.Value, &d); err == nil && (d.Key != "" || d.Event.Mode == event.Broadcast) {
			t.taken = append(t.taken, d)
		}
	case store.Open:
		if err = event.Decode(e.Value, &w); err == nil {
			t.Sends = append(t.Sends, event.Withdraw(w.Topic, w.Key))
		}
	}
	if err != nil {
		return fmt.Errorf("entry %s: %w", location.Loc(e.Loc), err)
	}
	return nil
}

// Of fills in of the items what depends on the run and its incarnation.
func (t *Takeback) Of(run *store.Run) *Takeback {
	for i := range t.taken {
		t.Sends = append(t.Sends, event.GiveBack(run, &t.taken[i]))
	}
	for i := range t.Returned {
		if it := &t.Returned[i]; it.Kind == store.ItemResolution {
			it.Incarnation = run.Incarnation
			it.ID = stored.ResolutionID(it.Loc, run.Incarnation, it.Generation)
		}
	}
	return t
}

// Apply returns the history as it is afterwards.
func (t *Takeback) Apply(entries []store.Entry) []store.Entry {
	rewritten := map[string]store.Entry{}
	for _, e := range t.Rewrites {
		rewritten[e.Loc] = e
	}
	var stands []store.Entry
	for _, e := range entries {
		if slices.ContainsFunc(t.Prune, func(s store.Span) bool { return s.Contains(e.Loc) }) {
			continue
		}
		if r, ok := rewritten[e.Loc]; ok {
			e = r
			e.Size = len(e.Value)
		}
		stands = append(stands, e)
	}
	return stands
}

// String says in words what is taken back.
func (t *Takeback) String() string {
	text := fmt.Sprintf("%d completions from number %d on, %d entries deleted, %d open again", t.Completions, t.Cut, t.Deleted, t.Reopened)
	if n := len(t.Returned); n > 0 {
		text += fmt.Sprintf(", %d items back in the inbox", n)
	}
	if n := len(t.taken); n > 0 {
		text += fmt.Sprintf(", %d events back at their topics", n)
	}
	if n := len(t.Children); n > 0 {
		text += fmt.Sprintf(", %d children cancelled", n)
	}
	return text
}

// Cancels returns the commands that cancel the children that the reverted part of the
// history has begun. newID makes IDs of items.
func (t *Takeback) Cancels(newID func() string) []store.Command {
	var cancels []store.Command
	for _, child := range t.Children {
		cancels = append(cancels, cancelChild(child, newID(), "its parent was rewound to before it"))
	}
	return cancels
}
