package postgres_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
)

// TestEngine puts the engine on the store through what users rely on: a quick run through half of it, the next day
// through the other half.
func TestEngine(t *testing.T) {
	t.Parallel()
	part, parts := 0, 1
	if !soak.Usual(t) {
		part, parts = soak.Part(t, 0, 2), 2
	}
	enginetest.RunShare(t, func(t testing.TB) func() store.Store {
		h := newHarness(t, time.Now)
		return func() store.Store { return h.open(t) }
	}, part, parts)
}

// TestASmallMessageBehindLargeOnes is not parallel: it counts all that the process allocates. A quick run has it on one
// day of a week.
func TestASmallMessageBehindLargeOnes(t *testing.T) {
	if !soak.Usual(t) && soak.Part(t, 5, soak.Week) != 0 {
		t.Skip("another day's")
	}
	enginetest.SmallBehindLarge(t, func(t testing.TB) func() store.Store {
		h := newHarness(t, time.Now)
		return func() store.Store { return h.open(t) }
	})
}
