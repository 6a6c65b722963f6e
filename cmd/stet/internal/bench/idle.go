package bench

import (
	"context"
	"time"
)

// settleTime is how long a process that began does more than an idle one: it backs up, sweeps and looks for others.
const settleTime = 3 * time.Second

// effort is what a process has used of its processors.
type effort struct {
	processor time.Duration // of user and system
	switches  int64         // of context, voluntary or not
}

// measureIdle measures a process with nothing to do. Its only run waits for a message.
func measureIdle(ctx context.Context, cfg *Config, r *Report) error {
	s, err := cfg.serve(ctx, nil, receiver)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		if _, err := receiver.Start(ctx, s.Engine, newPayload(0)); err != nil {
			return err
		}
		if err := pause(ctx, settleTime); err != nil {
			return err
		}
		before, known := used()
		calls, begun := s.db.calls.Load(), time.Now()
		if err := pause(ctx, idleTime); err != nil {
			return err
		}
		after, _ := used()
		seconds := time.Since(begun).Seconds()
		out := r.section("idle", "a run that waits")
		out.figure("store calls", float64(s.db.calls.Load()-calls)/seconds, "calls/s")
		if known {
			processor := milliseconds(after.processor-before.processor) / seconds
			switches := float64(after.switches-before.switches) / seconds
			out.figure("processor", processor, "ms/s")
			out.figure("context switches", switches, "/s")
			out.atMost("processor", processor, 2, "ms/s")
			out.atMost("context switches", switches, 40, "/s")
		}
		return nil
	})
}
