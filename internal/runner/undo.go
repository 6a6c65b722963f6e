package runner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// # Undoing
//
// A step that carries a compensation and has succeeded is a debt, from its
// hand-over on: its entry says so (Owes), and the run remembers how to pay. A run
// that succeeds owes nothing. One that fails or is cancelled pays, if it is told
// to, newest first, when its code has ended:
//
//	                    cancel wins                      cancel is refused
//	code ended ──► proposed ─────────► taken ─────────► begun ──► each debt ──► over
//	                  ▲  Take: the mark Undoing  │ Committed        └─ fails for good: stalled
//	                  └───────── StillReady ─────┘
//
// The mark and the outcome are one commit, which the store holds back while a
// cancel is new; what begins depends on it. A run that is found with the mark
// replays its code to the end, for the compensations, and never goes live in it.
//
// Debts are paid by a branch of their own, the payer, one after the other. Each
// undoing is an operation at the step's location and the name "undo", with a
// number, so the same things follow from it as from a step: barrier, attempts,
// replay.
//
// When the run was ended from within (budget, deadlock, misuse) its code has not
// ended and never will: it is dropped: nothing of it gets the baton again, and
// what it waits for is withdrawn, except the steps with compensations, whose ends
// are awaited before the first debt is paid.

// undoing is what a run knows of its undoing.
type undoing struct {
	onFailure, onCancel bool
	asked               bool // by the code, whatever the policy says

	pending []*pendingUndo
	heavy   []*pendingUndo // whose values can be dropped once they are durable

	outcome *Outcome // with which the run ends afterwards; nil: nothing is undone
	taken   bool     // the turn that begins it is under way
	begun   bool     // and was committed
	late    []store.Item
	branch  *Branch       // nil: not yet
	last    []*journal.Op // of dropped code, to be seen to their ends

	records  []*journal.Record // of compensations, until there is a payer
	recorded []store.Entry     // what is owed and what is paid, as of the snapshot
}

// pendingUndo is a completed step with a compensation.
type pendingUndo struct {
	loc    location.Loc
	seq    int64
	pos    int64 // of its hand-over in this activation; 0: recorded before
	undo   *Undo // nil: the code has none any more
	value  []byte
	size   int // of the value; where it is positive and value is nil, fetch it
	undone bool
}

// initUndo takes from the run's row and history that undoing has begun, and with
// which outcome.
func (r *Run) initUndo() {
	u, run := &r.undo, &r.cfg.Run
	u.onFailure, u.onCancel = r.cfg.UndoFailed, r.cfg.UndoCancelled
	u.records = r.j.Undos()
	u.begun = run.Marks&store.Undoing != 0 || len(u.records) > 0
	for i := range r.cfg.Entries {
		if e := &r.cfg.Entries[i]; e.State == store.Done && (e.Owes || e.Kind == store.KindUndo) {
			u.recorded = append(u.recorded, *e)
		}
	}
	switch {
	case !u.begun:
	case run.Status.Terminal():
		u.outcome = &Outcome{Status: run.Status, Reason: run.Reason}
		if run.Status == store.Failed {
			u.outcome.Output = run.Output
		}
	case run.Marks&store.Undoing == 0:
	case run.Marks&store.Cancelling != 0:
		end, err := stored.DecodeEnding(run.Output)
		if err != nil {
			r.damaged("", err)
		}
		u.outcome = &Outcome{Status: store.Cancelled, Reason: end.Reason}
	default:
		u.outcome = &Outcome{Status: store.Failed, Output: run.Output}
	}
}

// Rollback asks for the run's completed steps to be undone when its code has
// ended, unless it succeeds.
func (b *Branch) Rollback() { b.run.undo.asked = true }

// proposed reports whether undoing is to begin and has not.
func (u *undoing) proposed() bool { return u.outcome != nil && !u.begun }

// abrupt reports whether the run was ended from within.
func (u *undoing) abrupt() bool {
	if u.outcome == nil || u.outcome.Status != store.Failed {
		return false
	}
	f, err := stored.DecodeFailure(u.outcome.Output)
	return err == nil && (f.Code == stored.CodeBudget || f.Code == stored.CodeDeadlock || f.Code == stored.CodeMisuse)
}

