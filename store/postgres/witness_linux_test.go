package postgres_test

import (
	"syscall"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// TestAMachineThatIsGone says nothing more, as a virtual machine that is paused: no packet of it comes. The server
// notices by itself after some 10 s, as the process has told it to. What the machine writes when it is back is fenced.
func TestAMachineThatIsGone(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("not in -short: it takes 10 s")
	}
	network := servers.NewNetwork(t)
	server := servers.NewPostgres(t)
	dsn := server.Listen(t, network.Host)
	holder := servers.NewHolder(t, dsn, network.Enter)
	witnessOf(t, server, "a")
	second := heir(t, open(t, server.DSN()), "b")
	if verdict := holder.Commits(t); verdict != store.Committed.String() {
		t.Errorf("before, a commit gets %s", verdict)
	}
	holder.Signal(t, syscall.SIGSTOP)
	if err := network.Cut(true); err != nil {
		t.Fatal(err)
	}
	soon(t, "the shard", func() bool { return second.tries(t) })
	if err := network.Cut(false); err != nil {
		t.Fatal(err)
	}
	holder.Signal(t, syscall.SIGCONT)
	if verdict := holder.Commits(t); verdict != store.Fenced.String() {
		t.Errorf("a commit of the machine that is back gets %s; want fenced", verdict)
	}
}
