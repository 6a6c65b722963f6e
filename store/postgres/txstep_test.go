package postgres_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/postgres"
)

// ledger is the application's table of the tests.
func ledger(t testing.TB, dsn string) (*pgxpool.Pool, func(run string) int) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(),
		"CREATE TABLE IF NOT EXISTS ledger (run text NOT NULL, part int NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	return pool, func(run string) (n int) {
		if err := pool.QueryRow(context.Background(), "SELECT count(*) FROM ledger WHERE run=$1", run).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// serve runs an engine until the test ends.
func serve(t testing.TB, s *postgres.Store, workflows ...stet.Definition) *stet.Engine {
	t.Helper()
	return serveWith(t, stet.Config{Store: s, Workflows: workflows, Poll: 50 * time.Millisecond})
}

// serveWith is serve with a config.
func serveWith(t testing.TB, cfg stet.Config) *stet.Engine {
	t.Helper()
	e, err := stet.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return e
}

var quick = stet.Retry{First: time.Millisecond, Max: time.Millisecond}

// TestTxStep writes with both kinds of transactions: what a failed attempt, one that
// panics, and one whose result cannot be encoded have written is gone, and of the
// last attempt it is there once, with the step's result.
func TestTxStep(t *testing.T) {
	s, dsn, _ := fresh(t)
	unique := rand.Text() // the ledger is of all tests
	pool, rows := ledger(t, dsn)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // nothing is written with it any more
	attempts := map[string]*atomic.Int64{"pgx": {}, "sql": {}}
	body := func(kind string, insert func() error) (string, error) {
		if err := insert(); err != nil {
			return "", err
		}
		switch attempts[kind].Add(1) {
		case 1:
			return "", errors.New("not yet")
		case 2:
			panic("not yet")
		}
		return "done by " + kind, nil
	}
	flow := stet.Define("ledger", func(ctx stet.Context, run string) (string, error) {
		first, err := stet.TxStep(ctx, "pgx", pool.Begin, func(ctx context.Context, tx pgx.Tx) (string, error) {
			return body("pgx", func() error { _, err := tx.Exec(ctx, "INSERT INTO ledger VALUES ($1, 1)", run); return err })
		}, quick)
		if err != nil {
			return "", err
		}
		begin := func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) }
		second, err := stet.TxStep(ctx, "sql", begin, func(ctx context.Context, tx *sql.Tx) (string, error) {
			return body("sql", func() error {
				_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES ($1, 2)", run)
				return err
			})
		}, quick)
		return first + ", " + second, err
	})
	e := serve(t, s, flow)
	run, err := flow.Start(t.Context(), e, unique)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Wait(t.Context()); err != nil || got != "done by pgx, done by sql" {
		t.Errorf("got %q: %v", got, err)
	}
	if n := rows(unique); n != 2 {
		t.Errorf("%d rows are there", n)
	}
	entries, err := e.Runs().History(t.Context(), run.ID(), stet.HistoryQuery{Values: true, At: []string{"pgx", "sql"}})
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i := range entries {
		f := entries[i].Failures
		if len(f) != 2 || f[0].Number != 1 || f[0].Message != "not yet" || f[1].Number != 2 || f[1].Code != "panic" ||
			f[1].Began.Before(f[0].Ended) {
			t.Errorf("the failed attempts of %s are %+v", entries[i].Location, f)
		}
	}
}

