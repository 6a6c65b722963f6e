package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/report"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// phase says how far an activation is.
type phase int

const (
	// loading: the snapshot is on its way; other events wait for it.
	loading phase = iota
	// live: the run is executed, suspended, or parked. Which of them its interpreter
	// knows, and whether a turn is under way.
	live
	// stalling: the run is being stalled, and what arrives is left in the store.
	stalling
	// over: bodies are cancelled and the code is unwound.
	over
)

// activation is one run in memory.
type activation struct {
	x        *executor
	shard    *ownership.Shard // of the run
	no       store.RunNo
	number   int64             // grows with each activation of the executor
	driver   func() steps.Task // drive
	id       string            // set before the snapshot is posted, like workflow
	workflow Workflow
	expected bool       // the line of suspects waits until it is loaded
	claimed  store.Time // if the run was first claimed then or later, none executed it before; 0: one may have

	mu      sync.Mutex
	events  []event
	driving bool // some goroutine is the driver
	gone    bool // takes no events any more

	// The driver's.
	phase    phase
	run      store.Run
	r        interpreter         // nil: loading
	code     *runner.Interpreter // the same, of a run of a workflow; nil: it is an entity
	turn     turnUnderWay
	sent     sentTurn // the latest
	touched  bool     // the row knows this build, and the run is no suspect
	former   bool     // the row has an earlier build, and nothing was recorded since
	begun    bool     // that a turn was committed can be seen
	releases bool     // the run holds no permit of its queue while it is suspended
	timer    *time.Timer
	advanced struct{ to, inboxAt store.Time } // the latest step
	watch    *time.Timer                      // while code runs
	attempts *steps.Activation                // nil: none has begun
	bodies   map[int64]*steps.Attempt         // by operation
	next     steps.Task                       // started last, and left to the driver
	places   steps.Places                     // of bodies that have ended
	outcomes []steps.Task                     // of these: their outcomes are for the next turn
	room     []steps.Task                     // empty: for the outcomes of a later turn
	emitted  []func()                         // settle what bodies have emitted for the next turn

	lined *lined // of an entity that admits runs of a line

	announced bool // the begin of the run was reported, though begun does not say so

	early  []event // arrived while loading
	missed bool    // a pause was withdrawn: items that were left in the inbox are to be read
	left   bool    // an item has arrived that is not for the code: the next claim decides about it

	// decidable is decided without the run's code, if its replay does not end soon; nil: nothing is.
	decidable atomic.Pointer[store.Snapshot]

	// unread says that the inbox holds an item that has not arrived here yet, as the store
	// has said by StillReady: a turn taken now would be answered in the same way. The next
	// event ends it.
	unread bool

	// behind is the number of a claim; 0: none. The answer to a command has said of an item
	// that it has been in the inbox for some time. This claim is the first one to say
	// whether it is still news. Until then items that arrive by other answers wait, so that
	// they do not overtake it.
	behind  int64
	waiting []store.Item
}

// newActivation returns an activation that waits for its run's snapshot.
func (x *executor) newActivation(h *ownership.Shard, no store.RunNo, number int64) *activation {
	a := &activation{x: x, shard: h, no: no, number: number, places: steps.Places{Pool: x.steps.Pool}}
	a.driver = a.drive
	a.sent.answer = a.turnAnswered
	return a
}

// introduce gives an expected activation the run's ID and code.
func (x *executor) introduce(a *activation, run *store.Run) {
	a.mu.Lock()
	a.id = run.ID
	if w, own := x.e.cfg.Workflows[run.Workflow]; own {
		a.workflow = w
	}
	a.mu.Unlock()
	x.memory.Introduce(a, run)
}

// No returns the number of the run.
func (a *activation) No() store.RunNo { return a.no }

// EvictionDue ends the activation, unless something has happened to the run since.
func (a *activation) EvictionDue() { a.post(evictionDue{}) }

// post queues events, and starts a driver if there is none. It reports false when the
// activation is gone.
func (a *activation) post(events ...event) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return false
	}
	if a.queue(events) {
		a.driveOn()
	}
	return true
}

