package engine

import (
	"context"
	"crypto/rand"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/internal/verbs/decide"
	"github.com/stet-run/stet/store"
)

// activation is one run in memory.
type activation struct {
	x        *executor
	shard    *ownership.Shard // of the run's shard
	no       store.RunNo
	number   int64  // grows with each activation of the executor
	id       string // set before the snapshot is posted, like workflow
	workflow Workflow
	name     string // of the workflow
	build    string // the run's, when it was loaded

	mu      sync.Mutex
	events  []event
	driving bool // some goroutine is the driver
	gone    bool // takes no events any more

	// The driver's.
	run      store.Run
	r        interpreter // nil: loading
	code     *runner.Run // the same, of a run of a workflow; nil: it is a record
	closing  bool        // the run is being stalled; what comes is left in the store
	touched  bool        // the row knows this build, and the run is no suspect
	begun    bool        // that a turn was committed can be seen
	ending   *store.Run  // what the run will be when the turn under way is committed
	renewing bool        // the turn under way lets the run continue as new
	told     int         // how many of the watches the turn that ends the run tells
	early    []event     // came while loading
	left     bool        // something came that is not for the code; who claims the run decides it
	// underWay says that a turn or update of the run is being committed.
	underWay bool
	// unread says that the inbox holds what has not come here yet, as the store
	// has said by StillReady: a turn taken now would be answered in the same way.
	// The next event ends it. heard is set by what comes from the inbox after the
	// turn under way was taken.
	unread, heard bool
	// behind is the number of the first claim that tells, if it is still news, what the
	// answer to a command has said to be in the inbox for some time: until then items
	// that come by other answers wait here, so that they do not overtake. 0: there is
	// nothing of that kind.
	behind  int64
	waiting []store.Item
	// reclaimed says that the run was claimed again before the answer to the turn
	// under way came here: it is in this node's hand whatever the turn has done.
	reclaimed bool
	// releases says that the run holds no permit of its queue while it is suspended.
	releases bool
	timer    *time.Timer
	watch    *time.Timer              // while code runs
	bodies   map[int64]*steps.Attempt // by operation
	next     steps.Task               // started last, and left to the driver
	stopped  bool                     // bodies are cancelled, the code is unwound
}

// event is something that happens to an activation. Exactly one field is set.
type event struct {
	snapshot  *store.Snapshot
	claimed   *store.Claimed // again, while in memory
	number    int64          // with claimed: of the claim; 0: it was no claim, but the answer to a command
	sealed    bool           // with claimed: the items are as they are stored
	adopted   bool           // with claimed: by a command or a send, says the answer to the batch
	item      *store.Item
	verdict   *store.TurnResult
	ended     *steps.End
	heartbeat *steps.Heartbeat
	tick      bool // a timer may be due, or the inbox was read
	evict     bool
	unwind    bool
	spare     bool // its time alone is over
	spared    bool // that is durable
	behind    bool // something is in the inbox that may have been received long ago: a claim knows
	closed    bool // nothing is to be done here any more
	again     bool // with closed: the run, still claimed, is to be loaded anew
}

// post queues events. It reports false when the activation is gone.
func (a *activation) post(events ...event) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return false
	}
	if a.queue(events) {
		go a.driveOn()
	}
	return true
}

// postHere is post for a caller that drives the run itself if it returns true.
func (a *activation) postHere(ev event) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.gone && a.queue([]event{ev})
}

// queue adds events. It reports whether there is no driver: the caller sees to
// it that there is one.
func (a *activation) queue(events []event) bool {
	a.events = append(a.events, events...)
	if a.driving {
		return false
	}
	a.driving = true
	a.x.drivers.Add(1)
	return true
}

// driveOn drives the run and executes the body that is left to the driver.
func (a *activation) driveOn() { a.x.steps.Pool.Follow(a.drive) }

// drive takes events until there are none. It returns a body that is to be
// executed next; nil: none.
func (a *activation) drive() steps.Task {
	defer a.x.drivers.Done()
	var used []event // have been handled: their room takes the next ones
	for {
		// Before the events are taken: what was read by then is among them, or was.
		// What comes from now on must not lose against a deadline that it has met.
		inboxAt := a.shard.InboxReadAt()
		a.mu.Lock()
		events := a.events
		a.events = used[:0]
		if len(events) == 0 || a.gone {
			a.driving = false
			next := a.next
			a.next = nil
			a.mu.Unlock()
			return next
		}
		a.mu.Unlock()
		a.startNext()
		if a.handle(events) {
			if a.behind != 0 {
				inboxAt = 0 // what it held is not all here
			}
			a.step(inboxAt)
		}
		clear(events)
		used = events
	}
}

