package redis_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/clienttest"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestClient puts the client, and a server on the store, through what users rely on.
func TestClient(t *testing.T) {
	open := func(t testing.TB) func() store.Store {
		url, prefix := servers.SharedRedis(t)
		h := &harness{url: url, options: []redis.Option{redis.Prefix(prefix)}}
		return func() store.Store { return h.open(t) }
	}
	t.Run("mounted", func(t *testing.T) { clienttest.Run(t, open) })
	t.Run("apart", func(t *testing.T) { clienttest.RunApart(t, open) })
}
