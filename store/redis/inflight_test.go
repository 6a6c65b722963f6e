package redis_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store/redis"
)

// TestManyBodiesInFlightOfKilledProcesses: after two kills of processes with 1,000 bodies in
// flight all execute again soon, and no run is stalled.
func TestManyBodiesInFlightOfKilledProcesses(t *testing.T) {
	t.Parallel()
	url, prefix := servers.SharedRedis(t)
	s := openAt(t, url, redis.Prefix(prefix))
	f := enginetest.InFlight{Address: prefix + " " + url, Store: s, Bodies: 1000, Kills: 2}
	f.Test(t)
}
