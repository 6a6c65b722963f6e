package runner

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Other is another run whose end this run may await: a child, or any run.
//
// It is an operation that takes effect when it is asked for, not when a branch
// waits for it: the start of a child, or the watch of a run, is part of the turn.
// Its entry is open until the end is handed over. What it has handed out (the ID
// of a child) is in its entry and is not derived again.
type Other struct {
	op *op
}

// Child asks for a run to be started.
type Child struct {
	Call     Call
	Workflow string
	Input    []byte
	// Leave keeps the child from being cancelled with the scope that started it.
	Leave bool
	// Detached says that nobody awaits the child: its end is not told.
	Detached bool
	// Place puts the start of a child that is not recorded on a queue; nil: it is on
	// none. It is called on the run's goroutine. ErrNoQueue is the operation's; another
	// error breaks the activation.
	Place func(*store.Start) error
}

// other is what an operation on another run has besides.
type other struct {
	link  stored.Link
	known bool // link is what is recorded; else its value was left out of the snapshot
	input []byte
	place store.Start // Queue and the Shard's Group are set, of a child on a queue
	owned bool        // a child that is cancelled with its scope
	end   *stored.End // arrived and not handed over
	item  endItem     // that has brought it
	early *record     // a completion that remained when this was asked for and not recorded
	lost  bool        // there is nothing to wait for: failure says why
	hot   bool        // is in Run.hotOthers
	// forgotten says that its iteration is pruned: nothing is written of it.
	forgotten bool
}

// endItem says which inbox item an End came by.
type endItem struct {
	no   store.ItemNo
	id   string
	sent store.Time
}

// StartChild has a run started in the turn. It returns at once, unless nobody
// knows the workflow: then the failure is handed over like a completion.
func (b *Branch) StartChild(c Child) (*Other, error) {
	if err := b.Enter(c.Call); err != nil {
		return nil, err
	}
	o := b.request(new(op), c.Call, store.KindChild)
	x := &other{input: c.Input}
	c.Leave = c.Leave || c.Detached || c.Call.Shield || b.Shielded()
	o.other = x
	if o.rec == nil {
		x.known = true
		x.link = stored.Link{RunID: b.run.childID(o.loc), Workflow: c.Workflow, Leave: c.Leave, Detached: c.Detached}
		b.seek(o, c.Workflow)
		b.enqueue(o, &c)
	} else {
		b.readLink(o)
		b.anew(o, &c)
	}
	x.owned = !x.link.Leave
	if x.lost || o.rec != nil && o.rec.State == store.FailedEntry && x.known && x.link.RunID == "" {
		return nil, b.waitOp(c.Call, o)
	}
	if x.owned {
		b.Scope().Own(o)
	}
	b.run.began(o)
	return &Other{o}, nil
}

// seek finds out whether anybody has ever had the code of a workflow.
func (b *Branch) seek(o *op, workflow string) {
	knows := b.run.cfg.Knows
	if knows == nil {
		return
	}
	known, err := knows(workflow)
	if err != nil {
		b.run.broken = fmt.Errorf("look for workflow %s: %w", workflow, err)
		b.Halt()
	}
	if !known {
		o.other.lost = true
		o.failure = &stored.Failure{Code: stored.CodeUnknownWorkflow, Location: o.loc.String(), Message: fmt.Sprintf(
			"unknown workflow %q: no process that has registered it was ever seen in this store", workflow)}
	}
}

// anew gives a child that is to be begun again its ID and its place. It was cancelled
// because nobody waited for it any more, and that was taken back: if it is awaited
// again it is asked how it has ended, and begun again if the cancel has reached it.
func (b *Branch) anew(o *op, c *Child) {
	x, r := o.other, b.run
	if x.link.Again == 0 {
		return
	}
	if r.again == nil {
		r.again = map[location.Loc]int64{}
	}
	r.again[o.loc] = x.link.Again
	if x.link.RunID == "" {
		x.link.RunID = r.childOf(r.cfg.Run.Generation, o.loc, x.link.Again)
	}
	if x.link.Former != "" {
		b.enqueue(o, c)
	}
}

