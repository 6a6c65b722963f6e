package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Child asks for a run to be started.
type Child struct {
	Call     sched.Call
	Workflow string
	// ID is what the code calls the child; "": the ID is derived. Find looks for the run that
	// has it, with its input, when a child that is not recorded is started; nil: there is none. It
	// is called on the run's goroutine, and an error breaks the activation.
	ID      string
	Find    func(ctx context.Context, id string) (*store.Run, error)
	Input   []byte
	Headers []byte // of a child that is not recorded
	Tags    []store.Pair
	// Leave keeps the child from being cancelled with the scope that started it.
	Leave bool
	// Fails lets the child's end fail the scope that started it, unless it has succeeded or
	// the scope is over: see sched.Scope.Fail.
	Fails bool
	// Detached says that nothing awaits the child: its end is not reported.
	Detached bool
	// Undo is the child's compensation, or nil. With one, the scope waits for the end of the
	// child when it has cancelled it.
	Undo *attempts.Undo
	// Place puts the start of a child that is not recorded on a queue; nil: it is on
	// none. The start has its ID and the group of its parent. It is called on the run's
	// goroutine. An error breaks the activation.
	Place func(*store.Start) error
}

// child is the start of a child and the wait for its end.
type child struct {
	awaited
	input []byte
	heads []byte       // its headers
	tags  []store.Pair // that it begins with
	place store.Start  // Queue and the Shard's Group are set, of a child on a queue
	// replaces says that the start takes the ID from a child that was started here in a former
	// life of the run, and has ended.
	replaces bool
	owned    bool         // it is cancelled with its scope
	fails    *sched.Scope // that fails with it; nil: none
	undo     *attempts.Undo
	ends     bool // its scope has: it is to be cancelled, and its end is awaited
	asked    bool // of these, it is requested to

	withdrawn bool // WithdrawLate has recorded it
}

// StartChild starts a run in the turn. It returns at once, unless no process has ever
// registered the workflow: then the failure is handed over like a completion.
func (r *Runs) StartChild(b *sched.Branch, c Child) (*Future, error) {
	o := &child{awaited: awaited{runs: r}, input: c.Input, heads: c.Headers, tags: c.Tags, undo: c.Undo}
	r.j.Declare(b, &o.Op, o, c.Call, store.KindChild)
	c.Leave = c.Leave || c.Detached || c.Call.Shield || b.Shielded()
	if o.Rec == nil {
		o.linked = true
		o.link = stored.Link{
			RunID:    ChildID(r.j.Run.Seed, r.j.Run.Generation, o.Loc, 0),
			Workflow: c.Workflow, Leave: c.Leave, Detached: c.Detached, Fails: c.Fails,
		}
		r.seek(b, o, c.Workflow)
		r.name(b, o, &c)
		r.enqueue(b, o, &c)
	} else {
		r.readLink(b, &o.awaited)
		r.startAgain(b, o, &c)
	}
	o.owned = !o.link.Leave
	if o.lost || o.Rec != nil && o.Rec.State == store.FailedEntry && o.linked && o.link.RunID == "" {
		return nil, o.Wait(b, c.Call)
	}
	if o.owned {
		b.Scope().Own(o)
	}
	if o.link.Fails {
		o.fails = b.Scope()
	}
	switch {
	case o.Rec == nil:
	case o.Rec.Numbered() && (o.undo != nil || o.fails != nil && o.Rec.State == store.FailedEntry):
		o.Always = true // its scope, or the undoing of the run, may have waited for it, or it has failed the scope
		o.Expect()
	case !o.Rec.Numbered() && o.fails != nil:
		o.Expect() // what was asked of a former activation is asked again
	}
	r.add(&o.awaited)
	return &Future{&o.awaited}, nil
}

// seek finds out whether any process has ever had the code of a workflow.
func (r *Runs) seek(b *sched.Branch, o *child, workflow string) {
	knows := r.knows
	if knows == nil {
		return
	}
	known, err := knows(workflow)
	if err != nil {
		r.j.Owner.Break(fmt.Errorf("look for workflow %s: %w", workflow, err))
		b.Halt()
	}
	if !known {
		o.lost = true
		o.Failure = &stored.Failure{Code: stored.CodeUnknownWorkflow, Location: o.Loc.String(), Message: fmt.Sprintf(
			"unknown workflow %q: no process that has registered it was ever seen in this store", workflow)}
	}
}

