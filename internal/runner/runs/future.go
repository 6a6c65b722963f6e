package runs

import (
	"encoding/hex"
	"fmt"

	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Future is another run whose end this run may await: a child, or any run.
//
// It is an operation that takes effect when it is called, not when a branch waits for
// it: the start of a child, or the watch of a run, is part of the turn. Its entry is
// open until the end is handed over. What it has handed out (the ID of a child) is in
// its entry and is not derived again.
type Future struct {
	o *awaited
}

// other is what the operations on another run have in common. It goes on when no branch
// waits for it any more.
type awaited struct {
	journal.Op
	runs   *Runs
	link   stored.Link
	linked bool        // link is what is recorded; otherwise its value was left out of the snapshot
	end    *stored.End // arrived and not handed over
	item   endItem     // that has brought it
	lost   bool        // there is nothing to wait for: failure says why
	// forgotten says that its iteration is pruned: nothing is written of it.
	forgotten bool
}

// endItem is the inbox item by which an End came.
type endItem struct {
	no   store.ItemNo
	id   string
	sent store.Time
}

// watch is the wait for the end of any run.
type watch struct{ awaited }

// Watch subscribes this run to the end of any run and returns at once.
func (r *Runs) Watch(b *sched.Branch, call sched.Call, runID string) (*Future, error) {
	o := &watch{awaited{runs: r}}
	r.j.Declare(b, &o.Op, o, call, store.KindRun)
	if o.Rec == nil {
		j := r.j
		key := j.Derive("watch", o.Loc, 0)
		o.linked, o.link = true, stored.Link{RunID: runID, Key: hex.EncodeToString(key[:16])}
	} else {
		r.readLink(b, &o.awaited)
	}
	r.add(&o.awaited)
	return &Future{&o.awaited}, nil
}

func (o *watch) Start() {
	j := o.J
	switch {
	case o.Started || o.lost:
	case o.Rec == nil:
		o.Write(store.Entry{State: store.Open, Started: j.Now(), Value: o.link.Encode()})
		j.Log.Send(o.watch(o.link.RunID, o.link.Key))
	case !o.resumes(o.link.RunID):
		return
	}
	o.Started = true
	o.arrive()
}

// resumes reports whether a recorded operation takes effect. One that was withdrawn does
// when it is awaited: it watches the run again, whose end may have come while this run
// had ended.
func (o *awaited) resumes(runID string) bool {
	if o.Rec.State != store.Withdrawn {
		return true
	}
	if !o.IsAwaited() && !o.link.Fails {
		return false
	}
	o.J.Log.Send(o.watch(runID, hex.EncodeToString(o.watchAgain())))
	return true
}

// watchAgain derives the key of a further watch, which differs from those before. An
// answer to it is an end by the name of the first.
func (o *awaited) watchAgain() []byte {
	j := o.J
	h := j.Derive("watch again", o.Loc, int64(j.Bound()))
	return h[:16]
}

// watch returns the command that asks for the end of a run.
func (o *awaited) watch(runID, id string) store.Command {
	run := o.J.Run
	c := stored.Watching(run.No, runID, o.link.Name(), id)
	c.Item.Incarnation, c.Item.Loc = run.Incarnation, string(o.Loc)
	return c
}

// readLink reads what is recorded of another run, unless the value was left out.
func (r *Runs) readLink(b *sched.Branch, o *awaited) {
	value := o.Rec.Value
	if value == nil && o.Rec.Size > 0 {
		if o.Rec.State == store.Done {
			return
		}
		var err error // it awaits the run, and what stands if that is gone may be large; or it may fail its scope
		if value, err = r.j.Fetch(o.Rec.Loc); err != nil {
			r.j.Owner.Break(fmt.Errorf("fetch the value of %s: %w", o.Loc, err))
			b.Halt()
		}
	}
	l, err := stored.DecodeLink(o.Rec.State, value)
	if err != nil {
		r.j.Owner.Damaged(o.Loc, err)
		b.Halt()
	}
	o.link, o.linked = l, true
}

// RunID returns the ID of the other run. b is the branch that asks.
func (r *Runs) RunID(b *sched.Branch, f *Future) string {
	r.Owns(b, f)
	if o := f.o; !o.linked {
		value, err := r.j.Fetch(o.Rec.Loc)
		if err != nil {
			r.j.Owner.Break(fmt.Errorf("fetch the value of %s: %w", o.Loc, err))
			b.Halt()
		}
		if o.link, err = stored.DecodeLink(o.Rec.State, value); err != nil {
			r.j.Owner.Damaged(o.Loc, err)
			b.Halt()
		}
		o.linked = true
	}
	return f.o.link.RunID
}

// Await waits until the other run has ended and returns its encoded result. A *Failure
// with CodeRun says that it has not succeeded. A run that is known to have ended gives its
// outcome also in a cancelled branch.
func (r *Runs) Await(b *sched.Branch, call sched.Call, f *Future) ([]byte, error) {
	err := b.Check(call)
	if err != nil {
		return nil, err
	}
	r.Owns(b, f)
	if !f.o.Settled() {
		err = b.Refuse(call)
	}
	if err != nil {
		return nil, err
	}
	err = f.o.Wait(b, call)
	return f.o.Value, err
}

// Op returns the operation that settles with the end of the other run, to wait for it
// beside others.
func (r *Runs) Op(b *sched.Branch, f *Future) *journal.Op {
	r.Owns(b, f)
	return &f.o.Op
}

// Result returns the outcome of a settled future.
func (f *Future) Result() ([]byte, *stored.Failure) { return f.o.Value, f.o.Failure }

// Settled reports whether the end of the other run is known.
func (f *Future) Settled() bool { return f.o.Settled() }

// Owns makes sure that another run is awaited by the run that has made the future, in
// the activation that has.
func (r *Runs) Owns(b *sched.Branch, f *Future) {
	if f.o.runs != r {
		b.NotOwn("the child or awaited run at "+f.o.Loc.String(), f.o.J.Run.ID)
	}
}

func (o *awaited) Abandon() bool { return false }

// arrive lists the operation if its end is there.
func (o *awaited) arrive() {
	if o.J.Live() && !o.Settled() && (o.end != nil || o.lost) {
		o.runs.arrived.Add(o.Is.(journal.Arriving))
	}
}

func (o *awaited) Wanted() bool { return !o.Settled() && !o.Closed && o.IsAwaited() }
func (o *awaited) IsLate() bool { return !o.lost && o.Late(o.item.sent) }

// take hands over the end of the other run.
func (o *awaited) Take() {
	j := o.J
	if !o.lost {
		j.Log.Consume(o.item.no, nil)
		o.Came = o.item.sent
		o.Failure = nil // of what it would have been started again with
		o.takeEnd()
	}
	o.runs.forget(o)
	o.HandOver()
}

// takeEnd makes the end of the other run the outcome of the operation.
func (o *awaited) takeEnd() {
	e := o.end
	o.end = nil
	if o.link.Former == "" { // otherwise its code may have seen the awaited's
		o.link.RunID = e.RunID
	}
	o.link.Status, o.link.Reason, o.link.Stands, o.link.Since = e.Status, e.Reason, nil, 0
	o.link.Item, o.link.ItemID = o.item.no, o.item.id
	if e.Status == store.Succeeded {
		o.Value = e.Output
		return
	}
	o.Failure = stored.RunFailure(e)
	o.Failure.Location = o.Loc.String()
	o.Failure.Details = o.link.Encode()
}

func (o *awaited) Outcome(e store.Entry) store.Entry {
	if o.Failure == nil {
		l := o.link
		l.Output = o.Value
		e.Value = l.Encode()
	}
	return e
}

func (o *awaited) Recall(value []byte) error {
	l, err := stored.DecodeLink(store.Done, value)
	if err != nil {
		return err
	}
	o.Value = l.Output
	l.Output = nil
	o.link, o.linked = l, true
	return nil
}

func (o *awaited) Show(w *journal.Wait) { w.Run = o.link.RunID }
