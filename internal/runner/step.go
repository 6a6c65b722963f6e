package runner

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Step asks for a side effect that is recorded.
type Step struct {
	Call   Call
	Func   BodyFunc
	Policy Policy
	// Undo is the step's compensation, or nil. With one, a cancel waits for the
	// step's end and records it.
	Undo *Undo
	// Whole says that a cancel waits for the step's end in any case: what its body
	// does may be in the store before the run knows of it.
	Whole bool
	// Permit is where each attempt asks for a permit, without a ticket; nil: none is
	// needed.
	Permit *permit.Place

	former int // attempts of former rounds: all were used up, and a person has asked for more
}

// Policy says how often and when a step is tried. All fields are set.
type Policy struct {
	Attempts int           // in total; negative: without limit
	First    time.Duration // before the second attempt
	Factor   float64
	Max      time.Duration
	Jitter   float64       // share of the delay by which it varies, both ways
	Timeout  time.Duration // per attempt; 0: none
	Overall  time.Duration // for all attempts; 0: none
}

// stepOp is the operation of a step with what was asked for, in one piece.
type stepOp struct {
	op   op
	step Step
}

// arrival is the end of an attempt that waits to be looked at.
type arrival struct {
	op     *op
	result BodyResult
}

// Step executes a step and returns its encoded value.
func (b *Branch) Step(s Step) ([]byte, error) {
	if err := b.Enter(s.Call); err != nil {
		return nil, err
	}
	x := &stepOp{step: s}
	o := b.request(&x.op, s.Call, store.KindStep)
	o.step, o.keep, o.whole = &x.step, s.Undo != nil, s.Whole || s.Undo != nil
	b.continueFrom(o)
	err := b.waitOp(s.Call, o)
	return o.value, err
}

// continueFrom takes the former attempts of an operation from its record.
func (b *Branch) continueFrom(o *op) {
	if o.kind == store.KindUndo {
		o.asked = b.run.bound
	}
	if o.rec == nil || o.rec.State != store.Open && o.rec.State != store.Withdrawn {
		return
	}
	o.attempt, o.deadline, o.from = o.rec.Attempt, o.rec.Wake, o.rec.Started
	p, err := b.run.progressOf(o.rec.Entry)
	if err != nil {
		b.Halt()
	}
	o.causes, o.detail, o.step.former = p.Causes, p.Detail, p.Former
	o.trouble = p.Pause && b.run.cfg.PauseAfter > 0
	if p.Since != 0 {
		o.asked = p.Since
	}
	b.holdTicket(o, p.Permit)
}

func (r *Run) startStep(o *op) {
	r.bodies[o.id] = o
	if o.trouble {
		r.pauseFor(o)
	}
	if o.deadline > r.bound {
		r.setTimer(o, o.deadline)
		return
	}
	r.beginAttempt(o)
}

// queueBody lets a body wait until what was handed over so far is durable.
func (r *Run) queueBody(o *op) {
	o.busy, o.queued, o.barrier = true, true, r.pos
	r.inFlight++
	r.queue.Push(o)
}

