package sqlite

import (
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

// testClock is a clock that a test moves.
type testClock struct {
	mu sync.Mutex
	at time.Time
}

func newTestClock() *testClock { return &testClock{at: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestTimeOfTheStoreDoesNotGoBack(t *testing.T) {
	clock := newTestClock()
	s := open(t, testPath(t), Clock(clock.now))
	var last store.Time
	for _, step := range []time.Duration{0, time.Second, -time.Hour, time.Minute, time.Hour} {
		clock.advance(step)
		_, now, err := s.Apply(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if now < last {
			t.Errorf("expected a time not before %v, got %v", last, now)
		}
		last = now
	}
	if last != store.TimeOf(clock.now()) {
		t.Errorf("expected %v, got %v", clock.now(), last)
	}
}
