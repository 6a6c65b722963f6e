//go:build unix

package redis_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
)

// TestAProcessThatStandsStillIsAlive: the system answers for it. The lease counts.
func TestAProcessThatStandsStillIsAlive(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	holder := servers.NewHolder(t, server.URL(), nil)
	witnessOf(t, server.URL(), "a")
	b := newPeer(t, server.URL(), "b")
	witnessOf(t, server.URL(), "b")
	holder.Signal(t, syscall.SIGSTOP)
	b.looksInVain(t, server.URL())
	holder.Signal(t, os.Kill)
	b.takes(t)
}
