package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestDirectBesideAPgBouncer: a process behind a pooler that names the server itself hears of changes, and its
// shards are taken at once when it has died.
func TestDirectBesideAPgBouncer(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	directBeside(t, server, servers.NewPgBouncer(t, server))
}

func TestDirectBesideAPooler(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	directBeside(t, server, server.DSN(), postgres.Pooler())
}

func directBeside(t *testing.T, server dsn, pooler string, opts ...postgres.Option) {
	t.Helper()
	opts = append(opts, postgres.Direct(server.DSN()))
	a, b := open(t, pooler, opts...), open(t, pooler, opts...)
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

// TestDirectBesideAPgBouncerIsChecked: what is not the store's own server is refused, with what was expected.
func TestDirectBesideAPgBouncerIsChecked(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	directIsChecked(t, server, servers.NewPostgres(t), servers.NewPgBouncer(t, server))
}

func TestDirectIsChecked(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	directIsChecked(t, server, newDatabase(t), server.TCP(sessionPooler.between(t, server.Addr())))
}

func directIsChecked(t *testing.T, server, other dsn, bouncer string) {
	t.Helper()
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
		_, err := postgres.Open(t.Context(), bouncer, postgres.AllowLoss(), postgres.Direct(c.direct))
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("Direct(%q) gave %v; want %v with %q", c.direct, err, c.err, c.text)
		}
	}
	open(t, other.DSN())
	_, err := postgres.Open(t.Context(), bouncer, postgres.AllowLoss(), postgres.Direct(other.DSN()))
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "found the store ") {
		t.Errorf("the server of another store gave %v", err)
	}
	open(t, server.DSN(), postgres.Direct("nonsense=")) // there is no pooler
}