// beginAgain starts a child in place of one that was cancelled.
func (r *Run) beginAgain(o *op) {
	x := o.other
	delete(r.others, x.link.Name())
	x.end, x.link.Former, o.rec = nil, "", nil
	r.others[x.link.Name()] = o
	if o.failure != nil { // its queue is gone
		x.lost = true
		r.heatOther(o)
		return
	}
	r.write(o, store.Entry{State: store.Open, Started: r.now, Value: x.link.Encode()})
	r.log.Send(x.command(o))
}

// ErrNoQueue is what Child.Place says of a queue that does not exist.
var ErrNoQueue = errors.New("there is no such queue")

// enqueue finds out where a new child stands in its queue.
func (b *Branch) enqueue(o *op, c *Child) {
	x := o.other
	if c.Place == nil || x.lost {
		return
	}
	x.place.ID = x.link.RunID
	switch err := c.Place(&x.place); {
	case errors.Is(err, ErrNoQueue):
		x.lost = x.link.Former == "" // else it is only if the child is begun again
		o.failure = &stored.Failure{Code: stored.CodeNoQueue, Location: o.loc.String(), Message: err.Error()}
	case err != nil:
		b.run.broken = fmt.Errorf("look for the queue of %s: %w", o.loc, err)
		b.Halt()
	}
}

// Watch has the end of any run told to this one. It returns at once.
func (b *Branch) Watch(call Call, runID string) (*Other, error) {
	if err := b.Enter(call); err != nil {
		return nil, err
	}
	o := b.request(new(op), call, store.KindRun)
	o.other = &other{}
	if o.rec == nil {
		r := b.run
		key := r.derive("watch", r.cfg.Run.Generation, o.loc, 0)
		o.other.known, o.other.link = true, stored.Link{RunID: runID, Key: hex.EncodeToString(key[:16])}
	} else {
		b.readLink(o)
	}
	b.run.began(o)
	return &Other{o}, nil
}

// began lets an operation on another run take effect: now, or when the run goes
// live. While a recorded completion remains, one that is not recorded is new in
// the code: what takes effect when it is asked for is recorded before the next
// completion. It is judged when the run goes live, because a cancel may close it
// until then.
func (r *Run) began(o *op) {
	x := o.other
	if x.known && !x.link.Detached && (o.rec == nil || o.rec.State == store.Open || o.rec.State == store.Withdrawn) {
		r.others[x.link.Name()] = o
		if o.in != nil {
			o.in.others = append(o.in.others, o)
		}
	}
	if o.rec != nil {
		return
	}
	if !r.live {
		x.early = r.remaining()
	}
	r.expect(o)
}

// readLink reads what is recorded of another run, unless the value was left out.
func (b *Branch) readLink(o *op) {
	if o.rec.Value == nil && o.rec.Size > 0 {
		return
	}
	l, err := stored.DecodeLink(o.rec.State, o.rec.Value)
	if err != nil {
		b.run.damaged(o.loc, err)
		b.Halt()
	}
	o.other.link, o.other.known = l, true
}

// RunID returns the ID of the other run. b is the branch that asks.
func (p *Other) RunID(b *Branch) string {
	b.owns(p)
	if x := p.op.other; !x.known {
		r, o := p.op.run, p.op
		value, err := r.cfg.Fetch(o.rec.Loc)
		if err != nil {
			r.broken = fmt.Errorf("fetch the value of %s: %w", o.loc, err)
			b.Halt()
		}
		if x.link, err = stored.DecodeLink(o.rec.State, value); err != nil {
			r.damaged(o.loc, err)
			b.Halt()
		}
		x.known = true
	}
	return p.op.other.link.RunID
}