// Bodies returns the step bodies that may start now. Each is returned once; its
// end is told by Complete.
func (r *Run) Bodies() []Body {
	var bodies []Body
	for r.queue.Len() > 0 {
		o := r.queue.Peek()
		if o.queued && o.barrier > r.durable {
			break
		}
		r.queue.Pop()
		if !o.queued || r.over != nil || r.pause != nil {
			continue
		}
		o.queued, o.given = false, true
		body := Body{
			ID: o.id, Location: o.loc, Attempt: o.attempt + 1, Func: o.step.Func,
			Timeout: o.step.Policy.Timeout, Detail: o.detail, run: r, generation: o.generation, born: o.born,
			kind: o.kind, owes: o.keep, from: o.from,
		}
		if overall := o.step.Policy.Overall; overall > 0 {
			body.Deadline = o.asked.Add(overall)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// Cancels returns the IDs of bodies that were given out and are wanted no more.
func (r *Run) Cancels() []int64 {
	cancels := r.cancels
	r.cancels = nil
	return cancels
}

// Complete tells the end of an attempt. Only the current attempt's is accepted.
func (r *Run) Complete(id int64, attempt int, result BodyResult) {
	o := r.bodies[id]
	if o == nil || !o.given || attempt != o.attempt+1 {
		return
	}
	o.given = false
	r.arrived.Push(arrival{o, result})
}

// Heartbeat records what an attempt wants its successor to know, unless it is
// larger than a value may be. It reports whether the attempt is the current one.
func (r *Run) Heartbeat(id int64, attempt int, detail []byte) bool {
	o := r.bodies[id]
	if o == nil || !o.given || attempt != o.attempt+1 {
		return false
	}
	if len(detail) > r.limits.Value {
		r.note(o.loc, "a heartbeat's detail is not recorded", fmt.Errorf("it has %d bytes, more than the limit of %d", len(detail), r.limits.Value))
		return true
	}
	o.detail = detail
	r.writeProgress(o, 0)
	return true
}

func (r *Run) writeProgress(o *op, wake store.Time) {
	p := stored.Progress{Causes: o.causes, Detail: o.detail, Former: o.step.former, Pause: o.trouble}
	if o.kind == store.KindUndo && o.attempt > p.Former {
		p.Since = o.asked
	}
	if o.pass != nil {
		p.Permit = &o.pass.place
	}
	r.write(o, store.Entry{
		State: store.Open, Attempt: o.attempt, Wake: wake, Started: o.from,
		Value: p.Encode(),
	})
}

// attemptEnded looks at the end of an attempt: it is the end of the step, or a
// retry follows.
func (r *Run) attemptEnded(a arrival) {
	o, result := a.op, a.result
	if !o.busy {
		return // closed since
	}
	r.settleBody(o)
	r.endPermit(o)
	if !result.Never {
		o.attempt++
	}
	o.until = result.Ended
	if o.from == 0 {
		o.from = result.Started
	}
	if f := r.tooLarge(o.loc, result.Value); f != nil {
		result.Final, result.Failure = true, f
	}
	if result.Failure == nil {
		delete(r.bodies, o.id)
		o.value, o.recorded = result.Value, result.Recorded
		r.handOver(o)
		return
	}
	o.causes = stored.AddCause(o.causes, result.Failure)
	policy := &o.step.Policy
	next := r.bound.Add(r.delay(o))
	late := policy.Overall > 0 && next >= o.asked.Add(policy.Overall)
	if result.Final || o.refused || late || policy.Attempts > 0 && o.attempt-o.step.former >= policy.Attempts {
		if o.kind == store.KindUndo {
			r.stallUndo(o)
		} else {
			r.failStep(o)
		}
		return
	}
	o.deadline = next
	r.pos++
	if r.failsTooOften(o) {
		o.trouble = true
		r.pauseFor(o)
	}
	r.writeProgress(o, next)
	r.setTimer(o, next)
}

// failStep hands over the failure of a step.
func (r *Run) failStep(o *op) {
	delete(r.bodies, o.id)
	last := &stored.Failure{Code: stored.CodeCancelled, Message: "cancelled before it began"}
	if n := len(o.causes); n > 0 {
		last = o.causes[n-1]
	}
	o.failure = &stored.Failure{
		Code: stored.CodeStep, Location: o.loc.String(), Attempts: o.attempt, Cause: last, Causes: o.causes,
		Message: fmt.Sprintf("step %s failed after %d attempts: %s", o.loc, o.attempt, last.Message),
	}
	if o.attempt == 1 || o.attempt == 0 && last.Code != stored.CodeCancelled {
		o.failure.Message = fmt.Sprintf("step %s failed: %s", o.loc, last.Message)
	}
	r.handOver(o)
}

// delay returns the time before the next attempt. Its jitter follows from the
// run, the location and the attempt.
func (r *Run) delay(o *op) time.Duration {
	p := &o.step.Policy
	d := float64(p.First) * math.Pow(p.Factor, float64(o.attempt-o.step.former-1))
	d = min(d, float64(p.Max))
	h := r.random("jitter", o.loc, int64(o.attempt))
	unit := float64(binary.BigEndian.Uint32(h[:])) / math.MaxUint32 // 0 to 1
	d *= 1 + p.Jitter*(2*unit-1)
	return time.Duration(min(d, float64(math.MaxInt64/2)))
}

// settleBody says that no body of the step is queued or under way any more.
func (r *Run) settleBody(o *op) {
	if o.busy {
		o.busy, o.queued, o.given = false, false, false
		r.inFlight--
	}
}

// dropBody forgets the body of a closed step and cancels it if it was given out.
func (r *Run) dropBody(o *op) {
	if o.given {
		r.cancels = append(r.cancels, o.id)
	}
	r.settleBody(o)
	if r.live {
		r.endPermit(o)
	}
	delete(r.bodies, o.id)
}

// cancelKept is the cancel of a step whose end must be known. Whether it has
// begun is not known to a replay, so in a replay nothing happens here.
func (o *op) cancelKept() {
	r := o.run
	o.refused = true
	o.deadline = 0 // no attempt follows
	switch {
	case !r.live || o.busy && !o.queued && !o.given:
	case o.given:
		r.cancels = append(r.cancels, o.id)
	default:
		r.settleBody(o)
		o.busy = true
		r.inFlight++
		r.arrived.Push(arrival{o, NeverBegun(r.now)})
	}
}

// NeverBegun is the end of a body that was cancelled before it began.
func NeverBegun(now store.Time) BodyResult {
	return BodyResult{Failure: &stored.Failure{Code: stored.CodeCancelled, Message: "cancelled before it began"}, Final: true, Never: true, Started: now, Ended: now}
}

// Key returns the idempotency key of an operation that was asked for at loc in a
// generation: the same over attempts, replays and retries, new after a rewind.
func (r *Run) Key(loc location.Loc, generation int) string {
	h := r.derive("key", generation, loc, 0)
	return hex.EncodeToString(h[:16])
}
