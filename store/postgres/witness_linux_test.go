package postgres_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
)

// TestAMachineThatIsGone says nothing more: no packet of it comes. The server notices by itself after some 10 s, as the
// process has told it to.
func TestAMachineThatIsGone(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("not in -short: it takes 10 s")
	}
	network := servers.NewNetwork(t)
	server := servers.NewPostgres(t)
	dsn := server.Listen(t, network.Host)
	newHolding(t, dsn, network.Enter)
	witnessOf(t, server, "a")
	second := heir(t, open(t, server.DSN()), "b")
	if err := network.Cut(true); err != nil {
		t.Fatal(err)
	}
	soon(t, "the shard", func() bool { return second.tries(t) })
}
