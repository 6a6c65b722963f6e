package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
	"github.com/stet-run/stet/store/storetest"
)

// harness opens handles on one file, as several processes would have.
type harness struct {
	path  string
	clock func() time.Time
	first *sqlite.Store
}

func openHarness(t *testing.T, clock func() time.Time) storetest.Harness {
	h := &harness{path: filepath.Join(t.TempDir(), "contract.db"), clock: clock}
	h.first = h.open(t)
	return h
}

func (h *harness) open(t testing.TB) *sqlite.Store {
	s, err := sqlite.Open(context.Background(), h.path, sqlite.Clock(h.clock), sqlite.AllowLoss())
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

// Kill closes the handle: the leases stay, and the lock of the operating system
// that says that their owner lives is gone.
func (h *harness) Kill(t testing.TB, s store.Store) bool {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// TestContract checks the store against the contract and against store/memory.
func TestContract(t *testing.T) { storetest.Run(t, openHarness) }
