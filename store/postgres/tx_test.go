package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// application is a connection of the application's own on the server of the tests.
func application(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // a transaction may be open
	return c
}

// foreign is a transaction of either driver.
type foreign struct {
	apply    func([]store.Command) ([]store.Answer, error)
	exec     func(string) error
	commit   func() error
	rollback func() error
}

func withPgx(t testing.TB, s *postgres.Store, dsn string) foreign {
	ctx := context.Background()
	tx, err := application(t, dsn).Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	transactor, ok := store.TransactorOf[pgx.Tx](s)
	if !ok {
		t.Fatal("the store knows no pgx.Tx")
	}
	return foreign{
		func(c []store.Command) ([]store.Answer, error) { return transactor.ApplyTx(ctx, tx, c) },
		func(text string) error { _, err := tx.Exec(ctx, text); return err },
		func() error { return tx.Commit(ctx) }, func() error { return tx.Rollback(ctx) },
	}
}

func withSQL(t testing.TB, s *postgres.Store, dsn string) foreign {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a transaction may be open
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	transactor, ok := store.TransactorOf[*sql.Tx](s)
	if !ok {
		t.Fatal("the store knows no *sql.Tx")
	}
	return foreign{
		func(c []store.Command) ([]store.Answer, error) {
			return transactor.ApplyTx(context.Background(), tx, c)
		},
		func(text string) error { _, err := tx.Exec(text); return err },
		tx.Commit, tx.Rollback,
	}
}

