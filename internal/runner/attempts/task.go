package attempts

import (
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Task is a step whose body is executed by a worker elsewhere. Each attempt is offered by the
// turn that asks for its permit, and ended by an item of the inbox: see package permit. Whether
// a worker has it meanwhile the run does not know.
type Task struct {
	Name  string
	Input []byte
	// Check returns why a result is none of the step; nil: it is one.
	Check func(result []byte) error
	// Accepts reports whether a failure may have a code. Another one is an error with the
	// code in its message.
	Accepts func(code string) bool
}

// name returns the task's name; "" of nil.
func (t *Task) name() string {
	if t == nil {
		return ""
	}
	return t.Name
}

// offer adds the task of a step to what asks for the permit of its next attempt.
func (o *step) offer(ask *permit.Ask) {
	t := o.spec.Task
	if t == nil {
		return
	}
	policy := &o.spec.Policy
	o.permit.task, o.permit.input = t.Name, t.Input
	ask.Task = &permit.Task{
		Name: t.Name, Attempt: o.attempt + 1, Timeout: store.Delay(policy.Timeout / time.Microsecond),
		Last: policy.Attempts > 0 && o.attempt+1-o.former >= policy.Attempts,
	}
}

// offered reports whether the attempt is offered, or leased, and its outcome has not come.
func (o *step) offered() bool { return o.permit != nil && o.permit.task != "" && !o.permit.ended }

// recall asks for the end of a task that is wanted no more.
func (p *permits) recall(o *step) {
	p.s.j.Log.Send(o.permit.place.Recall())
}

// outcome takes the end of the attempt from the queue.
func (o *step) outcome(out *permit.Outcome) {
	s := o.s
	o.permit.ended, o.permit.until = true, 0
	o.lead.Queue, o.lead.Task = o.permit.place.Queue, true
	if out.Detail != nil {
		o.detail = out.Detail
	}
	if out.How == permit.TaskTimeout || out.How == permit.TaskLost { // a worker may have executed it
		o.unsure = o.unsure || o.owes()
	}
	o.busy = true
	s.inFlight++
	end := o.result(out)
	s.ended.Push(attemptEnd{o, &end})
}

// result returns the outcome of a task as that of a body.
func (o *step) result(out *permit.Outcome) BodyResult {
	t, queue := o.permit.task, o.permit.place.Queue
	r := BodyResult{Started: out.Started, Ended: out.Ended, Final: out.Final,
		After: time.Duration(out.After) * time.Microsecond}
	fails := func(code, format string, args ...any) {
		r.Failure = &stored.Failure{Code: code, Message: fmt.Sprintf(format, args...)}
	}
	switch out.How {
	case permit.TaskCompleted:
		r.Value = out.Result
		if err := o.spec.Task.Check(out.Result); err != nil {
			r.Value = nil
			fails(stored.CodeEncoding, "the result of task %q by worker %q does not fit: %v", t, out.Worker, err)
		}
	case permit.TaskTimeout:
		fails(stored.CodeTimeout, "the time of task %q was over at worker %q", t, out.Worker)
	case permit.TaskLost:
		fails(stored.CodeLost, "the lease of task %q of queue %q has expired %d times, at last with worker %q",
			t, queue, permit.MaxLost, out.Worker)
	case permit.TaskNever:
		return NeverBegun(out.Ended)
	default:
		f, err := stored.DecodeFailure(out.Failure)
		if err != nil {
			fails(stored.CodeError, "the failure of task %q cannot be read: %v", t, err)
			break
		}
		if f.Code != stored.CodeError && !o.spec.Task.Accepts(f.Code) {
			g := *f
			g.Code, g.Message = stored.CodeError, f.Code+": "+f.Message
			f = &g
		}
		r.Failure = f
	}
	if r.Failure != nil && !r.Final {
		b := Body{final: o.spec.Policy.Final}
		r.Final = b.isFinal(r.Failure)
	}
	return r
}
