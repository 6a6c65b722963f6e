package redis_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestEngine puts the engine on the store through what users rely on: a quick run through half of it, the next day
// through the other half.
func TestEngine(t *testing.T) {
	part, parts := 0, 1
	if !soak.Usual(t) {
		part, parts = soak.Part(t, 1, 2), 2
	}
	enginetest.RunShare(t, func(t testing.TB) func() store.Store {
		url, prefix := servers.SharedRedis(t)
		h := &harness{url: url, options: []redis.Option{redis.Prefix(prefix)}}
		return func() store.Store { return h.open(t) }
	}, part, parts)
}

// TestASmallMessageBehindLargeOnes is not parallel: it counts all that the process allocates. A quick run has it on one
// day of a week.
func TestASmallMessageBehindLargeOnes(t *testing.T) {
	if !soak.Usual(t) && soak.Part(t, 2, soak.Week) != 0 {
		t.Skip("another day's")
	}
	enginetest.SmallBehindLarge(t, func(t testing.TB) func() store.Store {
		url, prefix := servers.SharedRedis(t)
		h := &harness{url: url, options: []redis.Option{redis.Prefix(prefix)}}
		return func() store.Store { return h.open(t) }
	})
}
