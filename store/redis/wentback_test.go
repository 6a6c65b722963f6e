package redis_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest/enginetest"
)

// TestServerWentBack restores a copy of the server's append-only file.
func TestServerWentBack(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewRedis(t, servers.Forgetful...)
	enginetest.WentBack(t, openAt(t, server.URL()), server.Save)
}
