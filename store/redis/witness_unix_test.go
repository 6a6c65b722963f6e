//go:build unix

package redis_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
)

// TestAProcessThatStandsStillIsAlive: the system answers for it. The lease counts.
func TestAProcessThatStandsStillIsAlive(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	holder := servers.NewHolder(t, server.URL(), nil)
	witnessOf(t, server, "a")
	b := newPeer(t, server.URL(), "b")
	witnessOf(t, server, "b")
	holder.Signal(t, syscall.SIGSTOP)
	b.looksInVain(t, server)
	holder.Signal(t, os.Kill)
	b.takes(t)
}
