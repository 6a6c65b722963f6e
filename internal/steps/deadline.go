package steps

import (
	"fmt"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// deadline ends an attempt that takes too long; a nil one never does.
type deadline struct {
	mu      sync.Mutex
	timer   *time.Timer // nil: no limit
	timeout time.Duration
	overall time.Time // zero: none
}

// newDeadline returns the deadline of an attempt that starts now, which calls expire
// when it has passed. clock is the store's.
func newDeadline(b *runner.Body, now store.Time, clock func() store.Time, expire func(*stored.Failure)) *deadline {
	d := &deadline{timeout: b.Timeout}
	if b.Deadline != 0 {
		d.overall = time.Now().Add(max(b.Deadline.Sub(now), 0))
	}
	d.timer = time.AfterFunc(d.left(), func() {
		text := fmt.Sprintf("attempt %d took longer than %s", b.Attempt, b.Timeout)
		if b.Deadline != 0 && clock() >= b.Deadline {
			text = fmt.Sprintf("attempt %d was still running when the time for all attempts was over", b.Attempt)
		}
		expire(&stored.Failure{Code: stored.CodeTimeout, Message: text})
	})
	return d
}

func (d *deadline) left() time.Duration {
	left := d.timeout
	if !d.overall.IsZero() {
		if until := time.Until(d.overall); left == 0 || until < left {
			left = max(until, 0)
		}
	}
	return left
}

// renew starts the attempt's timeout again, within the time for all attempts.
func (d *deadline) renew() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && d.timer.Stop() {
		d.timer.Reset(d.left())
	}
}

func (d *deadline) stop() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}
