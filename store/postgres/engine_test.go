package postgres_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
)

// TestEngine puts the engine on the store through what users rely on.
func TestEngine(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t testing.TB) func() store.Store {
		h := newHarness(t, time.Now)
		return func() store.Store { return h.open(t) }
	})
}

// TestASmallMessageBehindLargeOnes is not parallel: it counts all that the process allocates.
func TestASmallMessageBehindLargeOnes(t *testing.T) {
	enginetest.SmallBehindLarge(t, func(t testing.TB) func() store.Store {
		h := newHarness(t, time.Now)
		return func() store.Store { return h.open(t) }
	})
}
