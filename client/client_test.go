package client_test

import (
	"path/filepath"
	"testing"

	"github.com/stet-run/stet/internal/testing/clienttest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

// TestClientOnMemory puts the client, and a server on a store in memory, through what users rely on.
func TestClientOnMemory(t *testing.T) {
	clienttest.Run(t, func(t testing.TB) func() store.Store {
		s := memory.New()
		t.Cleanup(func() { _ = s.Close() })
		return func() store.Store { return s }
	})
}

// TestClientOnSQLite likewise, also from a process apart.
func TestClientOnSQLite(t *testing.T) {
	open := func(t testing.TB) func() store.Store {
		path := filepath.Join(t.TempDir(), "s.db")
		return func() store.Store {
			s, err := sqlite.Open(t.Context(), path, sqlite.AllowLoss())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
	}
	t.Run("mounted", func(t *testing.T) { clienttest.Run(t, open) })
	t.Run("apart", func(t *testing.T) { clienttest.RunApart(t, open) })
}
