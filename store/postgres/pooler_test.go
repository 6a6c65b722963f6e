package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestBehindAPgBouncer works through a PgBouncer in transaction mode, which gives each
// transaction another session and keeps nothing: all acts, from many goroutines.
func TestBehindAPgBouncer(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	behindPooler(t, open(t, servers.NewPgBouncer(t, server)), open(t, server.DSN()))
}

// TestBehindAPooler does all that without a statement that outlives its transaction.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	behindPooler(t, open(t, server.DSN(), postgres.Pooler()), open(t, server.DSN()))
}

func behindPooler(t *testing.T, s, direct *postgres.Store) {
	t.Helper()
	n := takeAll(t, s, "n")
	var group sync.WaitGroup
	for g := range 6 {
		group.Go(func() {
			for i := range 15 {
				id := fmt.Sprintf("run-%d-%d", g, i)
				answers, _, err := s.Apply(t.Context(), []store.Command{start(id), message(id, "m")})
				if err != nil || answers[0].Outcome != store.Applied || answers[1].Outcome != store.Applied {
					t.Errorf("apply: %v, %+v", err, answers)
					return
				}
				if _, _, err := s.Load(t.Context(), []store.RunNo{answers[0].Run.No}); err != nil {
					t.Error(err)
				}
				if _, err := s.Describe(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	claims, err := s.Claim(t.Context(), store.ClaimRequest{Node: n.node.ID, Boot: n.node.Boot, Leases: n.leases,
		Workflows: []string{"w"}, Limit: 1000})
	if err != nil || len(claims.Runs) != 90 {
		t.Fatalf("claimed %d runs: %v", len(claims.Runs), err)
	}
	for i := range claims.Runs {
		c := &claims.Runs[i]
		result := n.commit(t, &store.Turn{Run: c.Run.No, Shard: c.Run.Shard, Entries: []store.Entry{done("a")},
			Consumed: []store.Consumption{{Item: c.Items[0].No}},
			Update:   &store.Update{Status: store.Succeeded, Output: []byte("o")}})
		if result.Turns[0].Verdict != store.Committed {
			t.Fatalf("got %+v", result)
		}
	}
	if tallies, err := direct.Count(t.Context(), store.Filter{}); err != nil || len(tallies) != 1 ||
		tallies[0].Runs != 90 || tallies[0].Status != store.Succeeded {
		t.Errorf("counted %+v: %v", tallies, err)
	}
	// Nothing is heard through a pooler; a caller is not kept for longer than it waits.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Changed(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Changed gave %v", err)
	}
	// Others hear what was done through it.
	heard := listen(t, direct)
	if _, _, err := s.Apply(t.Context(), []store.Command{start("late")}); err != nil {
		t.Fatal(err)
	}
	<-heard
}

// TestPoolerOption works without prepared statements on a server itself.
func TestPoolerOption(t *testing.T) {
	s, _, _ := fresh(t, postgres.Pooler())
	n := takeAll(t, s, "n")
	result, err := s.Commit(t.Context(), n.batch(nil, claimedStart("r")))
	if err != nil || !result.Commands[0].Claimed {
		t.Fatalf("got %+v: %v", result, err)
	}
}

// TestStatementModeOfPgBouncerIsRefused: such a pooler takes no transactions. Open says so, also where the
// store is there already.
func TestStatementModeOfPgBouncerIsRefused(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	statementMode(t, server, servers.NewPgBouncer(t, server, "pool_mode = statement"))
}

func TestStatementModeIsRefused(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	begins := relay{asks: func(kind byte, body []byte) (answer []byte) {
		if kind != 'Q' || string(body) != "BEGIN\x00" {
			return nil
		}
		e := pgproto3.ErrorResponse{Severity: "ERROR", Code: "08P01", Message: "no transactions here"}
		answer, err := e.Encode(nil)
		if err == nil {
			answer, err = (&pgproto3.ReadyForQuery{TxStatus: 'I'}).Encode(answer)
		}
		if err != nil {
			t.Error(err)
		}
		return answer
	}}
	statementMode(t, server, server.TCP(begins.between(t, server.Addr())))
}

func statementMode(t *testing.T, server dsn, pooler string) {
	t.Helper()
	for _, when := range []string{"of a new store", "of a store that is there"} {
		_, err := postgres.Open(t.Context(), pooler, postgres.AllowLoss())
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "pool_mode=transaction") {
			t.Errorf("Open %s gave %v", when, err)
		}
		if err := open(t, server.DSN()).Close(); err != nil {
			t.Fatal(err)
		}
	}
}