// TestApplyInATransaction: what is started and sent in an application's transaction
// is there if and only if that commits, with both kinds of transactions.
func TestApplyInATransaction(t *testing.T) {
	s, dsn, schema := fresh(t)
	runs := func() int {
		page, err := s.List(t.Context(), store.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Runs)
	}
	for name, begin := range map[string]func(testing.TB, *postgres.Store, string) foreign{"pgx": withPgx, "sql": withSQL} {
		before := runs()
		for _, commit := range []bool{false, true} {
			tx := begin(t, s, dsn)
			answers, err := tx.apply([]store.Command{start(name), message(name, "k"), message(name, "k"), message("none", "k")})
			if err != nil || answers[0].Outcome != store.Applied || answers[1].Item == 0 ||
				answers[2].Item != answers[1].Item || answers[3].Outcome != store.NotFound {
				t.Fatalf("%s: %v, %+v", name, err, answers)
			}
			// What is refused leaves the transaction as it was.
			if _, err := tx.apply([]store.Command{start(name + "2"), {}}); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s: a command without content gave %v", name, err)
			}
			if runs() != before {
				t.Errorf("%s: the run is there before the commit", name)
			}
			end := tx.rollback
			if commit {
				end, before = tx.commit, before+1
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if runs() != before {
				t.Errorf("%s: after the end of the transaction (commit: %t) %d runs are there", name, commit, runs())
			}
		}
		// A transaction on another database than the store's has not got it.
		tx := begin(t, s, dsn)
		if err := tx.exec(`UPDATE "` + schema + `".meta SET value='another' WHERE key='id'`); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.apply([]store.Command{start(name + "3")}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: another store gave %v", name, err)
		}
		if err := tx.exec("SELECT 1"); err != nil {
			t.Errorf("%s: the transaction was broken: %v", name, err)
		}
		if err := tx.rollback(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenTransactionDelaysNobody: an application has started a run and sent a
// message in a transaction that stays open. A start of the same run, and a send with the
// same key, are left out; turns and commands beside are written at once, and
// so are turns of the very run that was sent to.
func TestOpenTransactionDelaysNobody(t *testing.T) {
	s, dsn, _ := fresh(t)
	n := takeAll(t, s, "n")
	a, b, receiver := n.started(t, "a"), n.started(t, "b"), n.started(t, "receiver")
	tx := withPgx(t, s, dsn)
	if _, err := tx.apply([]store.Command{start("child"), message("receiver", "key")}); err != nil {
		t.Fatal(err)
	}
	entry := func(loc string) []store.Entry { return []store.Entry{done(loc)} }
	child, sent := start("child"), message("receiver", "key")
	for round, long := range []bool{false, true} {
		batch := n.batch([]*store.Turn{
			{Run: a.No, Shard: shard, Entries: entry("x"), Sends: []store.Command{child}},
			{Run: b.No, Shard: shard, Entries: entry([]string{"x", "y"}[round])},
			{
				Run: receiver.No, Shard: shard, Entries: entry([]string{"x", "y"}[round]),
				Update: &store.Update{Status: store.Suspended},
			},
		}, sent, start([]string{"c", "d"}[round]))
		if long {
			batch.Turns = batch.Turns[:2] // the receiver sleeps
		}
		begun := time.Now()
		result, err := s.Commit(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("the batch took %s", took)
		}
		if result.Turns[0].Verdict != store.Busy || result.Turns[1].Verdict != store.Committed || !long &&
			result.Turns[2].Verdict != store.Committed ||
			result.Commands[0].Outcome != store.Undecided || result.Commands[1].Outcome != store.Applied {
			t.Errorf("got %+v", result)
		}
		if again, err := s.Commit(t.Context(), batch); err != nil || again.Turns[0].Verdict != store.Busy ||
			again.Turns[1].Verdict != store.Committed {
			t.Errorf("the repeat gave %+v: %v", again, err)
		}
	}
	applied := make(chan []store.Answer, 1)
	go func() {
		answers, _, err := s.Apply(t.Context(), []store.Command{sent})
		if err != nil {
			t.Error(err)
		}
		applied <- answers
	}()
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	if answers := <-applied; len(answers) != 1 || answers[0].Outcome != store.Applied {
		t.Errorf("Apply, which waits, gave %+v", answers)
	}
	result := n.commit(t, &store.Turn{Run: a.No, Shard: shard, Entries: entry("x"), Sends: []store.Command{child}})
	if result.Turns[0].Verdict != store.Committed || result.Turns[0].Sends[0].Outcome != store.Applied {
		t.Errorf("tried alone: %+v", result)
	}
	// The message became visible after the suspension: it makes the run ready.
	claims, err := s.Claim(t.Context(),
		store.ClaimRequest{Node: "n", Boot: "n-1", Leases: n.leases, Workflows: []string{"w"}, Limit: 10})
	if err != nil || len(claims.Runs) == 0 || claims.Runs[0].Run.No != receiver.No || len(claims.Runs[0].Items) != 1 {
		t.Errorf("claimed %+v: %v", claims.Runs, err)
	}
}

// TestItemAfterTheEnd: items that an open transaction has sent become visible when
// their run has ended. The message is a dead letter then, the update is answered.
func TestItemAfterTheEnd(t *testing.T) {
	s, dsn, _ := fresh(t)
	n := takeAll(t, s, "n")
	r := n.started(t, "r")
	tx := withPgx(t, s, dsn)
	update := message("r", "u")
	update.Item.Kind = store.ItemUpdate
	if _, err := tx.apply([]store.Command{message("r", "m"), update}); err != nil {
		t.Fatal(err)
	}
	if v := n.commit(t, &store.Turn{Run: r.No, Shard: shard,
		Update: &store.Update{Status: store.Succeeded}}).Turns[0].Verdict; v != store.Committed {
		t.Fatal(v)
	}
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	claims, err := s.Claim(t.Context(),
		store.ClaimRequest{Node: "n", Boot: "n-1", Leases: n.leases, Workflows: []string{"w"}, Limit: 10})
	if err != nil || len(claims.Runs) != 0 {
		t.Errorf("claimed %+v: %v", claims.Runs, err)
	}
	items, err := s.Inbox(t.Context(), r.No, "m", "u")
	if err != nil || len(items) != 2 || items[0].State != store.Dead || string(items[0].Value) != "hello" ||
		items[1].State != store.Consumed || string(items[1].Verdict) != store.Unanswered || items[1].Value != nil {
		t.Errorf("found %+v: %v", items, err)
	}
}

// TestManyStartsInATransaction: however many runs StartAllTx starts, the transaction has one
// subtransaction for them. Each StartTx takes one, of which a session keeps 64 in its cache.
func TestManyStartsInATransaction(t *testing.T) {
	const many = 100
	server := newDatabase(t)
	s := open(t, server.DSN())
	w := stet.Define("w", func(stet.Context, int) (int, error) { return 0, nil })
	e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{w}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(t.Context(), store.Node{ID: "n", Boot: "1", Workflows: []string{"w"}}); err != nil {
		t.Fatal(err)
	}
	pool, _ := ledger(t, server.DSN())
	id := func(kind string, i int) stet.StartOption { return stet.ID(fmt.Sprint(kind, i)) }
	// numbers returns how many numbers of transactions have the runs that f starts in one: each subtransaction that writes
	// takes one.
	numbers := func(kind string, f func(tx pgx.Tx)) (taken int64) {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f(tx)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		const query = "SELECT count(DISTINCT xmin::text) FROM stet.runs WHERE id LIKE $1"
		if err := pool.QueryRow(t.Context(), query, kind+"%").Scan(&taken); err != nil {
			t.Fatal(err)
		}
		return taken
	}
	together := numbers("all", func(tx pgx.Tx) {
		runs, err := stet.StartAllTx(t.Context(), tx, e, w, make([]int, many), func(i int) []stet.StartOption {
			return []stet.StartOption{id("all", i)}
		})
		if err != nil || len(runs) != many || runs[7].ID() != "all7" {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		// One of them exists: the others are started.
		runs, err = stet.StartAllTx(t.Context(), tx, e, w, []int{0, 1}, func(i int) []stet.StartOption {
			return []stet.StartOption{id("all", i*many), stet.RefuseExisting}
		})
		if !errors.Is(err, stet.ErrExists) || len(runs) != 2 || runs[0] != nil || runs[1] == nil {
			t.Fatalf("%v, %v", runs, err)
		}
		if none, err := stet.StartAllTx(t.Context(), tx, e, w, nil, nil); err != nil || len(none) != 0 {
			t.Fatalf("%v, %v", none, err)
		}
		_, err = stet.StartAllTx(t.Context(), tx, e, w, make([]int, stet.MaxStarts+1), nil)
		if !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("too many: %v", err)
		}
	})
	apart := numbers("one", func(tx pgx.Tx) {
		for i := range many {
			if _, err := stet.StartTx(t.Context(), tx, e, w, 0, id("one", i)); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("%d starts take %d numbers of transactions together, %d apart", many, together, apart)
	if together > 20 || apart < many {
		t.Errorf("%d starts take %d numbers of transactions together, %d apart", many, together, apart)
	}
	page, err := s.List(t.Context(), store.Filter{Limit: 1000})
	if err != nil || len(page.Runs) != 2*many+1 {
		t.Errorf("%d runs are there, %v", len(page.Runs), err)
	}
}
