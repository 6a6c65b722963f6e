//go:build unix

package postgres_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// TestAProcessThatStandsStillIsAlive: the system answers for it. The lease counts.
func TestAProcessThatStandsStillIsAlive(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	holder := servers.NewHolder(t, server.DSN(), nil)
	witnessOf(t, server, "a")
	second := heir(t, open(t, server.DSN()), "b")
	holder.Signal(t, syscall.SIGSTOP)
	second.looksInVain(t, server)
	holder.Signal(t, os.Kill)
	soon(t, "the shard", func() bool { return second.tries(t) })
}

// A pooler in session mode leaves each client its session, and so has a process its witness. One that is cut comes
// back; that of a process that was killed is gone when the pooler has seen it.
func TestAWitnessBehindAPoolerInSessionMode(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	bouncer := servers.NewPgBouncer(t, server, "pool_mode = session", "default_pool_size = 100")
	holder := servers.NewHolder(t, bouncer, nil)
	b := open(t, bouncer)
	second := heir(t, b, "b")
	witnessOf(t, server, "b")
	conn := application(t, server.DSN())
	for i := range 3 {
		pid := witnessOf(t, server, "a")
		if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid); err != nil {
			t.Fatal(err)
		}
		soon(t, "another witness", func() bool {
			if second.tries(t) {
				t.Fatalf("cut %d: the shard of a living node was taken", i)
			}
			return witnessOf(t, server, "a") != pid
		})
	}
	if verdict := holder.Commits(t); verdict != store.Committed.String() {
		t.Errorf("the process that was cut gets %s", verdict)
	}
	heard := listen(t, b)
	holder.Signal(t, os.Kill)
	<-heard
	soon(t, "the shard", func() bool { return second.tries(t) })
}