// TestTxStepWhoseBodyEndsTheTransaction fails at once, with a text that says so.
func TestTxStepWhoseBodyEndsTheTransaction(t *testing.T) {
	s, dsn, _ := fresh(t)
	pool, _ := ledger(t, dsn)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // nothing is written with it
	begin := func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) }
	flow := stet.Define("ends", func(ctx stet.Context, how string) (int, error) {
		switch how {
		case "pgx commits":
			return stet.TxStep(ctx, "x", pool.Begin, func(ctx context.Context, tx pgx.Tx) (int, error) {
				return 1, tx.Commit(ctx)
			}, quick)
		case "pgx rolls back":
			return stet.TxStep(ctx, "x", pool.Begin, func(ctx context.Context, tx pgx.Tx) (int, error) {
				return 1, tx.Rollback(ctx)
			}, quick)
		case "sql commits":
			return stet.TxStep(ctx, "x", begin, func(_ context.Context, tx *sql.Tx) (int, error) {
				return 1, tx.Commit()
			}, quick)
		case "sql rolls back":
			return stet.TxStep(ctx, "x", begin, func(_ context.Context, tx *sql.Tx) (int, error) {
				return 1, tx.Rollback()
			}, quick)
		case "pgx has begun none":
			return stet.TxStep(ctx, "x", func(context.Context) (pgx.Tx, error) { return nil, nil },
				func(context.Context, pgx.Tx) (int, error) { return 1, nil }, quick)
		}
		return stet.TxStep(ctx, "x", func(context.Context) (*sql.Tx, error) { return nil, nil },
			func(context.Context, *sql.Tx) (int, error) { return 1, nil }, quick)
	})
	e := serve(t, s, flow)
	for how, text := range map[string]string{
		"pgx commits":        "the body has ended the transaction; TxStep does that",
		"pgx rolls back":     "the body has ended the transaction; TxStep does that",
		"sql commits":        "the body has ended the transaction; TxStep does that",
		"sql rolls back":     "the body has ended the transaction; TxStep does that",
		"pgx has begun none": "expected a pgx.Tx, found nil",
		"sql has begun none": "expected a *sql.Tx, found nil",
	} {
		run, err := flow.Start(t.Context(), e, how)
		if err != nil {
			t.Fatal(err)
		}
		var failed *stet.StepError
		if _, err := run.Wait(t.Context()); !errors.As(err, &failed) || failed.Attempts != 1 ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%s: expected one attempt and %q, found %v", how, text, err)
		}
	}
}