// postHere is post for a caller that drives the run itself if it returns true.
func (a *activation) postHere(ev event) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.gone && a.queue([]event{ev})
}

// Gone reports whether the run has left memory.
func (a *activation) Gone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gone
}

// queue adds events. It reports whether there is no driver: then the caller starts one, or
// is it. a.mu must be held.
func (a *activation) queue(events []event) bool {
	a.events = append(a.events, events...)
	if a.driving {
		return false
	}
	a.driving = true
	a.x.drivers.Add()
	return true
}

// driveOn makes a goroutine drive the run and execute the body that is left to the driver.
func (a *activation) driveOn() { a.x.steps.Pool.Follow(a.driver) }

// drive takes events until there are none. It returns a body that is to be
// executed next; nil: none.
func (a *activation) drive() steps.Task {
	defer a.x.drivers.Done()
	var used []event // have been handled: their room takes the next ones
	for {
		// Before the events are taken: the items that were read by then are among these
		// events, or among former ones. An item that arrives later must not lose against
		// a deadline that it has met.
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
			if a.behind != 0 || a.code != nil && a.code.Pausing() {
				inboxAt = 0 // not all that it held has arrived, or is left there
			}
			a.step(inboxAt)
		}
		clear(events)
		used = events
	}
}

// handle applies events in their order. It reports whether the run may go on.
func (a *activation) handle(events []event) bool {
	for i, ev := range events {
		a.note(ev)
		switch ev.(type) {
		case unwound, dismissed:
		case snapshotLoaded:
			if a.phase != loading {
				continue
			}
		default:
			if a.phase == loading {
				a.early = append(a.early, ev)
			}
			if a.phase != live {
				continue
			}
		}
		if !ev.handle(a, events[i+1:]) {
			return false
		}
	}
	return a.phase == live
}

// note keeps what any event says about the inbox.
func (a *activation) note(ev event) {
	switch ev := ev.(type) {
	case *turnAnswered:
		return
	case *runClaimed:
		a.turn.heard = a.turn.heard || !a.claimedBefore(ev) && ev.number >= a.behind
	case *itemArrived:
		a.turn.heard = a.turn.heard || a.behind == 0
	}
	a.unread = false
}

// activationBytes is what an activation takes in memory, without its interpreter: itself, its timers, its places in
// maps.
const activationBytes = 3 << 10

// bytes returns about how many bytes of memory the activation takes.
func (a *activation) bytes() int {
	n := activationBytes + a.workflow.Footprint + a.r.Bytes() + len(a.run.Input) + len(a.run.Output) + len(a.run.Headers) +
		len(a.run.Waits) + len(a.run.Queue)
	for _, tag := range a.run.Tags {
		n += len(tag.Key) + len(tag.Value)
	}
	return n
}

// step lets the run go as far as it can, submits its turn, and starts its bodies. inboxAt
// is a time at which the inbox was read, and all that it held has been handled.
func (a *activation) step(inboxAt store.Time) {
	r := a.r
	if !r.Suspended() && !a.codeOver() {
		if a.watch == nil {
			a.watch = time.AfterFunc(report.SlowCode, a.reportSlowCode)
		} else {
			a.watch.Reset(report.SlowCode)
		}
		a.advanced.to, a.advanced.inboxAt = a.x.e.time.Now(), inboxAt
		r.Advance(a.advanced.to, inboxAt)
		a.watch.Stop()
		a.decidable.Store(nil)
	}
	a.logNotes()
	if err := r.Broken(); err != nil {
		if payload.Spoilt(err) && !a.turn.underWay {
			a.phase = stalling
			a.x.stall(a.shard, a.run, stored.DamagedReason(err.Error()), func() { a.post(dismissed{}) })
			return
		}
		a.leave(nil)
		if errors.Is(err, entity.ErrLacks) || payload.Closed(err) {
			a.dispatcher().lack(a, err)
			return
		}
		a.x.log().Error("replaying; trying again later", "run_id", a.id, "error", err)
		a.x.reload(a.shard, a.no)
		return
	}
	if a.code != nil {
		for _, id := range a.code.Cancels() {
			if b := a.bodies[id]; b != nil {
				if began := b.Cut(steps.ErrUnwanted); began != 0 {
					runner.Began(a.code, id, began)
				}
			}
		}
		if a.codeOver() {
			for id, b := range a.bodies {
				if began := b.Began(); began != 0 {
					runner.Began(a.code, id, began)
				}
			}
		}
	}
	a.submit()
	if a.code != nil && !a.x.memory.Drains() && !a.shard.Draining() {
		for b := range a.code.Bodies() {
			a.start(b)
		}
	}
	a.schedule()
	if a.lined != nil && a.lined.line.Short() {
		a.look(false)
	}
}

