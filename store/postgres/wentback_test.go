package postgres_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest/enginetest"
)

// TestServerWentBack restores a copy of the server's disk, on the same timeline.
func TestServerWentBack(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	enginetest.WentBack(t, open(t, server.DSN()), server.Save)
}