// AwaitOther waits until the other run has ended and returns its encoded result.
// A *Failure with CodeRun says that it has not succeeded. A run that is known to
// have ended gives its outcome also in a cancelled branch.
func (b *Branch) AwaitOther(call Call, p *Other) ([]byte, error) {
	err := b.Check(call)
	if err != nil {
		return nil, err
	}
	b.owns(p)
	if !p.op.Settled() {
		err = b.Refuse(call)
	}
	if err != nil {
		return nil, err
	}
	err = b.waitOp(call, p.op)
	return p.op.value, err
}

// owns makes sure that another run is asked for by the run that has made it, in
// the activation that has.
func (b *Branch) owns(p *Other) {
	if p.op.run != b.run {
		b.Fail(&stored.Failure{Code: stored.CodeMisuse, Message: fmt.Sprintf(
			"the child or awaited run at %s belongs to another run: use it in the code that has started it, and keep none outside of it", p.op.loc)})
	}
}

// childID returns the ID of the child that is started at a location, in the form
// of a UUID of version 8.
func (r *Run) childID(loc location.Loc) string { return r.childOf(r.cfg.Run.Generation, loc, 0) }

// childOf is childID of a generation, of a child that was begun again so often.
func (r *Run) childOf(generation int, loc location.Loc, again int64) string {
	h := r.derive("child", generation, loc, again)
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// lasting reports whether the operation takes effect when it is asked for, and
// goes on when nobody waits for it any more.
func (o *op) lasting() bool { return o.kind == promiseKind || o.other != nil }

// startOther lets the start of a child or the watch of a run take effect, and
// looks for an end that has come already. The run is live.
func (r *Run) startOther(o *op) {
	x := o.other
	switch {
	case x.forgotten:
		return
	case o.closed:
		r.withdrawOther(o)
		return
	case o.begun || x.lost:
	case o.rec == nil:
		r.write(o, store.Entry{State: store.Open, Started: r.now, Value: x.link.Encode()})
		r.log.Send(x.command(o))
		if o.kind == store.KindChild && !x.link.Detached && r.cfg.Run.Output != nil {
			// The run has ended once: a retry may find a child that has ended and told so.
			r.log.Send(r.watch(o, x.link.RunID, hex.EncodeToString(r.watchAgain(o))))
		}
	case o.rec.State == store.Withdrawn && !o.IsAwaited():
		return
	case o.rec.State == store.Withdrawn:
		// Its end may have come while this run had ended.
		r.log.Send(r.watch(o, cmp.Or(x.link.Former, x.link.RunID), hex.EncodeToString(r.watchAgain(o))))
	}
	o.begun = true
	r.heatOther(o)
}

// inserted is the divergence in which the code asks for another run before
// completions that were recorded without it.
func (r *Run) inserted() *Stall {
	for _, o := range r.replay.pending {
		before := o.early
		if o.other != nil {
			before = o.other.early
		}
		if before == nil || o.closed {
			continue
		}
		return &Stall{
			Location: location.Loc(before.Loc).String(), Recorded: before.describe(), Asked: describe(o.kind, o.loc) + " before it",
			Remedy: "if it is new, put it under a Version; else restore the former order; then resume the run",
		}
	}
	return nil
}

// watchAgain derives the key of a further watch, which differs from those before. An
// answer to it is an end by the name of the first.
func (r *Run) watchAgain(o *op) []byte {
	h := r.derive("watch again", r.cfg.Run.Generation, o.loc, int64(r.bound))
	return h[:16]
}

// command returns what a new operation on another run sends.
func (x *other) command(o *op) store.Command {
	r := o.run
	if o.kind == store.KindRun {
		return r.watch(o, x.link.RunID, x.link.Key)
	}
	seed := r.derive("seed of a child", r.cfg.Run.Generation, o.loc, x.link.Again)
	start := &store.Start{
		ID: x.link.RunID, Workflow: x.link.Workflow, Seed: store.Seed(seed[:16]), Input: x.input,
		Headers: r.cfg.Run.Headers, Parent: r.cfg.Run.No, ParentLoc: string(o.loc),
	}
	start.Shard.Group, start.Queue = x.place.Shard.Group, x.place.Queue
	if x.link.Detached {
		start.ParentLoc = ""
	}
	x.input = nil
	return store.Command{Start: start}
}

// watch returns the command that asks for the end of a run.
func (r *Run) watch(o *op, runID, id string) store.Command {
	c := stored.Watching(r.cfg.Run.No, runID, o.other.link.Name(), id)
	c.Item.Incarnation, c.Item.Loc = r.cfg.Run.Incarnation, string(o.loc)
	return c
}

// deliverEnd takes the end of another run from the inbox. One that nothing waits
// for is of an older incarnation, and a dead letter, or of an older generation or
// known already, and consumed.
func (r *Run) deliverEnd(it store.Item) {
	if !r.live {
		r.ends = append(r.ends, it)
		r.log.See(&it)
		return
	}
	o := r.others[it.Name]
	switch {
	case o == nil && r.outdated(&it):
		r.log.DeadLetter(it.No)
		return
	case o == nil || o.Settled() || o.closed || o.other.end != nil:
		r.Answer(it.No, nil)
		return
	}
	x := o.other
	x.item = endItem{it.No, it.ID, it.Sent}
	if it.Failed {
		x.end = &stored.End{RunID: x.link.RunID} // no status: there is none
	} else {
		end, err := stored.DecodeEnd(it.Value)
		if err != nil {
			r.damaged(o.loc, err)
			return
		}
		x.end = &end
	}
	r.log.See(&it)
	r.heatOther(o)
}

// outdated reports whether an end that nothing waits for was for an older
// incarnation. A child does not know in which one it was started, but its ID was
// derived from the seed of that.
func (r *Run) outdated(it *store.Item) bool {
	switch run := &r.cfg.Run; {
	case run.Incarnation == 0:
		return false
	case it.Incarnation > 0: // the answer to a watch
		return it.Outdated(run.Incarnation)
	}
	for generation := range r.cfg.Run.Generation + 1 {
		for again := range r.again[location.Loc(it.Loc)] + 1 {
			if it.Name == r.childOf(generation, location.Loc(it.Loc), again) {
				return false
			}
		}
	}
	return true
}

// heatOther lists an operation whose end is there and awaited.
func (r *Run) heatOther(o *op) {
	if x := o.other; r.live && !x.hot && !o.Settled() && (x.end != nil || x.lost) {
		x.hot = true
		r.hotOthers = append(r.hotOthers, o)
	}
}

// matchOther hands over one end. It reports whether there was one.
func (r *Run) matchOther() bool {
	for i := 0; i < len(r.hotOthers); {
		o := r.hotOthers[i]
		x := o.other
		wanted := !o.Settled() && !o.closed && o.IsAwaited()
		if wanted && !x.lost && o.Late(x.item.sent) {
			i++
			continue
		}
		r.hotOthers = without(r.hotOthers, i)
		x.hot = false
		if !wanted {
			continue
		}
		if !x.lost {
			r.log.Consume(x.item.no, nil)
			if x.link.Former != "" && x.end.Status == store.Cancelled {
				r.beginAgain(o)
				return true
			}
			o.failure = nil // of what it would have been begun again with
			o.takeEnd()
		}
		delete(r.others, x.link.Name())
		r.handOver(o)
		return true
	}
	return false
}

// without returns a list without one element, mostly the first.
func without[T any](list []T, i int) []T {
	if i == 0 {
		return list[1:]
	}
	return slices.Delete(list, i, i+1)
}

// takeEnd makes the end of the other run the outcome of the operation.
func (o *op) takeEnd() {
	x := o.other
	e := x.end
	x.end = nil
	if x.link.Former == "" { // else its code may have seen the other's
		x.link.RunID = e.RunID
	}
	x.link.Status, x.link.Reason = e.Status, e.Reason
	x.link.Item, x.link.ItemID = x.item.no, x.item.id
	if e.Status == store.Succeeded {
		o.value = e.Output
		return
	}
	o.failure = stored.RunFailure(e)
	o.failure.Location = o.loc.String()
	o.failure.Details = x.link.Encode()
}

// recallOther takes the outcome of a recorded operation on another run.
func (o *op) recallOther(value []byte) error {
	l, err := stored.DecodeLink(store.Done, value)
	if err != nil {
		return err
	}
	o.value = l.Output
	l.Output = nil
	o.other.link, o.other.known = l, true
	return nil
}

// CloseOwned ends the wait for a child whose scope has ended or was cancelled,
// and cancels the child. Whoever awaits it gets ErrCancelled. While the run
// replays, a withdrawal that is recorded is durable; another is for when the run
// goes live.
func (o *op) CloseOwned() {
	if o.closed || o.Settled() {
		return
	}
	r := o.run
	o.closed, o.refused = true, true
	if x := o.other; x.owned && x.link.Dropped == 0 {
		x.link.Dropped = r.seq + 1
	}
	switch {
	case r.live:
		r.withdrawOther(o)
		delete(r.others, o.other.link.Name())
	case o.rec != nil && o.rec.State == store.Open:
		r.replay.pending = append(r.replay.pending, o)
	}
	if !o.slot.Written() {
		r.count(o.in, -1, 0)
	}
	r.sched.Settle(&o.Source)
}

// forgetOther is the end of an operation whose iteration is pruned. A child that was
// left, or a watched run, may end later: nobody awaits it.
func (r *Run) forgetOther(o *op) {
	x := o.other
	if r.others[x.link.Name()] == o {
		delete(r.others, x.link.Name())
	}
	o.closed, x.forgotten = true, true
	if x.end != nil {
		x.end = nil
		r.Answer(x.item.no, nil)
	}
}

// withdrawOther records that nobody waits for a child any more, and cancels it.
func (r *Run) withdrawOther(o *op) {
	if !o.slot.Written() || o.rec != nil && o.rec.State == store.Withdrawn {
		return
	}
	r.write(o, store.Entry{State: store.Withdrawn, Value: o.other.link.Encode()})
	if o.other.owned {
		r.log.Send(history.CancelChild(&r.cfg.Run, o.loc, o.other.link.RunID, "its parent does not wait for it any more"))
	}
}

// abandon records of what the run still waits for, as it ends, that it does not
// any more. A run that is taken up again asks anew how those have ended.
func (r *Run) abandon() {
	var open []*op
	for _, o := range r.others {
		if o.slot.Written() && !o.Settled() && (o.rec == nil || o.rec.State != store.Withdrawn) {
			open = append(open, o)
		}
	}
	slices.SortFunc(open, func(a, b *op) int { return cmp.Compare(a.id, b.id) })
	for _, o := range open {
		if x := o.other; x.owned {
			x.link.Dropped = stored.DroppedAtEnd(r.seq)
		}
		r.write(o, store.Entry{State: store.Withdrawn, Value: o.other.link.Encode()})
	}
}

// orphans returns the commands that cancel the children which end with the run
// and are not closed. A run that ends without the end of its code has some.
func (r *Run) orphans() []store.Command {
	var open []*op
	for _, o := range r.others {
		if o.other.owned && o.other.link.Former == "" && o.slot.Written() && (!o.Settled() || o.closed) {
			open = append(open, o)
		}
	}
	slices.SortFunc(open, func(a, b *op) int { return cmp.Compare(a.id, b.id) })
	var sends []store.Command
	for _, o := range open {
		sends = append(sends, history.Orphan(&r.cfg.Run, o.loc, o.other.link.RunID))
	}
	return append(sends, history.Orphans(&r.cfg.Run, r.cfg.Entries, func(e *store.Entry) bool {
		if r.live {
			return r.gone[e.Loc] != nil // accepted by Removed
		}
		rec := r.replay.records[e.Loc]
		return !rec.asked || rec.accepted
	})...)
}