// logNotes logs the notes of the run.
func (a *activation) logNotes() {
	if m, ok := a.r.(*entity.Machine); ok {
		for _, n := range m.Notes() {
			a.x.log().Warn(n.Text, n.Attrs...)
		}
	}
	if a.code == nil {
		return
	}
	for _, n := range a.code.Notes() {
		a.x.log().Warn(n.Text, "run_id", a.id, "workflow", a.run.Workflow, "location", n.Location.String(), "error", n.Err)
	}
}

// codeOver reports whether the code of a run is over, for now or for good.
func (a *activation) codeOver() bool { return a.code != nil && a.code.Over() != nil }

// watches returns the items of the runs that watch for this run's end.
func (a *activation) watches() []store.Item {
	if a.code == nil {
		return nil
	}
	return a.code.Watches()
}

// evict ends the activation of a suspended run. It reports whether it did: not
// if something has happened to the run since.
func (a *activation) evict(last bool) bool {
	a.mu.Lock()
	idle := last && len(a.events) == 0 && a.r.Suspended() && !a.turn.underWay
	if idle {
		a.gone = true
	}
	a.mu.Unlock()
	if idle {
		a.leave(nil)
	}
	return idle
}

// leave removes the activation from memory: bodies are cancelled, the code is unwound, and
// events are refused from now on. If rest, or the queue, holds news of the run, it is
// claimed again.
func (a *activation) leave(rest []event) {
	a.mu.Lock()
	a.gone = true
	rest = slices.Concat(a.early, rest, a.events)
	a.events = nil
	a.mu.Unlock()
	a.places.Close()
	a.x.memory.Remove(a)
	claimed, news := false, false
	for _, ev := range rest {
		switch ev := ev.(type) {
		case *runClaimed:
			claimed, news = claimed || ev.New, true
		case claimUncertain:
			a.dispatcher().unsure.Store(true)
			news = true
		case *itemArrived, inboxUncertain:
			news = true
		}
	}
	switch {
	case claimed:
		a.x.take(a.shard, a.no)
	case news, a.phase == stalling, len(a.waiting) > 0:
		a.dispatcher().claimSoon()
	}
	a.stop()
}

// stop cancels the bodies and unwinds the code.
func (a *activation) stop() {
	if a.phase == over {
		return
	}
	a.phase = over
	a.endLine()
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

// schedule sets the timer for the next deadline of a run that is not suspended.
func (a *activation) schedule() {
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.r.Suspended() || a.codeOver() {
		return
	}
	at, needsInbox := a.r.NextTimer()
	if at == 0 {
		return
	}
	if a.turn.underWay && at <= a.advanced.to && (!needsInbox || at <= a.advanced.inboxAt) {
		return // it waits for the answer
	}
	if needsInbox && at <= a.x.e.time.Now() {
		if a.behind == 0 && a.shard.InboxReadAt() >= at {
			a.post(timeReached{})
		} else {
			a.dispatcher().claimFor(a)
		}
		return
	}
	d := a.x.e.time.Until(at)
	if a.timer == nil {
		a.timer = time.AfterFunc(d, func() { a.post(timeReached{}) })
		return
	}
	a.timer.Reset(d)
}

func (a *activation) reportSlowCode() {
	if s := a.decidable.Swap(nil); s != nil {
		defer a.x.decide(a, s)
	}
	a.x.report.Slow(&a.run)
}
