package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestAProcessWorksWithTheConnectionsThatItGets: all its connections are cut, as in an outage, and others have taken
// them when the server is back. With one that is left the process does all that it must.
func TestAProcessWorksWithTheConnectionsThatItGets(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{4, 8} {
		t.Run(fmt.Sprint(conns), func(t *testing.T) {
			_, dsn, schema := fresh(t)
			admin, err := pgx.Connect(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close(context.Background())
			role := fmt.Sprintf("scarce_%s_%d", schema, conns)
			exec := func(sql string) {
				t.Helper()
				if _, err := admin.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			exec(fmt.Sprintf("CREATE ROLE %s LOGIN IN ROLE %s", role, admin.Config().User))
			defer func() { _, _ = admin.Exec(context.Background(), "DROP ROLE "+role) }()
			s, err := postgres.Open(t.Context(), dsn, postgres.Schema(schema), postgres.AllowLoss(), postgres.Conns(conns),
				postgres.BeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error { c.User = role; return nil }))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			hears, stop := context.WithCancel(t.Context())
			defer stop()
			go func() {
				for hears.Err() == nil {
					_, _ = s.Changed(hears)
				}
			}()
			n := store.Node{ID: "n", Boot: "n1", Groups: []string{store.DefaultGroup}}
			home := store.Shard{Group: store.DefaultGroup}
			if _, err := s.Register(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			got, _, err := s.Acquire(t.Context(), n, []store.Shard{home}, store.Delay(time.Minute.Microseconds()))
			if err != nil || !got[0].Held {
				t.Fatal(got, err)
			}
			leases, no := []store.Lease{got[0].Lease}, int64(0)
			work := func(ctx context.Context) error {
				no++
				_, err := s.Commit(ctx, store.Batch{Node: n.ID, Boot: n.Boot, No: no, Leases: leases, Commands: []store.Command{{
					Start: &store.Start{ID: fmt.Sprint("r", no), Shard: home, Workflow: "w", Seed: store.Seed(make([]byte, 16))}}}})
				if err != nil {
					return fmt.Errorf("commit: %w", err)
				}
				if _, err := s.Claim(ctx, store.ClaimRequest{Node: n.ID, Boot: n.Boot, Leases: leases, Workflows: []string{"w"},
					Limit: 10}); err != nil {
					return fmt.Errorf("claim: %w", err)
				}
				if _, _, err := s.Renew(ctx, leases, store.Delay(time.Minute.Microseconds())); err != nil {
					return fmt.Errorf("renew: %w", err)
				}
				if _, err := s.List(ctx, store.Filter{}); err != nil {
					return fmt.Errorf("list: %w", err)
				}
				return nil
			}
			if err := work(t.Context()); err != nil {
				t.Fatal(err)
			}

			exec(fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT 1", role)) // others have the rest
			exec(fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename='%s'", role))
			var last error
			done := 0
			for limit := time.Now().Add(20 * time.Second); done < 3 && time.Now().Before(limit); {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				if last = work(ctx); last == nil {
					done++
				}
				cancel()
			}
			if done < 3 {
				t.Fatalf("with one connection it has worked %d times: %v", done, last)
			}
		})
	}
}
