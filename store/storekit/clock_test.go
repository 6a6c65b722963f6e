package storekit_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// TestMonotonicGoesOn although the clock of the machine is set back, and goes with it
// again when it has caught up.
func TestMonotonicGoesOn(t *testing.T) {
	var wall, elapsed time.Duration
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := storekit.Monotonic(func() time.Time { return begun.Add(wall) }, func() time.Duration { return elapsed })
	for _, step := range []struct{ wall, elapsed, want time.Duration }{
		{0, 5 * time.Second, 0},
		{time.Second, time.Second, time.Second},
		{-time.Hour, time.Second, 2 * time.Second},
		{time.Second, time.Second, 3 * time.Second},
		{-time.Hour, 0, 3 * time.Second},
		{2 * time.Hour, time.Second, 4 * time.Second},
		{3 * time.Second, 500 * time.Millisecond, 5 * time.Second}, // it was set forward by more
		{time.Hour, time.Second, time.Hour + 5*time.Second},
		{-time.Minute, time.Minute, time.Hour + time.Minute + 5*time.Second},
	} {
		wall, elapsed = wall+step.wall, elapsed+step.elapsed
		if got := now().Sub(store.TimeOf(begun)); got != step.want {
			t.Errorf("the clock stands at %v after %v: expected %v, found %v", wall, elapsed, step.want, got)
		}
	}
	elapsed += 100 * time.Nanosecond
	for range 100 { // often within a microsecond
		elapsed += 100 * time.Nanosecond
		now()
	}
	if got := now().Sub(store.TimeOf(begun)); got != time.Hour+time.Minute+5*time.Second+10*time.Microsecond {
		t.Errorf("100 reads within 10 µs: found %v", got)
	}
}

// TestMonotonicIsNeverAhead of the machine's clock because its reader has lost the processor
// between any two of its acts; the pause is over with the next read.
func TestMonotonicIsNeverAhead(t *testing.T) {
	const pause = 100 * time.Millisecond
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for place := range 4 { // before and after each of the two reads
		var gone time.Duration
		acts := 0
		pausing := false
		read := func() time.Duration {
			if pausing && acts == place {
				gone += pause
			}
			acts++
			at := gone
			if pausing && acts == place {
				gone += pause
			}
			acts++
			return at
		}
		now := storekit.Monotonic(func() time.Time { return begun.Add(read()) }, read)
		for i := range 10 {
			gone += time.Second
			acts, pausing = 0, i == 0 || i == 5
			got, machine := now().Sub(store.TimeOf(begun)), gone
			if got > machine {
				t.Errorf("pause %d: the clock stands at %s when the machine's stands at %s", place, got, machine)
			}
			if !pausing && got != machine {
				t.Errorf("pause %d: after it the clock stands at %s, the machine's at %s", place, got, machine)
			}
		}
	}
}
