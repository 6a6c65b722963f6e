package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestWhoIsInTheWay: a commit that waits too long says for which row.
func TestWhoIsInTheWay(t *testing.T) {
	t.Parallel()
	s, dsn, schema := fresh(t, postgres.TurnByTurn())
	n := takeAll(t, s, "n")
	table := func(name string) string { return "SELECT FROM " + schema + "." + name + " FOR UPDATE" }
	for _, c := range []struct{ lock, want string }{
		{table("boots"), "that of a node: another one takes its leases"},
		{table("leases"), "a lease, which another node takes"},
	} {
		tx, err := application(t, dsn).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), c.lock); err != nil {
			t.Fatal(err)
		}
		_, err = s.Commit(t.Context(), n.batch(nil, claimedStart("r")))
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.lock, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
