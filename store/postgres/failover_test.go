package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// promises are values that were acknowledged to nodes: that of a step when the next one
// begins, and the last one when the run has ended.
type promises struct {
	mu     sync.Mutex
	values map[string]string // by run and step
	made   int
}

func (p *promises) add(run string, step int, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values[fmt.Sprint(run, "/", step)] = value
}

func (p *promises) next(node string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	return fmt.Sprint(node, "-", p.made)
}

func (p *promises) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.values)
}

// chain is a workflow of n steps on a node. Each returns a value of its own, and notes
// that the one before was promised.
func (p *promises) chain(node string, n int) *stet.Workflow[string, []string] {
	return stet.Define("chain", func(ctx stet.Context, run string) ([]string, error) {
		var values []string
		for i := range n {
			value, err := stet.Step(ctx, fmt.Sprint("s", i), func(context.Context) (string, error) {
				if i > 0 {
					p.add(run, i-1, values[i-1])
				}
				return p.next(node), nil
			})
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
		return values, nil
	})
}

// engineOn runs an engine on a store until the test ends. What Run returns is of no
// matter: its store may be away for good.
func engineOn(t testing.TB, s store.Store, log *slog.Logger, workflows ...stet.Definition) *stet.Engine {
	t.Helper()
	return engineWith(t, stet.Config{Store: s, Workflows: workflows, LeaseTTL: time.Second, Logger: log})
}

// engineWith runs an engine until the end of the test.
func engineWith(t testing.TB, cfg stet.Config) *stet.Engine {
	t.Helper()
	cfg.Poll, cfg.Grace = 50*time.Millisecond, time.Second
	e, err := stet.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(3 * time.Second):
			_ = cfg.Store.Close() // a commit waits for a standby that is gone; its server has been stopped
			<-ended
		}
	})
	return e
}

