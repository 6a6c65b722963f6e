package attempts_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/internal/runner/attempts"
)

func TestDelayOfRetries(t *testing.T) {
	type Policy = attempts.Policy
	for _, c := range []struct {
		policy   Policy
		attempt  int
		low, top time.Duration
	}{
		{Policy{First: time.Second, Factor: 2, Max: time.Minute}, 1, time.Second, time.Second},
		{Policy{First: time.Second, Factor: 2, Max: time.Minute}, 4, 8 * time.Second, 8 * time.Second},
		{Policy{First: time.Second, Factor: 2, Max: time.Minute}, 5000, time.Minute, time.Minute},
		{Policy{First: time.Second, Factor: 2, Max: 1<<63 - 1, Jitter: 1}, 5000, 0, 1 << 62},
		{Policy{Factor: 2, Max: time.Minute, Jitter: 0.1}, 5000, 0, 0},
		{Policy{First: time.Second, Factor: 1, Max: time.Minute, Jitter: 0.5}, 1, time.Second / 2, 3 * time.Second / 2},
	} {
		for _, unit := range []float64{0, 0.3, 0.5, 1} {
			if d := c.policy.Delay(c.attempt, unit); d < c.low || d > c.top {
				t.Errorf("%+v after attempt %d: %s, want %s to %s", c.policy, c.attempt, d, c.low, c.top)
			}
		}
		low, top := c.policy.Delay(c.attempt, 0), c.policy.Delay(c.attempt, 1)
		if c.attempt < 5000 && (low != c.low || top != c.top) {
			t.Errorf("%+v after attempt %d: from %s to %s, want %s to %s", c.policy, c.attempt, low, top, c.low, c.top)
		}
	}
}

// TestTimeUntilAStepGivesUp holds the numbers of the documents: how long so many attempts take
// with the default delays.
func TestTimeUntilAStepGivesUp(t *testing.T) {
	p := attempts.Policy{First: time.Second, Factor: 2, Max: 5 * time.Minute}
	took := time.Duration(0)
	for attempt := 1; attempt < 20; attempt++ {
		took += p.Delay(attempt, 0.5)
		want, told := map[int]time.Duration{4: 15 * time.Second, 9: 511 * time.Second, 19: 3511 * time.Second}[attempt]
		if told && took != want {
			t.Errorf("%d attempts take %s, want %s", attempt+1, took, want)
		}
	}
}
