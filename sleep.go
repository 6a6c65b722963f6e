package stet

import (
	"fmt"
	"time"

	"github.com/stet-run/stet/store"
)

// Now returns the run's time: the store's time when the run last went on. It is
// the same in every replay and never goes back within a run.
func Now(ctx Context) time.Time {
	ctx.mustBeGiven()
	return ctx.branch.Now().Time()
}

// Sleep waits for d from Now. The deadline is fixed at the first call: after a
// restart only the remainder is slept. A d of 0 is over at once; a negative one
// is ErrInvalid. The error is ErrCancelled if the branch is cancelled.
func Sleep(ctx Context, name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("sleep %q: expected a duration of 0 or more, found %s: %w", name, d, ErrInvalid)
	}
	return ctx.branch.Sleep(ctx.call(name, ""), d)
}

// SleepUntil waits until t. A time that is past is over at once.
func SleepUntil(ctx Context, name string, t time.Time) error {
	return ctx.branch.SleepUntil(ctx.call(name, ""), store.NotBefore(t))
}