// TestFailoverToSynchronousStandby: the standby is promoted while the old primary
// goes on, with one node attached. Nothing that this node still does is acknowledged, it
// commits nothing more on the new primary, and all that was acknowledged before is there.
func TestFailoverToSynchronousStandby(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	old := servers.NewPostgres(t, "synchronous_standby_names=*")
	standby := old.NewStandby(t, old.Addr())
	follows(t, old)
	address := servers.NewProxy(t, old.Addr()) // which moves
	kept := &promises{values: map[string]string{}}
	const steps, runs = 40, 20

	attached := open(t, old.TCP(old.Addr()))
	if d := describe(t, attached); !strings.Contains(d.Durable, "a failover to a synchronous standby loses nothing") {
		t.Errorf("told %q", d.Durable)
	}
	quiet := slog.New(slog.DiscardHandler)
	oldFlow := kept.chain("old", steps)
	engineOn(t, attached, quiet, oldFlow)
	probe := takeAside(t, attached, "probe") // an owner of the old primary's time
	result, err := attached.Commit(t.Context(), probe.batch(nil, claimedAside("early")))
	if err != nil || !result.Commands[0].Claimed {
		t.Fatalf("got %+v: %v", result, err)
	}
	early := result.Commands[0].Run
	servers.Until(t, "the node has registered its workflow",
		func() bool { return slices.Contains(describe(t, attached).Workflows, "chain") })
	follower := open(t, old.TCP(address.Addr()), postgres.Logger(quiet))
	client, err := stet.New(t.Context(), stet.Config{Store: follower, Poll: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		id := fmt.Sprint("run-", i)
		if _, err := oldFlow.Start(t.Context(), client, id, stet.ID(id)); err != nil {
			t.Fatal(err)
		}
	}
	servers.Until(t, "a step is promised", func() bool { return kept.count() > runs })

	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	address.Target(standby.Addr())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if result, err := attached.Commit(ctx, probe.batch(nil, claimedAside("late"))); err == nil {
		t.Errorf("the old primary has promised %+v after the failover", result)
	}
	newFlow := kept.chain("new", steps)
	for range 8 { // its connections were cut, and each is found out by a call
		until(t, func() error { _, err := follower.List(t.Context(), store.Filter{}); return err })
		until(t, func() error { _, err := follower.Describe(t.Context()); return err })
	}
	engineOn(t, follower, quiet, newFlow)
	for i := range runs {
		id := fmt.Sprint("run-", i)
		var values []string
		servers.Until(t, id+" ends", func() bool { // the first look may meet a connection that was cut
			var err error
			values, err = newFlow.Handle(client, id).Wait(t.Context())
			return err == nil
		})
		for step, value := range values {
			kept.mu.Lock()
			promised := kept.values[fmt.Sprint(id, "/", step)]
			kept.mu.Unlock()
			if promised != "" && promised != value {
				t.Errorf("step %d of %s was promised as %s, and is %s", step, id, promised, value)
			}
		}
	}
	onNew := open(t, standby.DSN(), postgres.Logger(quiet))
	probe.s = onNew
	if result := probe.commit(t, &store.Turn{Run: early.No, Shard: aside,
		Entries: []store.Entry{done("a")}}); result.Turns[0].Verdict != store.Committed {
		t.Errorf("an owner whose lease holds on the new primary got %+v", result)
	}
	takeAside(t, onNew, "other")
	if result := probe.commit(t, &store.Turn{Run: early.No, Shard: aside}); result.Turns[0].Verdict != store.Fenced {
		t.Errorf("an owner of the old primary's time got %+v", result)
	}
	if d := describe(t, onNew); strings.Contains(d.Durable, "synchronous standby") {
		t.Errorf("the new primary has no standby, and told %q", d.Durable)
	}
	defer func() { // so that nothing waits for a standby any more
		if err := old.Stop(); err != nil {
			t.Error(err)
		}
	}()
	// A connection that still goes to the old server is refused by a process that has seen the new one.
	address.Target(old.Addr())
	if _, err := follower.List(t.Context(), store.Filter{}); err != nil {
		t.Logf("a connection that was cut: %v", err)
	}
	servers.Until(t, "the former server is told apart", func() bool {
		_, err := follower.List(t.Context(), store.Filter{})
		return errors.Is(err, store.ErrUnavailable) && strings.Contains(err.Error(), "a former server")
	})
}

// aside is a shard that no engine takes.
var aside = store.Shard{Group: "aside", Slot: 7}

// takeAside registers a node that takes that shard from whom has it.
func takeAside(t testing.TB, s *postgres.Store, id string) *node {
	t.Helper()
	n := &node{s: s, node: store.Node{ID: id, Boot: id + "-1", Groups: []string{aside.Group}}}
	if _, err := s.Register(t.Context(), n.node); err != nil {
		t.Fatal(err)
	}
	var held []store.Lease
	for _, l := range describe(t, s).Leases {
		if l.Shard == aside {
			held = append(held, l)
		}
	}
	if err := s.Release(t.Context(), held); err != nil { // as if it had ended
		t.Fatal(err)
	}
	got, _, err := s.Acquire(t.Context(), n.node, []store.Shard{aside}, ttl)
	if err != nil || !got[0].Held {
		t.Fatalf("acquire: %v, %+v", err, got)
	}
	n.leases = []store.Lease{got[0].Lease}
	return n
}

// claimedAside returns a start in that shard.
func claimedAside(id string) store.Command {
	c := claimedStart(id)
	c.Start.Shard = aside
	return c
}

// follows waits until a standby streams from a server.
func follows(t testing.TB, primary *servers.Postgres) {
	t.Helper()
	c := application(t, primary.DSN())
	servers.Until(t, "a standby streams", func() bool {
		var n int
		if err := c.QueryRow(t.Context(),
			"SELECT count(*) FROM pg_stat_replication WHERE state='streaming'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

// TestFailoverToAsynchronousStandby: a standby is promoted that lacks the last acknowledged
// acts. All processes are stopped with that reason, also those that come later, until the
// loss is confirmed. Then they go on, and nodes that have held leases hold none.
func TestFailoverToAsynchronousStandby(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	old := servers.NewPostgres(t)
	stream := servers.NewProxy(t, old.Addr())
	standby := old.NewStandby(t, stream.Addr())
	follows(t, old)
	address := servers.NewProxy(t, old.Addr())
	dsn := old.TCP(address.Addr())
	quiet := postgres.Logger(slog.New(slog.DiscardHandler))
	s := open(t, dsn, quiet)
	if d := describe(t, s); !strings.Contains(d.Durable, "asynchronous standby") ||
		!strings.Contains(d.Durable, "can lose") {
		t.Errorf("told %q", d.Durable)
	}
	n := takeAll(t, s, "n")
	kept := n.started(t, "kept")
	var there string
	primary, follower := application(t, old.DSN()), application(t, standby.DSN())
	if err := primary.QueryRow(t.Context(), "SELECT pg_current_wal_lsn()::text").Scan(&there); err != nil {
		t.Fatal(err)
	}
	servers.Until(t, "the standby follows", func() bool {
		var caught bool
		if err := follower.QueryRow(t.Context(), "SELECT pg_last_wal_replay_lsn()>=$1::pg_lsn",
			there).Scan(&caught); err != nil {
			t.Fatal(err)
		}
		return caught
	})
	stream.Refuse(true)
	lost := n.started(t, "lost") // acknowledged, and nowhere else
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	address.Target(standby.Addr())

	for what, act := range map[string]func() error{
		"Load":   func() error { _, _, err := s.Load(t.Context(), []store.RunNo{kept.No}); return err },
		"Commit": func() error { _, err := s.Commit(t.Context(), n.batch(nil, claimedStart("next"))); return err },
		"Renew":  func() error { _, _, err := s.Renew(t.Context(), n.leases, ttl); return err },
		"Apply":  func() error { _, _, err := s.Apply(t.Context(), []store.Command{start("next")}); return err },
		"Open":   func() error { _, err := postgres.Open(t.Context(), standby.DSN(), quiet); return err },
	} {
		for times, cut := 0, 0; times < 3; { // it does not wear off
			err := act()
			switch {
			case !errors.Is(err, store.ErrUnavailable):
				t.Fatalf("%s gave %v", what, err)
			case strings.Contains(err.Error(), "what was acknowledged last may be lost"):
				times++
			case times > 0 || cut == 10: // connections were cut, which are met first
				t.Fatalf("%s gave %v", what, err)
			default:
				cut++
			}
		}
	}
	if err := postgres.ConfirmFailover(t.Context(), standby.DSN(), quiet); err != nil {
		t.Fatal(err)
	}
	runs, err := s.List(t.Context(), store.Filter{})
	if err != nil || len(runs.Runs) != 1 || runs.Runs[0].ID != kept.ID {
		t.Errorf("found %+v: %v", runs.Runs, err)
	}
	for _, no := range []store.RunNo{kept.No, lost.No} {
		if result := n.commit(t, &store.Turn{Run: no, Shard: shard}); result.Turns[0].Verdict != store.Fenced {
			t.Errorf("with a lease of the former server: got %+v", result)
		}
	}
	if renewed, _, err := s.Renew(t.Context(), n.leases, ttl); err != nil || renewed[0].Held {
		t.Errorf("with a lease of the former server: renewed %+v: %v", renewed, err)
	}
	again := takeAll(t, s, "again")
	if again.leases[0].Epoch <= n.leases[0].Epoch {
		t.Errorf("the epoch went from %d to %d", n.leases[0].Epoch, again.leases[0].Epoch)
	}
	claims, err := s.Claim(t.Context(), store.ClaimRequest{Node: "again", Boot: "again-1", Leases: again.leases,
		Workflows: []string{"w"}, Limit: 10})
	if err != nil || len(claims.Runs) != 1 || claims.Runs[0].Run.ID != kept.ID || claims.Runs[0].Run.Suspect != 0 {
		t.Errorf("claimed %+v: %v", claims.Runs, err)
	}
	open(t, standby.DSN(), quiet)
}

// TestFailoverToAStandbyThatWasNotWaitedFor: of two standbys one is synchronous, and the
// other one is promoted, which lacks the last acknowledged acts. It is noted as long as
// there are more standbys than commits wait for. If the note is older than the standby, a
// process that misses its own commit notes the loss for all others.
func TestFailoverToAStandbyThatWasNotWaitedFor(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	old := servers.NewPostgres(t)
	stream := servers.NewProxy(t, old.Addr())
	waited, other := old.NewStandby(t, old.Addr()), old.NewStandby(t, stream.Addr())
	quiet := postgres.Logger(slog.New(slog.DiscardHandler))
	primary, follower := application(t, old.DSN()), application(t, other.DSN())
	servers.Until(t, "both standbys stream", func() bool {
		var n int
		if err := primary.QueryRow(t.Context(),
			"SELECT count(*) FROM pg_stat_replication WHERE state='streaming'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 2
	})
	address := servers.NewProxy(t, old.Addr())
	s := open(t, old.TCP(address.Addr()), quiet)
	n := takeAll(t, s, "n")
	note := func() (value string) {
		t.Helper()
		if _, err := s.Register(t.Context(), n.node); err != nil { // a heartbeat
			t.Fatal(err)
		}
		if err := primary.QueryRow(t.Context(),
			"SELECT value FROM stet.meta WHERE key='replication'").Scan(&value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	set := func(names string) {
		t.Helper()
		if _, err := primary.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names='"+names+"'"); err != nil {
			t.Fatal(err)
		}
		if _, err := primary.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
			t.Fatal(err)
		}
		servers.Until(t, "the setting is in force", func() bool {
			var now string
			if err := application(t, old.DSN()).QueryRow(t.Context(),
				"SELECT current_setting('synchronous_standby_names')").Scan(&now); err != nil {
				t.Fatal(err)
			}
			return now == names
		})
	}
	for _, row := range []struct{ names, want string }{
		{"", "none"}, {"ANY 2 (*)", "synchronous"}, {"ANY 1 (*)", "none"}, {"FIRST 2 (*)", "synchronous"},
		{"2 (*)", "synchronous"}, {"*", "none"},
	} {
		set(row.names)
		servers.Until(t, "the note "+row.want+" with "+row.names, func() bool { return note() == row.want })
	}
	if d := describe(t, open(t, old.DSN(), quiet)); !strings.Contains(d.Durable, "not waited for can lose") {
		t.Errorf("told %q", d.Durable)
	}
	kept := n.started(t, "kept")

	// The note that the other standby has is from a time when all was waited for.
	var there string
	const outdated = "UPDATE stet.meta SET value='synchronous' WHERE key='replication' " +
		"RETURNING pg_current_wal_insert_lsn()::text"
	if err := primary.QueryRow(t.Context(), outdated).Scan(&there); err != nil {
		t.Fatal(err)
	}
	servers.Until(t, "the standby follows", func() bool {
		var note string
		if err := follower.QueryRow(t.Context(),
			"SELECT value FROM stet.meta WHERE key='replication'").Scan(&note); err != nil {
			t.Fatal(err)
		}
		return note == "synchronous"
	})
	stream.Refuse(true)
	n.started(t, "lost") // acknowledged by the standby that is waited for
	if err := other.Promote(); err != nil {
		t.Fatal(err)
	}
	address.Target(other.Addr())
	servers.Until(t, "the process that misses its commit says so", func() bool {
		_, _, err := s.Load(t.Context(), []store.RunNo{kept.No})
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("Load gave %v", err)
		}
		return strings.Contains(err.Error(), "what was acknowledged last may be lost") // after those that were cut
	})
	if _, err := postgres.Open(t.Context(), other.DSN(), quiet); !errors.Is(err, store.ErrUnavailable) ||
		!strings.Contains(err.Error(), "may be lost") {
		t.Errorf("Open gave %v", err)
	}
	if err := postgres.ConfirmFailover(t.Context(), other.DSN(), quiet); err != nil {
		t.Fatal(err)
	}
	if runs, err := s.List(t.Context(), store.Filter{}); err != nil || len(runs.Runs) != 1 || runs.Runs[0].ID != kept.ID {
		t.Errorf("found %+v: %v", runs.Runs, err)
	}
	if err := waited.Stop(); err != nil {
		t.Error(err)
	}
}
