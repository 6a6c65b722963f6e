package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// The leases of these tests are for an hour: who takes one sooner knows by the witness that its
// holder has died.

// dsn is a server or a database.
type dsn interface{ DSN() string }

// witnessOf waits until a node has a witness, and returns the number of its session.
func witnessOf(t *testing.T, server dsn, node string) (pid int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // nothing was written
	soon(t, "a witness of "+node, func() bool {
		err := conn.QueryRow(t.Context(), `SELECT k.pid FROM stet.nodes n, stet.meta m, pg_locks k
			WHERE n.node=$1 AND m.key='id' AND n.witness=pg_postmaster_start_time() AND k.locktype='advisory'
				AND (k.classid::bigint<<32)+k.objid::bigint=
					hashtextextended('stet witness '||m.value||' '||n.node||' '||n.boot, 0)`, node).Scan(&pid)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
		return err == nil
	})
	return pid
}

// soon waits until something is so.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond) // nothing tells
	defer tick.Stop()
	for limit := time.Now().Add(time.Minute); !is(); <-tick.C {
		if time.Now().After(limit) {
			t.Fatalf("expected %s within a minute", what)
		}
	}
}

// heir registers a node that does not hold the shard.
func heir(t *testing.T, s *postgres.Store, id string) *node {
	t.Helper()
	n := &node{s: s, node: store.Node{ID: id, Boot: id + "-1", Workflows: []string{"w"}}}
	if _, err := s.Register(t.Context(), n.node); err != nil {
		t.Fatal(err)
	}
	return n
}

// tries reports whether a node gets the shard.
func (n *node) tries(t *testing.T) bool {
	t.Helper()
	got, _, err := n.s.Acquire(t.Context(), n.node, []store.Shard{shard}, ttl)
	if errors.Is(err, store.ErrUnavailable) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Held {
		n.leases = []store.Lease{got[0].Lease}
	}
	return got[0].Held
}

// A process that has died has no session any more. Its shards are taken at once, what it has
// claimed is ready, and suspect.
func TestADeadProcessHasNoWitness(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	a, b := open(t, server.DSN()), open(t, server.DSN())
	first := takeAll(t, a, "a")
	run := first.started(t, "r")
	second := heir(t, b, "b")
	witnessOf(t, server, "a")
	if second.tries(t) {
		t.Fatal("the shard of a living node was taken")
	}
	d, err := b.Describe(t.Context())
	if err != nil || len(d.Leases) != 1 || d.Leases[0].Until <= d.Now {
		t.Fatalf("the leases are %+v at %s: %v", d.Leases, d.Now, err)
	}
	heard := listen(t, b)
	if err := a.Close(); err != nil { // its sessions end, as those of a process that was killed
		t.Fatal(err)
	}
	<-heard // that the leases have ended
	d, err = b.Describe(t.Context())
	if err != nil || len(d.Leases) != 1 || d.Leases[0].Until > d.Now {
		t.Errorf("then the leases are %+v at %s: %v", d.Leases, d.Now, err)
	}
	if !second.tries(t) {
		t.Fatal("the shard of a dead node was not taken")
	}
	claims, err := b.Claim(t.Context(), store.ClaimRequest{Node: "b", Boot: "b-1", Leases: second.leases,
		Workflows: []string{"w"}, Limit: 10})
	if err != nil || len(claims.Runs) != 1 || claims.Runs[0].Run.No != run.No || claims.Runs[0].Run.Suspect != 1 {
		t.Errorf("claimed %+v: %v", claims.Runs, err)
	}
	second.looks(t, server, 3, func() {
		if n := slices.IndexFunc(describe(t, b).Nodes, func(n store.Node) bool { return n.ID == "a" && n.Gone }); n < 0 {
			t.Fatal("a dead node that has lost its shards is believed to be alive")
		}
	})
}

// A process that is alone seldom looks for others: here never by itself. It hears of one that comes, and then learns
// that it has died.
func TestAProcessThatIsAloneHearsOfAnother(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	a, b := open(t, server.DSN()), open(t, server.DSN())
	postgres.RestAlone(a, time.Hour)
	listen(t, a) // as an engine does
	alone := takeAll(t, a, "a")
	pid := witnessOf(t, server, "a")
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // nothing was written
	soon(t, "rest of two seconds", func() (rests bool) {
		if err := conn.QueryRow(t.Context(), "SELECT now()-query_start>'2s' FROM pg_stat_activity WHERE pid=$1", pid).
			Scan(&rests); err != nil {
			t.Fatal(err)
		}
		return rests
	})
	heir(t, b, "b")
	witnessOf(t, server, "b")
	alone.looks(t, server, 2, func() {})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	soon(t, "news that b has died", func() bool {
		return slices.ContainsFunc(describe(t, a).Nodes, func(n store.Node) bool { return n.ID == "b" && n.Gone })
	})
}

