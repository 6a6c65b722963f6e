// Package report says what becomes of runs: in the log of the process, and to the
// functions that the application has registered. It is called when the event is durable,
// so that each event is reported once, also after a replay or a crash. A process that ends
// between the commit and the report reports nothing.
package report

import (
	"log/slog"
	"sync"

	"github.com/stet-run/stet/internal/fifo"
	"github.com/stet-run/stet/internal/observe"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Hooks are functions of the application. Each may be nil.
type Hooks struct {
	OnEnd   func(run *store.Run) // the run has ended
	OnStall func(run *store.Run) // the run is stalled
}

// Reporter reports what becomes of runs. It is safe for concurrent use. All exported fields
// but Hooks, Observer and ParentID are required.
type Reporter struct {
	Log      *slog.Logger
	Hooks    Hooks
	Observer *observe.Port // nil: nothing is reported to it
	Now      func() store.Time
	// ParentID returns the ID of the parent of a child; "": it is not known here. nil: none is.
	ParentID func(child, parent store.RunNo) string
	Go       func(func()) // begins a goroutine that its caller waits for

	mu      sync.Mutex
	calls   fifo.Queue[func()]
	calling bool // a goroutine makes the calls

	slow slowStacks
}

// Turn is what a turn of a run has to report.
type Turn struct {
	runner.News
	Run   *store.Run // as it was loaded
	Turn  *store.Turn
	Began bool       // it is the first turn of the run
	Over  *store.Run // the run as the turn leaves it, if the turn ends or stalls it; otherwise nil
}

// Committed reports a turn with the store's verdict, if that makes it durable.
func (r *Reporter) Committed(t *Turn, verdict store.Verdict) {
	if verdict != store.Committed && verdict != store.StillReady {
		return
	}
	if len(t.Failed) > 0 {
		log := r.logOf(t.Run)
		for _, f := range t.Failed {
			log.Warn("step attempt failed", "location", f.Location.String(), "attempt", f.Attempt, "next", f.Next.Time(),
				"cause", f.Failure.Code, "error", f.Failure.Message)
		}
	}
	if r.Observer != nil {
		r.observe(t)
	}
	if verdict != store.Committed {
		return // the update was not carried out
	}
	if t.Paused != "" {
		r.logOf(t.Run).Warn("run paused", "reason", t.Paused)
	}
	if t.Over != nil {
		r.Over(t.Over, t.At)
	}
}

// logOf returns a logger that knows the run, and the trace that it belongs to.
func (r *Reporter) logOf(run *store.Run) *slog.Logger {
	log := stored.ChildOf(run).Log(r.Log.With("run_id", run.ID, "workflow", run.Workflow), r.ParentID)
	if id := stored.TraceID(run.Headers); id != "" {
		log = log.With("trace_id", id)
	}
	return log
}

// observe reports what stands of a turn.
func (r *Reporter) observe(t *Turn) {
	o := r.Observer
	if t.Began && o.RunBegan != nil {
		o.RunBegan(t.Run)
	}
	if o.Turn != nil {
		o.Turn(t.Run, t.Turn)
	}
	if t.Woken && o.Woken != nil {
		o.Woken(t.Run, t.Late)
	}
	if o.Waited != nil {
		for i := range t.Turn.Entries {
			if e := &t.Turn.Entries[i]; e.Seq > 0 && waits(e.Kind) {
				o.Waited(t.Run, e, t.Resumed)
			}
		}
	}
	if o.Sent != nil {
		for i := range t.Turn.Sends {
			c := &t.Turn.Sends[i]
			if it := c.Item; it != nil && (it.Kind == store.ItemMessage || it.Kind == store.ItemUpdate) &&
				!store.IsEntity(c.RunID) {
				o.Sent(t.Run, c, t.Resumed)
			}
		}
	}
}

// waits reports whether an operation of the kind waits for something outside of the run.
func waits(k store.Kind) bool {
	switch k {
	case store.KindSleep, store.KindReceive, store.KindPromise, store.KindTimer, store.KindWait, store.KindChild,
		store.KindRun, store.KindEvent:
		return true
	}
	return false
}

// Over reports a run that has ended or is stalled, at a location if that is known. An alarm
// looks for the lines.
func (r *Reporter) Over(run *store.Run, at string) {
	log := r.logOf(run)
	failure, err := stored.RunFailed(run)
	if err != nil {
		log.Error("reading why a run has failed", "error", err)
	}
	attempt := 0
	for f := failure; f != nil; f = f.Cause {
		if f.Location != "" {
			at, attempt = f.Location, f.Attempts
			break
		}
	}
	if at != "" {
		log = log.With("location", at)
	}
	if attempt > 0 {
		log = log.With("attempt", attempt)
	}
	switch {
	case run.Status == store.Stalled:
		text := run.Reason
		if failure != nil {
			text = failure.Message
		}
		log.Error("run stalled", "error", text, "cause", string(stored.CauseOf(run)), "reason", run.Reason)
		if o := r.Observer; o != nil && o.RunStalled != nil {
			o.RunStalled(run)
		}
		r.call("OnStall", r.Hooks.OnStall, run)
		return
	case run.Status == store.Failed && failure != nil:
		log.Error("run failed", "cause", failure.Code, "error", failure.Message)
	case run.Status == store.Failed:
		log.Error("run failed", "error", run.Reason)
	}
	if !store.IsEntity(run.Workflow) {
		if o := r.Observer; o != nil && o.RunEnded != nil {
			ended := *run
			r.dated(&ended)
			o.RunEnded(&ended)
		}
		r.call("OnEnd", r.Hooks.OnEnd, run)
	}
}

// call calls a function of the application, after those that it was asked to call before.
// The caller does not wait: it may be the goroutine that commits.
func (r *Reporter) call(name string, f func(*store.Run), run *store.Run) {
	if f == nil {
		return
	}
	copied := *run
	r.dated(&copied)
	r.mu.Lock()
	r.calls.Push(func() {
		defer func() {
			if p := recover(); p != nil {
				r.Log.Error(name+" panicked", "run_id", copied.ID, "panic", p, "stack", stored.PanicFailure(p).Stack)
			}
		}()
		f(&copied)
	})
	begins := !r.calling
	r.calling = true
	r.mu.Unlock()
	if begins {
		r.Go(r.work)
	}
}

// dated says of a run that has ended just now when that was.
func (r *Reporter) dated(run *store.Run) {
	if run.Status.Terminal() && run.Ended == 0 {
		run.Ended = r.Now()
	}
}

// work makes the calls, one after the other.
func (r *Reporter) work() {
	for {
		r.mu.Lock()
		if r.calls.Len() == 0 {
			r.calling = false
			r.mu.Unlock()
			return
		}
		next := r.calls.Pop()
		r.mu.Unlock()
		next()
	}
}
