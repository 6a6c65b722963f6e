package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// server has the settings and the state that Open checks.
type server struct {
	pid         int64 // of the session's process
	version     int64 // like 150004
	name        string
	standby     bool
	fsync       string
	fullPages   string
	syncCommit  string
	syncNames   string
	standbys    int64 // that stream now; read by readStandbys
	replication string
	isolation   string // of transactions that name none
}

func readServer(ctx context.Context, c *pgx.Conn) (server, error) {
	var a server
	var waits bool
	err := c.QueryRow(ctx, `SELECT pg_backend_pid()::bigint, current_setting('server_version_num')::bigint,
		current_setting('server_version'),
		pg_is_in_recovery(), current_setting('fsync'), current_setting('full_page_writes'),
		current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
		`+commitsWait+`,
		current_setting('default_transaction_isolation')`,
		pgx.QueryExecModeExec).Scan(&a.pid, &a.version, &a.name, &a.standby, &a.fsync, &a.fullPages, &a.syncCommit,
		&a.syncNames, &waits, &a.isolation)
	if err == nil {
		a.replication, err = readReplication(ctx, c, waits)
	}
	return a, err
}

// readStandbys counts the standbys, of which durable speaks if commits wait for none.
func (a *server) readStandbys(ctx context.Context, c *pgx.Conn) error {
	if a.syncNames != "" {
		return nil
	}
	return c.QueryRow(ctx, "SELECT count(*) FROM pg_stat_replication", pgx.QueryExecModeExec).Scan(&a.standbys)
}

// minServer is the oldest server that is tried.
const minServer = 130000

// durable describes in one line which acts survive, or refuses a server that would lose
// acknowledged ones.
func (a *server) durable(lossy bool) (string, error) {
	var errs []error
	var lost []string
	loses := func(setting, value, how string) {
		lost = append(lost, setting+"="+value)
		if !lossy {
			errs = append(errs, fmt.Errorf("%w: expected %s=on, found %s: %s", store.ErrInvalid, setting, value, how))
		}
	}
	refuse := func(class error, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{class}, args...)...))
	}
	if a.version < minServer {
		refuse(store.ErrInvalid, "expected Postgres 13 or newer, found %s", a.name)
	}
	if a.standby {
		refuse(store.ErrUnavailable, "expected a primary, found a standby: name the primary, or all hosts with "+
			"target_session_attrs=read-write")
	}
	if a.fsync != "on" {
		loses("fsync", a.fsync, "a power cut would lose what was acknowledged")
	}
	if a.fullPages != "on" {
		loses("full_page_writes", a.fullPages, "a power cut would damage the tables")
	}
	if a.syncCommit == "off" {
		loses("synchronous_commit", a.syncCommit,
			"a crash would lose the last acknowledgements; set it for this role with ALTER ROLE … SET synchronous_commit=on")
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	if len(lost) > 0 {
		return "survives the death of nodes; a crash of the server or a power cut may take back what was acknowledged (" +
			strings.Join(lost, ", ") + ")", nil
	}
	line := "survives crashes of nodes and of the server and power cuts with nothing lost (Postgres " +
		strings.Fields(a.name)[0] + ", fsync, synchronous_commit=" + a.syncCommit + ")"
	switch {
	case a.syncNames != "" && a.syncCommit != "local" && a.replication != synchronous:
		line += "; a failover to one of the standbys that are not waited for can lose the last acknowledgements " +
			"(synchronous_standby_names=" + a.syncNames + ")"
	case a.syncNames != "" && a.syncCommit != "local":
		line += "; a failover to a synchronous standby loses nothing (synchronous_standby_names=" + a.syncNames + ")"
	case a.standbys > 0:
		line += "; a failover to an asynchronous standby, as there is one, can lose the last acknowledgements"
	default:
		line += "; not the loss of the server's disk"
	}
	return line, nil
}
