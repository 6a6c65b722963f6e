package steps

import (
	"context"
	"log/slog"
	"time"

	"github.com/stet-run/stet/store"
)

const (
	// watchEvery is the interval at which the attempts are looked at that are executing.
	watchEvery = 5 * time.Second
	// shownAfter is how long an attempt executes before that is recorded. Shorter ones cost
	// nothing.
	shownAfter = 10 * time.Second
	// silentFor is how long a body may execute without a heartbeat before that is logged;
	// then after twice the time, and so on.
	silentFor = 10 * time.Minute
)

// watched is what is known of an attempt that was found executing.
type watched struct {
	since  time.Time // it was seen, or has beaten
	shown  bool
	warnAt time.Duration // of silence
}

// Watch lets runs record which attempts have been executing for long, and logs those that
// do not return, until ctx ends.
func (e *Env) Watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	known := map[*Attempt]*watched{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		found := make(map[*Attempt]*watched, len(known))
		for _, task := range e.Pool.Running() {
			a, ok := task.(*Attempt)
			if !ok || a.ended.Load() {
				continue
			}
			w := known[a]
			if w == nil {
				w = &watched{since: time.Now(), warnAt: silentFor}
			}
			found[a] = w
			a.watch(w, log)
		}
		known = found
	}
}

func (a *Attempt) watch(w *watched, log *slog.Logger) {
	started, beaten := a.times()
	if started == 0 {
		return
	}
	if !w.shown && a.env.Now().Sub(started) >= shownAfter {
		w.shown = true
		a.Run.Beat(Heartbeat{ID: a.body.ID, Attempt: a.body.Attempt, Started: started})
	}
	if beaten.After(w.since) {
		w.since, w.warnAt = beaten, silentFor
	}
	if silent := time.Since(w.since); silent >= w.warnAt {
		w.warnAt *= 2
		log.Warn("a step has not returned", "run_id", a.RunID, "workflow", a.Workflow, "location", a.Location(),
			"attempt", a.body.Attempt, "since", started.Time(), "silent_for", silent.Round(time.Second).String())
	}
}

// times returns when the body began, 0 if it has not, and its last heartbeat.
func (a *Attempt) times() (started store.Time, beaten time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.started, a.beaten
}
