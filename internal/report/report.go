// Package report says what becomes of runs: in the log of the process, and to the
// functions that the application has registered. It is called when the event is durable,
// so that each event is reported once, also after a replay or a crash. A process that ends
// between the commit and the report reports nothing.
package report

import (
	"log/slog"
	"sync"

	"github.com/stet-run/stet/internal/fifo"
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
// but Hooks are required.
type Reporter struct {
	Log   *slog.Logger
	Hooks Hooks
	Now   func() store.Time
	Go    func(func()) // begins a goroutine that its caller waits for

	mu      sync.Mutex
	calls   fifo.Queue[func()]
	calling bool // a goroutine makes the calls
}

// Turn is what a turn of a run has to report.
type Turn struct {
	runner.News
	Run  *store.Run // of the run, its ID and workflow
	Over *store.Run // the run as the turn leaves it, if the turn ends or stalls it; otherwise nil
}

// Committed reports a turn with the store's verdict, if that makes it durable.
func (r *Reporter) Committed(t *Turn, verdict store.Verdict) {
	if verdict != store.Committed && verdict != store.StillReady {
		return
	}
	for _, f := range t.Failed {
		r.Log.Warn("step attempt failed", "run_id", t.Run.ID, "workflow", t.Run.Workflow, "location", f.Location.String(),
			"attempt", f.Attempt, "next", f.Next.Time(), "cause", f.Failure.Code, "error", f.Failure.Message)
	}
	if verdict != store.Committed {
		return // the update was not carried out
	}
	if t.Paused != "" {
		r.Log.Warn("run paused", "run_id", t.Run.ID, "workflow", t.Run.Workflow, "reason", t.Paused)
	}
	if t.Over != nil {
		r.Over(t.Over, t.At)
	}
}

// Over reports a run that has ended or is stalled, at a location if that is known. An alarm
// looks for the lines.
func (r *Reporter) Over(run *store.Run, at string) {
	log := r.Log.With("run_id", run.ID, "workflow", run.Workflow)
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
		if failure != nil {
			log = log.With("error", failure.Message)
		}
		log.Error("run stalled", "cause", string(stored.CauseOf(run)), "reason", run.Reason)
		r.call("OnStall", r.Hooks.OnStall, run)
		return
	case run.Status == store.Failed && failure != nil:
		log.Error("run failed", "cause", failure.Code, "error", failure.Message)
	case run.Status == store.Failed:
		log.Error("run failed", "reason", run.Reason)
	}
	if !store.IsEntity(run.Workflow) {
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
	if copied.Status.Terminal() && copied.Ended == 0 {
		copied.Ended = r.Now()
	}
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
