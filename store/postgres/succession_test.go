package postgres_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// The servers of these tests are one server, which says that it is another one since. Those of failover_test.go and
// system_test.go are real ones.

var quietly = postgres.Logger(slog.New(slog.DiscardHandler))

// TestSettingsThatLose: what would lose acknowledgements is refused, unless it is asked for, and then said.
func TestSettingsThatLose(t *testing.T) {
	t.Parallel()
	server := newFeigned(t)
	if d := describe(t, open(t, server.DSN())); !strings.Contains(d.Durable, "nothing lost") {
		t.Errorf("told %q", d.Durable)
	}
	for _, name := range []string{"synchronous_commit", "full_page_writes", "fsync"} {
		server.feign(t, name, "off")
		if _, err := postgres.Open(t.Context(), server.DSN()); !errors.Is(err, store.ErrInvalid) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s=off: got %v", name, err)
		}
		if d := describe(t, open(t, server.DSN())); !strings.Contains(d.Durable, name+"=off") ||
			!strings.Contains(d.Durable, "may take back") {
			t.Errorf("%s=off: told %q", name, d.Durable)
		}
	}
}

// TestAStandbyIsRefused: a store is opened on a primary.
func TestAStandbyIsRefused(t *testing.T) {
	t.Parallel()
	server := newFeigned(t)
	open(t, server.DSN())
	server.feign(t, "standby", "on")
	if _, err := postgres.Open(t.Context(), server.DSN(), quietly); !errors.Is(err, store.ErrUnavailable) ||
		!strings.Contains(err.Error(), "standby") {
		t.Errorf("got %v", err)
	}
}

// TestASynchronousStandbyTakesThePlace: the store goes on, and the former server is refused by those who have seen the
// new one, and by those who come.
func TestASynchronousStandbyTakesThePlace(t *testing.T) {
	t.Parallel()
	server := newFeigned(t)
	server.feign(t, "synchronous_standby_names", "*")
	s := open(t, server.DSN(), quietly)
	if d := describe(t, s); !strings.Contains(d.Durable, "a failover to a synchronous standby loses nothing") {
		t.Errorf("told %q", d.Durable)
	}
	n := takeAll(t, s, "n")
	run := n.started(t, "r")
	server.feign(t, "timeline", "00000002")
	server.cut(t)
	until(t, func() error { _, err := s.List(t.Context(), store.Filter{}); return err })
	again := store.Batch{Node: n.node.ID, Boot: n.node.Boot, No: n.no + 1, Leases: n.leases,
		Turns: []*store.Turn{{Run: run.No, Shard: shard, Entries: []store.Entry{done("a")}}}}
	until(t, func() error { // a connection that was cut may be met first
		result, err := s.Commit(t.Context(), again)
		if err == nil && result.Turns[0].Verdict != store.Committed {
			t.Errorf("an owner whose lease holds got %+v", result)
		}
		return err
	})
	open(t, server.DSN(), quietly)
	server.feign(t, "timeline", "00000001")
	server.cut(t)
	refused(t, "this is a former server", func() error { _, err := s.List(t.Context(), store.Filter{}); return err })
	refused(t, "this is a former server", func() error { return opened(t, server) })
}

// refused checks that an act is refused with a text, after connections that were cut, and does not wear off.
func refused(t *testing.T, want string, act func() error) {
	t.Helper()
	for times, cut := 0, 0; times < 3; {
		err := act()
		switch {
		case !errors.Is(err, store.ErrUnavailable):
			t.Fatalf("expected %q, found %v", want, err)
		case strings.Contains(err.Error(), want):
			times++
		case times > 0 || cut == 10:
			t.Fatalf("expected %q, found %v", want, err)
		default:
			cut++
		}
	}
}

// opened returns the error of opening the store.
func opened(t *testing.T, server dsn) error {
	t.Helper()
	s, err := postgres.Open(t.Context(), server.DSN(), postgres.AllowLoss(), quietly)
	if err == nil {
		return s.Close()
	}
	return err
}

