package script

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestInTime: what does not end in its time is given up, and what ends has its result.
func TestInTime(t *testing.T) {
	t.Run("late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			never, begin := make(chan struct{}), time.Now()
			defer close(never)
			_, err := inTime(maxCompile, func() (int, error) { <-never; return 1, nil })
			if !errors.Is(err, errLate) || time.Since(begin) != maxCompile {
				t.Errorf("expected errLate after %s, found %v after %s", maxCompile, err, time.Since(begin))
			}
		})
	})
	t.Run("in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			own := errors.New("own")
			n, err := inTime(maxCompile, func() (int, error) { time.Sleep(maxCompile - 1); return 1, own })
			if n != 1 || !errors.Is(err, own) {
				t.Errorf("expected 1 and its error, found %d, %v", n, err)
			}
		})
	})
}
