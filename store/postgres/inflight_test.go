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
	f := inFlight(t, 1000)
	f.Kills = 2
	f.Test(t)
}

// TestBodiesOfAKilledProcessThatAreRepeated: as many as were under way at a time, MaxSteps, at the
// most.
func TestBodiesOfAKilledProcessThatAreRepeated(t *testing.T) {
	t.Parallel()
	f := inFlight(t, 4)
	f.Repeats(t)
}

func inFlight(t *testing.T, bodies int) enginetest.InFlight {
	t.Helper()
	dsn, schema := servers.SharedPostgres(t)
	s, err := postgres.Open(t.Context(), dsn, postgres.Schema(schema), postgres.AllowLoss(), postgres.Patient())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return enginetest.InFlight{Address: schema + " " + dsn, Store: s, Bodies: bodies}
}
