package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/clock"
	"github.com/stet-run/stet/store"
)

// The bound goes on between answers, and does not go back.
func TestBoundGoesOnAndNotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b clock.Bound
		begin := store.Time(1_000_000)
		b.Observe(begin)
		time.Sleep(time.Second)
		if got := b.Now(); got != begin.Add(time.Second) {
			t.Errorf("after a second: %d", got)
		}
		b.Observe(begin)
		if got := b.Now(); got != begin.Add(time.Second) {
			t.Errorf("after an answer that is late: %d", got)
		}
		b.Observe(begin.Add(time.Minute))
		if got := b.Now(); got != begin.Add(time.Minute) {
			t.Errorf("after an answer that is ahead: %d", got)
		}
		for at, want := range map[store.Time]time.Duration{
			begin: 0, begin.Add(2 * time.Minute): time.Minute, begin.Add(1000 * time.Hour): time.Hour,
			store.TimeOf(time.Unix(1<<62, 0)): time.Hour,
		} {
			if got := b.Until(at); got != want+time.Microsecond {
				t.Errorf("until %s: %s; want a microsecond more than %s", at, got, want)
			}
		}
	})
}