// name gives a child the ID of its code. If a run has the ID, the child
//
//   - takes its place, if it was started here in a former life of this run: an incarnation, or a
//     history that was rewound. One that has not ended is awaited before: it may be being cancelled.
//     If it is not, and has the same input, it is the child;
//   - is that run, if that has the same workflow and input, as for a start. The run does not end
//     with this one's scope;
//   - fails otherwise.
//
// Of two runs that start it at the same time both have it as their child, and the one that has
// not started it cancels nothing: see stored.ByAnother.
func (r *Runs) name(b *sched.Branch, o *child, c *Child) {
	if c.ID == "" || o.lost {
		return
	}
	key := r.j.Derive("watch", o.Loc, 0)
	o.link.RunID, o.link.Named, o.link.Key = c.ID, true, hex.EncodeToString(key[:16])
	if c.Find == nil {
		return
	}
	there, err := r.find(c)
	switch {
	case err != nil:
		r.j.Owner.Break(fmt.Errorf("look for run %s: %w", c.ID, err))
		b.Halt()
	case there == nil:
		return
	}
	began, input := there.Origin(), sha256.Sum256(c.Input)
	same := began.Workflow == c.Workflow && began.Input == input
	mine := there.Parent == r.j.Run.No && there.ParentLoc == string(o.Loc)
	switch {
	case mine && there.Status.Terminal():
		o.replaces = true
	case mine:
		o.link.Former, o.link.Differs = c.ID, !same
	case same:
		o.link.Leave = true
	default:
		o.lost = true
		o.Failure = &stored.Failure{Code: stored.CodeExists, Location: o.Loc.String(), Message: fmt.Sprintf(
			"child %q of workflow %s: expected no run with this ID, or one of the same workflow and input, found one of "+
				"workflow %s that is %s since %s: give another ID", c.ID, c.Workflow, began.Workflow, there.Status, there.Created)}
		if began.Workflow == c.Workflow {
			o.Failure.Message += fmt.Sprintf(" (SHA-256 of its input %x, of this one %x)", began.Input[:8], input[:8])
		}
	}
}

func (r *Runs) find(c *Child) (there *store.Run, err error) {
	look := r.look
	if look == nil {
		look = func(f func(context.Context) error) error { return f(context.Background()) }
	}
	err = look(func(ctx context.Context) error {
		var err error
		there, err = c.Find(ctx, c.ID)
		return err
	})
	return there, err
}

// startAgain gives a child that is to be started again its ID and its place. It was
// cancelled because nothing waited for it any more, and that was reverted: if it is
// other again it is asked how it has ended, and started again if the cancel has
// reached it.
func (r *Runs) startAgain(b *sched.Branch, o *child, c *Child) {
	if o.link.Again == 0 && o.link.Former == "" {
		return
	}
	r.restarted(o.Loc, o.link.Again)
	switch {
	case o.link.RunID != "":
	case o.link.Named:
		o.link.RunID = o.link.Former
	default:
		o.link.RunID = ChildID(r.j.Run.Seed, r.j.Run.Generation, o.Loc, o.link.Again)
	}
	if o.link.Former != "" {
		r.enqueue(b, o, c)
	}
}

// enqueue finds out where a new child stands in its queue.
func (r *Runs) enqueue(b *sched.Branch, o *child, c *Child) {
	if c.Place == nil || o.lost {
		return
	}
	o.place.ID, o.place.Shard.Group = o.link.RunID, r.j.Run.Shard.Group
	if err := c.Place(&o.place); err != nil {
		r.j.Owner.Break(fmt.Errorf("look for the queue of %s: %w", o.Loc, err))
		b.Halt()
	}
}