// A witness that is cut comes back, and nobody takes the shards of its node meanwhile.
func TestAWitnessThatIsCutComesBack(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	a, b := open(t, server.DSN()), open(t, server.DSN())
	first, second := takeAll(t, a, "a"), heir(t, b, "b")
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // nothing was written
	for i := range 10 {
		pid := witnessOf(t, server, "a")
		if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid); err != nil {
			t.Fatal(err)
		}
		soon(t, "another witness", func() bool {
			if second.tries(t) {
				t.Fatalf("cut %d: the shard of a living node was taken", i)
			}
			return witnessOf(t, server, "a") != pid
		})
	}
	first.started(t, "r")
}

// A node that is cut off from the server is as one that has died. What it then writes is fenced.
func TestANodeThatIsCutOffIsFenced(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	proxy := servers.NewProxy(t, server.Addr())
	a, b := open(t, server.TCP(proxy.Addr())), open(t, server.DSN())
	first, second := takeAll(t, a, "a"), heir(t, b, "b")
	run := first.started(t, "r")
	witnessOf(t, server, "a")
	join := proxy.Sever()
	t.Cleanup(join)
	soon(t, "the shard", func() bool { return second.tries(t) })
	join()
	soon(t, "a commit", func() bool {
		result, err := a.Commit(t.Context(), first.batch([]*store.Turn{
			{Run: run.No, Shard: shard, Entries: []store.Entry{done("a")}},
		}))
		if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
			first.no--
			return false
		}
		if err != nil || result.Turns[0].Verdict != store.Fenced {
			t.Fatalf("a commit under the former epoch: %+v, %v", result, err)
		}
		return true
	})
}

// A server that has begun since knows nothing of its former sessions: leases count, until the
// nodes have witnesses again.
func TestAServerThatHasBegunKnowsNoWitness(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	a, b := open(t, server.DSN()), open(t, server.DSN())
	takeAll(t, a, "a")
	second := heir(t, b, "b")
	witnessOf(t, server, "a")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	second.looksInVain(t, server)
}

// A server that is promoted has no session of the former one's processes, dead or alive: leases count there.
func TestAPromotedServerKnowsNoWitness(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	former := servers.NewPostgres(t, "synchronous_standby_names=*")
	standby := former.NewStandby(t, former.Addr())
	follows(t, former)
	address := servers.NewProxy(t, former.Addr())
	quiet := postgres.Logger(slog.New(slog.DiscardHandler))
	a, b := open(t, former.DSN(), quiet), open(t, former.TCP(address.Addr()), quiet)
	takeAll(t, a, "a")
	second := heir(t, b, "b")
	witnessOf(t, former, "a")
	witnessOf(t, former, "b")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	address.Target(standby.Addr())
	second.looksInVain(t, standby)
	if err := former.Stop(); err != nil { // nothing waits for its standby any more
		t.Error(err)
	}
}

// The start of the server is another one since: what was noted of a witness before tells nothing.
func TestAWitnessOfAFormerStartTellsNothing(t *testing.T) {
	t.Parallel()
	server := newFeigned(t)
	a, b := open(t, server.DSN()), open(t, server.DSN())
	takeAll(t, a, "a")
	second := heir(t, b, "b")
	witnessOf(t, server, "a")
	server.feign(t, "start", "2001-01-01 00:00:00+00")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	second.looksInVain(t, server)
}

// A server that ends idle sessions does not end a witness, which is idle between two looks.
func TestAWitnessMayBeIdle(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	conn := application(t, server.DSN())
	role := server.name // no other test knows it
	if _, err := conn.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN SUPERUSER"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := conn.Exec(context.Background(), "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	of := with(server.DSN(), "user", role)
	a, b := open(t, of), open(t, of)
	takeAll(t, a, "a")
	second := heir(t, b, "b")
	var former [2]int
	for i, node := range []string{"a", "b"} {
		former[i] = witnessOf(t, server, node)
	}
	if _, err := conn.Exec(t.Context(), "ALTER ROLE "+role+" SET idle_session_timeout='100ms'"); err != nil {
		t.Fatal(err) // it is for new sessions
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid",
		former[:]); err != nil {
		t.Fatal(err)
	}
	var now [2]int
	soon(t, "other witnesses", func() bool {
		now = [2]int{witnessOf(t, server, "a"), witnessOf(t, server, "b")}
		return now[0] != former[0] && now[1] != former[1]
	})
	second.looksInVain(t, server)
	if at := [2]int{witnessOf(t, server, "a"), witnessOf(t, server, "b")}; at != now {
		t.Errorf("the sessions are %v, and were %v", at, now)
	}
}

// looksInVain: the node looks three times more, and does not get the shard.
func (n *node) looksInVain(t *testing.T, server dsn) {
	t.Helper()
	n.looks(t, server, 3, func() {
		if n.tries(t) {
			t.Fatal("the lease was taken, though nobody knows that its holder has died")
		}
	})
}

