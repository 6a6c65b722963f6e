package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestClassesOfErrors: an act is the reason only of errors that can be about data. All
// others, and codes that nobody has seen yet, say that the store is away.
func TestClassesOfErrors(t *testing.T) {
	classes := []error{store.ErrUnavailable, store.ErrInvalid, store.ErrTooLarge, store.ErrDamaged}
	is := func(want ...error) string {
		var names []string
		for _, class := range classes {
			for _, w := range want {
				if errors.Is(w, class) {
					names = append(names, class.Error())
				}
			}
		}
		return strings.Join(names, ", ")
	}
	away := is(store.ErrUnavailable)
	for code, want := range map[string]string{
		"22021": is(store.ErrInvalid), "22003": is(store.ErrInvalid), "23505": "", "23514": "",
		"54000": is(store.ErrInvalid, store.ErrTooLarge), "57014": is(store.ErrUnavailable, store.ErrTooLarge),
		"08006": away, "0A000": away,
		"21000": away, "25001": away, "25006": away,
		"25P02": away, "25P03": away, "25P04": away,
		"26000": away, "28000": away, "28P01": away, "34000": away, "38000": away, "3D000": away, "3F000": away,
		"40001": away, "40P01": away, "42501": away, "42P01": away, "53100": away, "53200": away, "53300": away,
		"55006": away, "55P03": away, "57P01": away, "57P03": away, "58000": away, "58030": away, "58P01": away,
		"72000": away, "P0001": away, "XX000": away, "XX001": away, "XX002": away, "ZZ999": away,
	} {
		err := postgres.Classify(t.Context(), &pgconn.PgError{Severity: "ERROR", Code: code, Message: "as the test says"})
		if got := is(err); got != want {
			t.Errorf("%s is %q; want %q: %v", code, got, want, err)
		}
		if postgres.SQLState(err) != code {
			t.Errorf("%s is not in the error: %v", code, err)
		}
	}
	large := errors.New("message body too large")
	if got := is(postgres.Classify(t.Context(), large)); got != is(store.ErrInvalid, store.ErrTooLarge) {
		t.Errorf("a message that the driver does not send is %q", got)
	}
}

// TestFaultsOfTheServer makes every commit of entries fail for a while with a code, as a
// disk or an extension does. No run is stalled, and all go on.
func TestFaultsOfTheServer(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"58030", "58P01", "XX000", "XX001", "26000",
		"0A000", "3D000", "57014", "P0001", "23514"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s, dsn, schema := fresh(t)
			server := application(t, dsn)
			exec := func(format string, args ...any) {
				t.Helper()
				if _, err := server.Exec(t.Context(), fmt.Sprintf(format, args...)); err != nil {
					t.Fatal(err)
				}
			}
			exec(`CREATE FUNCTION %[1]s.fails() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN RAISE EXCEPTION 'as the test says' USING ERRCODE='%[2]s'; END $$`, schema, code)
			gate := make(chan struct{})
			flow := stet.Define("flow", func(ctx stet.Context, n int) (int, error) {
				return stet.Step(ctx, "step", func(context.Context) (int, error) {
					<-gate
					return n, nil
				})
			})
			var log lines
			e := engineWith(t, stet.Config{Store: s, Workflows: []stet.Definition{flow},
				Logger: slog.New(slog.NewTextHandler(&log, nil))})
			const runs = 20
			var all sync.WaitGroup
			for i := range runs {
				run, err := flow.Start(t.Context(), e, i)
				if err != nil {
					t.Fatal(err)
				}
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					defer cancel()
					if got, err := run.Wait(ctx); err != nil || got != i {
						t.Errorf("run %d: %d, %v", i, got, err)
					}
				})
			}
			exec("CREATE TRIGGER fails BEFORE INSERT ON %s.entries EXECUTE FUNCTION %[1]s.fails()", schema)
			close(gate)
			servers.Until(t, "the fault is in the log", func() bool { return log.has("as the test says") })
			exec("DROP TRIGGER fails ON %s.entries", schema)
			all.Wait()
			exec("DROP FUNCTION %s.fails()", schema) // another test has the schema then
		})
	}
}

// sized notes how many bytes the entries of the largest batch have.
type sized struct {
	store.Store
	most atomic.Int64
}