// Wanted reports whether an outcome is one before which the run is undone.
func (u *undoing) wanted(o *Outcome) bool {
	switch o.Status {
	case store.Failed:
		return u.asked || u.onFailure
	case store.Cancelled:
		return u.asked || u.onCancel
	}
	return false
}

// record is what the run's row keeps of the outcome while it is undone.
func (u *undoing) record() []byte {
	if u.outcome.Status == store.Cancelled {
		return stored.Ending{Reason: u.outcome.Reason}.Encode()
	}
	return u.outcome.Output
}

// owe notes a completed step that carries a compensation.
func (r *Run) owe(o *journal.Op, undo *Undo, seq, pos int64) {
	u := &r.undo
	o.In.Owe()
	d := &pendingUndo{loc: o.Loc, seq: seq, pos: pos, undo: undo, value: o.Value, size: len(o.Value)}
	if d.size >= store.LargeValue {
		if pos > 0 {
			u.heavy = append(u.heavy, d)
		} else {
			d.value = nil
		}
	}
	u.pending = append(u.pending, d)
}

// lighten drops large values that can be fetched from now on.
func (r *Run) lighten() {
	u := &r.undo
	for len(u.heavy) > 0 && u.heavy[0].pos <= r.turns.durable {
		u.heavy[0].value = nil
		u.heavy = u.heavy[1:]
	}
}

// forgetUndo drops what is owed in a span of the history that is deleted.
func (r *Run) forgetUndo(span store.Span) {
	u := &r.undo
	u.pending = slices.DeleteFunc(u.pending, func(d *pendingUndo) bool { return span.Contains(string(d.loc)) })
	u.recorded = slices.DeleteFunc(u.recorded, func(e store.Entry) bool { return span.Contains(e.Loc) })
}

// conclude ends the run with an outcome, or lets its undoing begin before. A
// cancel that has come and was not handed over wins.
func (r *Run) conclude(o *Outcome) {
	u := &r.undo
	if it := r.cancel.item; it != nil && !u.begun {
		r.cancel.item = nil
		o = r.acceptCancel(it)
	}
	if !u.begun {
		switch {
		case o.Status == store.Failed && r.cfg.StallFailed && !u.asked:
			r.over = failureStall(o)
			return
		case !u.wanted(o) || len(u.pending) == 0 || r.cfg.Run.Status.Terminal(): // an ended run is only looked at
			r.over = o
			return
		}
	}
	if s := r.noUndo(); s != nil {
		r.stall(s)
		return
	}
	if u.outcome == nil {
		u.outcome = o
	}
	if !r.returned {
		r.dropCode()
	}
	if u.begun {
		r.launch()
	}
}

// failureStall is the end of a failed run that is to wait for a person.
func failureStall(o *Outcome) *Outcome {
	return &Outcome{Status: store.Stalled, Output: o.Output, Reason: stored.StalledReason(o.Output)}
}

// noUndo is the divergence in which the code has no compensation for what the
// history says is owed.
func (r *Run) noUndo() *journal.Stall {
	for _, d := range r.undo.pending {
		if d.undo == nil {
			return &journal.Stall{
				Location: d.loc.String(), Recorded: "a completed step that is owed its undoing", Asked: "the step without a compensation",
				Remedy: "restore the step's Undo and resume the run, or terminate it, which lists what is owed",
			}
		}
	}
	return nil
}

// launch begins to pay. From here on what is recorded of it takes part in the
// replay.
func (r *Run) launch() {
	u := &r.undo
	if u.branch != nil {
		return
	}
	u.branch = r.begin(r.pay)
	r.j.ReplayUndos(u.records)
	u.records = nil
}

// pay is the code of the payer.
func (r *Run) pay(b *Branch) (any, error) {
	for _, o := range r.undo.last {
		w := b.NewWait(Call{})
		w.Add(&o.Source)
		if _, err := b.Block(w); err != nil {
			return nil, err
		}
	}
	pending := r.undo.pending
	slices.SortFunc(pending, func(a, b *pendingUndo) int { return cmp.Compare(b.seq, a.seq) })
	for _, d := range pending {
		if err := b.compensate(d); err != nil {
			return nil, err
		}
		d.undone = true
	}
	return nil, nil
}

