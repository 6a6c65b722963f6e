package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// NewPgBouncer starts a PgBouncer before a Postgres server, in transaction mode or that of
// further settings, and returns its address. It ends with the test. It hides one session of the server
// behind all connections in turn, and forgets what a client has set.
func NewPgBouncer(t testing.TB, p *Postgres, settings ...string) (dsn string) {
	t.Helper()
	program, err := find("pgbouncer", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
	need(t, err)
	dir, err := folder("bouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // in the temporary folder
	number, err := port()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
postgres = host=%s port=%d dbname=postgres user=stet
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
server_reset_query_always = 1
max_client_conn = 200
`, p.dir, p.port, number) + strings.Join(settings, "\n") + "\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	proc, err := start(dir, "TERM", "process up", program, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proc.stop(); err != nil {
			t.Error(err)
		}
	})
	return fmt.Sprintf("host=127.0.0.1 port=%d user=stet dbname=postgres sslmode=disable", number)
}
