package postgres_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/clienttest"
	"github.com/stet-run/stet/store"
)

// TestClient puts the client, and a server on the store, through what users rely on.
func TestClient(t *testing.T) {
	t.Parallel()
	open := func(t testing.TB) func() store.Store {
		h := newHarness(t, time.Now)
		return func() store.Store { return h.open(t) }
	}
	t.Run("mounted", func(t *testing.T) { clienttest.Run(t, open) })
	t.Run("apart", func(t *testing.T) { clienttest.RunApart(t, open) })
	wide := func(t testing.TB) func() store.Store {
		h := newWideHarness(t, time.Now, 2)
		return func() store.Store { return h.open(t) }
	}
	t.Run("over two databases", func(t *testing.T) { clienttest.Run(t, wide) })
}