func (s *sized) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	bytes := 0
	for _, t := range b.Turns {
		for i := range t.Entries {
			bytes += len(t.Entries[i].Value)
		}
	}
	s.most.Store(max(s.most.Load(), int64(bytes)))
	return s.Store.Commit(ctx, b)
}

// TestBigBatch ends many bodies with large results at once: they are written in batches of
// 16 MiB.
func TestBigBatch(t *testing.T) {
	t.Parallel()
	whole, _, _ := fresh(t)
	s := &sized{Store: whole}
	gate := make(chan struct{})
	flow := stet.Define("flow", func(ctx stet.Context, n int) (int, error) {
		text, err := stet.Step(ctx, "step", func(context.Context) (string, error) {
			<-gate
			return strings.Repeat("x", 1<<20), nil
		})
		return len(text), err
	})
	e := engineWith(t, stet.Config{Store: s, Workflows: []stet.Definition{flow}, Logger: slog.New(slog.DiscardHandler)})
	var all sync.WaitGroup
	for i := range 60 {
		run, err := flow.Start(t.Context(), e, i)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if got, err := run.Wait(ctx); err != nil || got != 1<<20 {
				t.Errorf("run %d: %d, %v", i, got, err)
			}
		})
	}
	close(gate)
	all.Wait()
	if n := s.most.Load(); n > 16<<20 {
		t.Errorf("a batch has %d bytes; want 16 MiB at most", n)
	}
}

// TestStatementTimeout gives the role less time than a batch of all that waits needs: the
// batch is made smaller until the server takes it.
func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	admin := application(t, server.DSN())
	// The tables are made without the limit, and a busy machine reads within it.
	open(t, server.DSN(), postgres.AllowLoss())
	s := open(t, server.DSN()+" statement_timeout=3000", postgres.AllowLoss())
	const runs = 60
	gate := make(chan struct{})
	flow := stet.Define("flow", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "step", func(context.Context) (int, error) {
			<-gate
			return n, nil
		})
	})
	e := engineWith(t, stet.Config{Store: s, Workflows: []stet.Definition{flow}, Logger: slog.New(slog.DiscardHandler)})
	var all sync.WaitGroup
	for i := range runs {
		run, err := flow.Start(t.Context(), e, i)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if got, err := run.Wait(ctx); err != nil || got != i {
				t.Errorf("run %d: %d, %v", i, got, err)
			}
		})
	}
	// Each entry takes 100 ms, so 60 take 6 s.
	if _, err := admin.Exec(t.Context(), `CREATE FUNCTION stet.slow() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM pg_sleep(0.1); RETURN new; END $$;
		CREATE TRIGGER slow BEFORE INSERT ON stet.entries FOR EACH ROW EXECUTE FUNCTION stet.slow()`); err != nil {
		t.Fatal(err)
	}
	close(gate)
	all.Wait()
}

// TestStrictIsolation gives the role another default isolation: heartbeats and commits at
// the same time do not take each other back.
func TestStrictIsolation(t *testing.T) {
	t.Parallel()
	dsn, schema := servers.SharedPostgres(t)
	for _, level := range []string{"repeatable read", "serializable"} {
		strict := dsn + " default_transaction_isolation='" + level + "'"
		s := open(t, strict, postgres.Schema(schema), postgres.AllowLoss())
		n := takeAll(t, s, level)
		var beats sync.WaitGroup
		end := make(chan struct{})
		beats.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if _, err := s.Register(t.Context(), n.node); err != nil {
					t.Errorf("%s: %v", level, err)
					return
				}
				if _, _, err := s.Renew(t.Context(), n.leases, ttl); err != nil {
					t.Errorf("%s: %v", level, err)
					return
				}
			}
		})
		for i := range 100 {
			if _, err := s.Commit(t.Context(), n.batch(nil, claimedStart(fmt.Sprint(level, i)))); err != nil {
				t.Fatalf("%s: %v", level, err)
			}
		}
		close(end)
		beats.Wait()
		if err := s.Release(t.Context(), n.leases); err != nil {
			t.Error(err)
		}
		_, err := postgres.Open(t.Context(), strict, postgres.Schema(schema), postgres.AllowLoss(), postgres.Pooler())
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "ALTER ROLE") {
			t.Errorf("behind a pooler: %v", err)
		}
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}