// compensate executes one compensation.
func (b *Branch) compensate(d *pendingUndo) error {
	r := b.run
	loc := b.Bounded(history.UndoOf(d.loc))
	return r.steps.Undo(&b.Branch, loc, d.undo.Policy, func(done bool) BodyFunc {
		value := d.value
		if value == nil && d.size > 0 && !done {
			var err error
			if value, err = r.cfg.Fetch(string(d.loc)); err != nil {
				r.broken = fmt.Errorf("fetch the value of %s for its undoing: %w", d.loc, err)
				b.Halt()
			}
		}
		return func(ctx context.Context, body *Body) BodyResult { return d.undo.Func(ctx, body, value) }
	})
}

// allUndone is called when the code of the payer has ended.
func (r *Run) allUndone() {
	if r.over != nil || r.broken != nil {
		return
	}
	if !r.j.Live() {
		if r.j.Ended() {
			return
		}
		if r.goLive(); r.over != nil {
			return
		}
	}
	r.over = r.undo.outcome
}

// dropCode lets the code go no further.
func (r *Run) dropCode() {
	if r.dropped {
		return
	}
	r.dropped = true
	r.sched.Drop()
	for _, b := range r.sched.Branches() {
		b.CloseOwned()
		for o := range journal.Awaited(b) {
			if o.Is.Abandon() {
				r.undo.last = append(r.undo.last, o)
			}
		}
	}
	if r.j.Live() || r.undo.begun {
		return
	}
	r.goLive()
	for _, o := range r.undo.last {
		if o.Rec != nil && o.Rec.State == store.Done {
			o.RecallUnnumbered()
		}
	}
}

// lateCancel looks at a cancel that has come after the code has ended.
func (r *Run) lateCancel(it *store.Item) {
	r.over, r.undo.outcome = nil, nil
	r.conclude(r.acceptCancel(it))
}

// acceptCancel answers a cancel, with which the run then ends.
func (r *Run) acceptCancel(it *store.Item) *Outcome {
	r.Answer(it.No, verbs.Yes())
	r.audit(it)
	r.cancel.handedOver, r.cancel.reason = true, reasonOf("cancelled", it.Value)
	return &Outcome{Status: store.Cancelled, Reason: r.cancel.reason}
}

// begunUndo is called when the turn that begins the undoing is durable.
func (r *Run) begunUndo() {
	u := &r.undo
	if !u.taken {
		return
	}
	u.taken, u.begun = false, true
	for _, it := range u.late {
		r.Answer(it.No, verbs.No(verbs.Undoing))
	}
	u.late = nil
	r.launch()
}

// heldUndo is called when the turn was held back. It returns the cancels that
// were kept for the answer to the begin of undoing.
func (r *Run) heldUndo() []store.Item {
	u := &r.undo
	late := u.late
	u.taken, u.late = false, nil
	for i := range late {
		r.j.Items.Lose(late[i].No)
	}
	return late
}

// replayAbrupt is called when the code of a run whose undoing has begun can be
// replayed no further and has not ended.
func (r *Run) replayAbrupt() {
	switch {
	case r.undo.abrupt():
		r.dropCode()
		r.launch()
	case r.undo.outcome == nil && r.sched.Deadlocked():
		r.deadlock()
	default:
		r.stall(r.unended())
	}
}

// unended is the divergence in which the code of a run whose undoing has begun
// has not ended.
func (r *Run) unended() *journal.Stall {
	s := &journal.Stall{Recorded: "the end of the workflow's function, after which undoing has begun", Asked: "nothing new", Remedy: "restore the code with which the function ended; then resume the run, or terminate it, which lists what is owed"}
	if o := r.j.FirstNew(); o != nil {
		s.Location, s.Asked = o.Loc.String(), journal.Describe(o.Kind, o.Loc)
	}
	return s
}

// owedNow lists what is owed, as far as is known.
func (r *Run) owedNow() []string {
	entries := slices.Clone(r.undo.recorded)
	places := make(map[string]int, len(entries))
	for i := range entries {
		places[entries[i].Loc] = i
	}
	for _, d := range r.undo.pending {
		if i, recorded := places[string(d.loc)]; recorded && !d.undone {
			entries[i].Seq = d.seq // it may have had none
			continue
		}
		e := store.Entry{Loc: string(d.loc), State: store.Done, Seq: d.seq, Owes: true}
		if d.undone {
			e = store.Entry{Loc: string(history.UndoOf(d.loc)), Kind: store.KindUndo, State: store.Done}
		}
		entries = append(entries, e)
	}
	return history.Owed(entries)
}
