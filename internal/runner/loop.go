package runner

import (
	"fmt"

	"github.com/stet-run/stet/internal/fifo"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Loop asks for a loop: Body is called with the state that its last call has
// returned, until it returns false or an error.
//
// # What is kept
//
// After every Every iterations at most the last Keep of them keep their history;
// what lies before is pruned in the turn that records the last completion of the
// iteration. For a replay to begin where the kept history begins, that iteration
// was entered by a hand-over: it has an entry at its own location with a number,
// a time and the state that it began with. So every Every-th iteration is
// entered like that; the others begin where the one before ends. A hand-over
// comes when all branches are blocked, so what other branches had done by then
// is the same in a replay that knows nothing of the iterations before.
//
// The entry at the loop's location says which iteration is the oldest. It is
// never final: what is pruned grows.
type Loop struct {
	Call  Call
	Every int64 // at least 1
	Keep  int64 // at least 0
	// ForgetUndo prunes also what owes a compensation. Without it nothing is pruned
	// from the first iteration on that owes one.
	ForgetUndo bool
	State      []byte // of iteration 0
	Body       func(n int64, state []byte) (next []byte, more bool, err error)
}

// loop is a Loop at work.
type loop struct {
	Loop
	branch    *Branch
	op        *loopOp // at its location
	completed int64
	kept      []*journal.Segment // the oldest first
}

// loopOp is the record of a loop, or the entry to an iteration of it.
type loopOp struct{ op }

func (o *loopOp) Start() {
	if o.StartsNow() {
		o.run.loops.entering.Push(o)
	}
}

// Loop executes a loop. It returns the error of the body, or ErrCancelled.
func (b *Branch) Loop(spec Loop) error {
	if err := b.Enter(spec.Call); err != nil {
		return err
	}
	l := &loop{Loop: spec, branch: b, op: new(loopOp)}
	b.declare(&l.op.op, l.op, spec.Call, store.KindLoop)
	defer l.end()
	state, err := l.begin()
	for n := l.kept[0].From; err == nil; {
		var more bool
		if state, more, err = l.iterate(n, state); err != nil || !more {
			return err
		}
		if n++; len(state) > b.run.j.Limits.Value {
			f := &stored.Failure{Code: stored.CodeTooLarge, Location: l.op.Loc.String(), Message: fmt.Sprintf(
				"the state of loop %s has %d bytes, more than the limit of %d: store it elsewhere and keep a reference",
				l.op.Loc, len(state), b.run.j.Limits.Value)}
			b.Unencodable(f)
			return f
		}
		if err = b.Refuse(spec.Call); err == nil {
			state, err = l.next(n, state)
		}
	}
	return err
}

// begin enters the oldest iteration that is kept and returns its state.
func (l *loop) begin() ([]byte, error) {
	l.kept = []*journal.Segment{{Outer: l.op.In}}
	rec := l.op.Rec
	if rec == nil {
		return l.State, nil
	}
	p, err := stored.DecodeLoop(rec.Value)
	if err != nil {
		l.branch.run.damaged(l.op.Loc, err)
		l.branch.Halt()
	}
	l.completed = p.Completed
	if p.Oldest == 0 {
		return l.State, nil
	}
	l.kept[0].From = p.Oldest
	l.gone()
	loc := l.op.Loc.Iteration(p.Oldest)
	if rec := l.branch.run.j.RecordAt(loc); rec == nil || rec.Kind != store.KindLoop {
		l.branch.run.damaged(loc, fmt.Errorf("the oldest iteration of the loop has no state: %w", store.ErrDamaged))
		l.branch.Halt()
	}
	return l.enter(l.kept[0], nil)
}

// next begins iteration n. It returns its state, which a replay has from the
// history if there it is.
func (l *loop) next(n int64, state []byte) ([]byte, error) {
	if l.marked(n) {
		s := &journal.Segment{Outer: l.op.In, From: n}
		var err error
		if state, err = l.enter(s, state); err != nil {
			return nil, err
		}
		l.kept = append(l.kept, s)
	}
	if n%l.Every == 0 && n > l.completed {
		l.commit(n)
	}
	return state, nil
}

// marked reports whether iteration n is entered by a hand-over: as it was, or
// otherwise so that the commit of state after Keep more iterations finds it. The code
// may have changed Every and Keep since: what was begun otherwise stays so.
func (l *loop) marked(n int64) bool {
	r := l.branch.run
	loc := string(l.op.Loc.Iteration(n))
	if rec := r.j.RecordAt(location.Loc(loc)); rec != nil {
		return true
	}
	if (n+l.Keep)%l.Every != 0 {
		return false
	}
	_, end := l.op.Loc.Iterations()
	return r.j.Live() || n > l.completed && !r.j.HasIn(store.Span{From: loc, To: end})
}

// enter hands over the state with which a segment begins: in a replay that of the
// history.
func (l *loop) enter(s *journal.Segment, state []byte) ([]byte, error) {
	b := l.branch
	o := new(loopOp)
	b.declareAt(&o.op, o, b.Bounded(l.op.Loc.Iteration(s.From)), store.KindLoop, s)
	o.Value = state
	if err := o.Wait(&b.Branch, l.Call); err != nil {
		return nil, err
	}
	s.Number = o.Number()
	return o.Value, nil
}

// iterate executes an iteration. All that it has begun ends with it.
func (l *loop) iterate(n int64, state []byte) (next []byte, more bool, err error) {
	b := l.branch
	loc := b.Bounded(l.op.Loc.Iteration(n))
	b.Reach(loc)
	b.Inside(loc, l.kept[len(l.kept)-1], func() {
		next, more, err = l.Body(n, state)
	})
	return next, more, err
}

// commit notes that n iterations are complete, and prunes what is older than the
// last Keep of them.
func (l *loop) commit(n int64) {
	first := 0
	for k := 1; k < len(l.kept) && l.kept[k].From <= n-l.Keep; k++ {
		if l.kept[k-1].Owes() && !l.ForgetUndo {
			break
		}
		first = k
	}
	for _, s := range l.kept[:first] {
		l.branch.run.j.Prune(s)
	}
	l.kept = append(l.kept[:0], l.kept[first:]...)
	l.completed = n
	r := l.branch.run
	if first > 0 {
		l.gone()
		r.j.Log.Cut(l.span())
		r.undo.effects.Forget(l.span()) // what owes is pruned by ForgetUndo only
	}
	oldest := l.kept[0]
	l.op.Write(store.Entry{
		State: store.Open, Started: l.op.Asked,
		Value: stored.LoopProgress{Oldest: oldest.From, Number: oldest.Number, Completed: n}.Encode(),
	})
}

// span is what is pruned so far, from the first iteration on: a body that was
// cancelled may have written behind an earlier pruning.
func (l *loop) span() store.Span {
	return store.Span{From: string(l.op.Loc.Iteration(0)), To: string(l.op.Loc.Iteration(l.kept[0].From))}
}

// gone forgets what was recorded and delivered for the iterations that are pruned.
func (l *loop) gone() {
	r := l.branch.run
	span := l.span()
	r.promises.prune(span, r.j.Log.DeadLetter)
	r.j.Keep(l.op.Loc, l.kept[0].From, span)
}

// end is called when the loop is over. What was kept is then a part of the
// iteration in which the loop stands.
func (l *loop) end() {
	r := l.branch.run
	if !l.op.Written() && !r.sched.Unwinding() {
		r.j.Count(l.op.In, -1, 0) // it leaves no entry
	}
	if outer := l.op.In; outer != nil {
		r.j.LoopEnded(l.op.Loc)
		for _, s := range l.kept {
			outer.Absorb(s)
		}
	}
}

// loops are the loops whose next state is to be handed over, in the order of waiting.
type loops struct{ entering fifo.Queue[*loopOp] }

// next hands over the state of the first. It reports whether there was one.
func (l *loops) next() bool {
	for l.entering.Len() > 0 {
		if o := l.entering.Pop(); !o.Closed {
			o.HandOver()
			return true
		}
	}
	return false
}
