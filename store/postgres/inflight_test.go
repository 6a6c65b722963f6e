package postgres_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store/postgres"
)

// TestManyBodiesInFlightOfKilledProcesses: after two kills of processes with 1,000 bodies in
// flight all execute again soon, and no run is stalled.
func TestManyBodiesInFlightOfKilledProcesses(t *testing.T) {
	t.Parallel()
	dsn, schema := servers.SharedPostgres(t)
	s, err := postgres.Open(t.Context(), dsn, postgres.Schema(schema), postgres.AllowLoss(), postgres.Patient())
	if err != nil {
		t.Fatal(err)
	}
	f := enginetest.InFlight{Address: schema + " " + dsn, Store: s, Bodies: 1000, Kills: 2}
	f.Test(t)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
