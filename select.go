package stet

import (
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
)

// Case is one of the things that a Select waits for. Make one with Future.Case,
// Settled.Case, Promise.Case, Message.Case, Topic.Case, RunFuture.Case,
// AfterDelay or AtTime.
type Case struct {
	build func(Context) (runner.Case, error)
	won   func(Context, runner.Selected) error
}

// Case waits for the branch to end; read the outcome with Result.
func (f *Future[T]) Case() Case {
	return Case{build: func(Context) (runner.Case, error) { return runner.Case{Future: f.inner}, nil }}
}

// Case waits for the promise to be assigned; Await then returns at once.
func (p *Promise[T]) Case() Case {
	return Case{build: func(Context) (runner.Case, error) { return runner.Case{Promise: p.inner}, nil }}
}

// Case waits for a message and stores it in into if it wins. If it loses no
// message is consumed.
func (m Message[T]) Case(into *T, opts ...WaitOption) Case {
	var d *decoding[T]
	return Case{
		build: func(ctx Context) (runner.Case, error) {
			o, err := waitOptionsOf(string(m), opts)
			if err != nil {
				return runner.Case{}, err
			}
			d = decodingOf[T](ctx)
			r := o.receive(ctx, runner.Call{Name: o.as, Key: o.key, Shield: ctx.shield}, string(m), 1, d.check)
			return runner.Case{Receive: &r}, nil
		},
		won: func(ctx Context, s runner.Selected) (err error) {
			*into, err = d.result(ctx, string(m), s.Messages[0].Value)
			return err
		},
	}
}

// AfterDelay wins when d has passed since Now. The name makes the timer's location. A
// message, an assignment or the end of a run that was sent by then wins over it,
// one that was sent later has lost.
func AfterDelay(name string, d time.Duration) Case {
	return Case{build: func(ctx Context) (runner.Case, error) {
		call := runner.Call{Name: name, Shield: ctx.shield}
		return runner.Case{Timer: &runner.Timer{Call: call, At: ctx.branch.Now().Add(max(d, 0))}}, nil
	}}
}

// AtTime wins at t, like AfterDelay.
func AtTime(name string, t time.Time) Case {
	return Case{build: func(ctx Context) (runner.Case, error) {
		call := runner.Call{Name: name, Shield: ctx.shield}
		return runner.Case{Timer: &runner.Timer{Call: call, At: store.NotBefore(t)}}, nil
	}}
}

// Select waits for the first of the cases and returns its index. With several
// ready at the call the first in order wins; while waiting, the one that is
// ready first. The winner is the same in every replay, and what did not win is
// not lost. The error is ErrCancelled, ErrEmpty without cases, or, with the index of the
// case, ErrTimeout if a deadline that was given to the case with Within has won.
func Select(ctx Context, cases ...Case) (int, error) {
	if len(cases) == 0 {
		return -1, ErrEmpty
	}
	call := ctx.call("select", "")
	inner := make([]runner.Case, len(cases))
	for i, c := range cases {
		var err error
		if inner[i], err = c.build(ctx); err != nil {
			return -1, err
		}
		if r := inner[i].Receive; r != nil {
			r.Call.Site = call.Site
		}
		if e := inner[i].Event; e != nil {
			e.Call.Site = call.Site
		}
		if t := inner[i].Timer; t != nil {
			t.Call.Site = call.Site
		}
	}
	won, err := ctx.branch.Select(call, inner)
	if err != nil {
		return -1, ctx.seen(err)
	}
	if won.TimedOut {
		return won.Index, ErrTimeout
	}
	if then := cases[won.Index].won; then != nil {
		err = then(ctx, won)
	}
	return won.Index, err
}