// handle applies events to the runner. It reports whether the run may go on.
func (a *activation) handle(events []event) bool {
	for i := range events {
		ev := &events[i]
		if ev.verdict == nil {
			a.unread = false
		}
		if (ev.claimed != nil && !a.inHandAlready(ev) || ev.item != nil) && ev.number >= a.behind {
			a.heard = true
		}
		switch {
		case ev.unwind, ev.closed:
			a.leave(events[i+1:])
			if ev.again {
				a.x.take(a.shard, a.no)
			}
			return false
		case a.closing:
		case ev.snapshot != nil:
			a.load(ev.snapshot)
			if early := a.early; early != nil {
				a.early = nil
				if !a.handle(early) {
					return false
				}
			}
		case a.r == nil:
			a.early = append(a.early, *ev)
		case ev.behind, a.inHandAlready(ev):
			a.behind = a.x.dispatcher.asked.Load() + 1
			a.x.dispatcher.claimSoon()
		case ev.claimed != nil && ev.claimed.New && (verbs.Resting(&ev.claimed.Run) || a.releases):
			a.leave(events[i+1:])
			a.x.take(a.shard, a.no) // it is decided without the code, or has to ask for a permit
			return false
		case ev.claimed != nil:
			if !a.open(ev) {
				return false
			}
			if ev.claimed.New {
				a.reclaimed = a.underWay
				a.x.memory.unpark(a)
				a.r.Resumed()
			}
			a.receive(ev.number, ev.claimed.Items...)
		case ev.item != nil:
			a.receive(0, *ev.item)
		case ev.ended != nil:
			delete(a.bodies, ev.ended.ID)
			a.code.Complete(ev.ended.ID, ev.ended.Attempt, ev.ended.Result)
		case ev.heartbeat != nil:
			a.code.Heartbeat(ev.heartbeat.ID, ev.heartbeat.Attempt, ev.heartbeat.Detail)
		case ev.verdict != nil:
			if !a.answer(*ev.verdict, events[i+1:]) {
				return false
			}
		case ev.spare:
			a.spare()
		case ev.spared:
			a.underWay = false
		case ev.evict:
			if a.evict(i == len(events)-1) {
				return false
			}
		}
	}
	return a.r != nil && !a.closing
}

// inHandAlready reports whether an event says that the run was adopted although it was in hand
// by then. Of a batch that is repeated the store says so of every run in hand: it does not
// know which one the first try has adopted. Answers to batches come in their order, so a
// run that has been adopted knows that it is suspended.
func (a *activation) inHandAlready(ev *event) bool {
	return ev.adopted && a.r != nil && (a.underWay || !a.r.Suspended())
}

// receive delivers items that a claim of that number has found, or, if it is 0, that an
// answer tells, unless there may be earlier ones. What an earlier claim has found is found
// again, unless the run has consumed it since.
func (a *activation) receive(claim int64, items ...store.Item) {
	if claim < a.behind {
		if claim == 0 {
			a.waiting = append(a.waiting, items...)
			a.x.dispatcher.claimSoon() // one that has been told may have had nothing for this run
		}
		return
	}
	a.deliver(items...)
	waiting := a.waiting
	a.waiting, a.behind = nil, 0
	a.deliver(waiting...)
}

// deliver gives items to the runner, and decides verbs that are not its own.
func (a *activation) deliver(items ...store.Item) {
	if a.code == nil {
		a.r.Deliver(items...)
		return
	}
	for i := range items {
		switch it := items[i]; it.Kind {
		case store.ItemTerminate:
			a.code.Terminate(it)
		case store.ItemPause:
			if a.code.Over() != nil || a.r.Suspended() {
				a.leaveItem()
				continue
			}
			a.code.Pause(it)
		case store.ItemResume, store.ItemRetry, store.ItemRewind, store.ItemEdit:
			a.refuse(it)
		default:
			if a.code.Pausing() {
				a.leaveItem()
				continue
			}
			a.r.Deliver(it)
		}
	}
}

// leaveItem leaves something in the inbox for whoever claims the run when what is
// under way is committed.
func (a *activation) leaveItem() {
	if a.underWay || a.code.Pausing() {
		a.left = true
		return
	}
	a.x.dispatcher.claimSoon()
}

// refuse answers a verb that is for runs at rest only, while this one is executing.
func (a *activation) refuse(it store.Item) {
	switch {
	case a.code.Pausing() || a.code.Over() != nil || a.r.Suspended():
		a.leaveItem()
	case a.code.Know(it.No):
		executing := store.Run{Status: store.Running}
		a.code.Answer(it.No, verbs.No(verbs.Judge(&executing, it.Kind).Refused))
	}
}

