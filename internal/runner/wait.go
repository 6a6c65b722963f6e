package runner

import (
	"slices"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// source is something that settles once and can be waited for: an operation or
// a future.
type source struct {
	settled bool
	waiters []*wait  // in the order of waiting
	one     [1]*wait // room for the first
}

// wait is a one-shot cell in which one branch is blocked. It is filled by the
// first of its sources, by a cancel, or by the end of the code it waits for.
type wait struct {
	branch  *Branch
	sources []*source
	ops     []*op // those of the sources that are operations
	group   *group
	// deadline is that of the earliest timer beside what comes by the inbox: what
	// was sent later has lost. 0: none.
	deadline store.Time
	forCode  bool // waits only for the code of the branch's own branches
	shield   bool

	oneSource [1]*source // room for what sources and ops of most waits are
	oneOp     [1]*op

	filled bool
	winner *source // nil: cancelled, or the code has ended
	err    error
}

// newWait returns the branch's wait, empty. A branch is in one wait at a time, and
// nothing refers to one that is over.
func (b *Branch) newWait(call Call) *wait {
	w := &b.ownWait
	*w = wait{branch: b, shield: call.Shield}
	w.sources, w.ops = w.oneSource[:0], w.oneOp[:0]
	return w
}

// fill wakes the branch. A wake once given is not taken back.
func (w *wait) fill(winner *source, err error) {
	if w.filled {
		return
	}
	w.filled, w.winner, w.err = true, winner, err
	r := w.branch.run
	if len(w.ops) > 0 {
		r.opWaits--
	}
	if !r.dropped || w.branch == r.undo.payer {
		r.ready.push(w.branch)
	}
}

// settle marks a source and wakes who waits for it.
func (r *Run) settle(s *source) {
	s.settled = true
	waiters := s.waiters
	s.waiters = nil
	for _, w := range waiters {
		w.fill(s, nil)
	}
}

// cancel is the cancel of the waiting branch. A step that must be seen to its
// end keeps its branch waiting; who waits for code is woken by its end.
func (w *wait) cancel() {
	if w.shield || w.branch.shielded || w.forCode {
		return
	}
	if w.group != nil {
		w.group.cancelled()
		return
	}
	for _, o := range w.ops {
		if o.whole {
			o.cancelKept()
			return
		}
		if !o.lasting() {
			o.close()
		}
	}
	w.fill(nil, ErrCancelled)
}

// block waits for the first of the sources, in a branch that may ask for it. The
// one that is settled already and first in the order of arguments wins at once. A
// nil winner comes with an error.
func (b *Branch) block(w *wait) (*source, error) {
	for _, s := range w.sources {
		if s.settled {
			return s, nil
		}
	}
	for _, s := range w.sources {
		if s.waiters == nil {
			s.waiters = s.one[:0]
		}
		s.waiters = append(s.waiters, w)
	}
	if len(w.ops) > 0 {
		b.run.opWaits++
	}
	for _, o := range w.ops {
		b.run.expect(o)
	}
	b.wait = w
	b.park()
	b.wait = nil
	for _, s := range w.sources {
		s.forget(w)
	}
	return w.winner, w.err
}

// forget removes a wait that is over, so that a source that many have waited for
// in vain does not grow. The newest are last.
func (s *source) forget(w *wait) {
	for i := len(s.waiters) - 1; i >= 0; i-- {
		if s.waiters[i] == w {
			s.waiters = slices.Delete(s.waiters, i, i+1)
			return
		}
	}
}

// Await waits for a future's value. A settled one gives it also in a cancelled
// branch.
func (b *Branch) Await(call Call, f *Future) (any, error) {
	if err := b.check(call); err != nil {
		return nil, err
	}
	if f.settled {
		return f.Result()
	}
	if err := b.refuse(call); err != nil {
		return nil, err
	}
	w := b.newWait(call)
	w.sources = append(w.sources, &f.source)
	if _, err := b.block(w); err != nil {
		return nil, err
	}
	return f.Result()
}

// Case is one of the things that a Select waits for; exactly one field is set.
type Case struct {
	Future  *Future
	Promise *Promise
	Other   *Other
	Receive *Receive
	Event   *Event
	Timer   *Timer
}

// Selected is the winner of a Select.
type Selected struct {
	Index    int
	Messages []stored.Message // of a Receive
	Event    *event.Delivery
	Value    []byte          // of a Promise or Other
	Failure  *stored.Failure // of a Promise or Other
}

// Select waits for the first of the cases; what did not win is not lost. With
// several ready at the call the first in order wins, while blocked the one that
// settles first.
func (b *Branch) Select(call Call, cases []Case) (Selected, error) {
	if err := b.enter(call); err != nil {
		return Selected{}, err
	}
	for i, c := range cases {
		if c.Future != nil && c.Future.settled || c.Promise != nil && c.Promise.op.settled || c.Other != nil && c.Other.op.settled {
			return c.selected(i, nil), nil
		}
	}
	w := b.newWait(call)
	ops := make([]*op, len(cases))
	for i, c := range cases {
		switch {
		case c.Future != nil:
			w.sources = append(w.sources, &c.Future.source)
			continue
		case c.Promise != nil:
			ops[i] = c.Promise.op
		case c.Other != nil:
			b.owns(c.Other)
			ops[i] = c.Other.op
		case c.Receive != nil:
			ops[i] = b.receiveOp(*c.Receive)
		case c.Event != nil:
			ops[i] = b.eventOp(*c.Event)
		case c.Timer != nil:
			ops[i] = b.timerOp(c.Timer.Call, timerKind, c.Timer.At)
		}
		w.sources = append(w.sources, &ops[i].source)
		w.ops = append(w.ops, ops[i])
	}
	w.bound(cases, ops)
	winner, err := b.block(w)
	index := -1
	for i, o := range ops {
		if winner != nil && w.sources[i] == winner {
			if index < 0 {
				index = i
			}
		} else if o != nil && !o.lasting() {
			o.close()
		}
	}
	if err != nil {
		return Selected{}, err
	}
	return cases[index].selected(index, ops[index]), nil
}

// bound gives a wait the deadline of its timers, if it waits for the inbox too.
// They are then handed over only when the inbox has been read to that time.
func (w *wait) bound(cases []Case, ops []*op) {
	inbox := false
	for _, c := range cases {
		inbox = inbox || c.Promise != nil || c.Receive != nil || c.Other != nil || c.Event != nil
	}
	for i, c := range cases {
		if c.Timer == nil || !inbox {
			continue
		}
		ops[i].inbox = true
		if d := ops[i].deadline; w.deadline == 0 || d < w.deadline {
			w.deadline = d
		}
	}
}

// late reports whether what was sent at that time has lost against the deadline
// of somebody who waits for the operation. That is handed over first.
func (o *op) late(sent store.Time) bool {
	for _, w := range o.waiters {
		if !w.filled && w.deadline != 0 && sent > w.deadline {
			return true
		}
	}
	return false
}

func (c Case) selected(index int, o *op) Selected {
	s := Selected{Index: index}
	switch {
	case c.Promise != nil:
		s.Value, s.Failure = c.Promise.op.value, c.Promise.op.failure
	case c.Other != nil:
		s.Value, s.Failure = c.Other.op.value, c.Other.op.failure
	case c.Receive != nil:
		s.Messages = o.messages
	case c.Event != nil:
		s.Event = o.event.given
	}
	return s
}
