package idle

import (
	"context"
	"time"
)

// Stay is the time for which a process works, until nothing is left to do.
type Stay struct {
	ctx  context.Context
	stop context.CancelFunc
	next time.Time
}

// Begin begins a stay, which ends with ctx at the latest. The context that it returns ends
// with the stay.
func Begin(ctx context.Context) (*Stay, context.Context) {
	s := &Stay{next: time.Now()}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s, s.ctx
}

// Watch ends the stay when nothing is left to do. Before, when nothing seems to be left, it
// calls tidy, which ends soon after its context. It returns early if ctx ends.
func (s *Stay) Watch(ctx context.Context, w Work, claims []*Claims, tidy func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if _, ok := Wait(ctx, w, claims); !ok {
		return
	}
	tidy(ctx)
	if next, ok := Wait(ctx, w, claims); ok && s.ctx.Err() == nil {
		s.next = next
		s.stop()
	}
}

// End ends the stay. It returns when something is to be done, by the clock of this process:
// zero if nothing is planned, and the begin of the stay if that ended early. It is called
// when Watch has returned, or will not be called.
func (s *Stay) End() (next time.Time) {
	s.stop()
	return s.next.Round(0)
}