// step lets the run go as far as it can and carries out what it wants. inboxAt is a
// time at which the inbox was read, and what it held has been handled.
func (a *activation) step(inboxAt store.Time) {
	r := a.r
	if !r.Suspended() && !a.over() {
		if a.watch == nil {
			a.watch = time.AfterFunc(slowCode, a.logSlowCode)
		} else {
			a.watch.Reset(slowCode)
		}
		r.Advance(a.x.e.time.now(), inboxAt)
		a.watch.Stop()
	}
	a.note()
	if err := r.Broken(); err != nil {
		a.x.log().Error("replaying; trying again later", "run_id", a.id, "error", err)
		a.leave(nil)
		a.x.reload(a.shard, a.no)
		return
	}
	if a.code != nil {
		for _, id := range a.code.Cancels() {
			if b := a.bodies[id]; b != nil {
				b.Cancel(steps.ErrUnwanted)
			}
		}
	}
	a.submit()
	if a.code != nil && !a.x.memory.drains() && !a.shard.Draining() {
		for _, b := range a.code.Bodies() {
			a.start(b)
		}
	}
	a.schedule()
}

// note logs what the run has to say to the process.
func (a *activation) note() {
	if a.code == nil {
		return
	}
	for _, n := range a.code.Notes() {
		a.x.log().Warn(n.Text, "run_id", a.id, "location", n.Location.String(), "error", n.Err)
	}
}

// over reports whether the code of a run is over, for now or for good.
func (a *activation) over() bool { return a.code != nil && a.code.Over() != nil }

// watches returns who is told of the run's end.
func (a *activation) watches() []store.Item {
	if a.code == nil {
		return nil
	}
	return a.code.Watches()
}

// submit hands the turn that is ready to the committer.
func (a *activation) submit() {
	if a.underWay || a.unread {
		return
	}
	turn := a.r.Take()
	if turn == nil {
		return
	}
	a.underWay, a.heard = true, false
	turn.Shard = a.run.Shard
	if a.workflow.Discard {
		for _, no := range turn.Dead {
			turn.Consumed = append(turn.Consumed, store.Consumption{Item: no})
		}
		turn.Dead = nil
	}
	shown := a.begun || len(turn.Entries) > 0
	if u := turn.Update; u != nil || !a.touched || !shown && a.code != nil {
		if u == nil {
			u = &store.Update{Status: store.Running, Marks: a.run.Marks}
			turn.Update = u
		}
		if a.code != nil { // records are of no build
			u.Build, u.Discard = a.x.e.cfg.Build, a.workflow.Discard
			if u.Waits == nil && len(turn.Entries) == 0 && u.Continue == nil && !u.Status.Terminal() {
				u.Waits = verbs.NoWaits()
			}
		}
		if u.Continue != nil {
			rand.Read(u.Continue.Seed[:])
			a.x.e.origin(&a.run, u.Continue)
		}
		if u.Status == store.Stalled || u.Status.Terminal() {
			ended := a.run
			ended.Status, ended.Marks, ended.Output, ended.Reason = u.Status, u.Marks, u.Output, u.Reason
			a.ending = &ended
			a.told = len(a.watches())
			if u.Status.Terminal() {
				decide.NotifyEnd(u, &ended, a.watches())
			}
		} else {
			a.ending = nil
		}
		if u.Status == store.Suspended && a.releases {
			permit.Release(u, &a.run)
		}
	}
	a.renewing = turn.Update != nil && turn.Update.Continue != nil
	a.x.address(turn)
	a.warn(turn)
	a.x.committer.SubmitTurn(committer.Turn{Shard: a.shard, Turn: turn, Done: func(result store.TurnResult) {
		if result.Verdict == store.Committed && turn.Update != nil && turn.Update.WakeAt != 0 {
			a.x.dispatcher.wakeBy(turn.Update.WakeAt)
		}
		if result.Verdict == store.Committed || result.Verdict == store.StillReady {
			a.x.e.waiters.Committed(turn)
		}
		a.post(event{verdict: &result})
		if result.Verdict == store.StillReady {
			a.x.dispatcher.claimSoon() // what that finds comes after the verdict, and is not left
		}
	}})
}