// TestTxStepNeedsItsStore: a store that knows no such transactions refuses for good.
func TestTxStepNeedsItsStore(t *testing.T) {
	flow := stet.Define("nowhere", func(ctx stet.Context, _ int) (int, error) {
		return stet.TxStep(ctx, "x", func(context.Context) (pgx.Tx, error) { return nil, nil },
			func(context.Context, pgx.Tx) (int, error) { return 1, nil })
	})
	e, err := stet.New(t.Context(), stet.Config{Store: memory.New(), Workflows: []stet.Definition{flow}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	run, err := flow.Start(ctx, e, 1)
	if err != nil {
		t.Fatal(err)
	}
	var failed *stet.StepError
	if _, err := run.Wait(ctx); !errors.As(err, &failed) || failed.Attempts != 1 ||
		!strings.Contains(err.Error(), "type pgx.Tx, found one of kind memory") {
		t.Errorf("got %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestTxStepThatIsCutHasNoEffect: the body of a step in a transaction executes when its run is terminated, when it is
// cancelled, or when its Map fails. The effect is there if the step's success is recorded, and otherwise rolled back,
// so nothing is recorded of a body that was cut.
func TestTxStepThatIsCutHasNoEffect(t *testing.T) {
	s, dsn, _ := fresh(t)
	unique := rand.Text() // the ledger is of all tests
	pool, rows := ledger(t, dsn)
	begun := make(chan struct{})
	fail := stet.Message[string]("fail")
	flow := stet.Define("cuts", func(ctx stet.Context, run string) (string, error) {
		_, err := stet.Map(ctx, "all", []string{"write", "fail"}, func(ctx stet.Context, part string) (int, error) {
			if part == "fail" {
				_, err := fail.Receive(ctx)
				return 0, errors.Join(err, errors.New("the other part has failed"))
			}
			return stet.TxStep(ctx, "write", func(ctx context.Context) (pgx.Tx, error) {
				return pool.Begin(context.WithoutCancel(ctx))
			}, func(ctx context.Context, tx pgx.Tx) (int, error) {
				_, err := tx.Exec(context.WithoutCancel(ctx), "INSERT INTO ledger VALUES ($1, 1)", unique+run)
				begun <- struct{}{}
				<-ctx.Done() // it was cut, and goes on
				return 1, err
			}, stet.Retry{Attempts: 1})
		})
		return "", err
	})
	e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{flow}, Poll: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	cuts := map[string]func(run string) error{
		"map": func(run string) error { return fail.Send(t.Context(), e, run, "now") },
		"cancel": func(run string) error {
			_, err := e.Runs().Cancel(t.Context(), run, stet.Act{})
			return err
		},
		"terminate": func(run string) error {
			_, err := e.Runs().Terminate(t.Context(), run, stet.Act{})
			return err
		},
	}
	for how, cut := range cuts {
		id := unique + how
		if _, err := flow.Start(t.Context(), e, how, stet.ID(id)); err != nil {
			t.Fatal(err)
		}
		<-begun
		if err := cut(id); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Runs().Wait(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	stop() // and the bodies have returned
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for how := range cuts {
		entries, err := e.Runs().History(t.Context(), unique+how, stet.HistoryQuery{})
		if err != nil {
			t.Fatal(err)
		}
		done := 0
		for _, x := range entries {
			switch {
			case x.Kind != store.KindStep:
			case x.State == store.Done:
				done++
			case x.Attempts > 0 && x.State == store.Withdrawn:
				t.Errorf("%s: a body is recorded as cut: %+v", how, x)
			}
		}
		if n := rows(unique + how); n != done {
			t.Errorf("%s: the body has written %d rows, and %d successes are recorded", how, n, done)
		}
	}
}

// TestTxStepTimeout: an attempt whose time is over commits nothing, although its
// body goes on to the end.
func TestTxStepTimeout(t *testing.T) {
	s, dsn, _ := fresh(t)
	unique := rand.Text() // the ledger is of all tests
	pool, rows := ledger(t, dsn)
	var attempt atomic.Int64
	release, ended := make(chan struct{}), make(chan struct{})
	flow := stet.Define("slow", func(ctx stet.Context, run string) (int64, error) {
		return stet.TxStep(ctx, "slow", func(context.Context) (pgx.Tx, error) { return pool.Begin(context.Background()) },
			func(ctx context.Context, tx pgx.Tx) (int64, error) {
				n := attempt.Add(1)
				_, err := tx.Exec(context.Background(), "INSERT INTO ledger VALUES ($1, $2)", run, n)
				if n == 1 {
					<-release // and does not listen
					defer close(ended)
				}
				return n, err
			}, stet.Retry{First: time.Millisecond, Timeout: 100 * time.Millisecond})
	})
	e := serve(t, s, flow)
	run, err := flow.Start(t.Context(), e, unique)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Wait(t.Context()); err != nil || got < 2 {
		t.Errorf("got %d: %v", got, err)
	}
	close(release)
	<-ended
	if n := rows(unique); n != 1 {
		t.Errorf("%d rows are there", n)
	}
}

const killedRun = "killed"

// killable is the workflow that is killed.
func killable(begin func(context.Context) (pgx.Tx, error)) *stet.Workflow[int, int] {
	return stet.Define("killable", func(ctx stet.Context, n int) (int, error) {
		return stet.TxStep(ctx, "write", begin, func(ctx context.Context, tx pgx.Tx) (int, error) {
			for part := range 2 {
				if _, err := tx.Exec(ctx, "INSERT INTO ledger VALUES ($1, $2)", fmt.Sprint(killedRun, n), part); err != nil {
					return 0, err
				}
			}
			return n, nil
		}, quick)
	})
}

// work executes killable until it is killed.
func work(storeDSN, poolDSN string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, poolDSN)
	if err != nil {
		return err
	}
	s, err := postgres.Open(ctx, storeDSN)
	if err != nil {
		return err
	}
	e, err := stet.New(ctx, stet.Config{Store: s, Workflows: []stet.Definition{killable(pool.Begin)},
		LeaseTTL: time.Second, Poll: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	return e.Run(ctx)
}

// TestTxStepKilled kills the process that executes a transactional step when the
// server has carried out the first, the second, … of all that the step's connection
// asks for, up to its commit, and before the answer arrives. Another process goes on: the
// rows of the step are there exactly once, and the run has its result.
func TestTxStepKilled(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	pool, rows := ledger(t, server.DSN())
	s := open(t, server.DSN())
	client, err := stet.New(t.Context(), stet.Config{Store: s, Poll: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(t.Context(), store.Node{ID: "first", Boot: "1", Workflows: []string{"killable"}}); err != nil {
		t.Fatal(err) // so that it can be started before there is a process for it
	}
	flow := killable(pool.Begin)
	killed := 0
	for n := 0; ; n++ {
		proxy := servers.NewProxy(t, server.Addr())
		hold := proxy.Hold(n)
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "STET_CHILD_STORE="+server.DSN(), "STET_CHILD_POOL="+server.TCP(proxy.Addr()))
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		run, err := flow.Start(t.Context(), client, n, stet.ID(fmt.Sprintf("run-%d", n)))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			got, err := run.Wait(context.WithoutCancel(t.Context()))
			if err == nil && got != n {
				err = fmt.Errorf("got %d", got)
			}
			ended <- err
		}()
		over := false
		select {
		case <-hold.Held:
			killed++
		case err := <-ended:
			over = true // there are not so many answers
			if err != nil {
				t.Errorf("after answer %d: %v", n, err)
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = child.Wait() // it was killed
		if over {
			break
		}
		hold.Go()
		proxy.Cut()
		second := exec.Command(os.Args[0])
		second.Env = append(os.Environ(), "STET_CHILD_STORE="+server.DSN(), "STET_CHILD_POOL="+server.DSN())
		if err := second.Start(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("after answer %d: %v", n, err)
		}
		if err := second.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = second.Wait() // it was killed
		if found := rows(fmt.Sprint(killedRun, n)); found != 2 {
			t.Errorf("killed after answer %d, the step's rows are there %d times; expected 2 of one attempt", n, found)
		}
	}
	if killed < 5 {
		t.Errorf("the process was killed at %d places; expected the begin, two inserts, the record and the commit at least",
			killed)
	}
}

// TestTxStepLosesAnswers cuts the connection of a transactional step after the first, the second, … of the server's
// answers, up to that of its commit. The step is tried again, and its rows are there exactly once.
func TestTxStepLosesAnswers(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	_, rows := ledger(t, server.DSN())
	proxy := servers.NewProxy(t, server.Addr())
	pool, err := pgxpool.New(t.Context(), server.TCP(proxy.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	flow := killable(pool.Begin)
	e := serve(t, open(t, server.DSN()), flow)
	for n := 0; ; n++ {
		pool.Reset() // so that it begins with a connection
		lost := proxy.LoseAnswer(n)
		run, err := flow.Start(t.Context(), e, n)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run.Wait(t.Context()); err != nil || got != n {
			t.Errorf("answer %d was lost: %d, %v", n, got, err)
		}
		if found := rows(fmt.Sprint(killedRun, n)); found != 2 {
			t.Errorf("answer %d was lost: the step's rows are there %d times; expected 2 of one attempt", n, found)
		}
		select {
		case <-lost:
			continue
		default: // there are not so many
		}
		if n < 5 {
			t.Errorf("%d answers were lost; expected those of the begin, two inserts, the record and the commit at least", n)
		}
		return
	}
}

// TestTxStepEmitsNothing: the body of a step in a transaction is refused, also below its own
// context, and the step is as it was otherwise.
func TestTxStepEmitsNothing(t *testing.T) {
	s, dsn, _ := fresh(t)
	unique := rand.Text() // the ledger is of all tests
	pool, rows := ledger(t, dsn)
	said := stet.Stream[string]("said")
	flow := stet.Define("emits", func(ctx stet.Context, run string) (string, error) {
		return stet.TxStep(ctx, "x", pool.Begin, func(ctx context.Context, tx pgx.Tx) (string, error) {
			below, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			for _, c := range []context.Context{ctx, below} {
				if err := said.Emit(c, "never"); !errors.Is(err, stet.ErrInvalid) || !strings.Contains(err.Error(), "Append") {
					return "", stet.Permanent(fmt.Errorf("to emit gives %w", err))
				}
			}
			_, err := tx.Exec(ctx, "INSERT INTO ledger VALUES ($1, 1)", run)
			return "done", err
		}, quick)
	})
	e := serve(t, s, flow)
	run, err := flow.Start(t.Context(), e, unique)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Wait(t.Context()); err != nil || got != "done" {
		t.Errorf("got %q: %v", got, err)
	}
	if items, err := said.Items(t.Context(), e, run.ID(), 0, 0); err != nil || len(items) != 0 {
		t.Errorf("emitted are %+v: %v", items, err)
	}
	if n := rows(unique); n != 1 {
		t.Errorf("%d rows are there", n)
	}
}