// TestAnAsynchronousStandbyTakesThePlace: all processes are stopped with that reason, until the loss is confirmed. Then
// they go on, and nodes that have held leases hold none.
func TestAnAsynchronousStandbyTakesThePlace(t *testing.T) {
	t.Parallel()
	server := newFeigned(t)
	if _, err := application(t, server.DSN()).Exec(t.Context(),
		"INSERT INTO feigned.pg_stat_replication VALUES (1, 'standby', 'async')"); err != nil {
		t.Fatal(err)
	}
	s := open(t, server.DSN(), quietly)
	if d := describe(t, s); !strings.Contains(d.Durable, "asynchronous standby") ||
		!strings.Contains(d.Durable, "can lose") {
		t.Errorf("told %q", d.Durable)
	}
	n := takeAll(t, s, "n")
	kept := n.started(t, "kept")
	server.feign(t, "timeline", "00000002")
	server.cut(t)
	const lost = "what was acknowledged last may be lost"
	for _, act := range []func() error{
		func() error { _, _, err := s.Load(t.Context(), []store.RunNo{kept.No}); return err },
		func() error { _, err := s.Commit(t.Context(), n.batch(nil, claimedStart("next"))); return err },
		func() error { _, _, err := s.Renew(t.Context(), n.leases, ttl); return err },
		func() error { _, _, err := s.Apply(t.Context(), []store.Command{start("next")}); return err },
		func() error { return opened(t, server) },
	} {
		refused(t, lost, act)
	}
	if err := postgres.ConfirmFailover(t.Context(), server.DSN(), quietly, postgres.AllowLoss()); err != nil {
		t.Fatal(err)
	}
	if runs, err := s.List(t.Context(), store.Filter{}); err != nil || len(runs.Runs) != 1 || runs.Runs[0].ID != kept.ID {
		t.Errorf("found %+v: %v", runs.Runs, err)
	}
	if result := n.commit(t, &store.Turn{Run: kept.No, Shard: shard}); result.Turns[0].Verdict != store.Fenced {
		t.Errorf("with a lease of the former server: got %+v", result)
	}
	if renewed, _, err := s.Renew(t.Context(), n.leases, ttl); err != nil || renewed[0].Held {
		t.Errorf("with a lease of the former server: renewed %+v: %v", renewed, err)
	}
	if again := takeAll(t, s, "again"); again.leases[0].Epoch <= n.leases[0].Epoch {
		t.Errorf("the epoch went from %d to %d", n.leases[0].Epoch, again.leases[0].Epoch)
	}
}

// TestAStandbyThatWasNotWaitedForTakesThePlace: its note is from a time when all was waited for. A process that misses
// its own commit there notes the loss for all others. The note follows settings and standbys.
func TestAStandbyThatWasNotWaitedForTakesThePlace(t *testing.T) {
	t.Parallel()
	server := newFeigned(t)
	db := application(t, server.DSN())
	s := open(t, server.DSN(), quietly)
	n := takeAll(t, s, "n")
	if _, err := db.Exec(t.Context(), `INSERT INTO feigned.pg_stat_replication
		VALUES (1, 'one', 'sync'), (2, 'other', 'async')`); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ names, want string }{
		{"", "none"}, {"ANY 2 (*)", "synchronous"}, {"ANY 1 (*)", "none"}, {"FIRST 2 (*)", "synchronous"},
		{"2 (*)", "synchronous"}, {"*", "none"},
	} {
		server.feign(t, "synchronous_standby_names", row.names)
		if _, err := s.Register(t.Context(), n.node); err != nil { // a heartbeat
			t.Fatal(err)
		}
		var note string
		if err := db.QueryRow(t.Context(), "SELECT value FROM stet.meta WHERE key='replication'").Scan(&note); err != nil ||
			note != row.want {
			t.Errorf("with %q the note is %q, expected %q: %v", row.names, note, row.want, err)
		}
	}
	if d := describe(t, open(t, server.DSN(), quietly)); !strings.Contains(d.Durable, "not waited for can lose") {
		t.Errorf("told %q", d.Durable)
	}
	n.started(t, "kept")
	// The other standby has an old note, and lacks the last batch.
	n.started(t, "lost")
	if _, err := db.Exec(t.Context(), "UPDATE stet.meta SET value='synchronous' WHERE key='replication'"); err != nil {
		t.Fatal(err)
	}
	tag, err := db.Exec(t.Context(), "DELETE FROM stet.batches WHERE no=$1", n.no)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
	server.feign(t, "timeline", "00000002")
	if _, err := db.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE pid<>pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	const lost = "what was acknowledged last may be lost"
	refused(t, lost, func() error { _, err := s.List(t.Context(), store.Filter{}); return err })
	refused(t, lost, func() error { return opened(t, server) })
	if err := postgres.ConfirmFailover(t.Context(), server.DSN(), quietly, postgres.AllowLoss()); err != nil {
		t.Fatal(err)
	}
	until(t, func() error { _, err := s.List(t.Context(), store.Filter{}); return err })
}

// TestTheRowsComeToAnotherSystem: nobody works there until a person has confirmed it, and nobody goes back.
func TestTheRowsComeToAnotherSystem(t *testing.T) {
	t.Parallel()
	server := newFeigned(t)
	s := open(t, server.DSN(), quietly)
	takeAll(t, s, "n").started(t, "a")
	server.feign(t, "system", "2")
	server.cut(t)
	list := func() error { _, err := s.List(t.Context(), store.Filter{}); return err }
	refused(t, "the store has come to another server", list)
	refused(t, "the store has come to another server", func() error { return opened(t, server) })
	if err := postgres.ConfirmFailover(t.Context(), server.DSN(), quietly, postgres.AllowLoss()); err != nil {
		t.Fatal(err)
	}
	answers, _, err := s.Apply(t.Context(), []store.Command{start("b"), message("b", "m")})
	if err != nil || answers[0].Outcome != store.Applied || answers[1].Outcome != store.Applied {
		t.Fatalf("a new run on the other system: %+v, %v", answers, err)
	}
	server.feign(t, "system", "1")
	if _, err := application(t, server.DSN()).Exec(t.Context(),
		"UPDATE stet.meta SET value='1' WHERE key='system'"); err != nil {
		t.Fatal(err) // the former server has not heard of the move
	}
	server.cut(t)
	refused(t, "this is a former server", list)
}
