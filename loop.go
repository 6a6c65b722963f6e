package stet

import (
	"fmt"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
)

// Next says how a Loop goes on: with Continue or Break. The zero Next says
// neither, and goes with an error.
type Next[S, R any] struct {
	step  nextStep
	state S
	value R
}

type nextStep uint8

const (
	nextMissing nextStep = iota
	nextContinue
	nextBreak
)

// Continue returns a Next that begins another iteration with the state.
func (Next[S, R]) Continue(state S) Next[S, R] { return Next[S, R]{step: nextContinue, state: state} }

// Break returns a Next that ends the loop with the value.
func (Next[S, R]) Break(value R) Next[S, R] { return Next[S, R]{step: nextBreak, value: value} }

// LoopOption is an option of Loop: LoopOptions, or a Key.
type LoopOption interface{ applyLoop(*loopOptions) }

type loopOptions struct {
	LoopOptions
	key string
}

// LoopOptions say how a Loop keeps its state and its history. In every field 0 is
// the default. They may be changed while runs are under way.
type LoopOptions struct {
	// Every is the number of iterations after which the state is committed and old
	// history is pruned. A larger number writes less, and keeps up to so many
	// iterations more between two commits. Default 10.
	Every int
	// Keep is the number of completed iterations that keep their history after each
	// commit of the state. A run can be rewound into a kept iteration. Default 10;
	// None: no iteration.
	Keep int
	// ForgetUndo prunes iterations also when a compensation of theirs is owed, which
	// is then never executed.
	ForgetUndo bool
}

func (l LoopOptions) applyLoop(o *loopOptions) { o.LoopOptions = l }

func (k Key) applyLoop(o *loopOptions) { o.key = string(k) }

// Loop calls body with the state until it breaks, and returns the value that it
// breaks with, or the error of the body. It is how a run does work without an
// end: the history of old iterations is pruned, so that a million of them need no
// more memory and storage than twenty.
//
//	type next = stet.Next[Cursor, int]
//	seen, err := stet.Loop(ctx, "poll", Cursor{}, func(ctx stet.Context, c Cursor) (n next, err error) {
//		page, err := stet.Step(ctx, "fetch", func(ctx context.Context) (Page, error) { return feed.After(ctx, c.ID) })
//		switch {
//		case err != nil:
//			return n, err
//		case page.Last:
//			return n.Break(c.Seen), nil
//		}
//		return n.Continue(Cursor{page.ID, c.Seen + len(page.Items)}), nil
//	})
//
// The state is all that an iteration knows of the former ones: the body must not
// assign to variables outside of it, because after a crash the loop begins with
// the oldest iteration that is kept. The state passes the codec from one iteration
// to the next. The names of operations are counted anew in each iteration, so
// the same name in each is no repetition. What an iteration has begun (branches,
// local resources) ends with it.
//
// After every 10 iterations (LoopOptions.Every) the state is committed, in the same
// commit as the last completion and without waiting for it. Exactly the last 10
// completed iterations (LoopOptions.Keep) are kept. From the first iteration on that
// owes a compensation nothing is pruned, unless LoopOptions.ForgetUndo is set. Pruned
// iterations do not count for the budget of the run (Config.MaxEntries,
// Config.MaxBytes); a promise that was made in one counts as ended.
//
// In a cancelled branch Loop returns ErrCancelled, also when body ignores it. A
// state that cannot be encoded or is over Config.MaxValue stalls the run (see OnBug); with
// FailOnBug it is an error of Loop, as a zero Next without an error is. Every below 1 and
// Keep below None are ErrInvalid.
func Loop[S, R any](
	ctx Context, name string, state S, body func(Context, S) (Next[S, R], error), opts ...LoopOption,
) (R, error) {
	var value R
	ctx.needs(body != nil, "loop", name)
	o := loopOptions{}
	for _, opt := range opts {
		opt.applyLoop(&o)
	}
	pick(&o.Every, 10)
	pick(&o.Keep, 10)
	if o.Every < 1 || o.Keep < None {
		return value, fmt.Errorf("loop %q: expected Every of 1 or more and Keep of 1 or more or None, found %d and %d: %w",
			name, o.Every, o.Keep, ErrInvalid)
	}
	codecs := ctx.env.engine.codecs
	first, err := codecs.encode(state)
	if err != nil {
		return value, ctx.unencodable(loopFailure(name, err))
	}
	err = ctx.branch.Loop(runner.Loop{
		Call: ctx.call(name, o.key), State: first,
		Every: int64(o.Every), Keep: int64(max(o.Keep, 0)), ForgetUndo: o.ForgetUndo,
		Body: func(_ int64, data []byte) ([]byte, bool, error) {
			state, err := decodeAs[S](codecs, data)
			if err != nil {
				ctx.branch.Undecodable(undecodable[S]("state of loop "+name, data, err), false)
				return nil, false, loopFailure(name, err)
			}
			next, err := body(ctx, state)
			err = ctx.inside("an iteration of loop "+name, err)
			switch {
			case err != nil:
				return nil, false, err
			case next.step == nextBreak:
				value = next.value
				return nil, false, nil
			case next.step == nextMissing:
				return nil, false, fmt.Errorf("loop %q: expected Continue or Break, found a zero Next without an error: %w", name,
					ErrInvalid)
			}
			data, err = codecs.encode(next.state)
			if err != nil {
				err = ctx.unencodable(loopFailure(name, err))
			}
			return data, true, err
		},
	})
	return value, ctx.seen(err)
}

func loopFailure(name string, err error) error {
	return &Failure{Code: stored.CodeEncoding, Message: "state of loop " + name + ": " + err.Error(), Cause: err}
}
