package engine

import (
	"context"
	"errors"
	"time"

	"github.com/stet-run/stet/internal/cluster"
	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/idle"
)

// ErrHeld says that another process holds the store.
var ErrHeld = cluster.ErrHeld

// ErrReplaced says that a later process replaces this one.
var ErrReplaced = cluster.ErrReplaced

// RunOnce works until nothing is left to do, or ctx ends. See stet.Engine.RunOnce.
func (e *Engine) RunOnce(ctx context.Context) (next time.Time, err error) {
	stay, ctx := idle.Begin(ctx)
	err = e.runUntil(ctx, stay)
	next = stay.End()
	if held := (*cluster.HeldError)(nil); errors.As(err, &held) {
		next = time.Now().Add(held.Holder.Until.Sub(e.time.Now())).Round(0)
	}
	return next, err
}

// tidy deletes what has outlived its retention.
func (x *executor) tidy(ctx context.Context) {
	if !x.e.code.Empty() {
		for _, s := range x.sweepers() {
			s.Pass(ctx)
		}
	}
}

// AskForClaim implements idle.Work.
func (x *executor) AskForClaim() { x.dispatchers.claimSoon() }

// Resting implements idle.Work. What drives runs is counted, so that nothing passes
// unnoticed between the looks at one activation and another.
func (x *executor) Resting() (resting bool, next time.Time) {
	working, before, next := x.drivers.Working()
	if working || !x.committer.Idle() {
		return false, next
	}
	if x.member != nil {
		settled, until := x.member.Settled()
		if !settled {
			return false, next
		}
		next = idle.Earlier(next, until)
	}
	for _, a := range x.memory.All() {
		rests, at := a.resting()
		if !rests {
			return false, next
		}
		next = idle.Earlier(next, at)
	}
	working, after, _ := x.drivers.Working()
	return !working && before == after, next
}

// resting reports whether nothing happens until the run is claimed, or a time has come; zero: none has to.
func (a *activation) resting() (bool, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.gone:
		return true, time.Time{}
	case a.driving || len(a.events) > 0 || a.phase != live || a.turn.underWay,
		a.lined != nil && (a.lined.looking || a.lined.deferred):
		return false, time.Time{}
	case a.r.Suspended():
		return true, time.Time{}
	}
	m, ok := a.r.(*entity.Machine)
	if !ok || !m.Stays() {
		return false, time.Time{}
	}
	at, _ := m.NextTimer()
	if at == 0 {
		return true, time.Time{}
	}
	return true, time.Now().Add(a.x.e.time.Until(at))
}
