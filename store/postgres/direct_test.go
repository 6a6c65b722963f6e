package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestDirectBesideAPooler: a process behind a pooler that names the server itself hears of changes, and its shards are
// taken at once when it has died.
func TestDirectBesideAPooler(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	bouncer := servers.NewPgBouncer(t, server)
	a := open(t, bouncer, postgres.Direct(server.DSN()))
	b := open(t, bouncer, postgres.Direct(server.DSN()))
	first := takeAll(t, a, "a")
	first.started(t, "r")
	second := heir(t, b, "b")
	witnessOf(t, server, "a")
	witnessOf(t, server, "b")
	if second.tries(t) {
		t.Fatal("the shard of a living node was taken")
	}
	heard := listen(t, b)
	if err := a.Close(); err != nil { // its sessions end, as those of a process that was killed
		t.Fatal(err)
	}
	<-heard
	soon(t, "the shard", func() bool { return second.tries(t) })
	second.started(t, "s")
}

// TestDirectIsChecked: what is not the store's own server is refused, with what was expected.
func TestDirectIsChecked(t *testing.T) {
	t.Parallel()
	server, other := servers.NewPostgres(t), servers.NewPostgres(t)
	bouncer := servers.NewPgBouncer(t, server)
	open(t, server.DSN())
	for _, c := range []struct {
		direct string
		err    error
		text   string
	}{
		{"postgres://%zz", store.ErrInvalid, "the address of the server"},
		{bouncer, store.ErrInvalid, "found that of a pooler"},
		{other.DSN(), store.ErrInvalid, "found none there"},
		{"host=" + t.TempDir() + " user=stet", store.ErrUnavailable, "Direct"},
	} {
		_, err := postgres.Open(t.Context(), bouncer, postgres.Direct(c.direct))
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("Direct(%q) gave %v; want %v with %q", c.direct, err, c.err, c.text)
		}
	}
	open(t, other.DSN())
	if _, err := postgres.Open(t.Context(), bouncer, postgres.Direct(other.DSN())); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(err.Error(), "found the store ") {
		t.Errorf("the server of another store gave %v", err)
	}
	open(t, server.DSN(), postgres.Direct("nonsense=")) // there is no pooler
}
