package steps

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/stet-run/stet/store"
)

const (
	// watchEvery is the least interval at which the attempts are looked at that are executing.
	watchEvery = 5 * time.Second
	// shownAfter is how long an attempt executes before that is recorded. Shorter ones cost
	// nothing.
	shownAfter = 10 * time.Second
	// toldAfter is how long an attempt executes before that is logged, once.
	toldAfter = 30 * time.Second
)

// watched is what is known of an attempt that was found executing.
type watched struct {
	since  time.Time // it was seen, or has beaten
	shown  bool
	told   bool          // that it executes for long
	warnAt time.Duration // of silence
}

// Watch lets runs record which attempts have been executing for long, and logs those that
// do not return, until ctx ends. It looks at them after one has begun, and when one is due:
// nothing ticks while nothing happens.
func (e *Env) Watch(ctx context.Context, log *slog.Logger) {
	known := map[*Attempt]*watched{}
	begun := int64(0) // tasks, at the last look
	due := time.NewTimer(0)
	defer due.Stop()
	due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		case <-e.Pool.More(begun):
			select {
			case <-ctx.Done():
				return
			case <-time.After(watchEvery):
			}
		}
		begun = e.Pool.Begun()
		found := make(map[*Attempt]*watched, len(known))
		next := time.Duration(0)
		for _, task := range e.Pool.Running() {
			a, ok := task.(*Attempt)
			if !ok || a.ended.Load() {
				continue
			}
			w := known[a]
			if w == nil {
				w = &watched{since: time.Now(), warnAt: e.silence(), told: e.silence() <= toldAfter || e.WarnStep <= 0}
			}
			found[a] = w
			if d := max(a.watch(w, log), watchEvery); next == 0 || d < next {
				next = d
			}
		}
		known = found
		if due.Stop(); next > 0 {
			due.Reset(next)
		}
	}
}

// watch returns how long the attempt need not be looked at.
func (a *Attempt) watch(w *watched, log *slog.Logger) time.Duration {
	started, beaten := a.times()
	if started == 0 {
		return 0
	}
	executing := a.env.Now().Sub(started)
	if !w.shown && executing >= shownAfter {
		w.shown = true
		a.Run.Beat(Heartbeat{ID: a.body.ID, Attempt: a.body.Attempt, Started: started})
	}
	if !w.told && executing >= toldAfter {
		w.told = true
		a.child.Log(log, a.env.ParentID).Info("a step executes for long", "run_id", a.RunID, "workflow", a.Workflow,
			"location", a.Location(), "attempt", a.body.Attempt, "since", started.Time())
	}
	if beaten.After(w.since) {
		w.since, w.warnAt = beaten, a.env.silence()
	}
	silent := time.Since(w.since)
	if silent >= w.warnAt {
		if w.warnAt *= 2; w.warnAt <= 0 {
			w.warnAt = math.MaxInt64
		}
		a.child.Log(log, a.env.ParentID).Warn("a step has not returned", "run_id", a.RunID, "workflow", a.Workflow,
			"location", a.Location(), "attempt", a.body.Attempt, "since", started.Time(), "silent_for", silent.Round(time.Second).String())
	}
	due := w.warnAt - silent
	if !w.told {
		due = min(due, toldAfter-executing)
	}
	if !w.shown {
		due = min(due, shownAfter-executing)
	}
	return due
}

// Long returns the attempts that have been executing for long, the oldest first.
func (e *Env) Long() []store.Body {
	var long []store.Body
	for _, task := range e.Pool.Running() {
		a, ok := task.(*Attempt)
		if !ok || a.ended.Load() {
			continue
		}
		if started, _ := a.times(); started != 0 && e.Now().Sub(started) >= shownAfter {
			long = append(long, store.Body{
				RunID: a.RunID, Workflow: a.Workflow, Location: a.Location(), Attempt: a.body.Attempt, Since: started,
			})
		}
	}
	slices.SortFunc(long, func(a, b store.Body) int { return cmp.Compare(a.Since, b.Since) })
	return long[:min(len(long), store.MaxBodies)]
}

// silence returns how long a body may be silent.
func (e *Env) silence() time.Duration {
	if e.WarnStep <= 0 {
		return math.MaxInt64
	}
	return e.WarnStep
}

// times returns when the body began, 0 if it has not, and its last heartbeat.
func (a *Attempt) times() (started store.Time, beaten time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.started, a.beaten
}

// Began returns when the body began; 0: it has not.
func (a *Attempt) Began() store.Time {
	started, _ := a.times()
	return started
}

// Age returns for how long the body has been executing; 0: it has not begun.
func (a *Attempt) Age(now store.Time) time.Duration {
	started, _ := a.times()
	if started == 0 {
		return 0
	}
	return max(now.Sub(started), 0)
}
