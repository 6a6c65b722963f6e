package engine

import (
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
)

// start starts the attempt of a body, which ends with its shard at the latest.
// The attempt that is started last is left to the driver, which executes it if it has
// nothing else to do.
func (a *activation) start(b runner.Body) {
	if a.attempts == nil {
		a.attempts = a.x.steps.Activation(a.shard.Context(), a, &a.run, a.shard.Lease())
	}
	attempt := a.attempts.NewAttempt(b)
	a.bodies[b.ID] = attempt
	a.startNext()
	a.next = attempt
}

// startNext starts the attempt that was left to the driver on another goroutine.
func (a *activation) startNext() {
	if next := a.next; next != nil {
		a.next = nil
		a.x.steps.Pool.Start(next)
	}
}

// shardOf returns the shard of the run whose attempt a task is.
func shardOf(task steps.Task) *ownership.Shard { return task.(*steps.Attempt).Run.(*activation).shard }

// Leaving implements steps.Run.
func (a *activation) Leaving(t *steps.Attempt) bool {
	return a.shard.Draining() && a.shard.Defer(func() { a.x.steps.Pool.Start(t) })
}

// Ended implements steps.Run.
func (a *activation) Ended(end *steps.End) (drive func() steps.Task) {
	a.places.Keep(end.Place)
	if a.postHere((*stepEnded)(end)) {
		return a.driver
	}
	return nil
}

// Beat implements steps.Run.
func (a *activation) Beat(beat steps.Heartbeat) { a.post((*stepBeat)(&beat)) }

// Emit implements steps.Run.
func (a *activation) Emit(emission steps.Emission) { a.post((*stepEmitted)(&emission)) }

// handle hands the items to the run. They are settled with the next turn.
func (ev *stepEmitted) handle(a *activation, _ []event) bool {
	runner.Emit(a.code, ev.ID, ev.Attempt, ev.Items)
	a.emitted = append(a.emitted, ev.Settled)
	return true
}

// settle says that what was emitted is durable, or will not be.
func settle(emitted []func()) {
	for _, settled := range emitted {
		settled()
	}
}