// looks calls check until the node's witness has looked so many times more.
func (n *node) looks(t *testing.T, server dsn, times int, check func()) {
	t.Helper()
	pid := witnessOf(t, server, n.node.ID) // it has looked since
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // nothing was written
	looked := func() (at time.Time) {
		if err := conn.QueryRow(t.Context(), "SELECT query_start FROM pg_stat_activity WHERE pid=$1", pid).
			Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	for range times {
		then := looked()
		soon(t, "another look", func() bool {
			check()
			return looked().After(then)
		})
	}
}

// Behind a pooler no session belongs to a process: there are no witnesses, and leases count.
func TestNoWitnessBehindAPgBouncer(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	noWitness(t, server, open(t, servers.NewPgBouncer(t, server)))
}

func TestNoWitnessBehindAPooler(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	noWitness(t, server, open(t, server.DSN(), postgres.Pooler()))
}

func noWitness(t *testing.T, server dsn, a *postgres.Store) {
	t.Helper()
	b := open(t, server.DSN())
	takeAll(t, a, "a")
	second := heir(t, b, "b")
	witnessOf(t, server, "b")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if second.tries(t) {
		t.Error("the lease was taken")
	}
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // nothing was written
	var witnesses int
	err = conn.QueryRow(t.Context(), "SELECT count(witness) FROM stet.nodes WHERE node='a'").Scan(&witnesses)
	if err != nil || witnesses != 0 {
		t.Errorf("%d witnesses: %v", witnesses, err)
	}
}

// A node that stops in an orderly way takes its witness along.
func TestAStoppedNodeHasNoWitness(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	a := open(t, server.DSN())
	n := heir(t, a, "a")
	pid := witnessOf(t, server, "a")
	n.node.Stopped = true
	if _, err := a.Register(t.Context(), n.node); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // nothing was written
	soon(t, fmt.Sprintf("session %d to end", pid), func() bool {
		var there bool
		if err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid=$1)", pid).
			Scan(&there); err != nil {
			t.Fatal(err)
		}
		return !there
	})
}

// A pooler in session mode leaves each client its session, and so has a process its witness. One that is cut comes
// back.
func TestAWitnessBehindASessionPooler(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	pooler := server.TCP(sessionPooler.between(t, server.Addr()))
	a, b := open(t, pooler), open(t, pooler)
	first, second := takeAll(t, a, "a"), heir(t, b, "b")
	witnessOf(t, server, "b")
	conn := application(t, server.DSN())
	for i := range 3 {
		pid := witnessOf(t, server, "a")
		if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid); err != nil {
			t.Fatal(err)
		}
		soon(t, "another witness", func() bool {
			if second.tries(t) {
				t.Fatalf("cut %d: the shard of a living node was taken", i)
			}
			return witnessOf(t, server, "a") != pid
		})
	}
	first.started(t, "r")
	heard := listen(t, b)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	<-heard
	soon(t, "the shard", func() bool { return second.tries(t) })
}

// A process that does nothing is alive as long as its session is there, which it does not read. The lease counts.
func TestAProcessThatDoesNotReadIsAlive(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	proxy := servers.NewProxy(t, server.Addr())
	a, b := open(t, server.TCP(proxy.Addr())), open(t, server.DSN())
	takeAll(t, a, "a")
	witnessOf(t, server, "a")
	second := heir(t, b, "b")
	hold := proxy.Hold(0) // of the only one that still asks: the witness
	again := sync.OnceFunc(hold.Go)
	t.Cleanup(again)
	<-hold.Held
	second.looksInVain(t, server)
	again()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the shard", func() bool { return second.tries(t) })
}

// The server is told to end the session of a machine that says nothing more, after some 10 s.
func TestAWitnessTellsTheServerWhenItIsGone(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	var told sync.Map
	listens := relay{asks: func(_ byte, body []byte) []byte {
		for _, setting := range []string{"'tcp_keepalives_idle', '4'", "'tcp_keepalives_interval', '2'",
			"'tcp_keepalives_count', '3'", "'tcp_user_timeout', '10000'"} {
			if bytes.Contains(body, []byte(setting)) {
				told.Store(setting, true)
			}
		}
		return nil
	}}
	takeAll(t, open(t, server.TCP(listens.between(t, server.Addr()))), "a")
	witnessOf(t, server, "a")
	count := 0
	told.Range(func(_, _ any) bool { count++; return true })
	if count != 4 {
		t.Errorf("the server was told %d of 4 settings", count)
	}
}

// TestARowNamesTheProcess, so that others on its machine know at once that it has ended.
func TestARowNamesTheProcess(t *testing.T) {
	t.Parallel()
	s, _, _ := fresh(t)
	node := store.Node{ID: "a", Boot: "a-1", Host: "host", PID: 4711, Workflows: []string{"w"}}
	if _, err := s.Register(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	p, err := postgres.ProcessOfRow(t.Context(), s, "a")
	if err != nil || p.Host != node.Host || p.PID != node.PID {
		t.Errorf("expected the process %d of %s, found %+v, %v", node.PID, node.Host, p, err)
	}
}
