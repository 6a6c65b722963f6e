package postgres_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestKilledProcesses kills processes with bodies in flight.
func TestKilledProcesses(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	enginetest.Killed(t, func(t *testing.T) (string, store.Store) {
		dsn, schema := servers.SharedPostgres(t)
		return schema + " " + dsn, open(t, dsn, postgres.Schema(schema), postgres.AllowLoss(), postgres.Patient())
	})
}
