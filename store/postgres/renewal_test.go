package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestRenewalDoesNotDisturbACommit: a commit that goes turn by turn reads its leases while
// the node renews them.
func TestRenewalDoesNotDisturbACommit(t *testing.T) {
	t.Parallel()
	s, dsn, schema := fresh(t, postgres.TurnByTurn())
	n := takeAll(t, s, "n")
	run := n.started(t, "r")
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	renewal, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leases := pgx.Identifier{schema, "leases"}.Sanitize()
	if _, err := renewal.Exec(t.Context(), "SELECT FROM "+leases+" FOR NO KEY UPDATE"); err != nil { // as Renew does
		t.Fatal(err)
	}
	result := n.commit(t, &store.Turn{Run: run.No, Shard: run.Shard, Entries: []store.Entry{done("a")}})
	if v := result.Turns[0].Verdict; v != store.Committed {
		t.Errorf("during a renewal the turn is %s: %s", v, result.Turns[0].Reason)
	}
	if err := renewal.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}