// answer takes the verdict on the turn under way, after which rest has come. It
// reports whether the run goes on in memory.
func (a *activation) answer(result store.TurnResult, rest []event) bool {
	a.underWay = false
	reclaimed := a.reclaimed
	a.reclaimed = false
	switch result.Verdict {
	case store.Committed:
		a.r.Committed()
		a.begun = true
		if !a.touched {
			a.touched = true
			a.x.suspects.ended(a.no)
		}
		if a.renewing {
			a.leave(rest)
			if a.run.Marks&store.Paused == 0 {
				a.x.take(a.shard, a.no) // still claimed, and what has come since is in its inbox
			}
			return false
		}
		if a.code != nil && a.code.Paused() {
			a.leave(rest)
			if reclaimed {
				a.x.take(a.shard, a.no)
			}
			a.x.dispatcher.claimSoon()
			return false
		}
		if a.left {
			a.left = false
			a.x.dispatcher.claimSoon()
		}
		if a.ending != nil {
			ended := *a.ending
			if len(a.watches()) > a.told {
				a.x.dispatcher.claimSoon() // who has asked since is told by who decides
			}
			// Who waits is told before anybody can take the run up again: else he may
			// wait for the end of what was begun anew by then.
			a.stop()
			a.x.memory.unname(a)
			a.x.e.waiters.RunEnded(ended)
			a.leave(rest)
			if reclaimed {
				a.x.take(a.shard, a.no) // for a verb that came since
			}
			return false
		}
		switch {
		case a.r.Suspended() && a.releases:
			a.leave(rest)
			if reclaimed {
				a.x.take(a.shard, a.no)
			}
			a.x.dispatcher.claimSoon()
			return false
		case a.r.Suspended():
			a.x.memory.park(a, a.r.Entries())
		}
	case store.StillReady:
		a.ending = nil
		a.r.StillReady()
		a.unread = !a.heard || a.left // what was left comes again
		a.left = false
	case store.Fenced:
		if !a.shard.Lost() {
			a.x.log().Error("a commit was fenced", "run_id", a.id, "shard", a.run.Shard)
		}
		a.leave(nil)
		a.x.fenced(a.shard)
		return false
	default:
		a.x.log().Error("a turn was refused", "run_id", a.id, "reason", result.Reason)
		a.closing = true
		a.x.stall(a.shard, a.run, "refused turn: "+result.Reason, func() { a.post(event{closed: true}) })
		return false
	}
	return true
}

// evict ends the activation of a suspended run. It reports whether it did: not
// if something has happened to the run since.
func (a *activation) evict(last bool) bool {
	a.mu.Lock()
	idle := last && len(a.events) == 0 && a.r != nil && a.r.Suspended() && !a.underWay
	if idle {
		a.gone = true
	}
	a.mu.Unlock()
	if idle {
		a.leave(nil)
	}
	return idle
}

// leave removes the activation from memory: bodies are cancelled, the code is
// unwound, and what is posted from now on is refused. What has been posted and
// not looked at is claimed again.
func (a *activation) leave(rest []event) {
	a.mu.Lock()
	a.gone = true
	rest = slices.Concat(a.early, rest, a.events)
	a.events = nil
	a.mu.Unlock()
	a.x.memory.remove(a)
	switch {
	case slices.ContainsFunc(rest, func(ev event) bool { return ev.claimed != nil && ev.claimed.New }):
		a.x.take(a.shard, a.no)
	case a.closing || len(a.waiting) > 0 || slices.ContainsFunc(rest, func(ev event) bool { return ev.claimed != nil || ev.item != nil }):
		a.x.dispatcher.claimSoon()
	}
	a.stop()
}

// stop cancels the bodies and unwinds the code.
func (a *activation) stop() {
	if a.stopped {
		return
	}
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
	}
	for _, b := range a.bodies {
		b.Cancel(context.Canceled)
	}
	if a.r != nil {
		a.r.Unwind()
	}
}

// schedule sets the timer for what is due while the run is in memory and not
// suspended.
func (a *activation) schedule() {
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.r.Suspended() || a.over() {
		return
	}
	at, needsInbox := a.r.NextTimer()
	if at == 0 {
		return
	}
	now := a.x.e.time.now()
	if needsInbox && at <= now {
		if a.behind == 0 && a.shard.InboxReadAt() >= at {
			a.post(event{tick: true})
		} else {
			a.x.dispatcher.claimFor(a)
		}
		return
	}
	// A microsecond more, so that the bound has passed the deadline by then.
	d := max(at.Sub(now), 0) + time.Microsecond
	if a.timer == nil {
		a.timer = time.AfterFunc(d, func() { a.post(event{tick: true}) })
		return
	}
	a.timer.Reset(d)
}

// slowCode is how long workflow code may run without an operation before it is
// logged.
const slowCode = 10 * time.Second

func (a *activation) logSlowCode() {
	buf := make([]byte, 256<<10)
	buf = buf[:runtime.Stack(buf, true)]
	a.x.log().Warn("workflow code has reached no operation for "+slowCode.String(),
		"run_id", a.id, "workflow", a.run.Workflow, "stacks", branchStacks(buf))
}

// origin says how a run began whose stored input is not what it was given.
func (e *Engine) origin(run *store.Run, next *store.Continuation) {
	if run.Incarnation == 0 && e.cfg.Payloads.Active() {
		next.First = run.Origin()
	}
}
