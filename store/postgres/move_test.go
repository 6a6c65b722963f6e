package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// moved is a store over several databases at work, of which some are moved.
type moved struct {
	*testing.T
	w        *postgres.Wide
	e        *stet.Engine
	families []string
}

// begin starts families at home in some databases, which are there.
func (m *moved) begin(n int, databases ...int) {
	m.Helper()
	for i := range n {
		id := m.w.NewID(databases[i%len(databases)])
		m.families = append(m.families, id)
		patiently(m.Context(), m, func() error { return begun(family.Start(m.Context(), m.e, 10, stet.ID(id))) })
	}
}

// end waits until all families have ended, each once.
func (m *moved) end() {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), 2*time.Minute)
	defer cancel()
	for i, id := range m.families {
		patiently(ctx, m, func() error {
			sum, err := family.Handle(m.e, id).Wait(ctx)
			if err == nil && sum != 45 || ctx.Err() != nil {
				page, _ := m.w.List(context.Background(), store.Filter{Limit: 100, Statuses: []store.Status{store.Queued,
					store.Running, store.Suspended, store.Stalled}})
				for _, r := range page.Runs {
					m.Logf("%s of %s in database %d is %s, %s", r.ID, r.Workflow, m.w.Home(r.ID), r.Status, r.Reason)
				}
				m.Fatalf("family %d: %d, %v", i, sum, err)
			}
			return err
		})
	}
	tallies, err := m.w.Count(ctx, store.Filter{Workflows: []string{"leaf"}})
	if err != nil || len(tallies) != 1 || tallies[0].Runs != int64(10*len(m.families)) {
		m.Fatalf("%d families have the children %+v, %v", len(m.families), tallies, err)
	}
	findings, err := m.w.Doctor(ctx)
	for _, f := range findings {
		if !f.OK && !strings.Contains(f.What, "settings of the server") {
			m.Errorf("%s: %s", f.What, f.Detail)
		}
	}
	if err != nil {
		m.Error(err)
	}
}

// One of two databases moves to a third server while an engine works on both. The runs of the other one go on, and all
// end once. A process that still names the old address finds the new one, and so does one that names that.
func TestADatabaseMovesToAnotherServer(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	var at []string
	for range 3 {
		at = append(at, servers.NewPostgres(t, servers.Fast...).DSN())
	}
	opts := []postgres.Option{postgres.AllowLoss(), postgres.Slots(16)}
	w := openAll(t, at[:2], opts...)
	m := &moved{T: t, w: w, e: drive(t, w, 10*time.Second)}
	m.begin(10, 0, 1)
	if err := postgres.Move(t.Context(), at[1], at[2], opts...); err != nil {
		t.Fatal(err)
	}
	m.begin(10, 0, 1)
	m.end()
	for _, dsns := range [][]string{{at[0], at[1]}, {at[2], at[0]}} {
		again := openAll(t, dsns, opts...)
		if a, b := w.Home("x"), again.Home("x"); a != b {
			t.Errorf("the home of x is database %d, and %d for a new process", a, b)
		}
		if page, err := again.List(t.Context(), store.Filter{IDs: m.families[:2]}); err != nil ||
			len(page.Runs) != 2 {
			t.Errorf("a new process finds %d runs, %v", len(page.Runs), err)
		}
	}
	if names := strings.Join(w.Databases(), "; "); !strings.Contains(names, strings.Fields(at[2])[0][len("host="):]) {
		t.Errorf("the databases are %s", names)
	}
}

