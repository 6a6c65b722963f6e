package redis_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestKilledProcesses kills processes with bodies in flight.
func TestKilledProcesses(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	enginetest.Killed(t, func(t *testing.T) (string, store.Store) {
		url, prefix := servers.SharedRedis(t)
		return prefix + " " + url, openAt(t, url, redis.Prefix(prefix))
	})
}
