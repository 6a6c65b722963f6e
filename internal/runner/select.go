package runner

import (
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/runner/topics"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Case is one of the things that a Select waits for; exactly one field is set.
type Case struct {
	Future  *Future
	Settled *Settled
	Promise *Promise
	Run     *RunFuture
	Receive *Receive
	Event   *Event
	Timer   *Timer
}

// Selected is the winner of a Select.
type Selected struct {
	Index    int
	Future   *Future          // of a Settled; nil: none is left in it
	Messages []stored.Message // of a Receive
	Event    *event.Delivery
	Value    []byte          // of a Promise or Run
	Failure  *stored.Failure // of a Promise or Run
	TimedOut bool            // of a Receive or Event: its own deadline has won
}

// Select waits for the first of the cases; what did not win is not lost. With
// several ready at the call the first in order wins, while blocked the one that
// settles first.
func (b *Branch) Select(call Call, cases []Case) (Selected, error) {
	if err := b.Enter(call); err != nil {
		return Selected{}, err
	}
	for _, c := range cases {
		if c.Future != nil {
			b.Owns(c.Future)
		}
		if c.Settled != nil {
			b.OwnsSettled(c.Settled)
		}
		if c.Promise != nil {
			b.ownsPromise(c.Promise)
		}
		if c.Run != nil {
			b.run.runs.Owns(&b.Branch, c.Run)
		}
	}
	for i, c := range cases {
		if c.Future != nil && c.Future.Settled() || c.Promise != nil && c.Promise.op.Settled() ||
			c.Run != nil && c.Run.Settled() {
			if c.Promise != nil {
				b.Reach(c.Promise.op.Loc)
			}
			return c.selected(i, nil), nil
		}
		if c.Settled != nil && c.Settled.HasNext() {
			return Selected{Index: i, Future: b.Take(c.Settled).Future()}, nil
		}
	}
	w := b.NewWait(call)
	var takers map[int]*sched.Taker // of cases
	ops, sources := make([]*journal.Op, len(cases)), make([]*sched.Source, len(cases))
	for i, c := range cases {
		switch {
		case c.Future != nil:
			sources[i] = &c.Future.Source
			w.Add(sources[i])
			continue
		case c.Settled != nil:
			if takers == nil {
				takers = map[int]*sched.Taker{}
			}
			takers[i] = b.Take(c.Settled)
			sources[i] = &takers[i].Source
			w.Add(sources[i])
			continue
		case c.Promise != nil:
			ops[i] = &c.Promise.op.Op
		case c.Run != nil:
			ops[i] = b.run.runs.Op(&b.Branch, c.Run)
		case c.Receive != nil:
			o := b.receiveOp(*c.Receive)
			ops[i] = &o.Op
		case c.Event != nil:
			ops[i] = b.run.topics.Op(&b.Branch, *c.Event)
		case c.Timer != nil:
			o := b.timerOp(c.Timer.Call, store.KindTimer, c.Timer.At)
			ops[i] = &o.Op
		}
		sources[i] = &ops[i].Source
		w.Add(sources[i])
	}
	w.Deadline = deadlineOf(cases, ops)
	winner, err := b.Block(w)
	index := -1
	for i, o := range ops {
		if winner != nil && sources[i] == winner {
			if index < 0 {
				index = i
			}
		} else if o != nil {
			o.Is.Abandon()
		}
	}
	for _, t := range takers {
		t.Leave() // the winner has left
	}
	if err != nil {
		return Selected{}, err
	}
	if t := takers[index]; t != nil {
		return Selected{Index: index, Future: t.Future()}, nil
	}
	if ops[index] != nil {
		b.Reach(ops[index].Loc)
	}
	return cases[index].selected(index, ops[index]), nil
}

// deadlineOf returns the earliest deadline of the timers, and of the waits that have one
// of their own, if there are cases that come by the inbox; otherwise 0. The timers are then
// handed over only when the inbox has been read to that time.
func deadlineOf(cases []Case, ops []*journal.Op) (deadline store.Time) {
	inbox := false
	for _, c := range cases {
		inbox = inbox || c.Promise != nil || c.Receive != nil || c.Run != nil || c.Event != nil
	}
	for i, c := range cases {
		switch {
		case c.Timer != nil && inbox:
			ops[i].Is.(*timerOp).inbox = true
		case c.Receive == nil && c.Event == nil || ops[i].Deadline == 0:
			continue
		}
		if d := ops[i].Deadline; deadline == 0 || d < deadline {
			deadline = d
		}
	}
	return deadline
}

func (c Case) selected(index int, o *journal.Op) Selected {
	s := Selected{Index: index}
	switch {
	case c.Promise != nil:
		s.Value, s.Failure = c.Promise.op.Value, c.Promise.op.Failure
	case c.Run != nil:
		s.Value, s.Failure = c.Run.Result()
	case c.Receive != nil:
		s.Messages, s.TimedOut = o.Is.(*receiveOp).messages, o.Failure != nil
	case c.Event != nil:
		s.Event, s.TimedOut = topics.Given(o), o.Failure != nil
	}
	return s
}
