package redis_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// TestAMachineThatIsGone says nothing more, as a virtual machine that is paused: no packet of it comes. A server that
// asks for signs of life notices by itself. What the machine writes when it is back is fenced.
func TestAMachineThatIsGone(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("not in -short: it takes some seconds")
	}
	network := servers.NewNetwork(t)
	server := servers.NewRedis(t, append([]string{"tcp-keepalive 3", "protected-mode no"}, servers.Durable...)...)
	url := server.Listen(t, network.Host)
	holder := servers.NewHolder(t, url, network.Enter)
	number := witnessOf(t, server.URL(), "a")
	b := newPeer(t, server.URL(), "b")
	witnessOf(t, server.URL(), "b")
	if verdict := holder.Commits(t); verdict != store.Committed.String() {
		t.Errorf("before, a commit gets %s", verdict)
	}
	holder.Signal(t, syscall.SIGSTOP)
	// While something that it was sent is not acknowledged, the server's system sends that again, and asks for no sign
	// of life: then the lease counts. A system acknowledges within some 40 ms.
	patiently(t, func() error {
		list, err := ask(t, server.Addr(), "client", "list", "id", number)
		if err != nil || strings.Contains(list, " idle=0 ") {
			return store.ErrUnavailable
		}
		return nil
	})
	if err := network.Cut(true); err != nil {
		t.Fatal(err)
	}
	b.takes(t)
	if err := network.Cut(false); err != nil {
		t.Fatal(err)
	}
	holder.Signal(t, syscall.SIGCONT)
	if verdict := holder.Commits(t); verdict != store.Fenced.String() {
		t.Errorf("a commit of the machine that is back gets %s; want fenced", verdict)
	}
}
