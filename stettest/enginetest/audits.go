package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stet-run/stet"
)

// asked are the reasons of requests that were answered, by store and run: bodies repeat after a
// crash.
var asked struct {
	sync.Mutex
	answered map[askedIn][]string
	n        int
}

type askedIn struct {
	outside *stet.Engine
	runID   string
}

// audited asks things of a queue and of a schedule of its own, and looks for each in the audit
// of the store: what was carried out is there once, whichever process has died at its commit.
func audited(outside *stet.Engine) []stet.Definition {
	again := stet.Retry{Attempts: stet.None, First: time.Millisecond, Max: poll}
	return define("audited", func(ctx stet.Context, _ string) (string, error) {
		id := stet.RunID(ctx)
		name := "audited-" + id
		ask := func(step string, do func(ctx context.Context, act stet.Act) error) error {
			return stet.Do(ctx, step, func(ctx context.Context) error {
				asked.Lock()
				asked.n++
				act := stet.Act{By: "ada", Why: fmt.Sprintf("%s %s %d", id, step, asked.n)}
				asked.Unlock()
				if err := do(ctx, act); err != nil {
					return err
				}
				asked.Lock()
				defer asked.Unlock()
				if asked.answered == nil {
					asked.answered = map[askedIn][]string{}
				}
				in := askedIn{outside, id}
				asked.answered[in] = append(asked.answered[in], act.Why)
				return nil
			}, again)
		}
		err := errors.Join(
			ask("pause", func(ctx context.Context, act stet.Act) error {
				if err := outside.Queues().Create(ctx, name, stet.QueueSettings{Concurrency: 1}); err != nil {
					return err
				}
				return outside.Queues().Pause(ctx, name, act)
			}),
			ask("schedule", func(ctx context.Context, act stet.Act) error {
				n := time.Duration(len(act.Why)) // each attempt changes it, so that each is an act
				at := stet.Schedule{Every: 24*time.Hour + n*time.Second, Paused: true}
				return tick.Schedule(ctx, outside, name, act.Why, at, stet.UntilCarriedOut(), act)
			}),
		)
		if err != nil {
			return "", err
		}
		err = stet.Do(ctx, "look", func(ctx context.Context) error {
			found := map[string]int{}
			for _, about := range []string{"queue ", "schedule "} {
				list, err := stet.AuditOf(outside).List(ctx, stet.AuditFilter{By: "ada", About: about + name})
				if err != nil {
					return err
				}
				for i := range list {
					found[list[i].Why]++
				}
			}
			asked.Lock()
			defer asked.Unlock()
			for _, why := range asked.answered[askedIn{outside, id}] {
				if found[why] == 0 { // on several servers it is on its way
					return fmt.Errorf("the audit does not have %q", why)
				}
			}
			for why, n := range found {
				if n > 1 {
					return stet.Permanent(fmt.Errorf("the audit has %q %d times", why, n))
				}
			}
			return nil
		}, again)
		return "found", err
	})
}