// ChildID returns the ID of the child that a run starts at a location in a generation,
// of one that was started again so often: in the form of a UUID of version 8.
func ChildID(seed store.Seed, generation int, loc location.Loc, again int64) string {
	h := stored.Derive(seed, "child", generation, loc, again)
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

func (o *child) Start() {
	j := o.J
	defer o.stop()
	switch {
	case o.Started || o.lost:
	case o.Rec == nil && o.link.Named && o.link.Former != "": // Take starts it when that has ended
		o.open()
		j.Log.Send(o.watch(o.link.RunID, o.link.Key))
	case o.Rec == nil:
		o.open()
		o.begin()
		if !o.link.Detached && !o.link.Named && j.Run.Output != nil {
			// The run has ended once: a retry may find a child that has ended and said so.
			j.Log.Send(o.watch(o.link.RunID, hex.EncodeToString(o.watchAgain())))
		}
	case !o.resumes(cmp.Or(o.link.Former, o.link.RunID)):
		return
	}
	o.Started = true
	o.arrive()
}

// begin sends the start of the child. If the code has named it, it also sends the watch that brings
// its end.
func (o *child) begin() {
	o.J.Log.Send(o.command())
	if o.link.Named && !o.link.Detached {
		o.J.Log.Send(o.watch(o.link.RunID, o.link.Key))
	}
}

// command returns the start of the child.
func (o *child) command() store.Command {
	j := o.J
	seed := j.Derive("seed of a child", o.Loc, o.link.Again)
	start := &store.Start{
		ID: o.link.RunID, Workflow: o.link.Workflow, Seed: store.Seed(seed[:16]), Input: o.input,
		Headers: o.heads, Tags: o.tags, Parent: j.Run.No, ParentLoc: string(o.Loc),
	}
	start.Shard.Group, start.Queue = o.place.Shard.Group, o.place.Queue
	if o.link.Detached {
		start.ParentLoc = ""
	}
	if o.replaces {
		start.Existing = store.ReplaceEnded
	}
	o.input, o.heads, o.tags = nil, nil, nil
	return store.Command{Start: start}
}

// take hands over the end of the child, or starts it again in place of one that was
// cancelled.
func (o *child) Take() {
	j := o.J
	if !o.goesAgain() {
		o.awaited.Take()
		return
	}
	j.Log.Consume(o.item.no, nil)
	o.runs.forget(&o.awaited)
	o.end, o.link.Former, o.link.Differs, o.Rec = nil, "", false, nil
	o.runs.byName[o.link.Name()] = &o.awaited
	if o.Failure != nil { // its queue is gone
		o.lost = true
		o.arrive()
		return
	}
	o.replaces = o.link.Named
	o.open()
	o.begin()
}

// goesAgain reports whether the child is started in place of a former child that has ended.
func (o *child) goesAgain() bool {
	if o.lost || o.link.Former == "" || o.ends || o.end == nil {
		return false
	}
	return o.end.Status == store.Cancelled || o.link.Named && (o.link.Differs || o.end.Status == 0)
}

// Wanted reports whether the end of the child is awaited, fails the scope, or is that of a run
// whose ID the child gets.
func (o *child) Wanted() bool {
	return o.awaited.Wanted() || !o.Settled() && !o.Closed && (o.breaks() || o.link.Named && o.goesAgain())
}

// breaks reports whether the end of the child fails the scope that started it. One that was
// cancelled because nothing waited for it any more is started again instead: see Take.
func (o *child) breaks() bool {
	return o.fails != nil && o.fails.Open() && (o.lost || o.end != nil && o.end.Status != store.Succeeded)
}

// HandedOver fails the scope that started the child, if that is wanted and it is not over.
func (o *child) HandedOver() {
	if o.fails != nil && o.Failure != nil {
		o.fails.Fail(o.Failure)
	}
}

// open records that the child was started.
func (o *child) open() {
	o.Write(store.Entry{
		State: store.Open, Started: o.J.Now(), Owes: o.undo != nil && o.owned, Value: o.link.Encode(),
	})
}

// Compensation returns what undoes the child, or nil.
func (o *child) Compensation() *attempts.Undo { return o.undo }

func (o *child) Outcome(e store.Entry) store.Entry {
	if e.Owes = o.undo != nil; e.Owes && o.Failure == nil {
		o.runs.owe(&o.Op, o.undo)
	}
	return o.awaited.Outcome(e)
}

// Linger returns what settles with the end of a child that carries a compensation: whether
// it has had an effect is known then only.
func (o *child) Linger() *sched.Source {
	if !o.ends || o.Closed {
		return nil
	}
	return &o.Source
}

// stop cancels a child whose scope has ended and waits for its end.
func (o *child) stop() {
	if !o.ends || o.asked || !o.J.Live() || !o.Written() || o.Settled() {
		return
	}
	o.asked = true
	o.J.Log.Send(history.CancelChild(o.J.Run, o.Loc, o.link.RunID, "its parent does not wait for it any more"))
}

// CloseOwned ends the wait for a child whose scope has ended or was cancelled, and
// cancels the child. A branch that awaits it gets ErrCancelled. While the run replays, a
// withdrawal that is recorded is durable; another is for when the run goes live. A child
// that carries a compensation is awaited until it has ended.
func (o *child) CloseOwned() {
	if o.Closed || o.Settled() {
		return
	}
	j := o.J
	if o.undo != nil && !o.forgotten {
		if !o.ends {
			o.ends = true
			o.Pend()
			o.stop()
		}
		return
	}
	o.Closed, o.Refused = true, true
	if o.owned && o.link.Dropped == 0 {
		o.link.Dropped = j.Seq() + 1
	}
	switch {
	case j.Live():
		o.WithdrawLate()
		o.runs.forget(&o.awaited)
	case o.Rec != nil && o.Rec.State == store.Open:
		o.Pend()
	}
	o.Uncount()
	j.Scheduler.Settle(&o.Source)
}

// WithdrawLate records that nothing waits for a child any more, and cancels it.
func (o *child) WithdrawLate() {
	if o.forgotten || o.withdrawn || !o.Written() || o.Rec != nil && o.Rec.State == store.Withdrawn {
		return
	}
	o.withdrawn = true
	o.Write(store.Entry{State: store.Withdrawn, Value: o.link.Encode()})
	if o.owned {
		o.J.Log.Send(history.CancelChild(o.J.Run, o.Loc, o.link.RunID, "its parent does not wait for it any more"))
	}
}
