package postgres_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
	"github.com/stet-run/stet/store/storetest"
)

// harness opens handles on one schema, as several processes would have.
type harness struct {
	dsn   string
	opts  []postgres.Option
	first *postgres.Store
}

func openHarness(t *testing.T, clock func() time.Time) storetest.Harness {
	return newHarness(t, clock)
}

func newHarness(t testing.TB, clock func() time.Time, opts ...postgres.Option) *harness {
	t.Helper()
	dsn, schema := servers.SharedPostgres(t)
	h := &harness{dsn: dsn, opts: append(opts, postgres.Schema(schema), postgres.Clock(clock), postgres.AllowLoss(),
		postgres.Conns(2), postgres.Patient())}
	h.first = h.open(t)
	return h
}

func (h *harness) open(t testing.TB) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), h.dsn, h.opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (h *harness) First() store.Store { return h.first }

func (h *harness) Join(t testing.TB) store.Store { return h.open(t) }

// Kill closes the handle: the leases stay, and no other process knows that their owner is
// dead.
func (h *harness) Kill(t testing.TB, s store.Store) bool {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return false
}

// TestContract checks the store against the contract and against store/memory.
func TestContract(t *testing.T) {
	t.Parallel()
	contract(t, openHarness, 0)
}

// TestContractTurnByTurn checks what the function in the database leaves to the
// store, for all batches: the laws of commits and random operations.
func TestContractTurnByTurn(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, clock func() time.Time) storetest.Harness {
		return newHarness(t, clock, postgres.TurnByTurn())
	}, 1)
}

// contract checks one of the two ways to write. Below the usual number of cases they share
// the random operations.
func contract(t *testing.T, open storetest.Open, way int) {
	if soak.Usual(t) {
		storetest.Run(t, open)
	} else {
		storetest.RunPart(t, open, way, 2)
	}
}