// A move is killed after each of its statements, and continued, while an engine works on the store. Nothing is lost or
// done twice. make test tries a third of the statements, by the day.
func TestAMoveIsContinuedWhereverItWasKilled(t *testing.T) {
	t.Parallel()
	dsns, schemas := schemasOf(t, 2)
	places := []string{dsns[1], dsns[1] + "_b"}
	opts := []postgres.Option{postgres.AllowLoss(), postgres.Slots(8), postgres.Conns(3)}
	w := openAll(t, dsns, opts...)
	m := &moved{T: t, w: w, e: drive(t, w, 5*time.Second)}
	m.begin(4, 0, 1)
	var statements []string
	note := postgres.MoveSteps(func(text string) error { statements = append(statements, text); return nil })
	if err := postgres.Move(t.Context(), places[0], places[1], append(opts, note)...); err != nil {
		t.Fatal(err)
	}
	m.end()
	killed := errors.New("killed")
	stays := slices.IndexFunc(w.Databases(), func(name string) bool { return strings.HasSuffix(name, schemas[0]) })
	kinds := map[string]int{}
	tried, share, parts := 0, 0, 1
	if !soak.Usual(t) {
		share, parts = soak.Part(t, 0, 3), 3
	}
	for n, text := range statements {
		kind, _, _ := strings.Cut(text, " ")
		if kinds[kind]++; !soak.On() && kinds[kind] > 2 && n < len(statements)-2 {
			continue // the next table
		}
		if n%parts != share {
			continue // another day
		}
		tried++
		from, to := places[tried%2], places[1-tried%2]
		m.begin(2, 0, 1)
		left := n
		err := postgres.Move(t.Context(), from, to, append(opts, postgres.MoveSteps(func(string) error {
			if left--; left < 0 {
				return killed
			}
			return nil
		}))...)
		if err == nil && left >= 0 && n > len(statements)/2 {
			m.end() // the first move has waited for a lock, and has more statements for it
			continue
		}
		if !errors.Is(err, killed) {
			t.Fatalf("a move that is killed after statement %d, %s: %v", n, text, err)
		}
		m.begin(1, stays)
		again, err := postgres.OpenAll(t.Context(), []string{dsns[0], from}, opts...) // a process that is started now
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.List(t.Context(), store.Filter{IDs: m.families[len(m.families)-1:]}); err != nil {
			t.Error(err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		if err := postgres.Move(t.Context(), from, to, opts...); err != nil {
			t.Fatalf("after it was killed after statement %d, %s: %v", n, text, err)
		}
		m.end()
		if t.Failed() {
			t.Fatalf("it was killed after statement %d, %s", n, text)
		}
	}
	t.Logf("a move has %d statements; it was killed after %d", len(statements), tried)
}

// A move that cannot be changes nothing, and one whose copy fails gives the database back.
func TestAMoveThatCannotBeChangesNothing(t *testing.T) {
	t.Parallel()
	dsns, schemas := schemasOf(t, 5)
	opts := []postgres.Option{postgres.AllowLoss(), postgres.Slots(4), postgres.Conns(2)}
	w := openAll(t, dsns[:2], opts...)
	open(t, dsns[2], opts...)
	id := w.NewID(0)
	if _, _, err := w.Apply(t.Context(), []store.Command{{Start: &store.Start{ID: id, Workflow: "w", Seed: store.Seed{1},
		Shard: store.Shard{Group: store.DefaultGroup, Slot: slices.IndexFunc([]int{0, 1, 2, 3}, func(slot int) bool {
			return w.LaneOf(slot) == 0
		})}}}}); err != nil {
		t.Fatal(err)
	}
	base := dsns[0][:strings.LastIndexAny(dsns[0], "? ")]
	c := application(t, base)
	if _, err := c.Exec(t.Context(), "CREATE TABLE "+schemas[1]+".somebody_elses (n integer)"); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct{ what, from, to, says string }{
		{"a store of its own", dsns[2], dsns[3], "with the means of Postgres"},
		{"no store", dsns[3], dsns[4], "found none"},
		{"onto another store", dsns[0], dsns[2], "expected no schema"},
		{"onto itself", dsns[0], dsns[0], "expected no schema"},
		{"a copy that fails", dsns[1], dsns[4], "somebody_elses"},
	} {
		err := postgres.Move(t.Context(), of.from, of.to, opts...)
		if err == nil || !strings.Contains(err.Error(), of.says) {
			t.Errorf("%s: %v; want %q in it", of.what, err, of.says)
		}
		if page, err := w.List(t.Context(), store.Filter{}); err != nil || len(page.Runs) != 1 {
			t.Errorf("after %s: %d runs, %v", of.what, len(page.Runs), err)
		}
	}
	if _, err := c.Exec(t.Context(), "DROP TABLE "+schemas[1]+".somebody_elses"); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Move(t.Context(), dsns[1], dsns[4], opts...); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Move(t.Context(), dsns[1], dsns[3], opts...); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(fmt.Sprint(err), schemas[4]) {
		t.Errorf("moved again from where it was: %v", err)
	}
	if _, err := postgres.OpenAll(t.Context(), []string{dsns[0], dsns[3]}, opts...); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(fmt.Sprint(err), "an empty one") {
		t.Errorf("an empty database in the place of one that moved: %v", err)
	}
}

// A schema that was seen and then goes away, because it moves, is not made again: processes would take the empty one
// for the database.
func TestAProcessMakesNoSchemaInTheOneThatMoves(t *testing.T) {
	t.Parallel()
	dsns, schemas := schemasOf(t, 1)
	s, err := postgres.Open(t.Context(), dsns[0], postgres.AllowLoss(), postgres.Existing())
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), schemas[0]) {
		t.Errorf("it was opened, or %v", err)
	}
	var there bool
	if err := application(t, dsns[0][:strings.LastIndexAny(dsns[0], "? ")]).QueryRow(t.Context(),
		"SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname=$1)", schemas[0]).Scan(&there); err != nil || there {
		t.Errorf("the schema is there: %t, %v", there, err)
	}
}

// A move waits for a transaction of an application, which has started a run, and the run moves with the database.
func TestAMoveWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	dsns, _ := schemasOf(t, 3)
	opts := []postgres.Option{postgres.AllowLoss(), postgres.Slots(8)}
	w := openAll(t, dsns[:2], opts...)
	e := drive(t, w, 5*time.Second)
	tx, err := application(t, dsns[0][:strings.LastIndexAny(dsns[0], "? ")]).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Both are schemas of one database, on which the transaction is: the first is found by it.
	from := dsns[slices.IndexFunc(dsns, func(dsn string) bool {
		return strings.HasSuffix(dsn, w.Databases()[0][strings.LastIndexByte(w.Databases()[0], ' ')+1:])
	})]
	run, err := stet.StartTx(t.Context(), tx, e, leaf, 5, stet.ID(w.NewID(0)))
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- postgres.Move(t.Context(), from, dsns[2], append(opts, postgres.MoveSteps(func(text string) error {
			if strings.HasPrefix(text, "SET LOCAL lock_timeout") {
				select {
				case begun <- struct{}{}:
				default:
				}
			}
			return nil
		}))...)
	}()
	<-begun
	<-begun // the first try has not got its locks
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	patiently(t.Context(), t, func() error {
		got, err := run.Wait(t.Context())
		if err == nil && got != 5 {
			t.Error(got)
		}
		return err
	})
}
