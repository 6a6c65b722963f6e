package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// until repeats an act while the store is away, as an engine does.
func until(t testing.TB, act func() error) {
	t.Helper()
	servers.Until(t, "the store is there again", func() bool { // nothing tells of that
		err := act()
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("expected an error that says that the store is away, found %v", err)
		}
		return err == nil
	})
}

// TestLostAnswers cuts the connection after each of the server's answers while a
// batch is on its way, and repeats the batch: its turn, its start and its message
// are there once, and the answers are those of a batch that went well.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	proxy := servers.NewProxy(t, server.Addr())
	s := open(t, server.TCP(proxy.Addr()))
	n := takeAll(t, s, "n")
	const batch, call, rides, turnByTurn = 0, 1, 2, 3
	unknown := map[int]int{}
	for i := range 60 {
		way, answer := i%4, i/4
		begin := n.batch(nil, claimedStart(fmt.Sprintf("r%d", i)))
		var r store.Run
		until(t, func() error {
			result, err := s.Commit(t.Context(), begin)
			if err == nil {
				r = result.Commands[0].Run
			}
			return err
		})
		b := n.batch([]*store.Turn{{Run: r.No, Shard: shard, Insert: way == batch, Entries: []store.Entry{done("a")},
			Update: &store.Update{Status: store.Suspended}}},
			claimedStart(fmt.Sprintf("s%d", i)))
		messages, values := 0, 0
		if way >= rides {
			messages, values = 1, 1
			b.Turns[0].Values = []store.Setting{{Name: "v", Value: []byte("1")}}
			b.Commands = append(b.Commands, message(r.ID, "m"))
		}
		if way == turnByTurn {
			b.Turns[0].Tags = []store.Pair{{Key: "k", Value: "v"}}
		}
		lost := proxy.LoseAnswer(answer)
		var result store.BatchResult
		until(t, func() (err error) {
			result, err = s.Commit(t.Context(), b)
			if errors.Is(err, store.ErrUnknown) {
				unknown[way]++
			}
			return err
		})
		select {
		case <-lost:
		default:
			proxy.LoseAnswer(-1) // there were not so many
		}
		if result.Turns[0].Verdict != store.Committed || result.Commands[0].Outcome != store.Applied ||
			!result.Commands[0].Claimed || messages > 0 && result.Commands[1].Outcome != store.Applied {
			t.Errorf("answer %d was lost: got %+v", answer, result)
		}
		var entries []store.Entry
		var items []store.Item
		var feeds []store.Feed
		until(t, func() error { // its connections were cut
			var errs [3]error
			entries, errs[0] = s.History(t.Context(), store.HistoryQuery{Run: r.No})
			items, errs[1] = s.Inbox(t.Context(), r.No, "m")
			feeds, errs[2] = s.Feeds(t.Context(), store.FeedQuery{Runs: []store.RunNo{r.No}})
			return errors.Join(errs[:]...)
		})
		if len(entries) != 1 || len(items) != messages || len(feeds) != values || len(feeds) == 1 && feeds[0].Last != 1 {
			t.Errorf("answer %d was lost: found %v, %v, %+v", answer, entries, items, feeds)
		}
	}
	if unknown[batch] == 0 || unknown[call] == 0 || unknown[rides] == 0 {
		t.Errorf("the outcome was unknown %v times, by way; expected it of the three that are one statement", unknown)
	}
}

// TestServerRestart stops the server at once while batches are written and starts it
// again, three times: what was acknowledged is there, and the store goes on.
func TestServerRestart(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	restarts(t, server)
}

// TestServerThatCannotBeReached is TestServerRestart with a server that cuts all connections, and refuses others for a
// while.
func TestServerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	restarts(t, newAway(t))
}

// away is a database that cannot be reached while it is stopped.
type away struct {
	*database
	proxy *servers.Proxy
}

func newAway(t testing.TB) *away {
	t.Helper()
	d := newDatabase(t)
	return &away{d, servers.NewProxy(t, d.Addr())}
}

func (a *away) DSN() string  { return a.TCP(a.proxy.Addr()) }
func (a *away) Stop() error  { a.proxy.Refuse(true); return nil }
func (a *away) Start() error { a.proxy.Refuse(false); return nil }

// stopped is a server that can be stopped, or its stand-in.
type stopped interface {
	dsn
	Stop() error
	Start() error
}

func restarts(t *testing.T, server stopped) {
	t.Helper()
	s := open(t, server.DSN())
	n := takeAll(t, s, "n")
	r := n.started(t, "r")
	heard := listen(t, s)
	acked := make(chan int, 1000)
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			b := n.batch([]*store.Turn{{Run: r.No, Shard: shard, Entries: []store.Entry{done(fmt.Sprintf("%06d", i))}}})
			until(t, func() error {
				result, err := s.Commit(t.Context(), b)
				if err == nil && result.Turns[0].Verdict != store.Committed {
					t.Errorf("batch %d: %+v", i, result)
				}
				return err
			})
			select {
			case acked <- i:
			default:
			}
		}
	}()
	last := 0
	for range 3 {
		for range 20 {
			last = <-acked
		}
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-ended
	var entries []store.Entry
	until(t, func() (err error) { // a connection that was cut may be met first
		entries, err = s.History(t.Context(), store.HistoryQuery{Run: r.No})
		return err
	})
	if int64(len(entries)) != n.no-1 || len(entries) <= last {
		t.Errorf("%d batches were acknowledged, and %d entries are there", n.no-1, len(entries))
	}
	<-heard // the listener says so when it is connected again
	other := open(t, server.DSN())
	heard = listen(t, s)
	if _, _, err := other.Apply(t.Context(), []store.Command{start("other")}); err != nil {
		t.Fatal(err)
	}
	<-heard
}

// TestServerAway gives the error that is worth trying again, promptly, for every
// act.
func TestServerAway(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	proxy := servers.NewProxy(t, server.Addr())
	s := open(t, server.TCP(proxy.Addr()))
	n := takeAll(t, s, "n")
	r := n.started(t, "r")
	proxy.Refuse(true)
	ctx := t.Context()
	for name, act := range map[string]func() error{
		"Describe": func() error { _, err := s.Describe(ctx); return err },
		"Register": func() error { _, err := s.Register(ctx, n.node); return err },
		"Acquire":  func() error { _, _, err := s.Acquire(ctx, n.node, []store.Shard{shard}, ttl); return err },
		"Renew":    func() error { _, _, err := s.Renew(ctx, n.leases, ttl); return err },
		"Release":  func() error { return s.Release(ctx, nil) },
		"Apply":    func() error { _, _, err := s.Apply(ctx, []store.Command{start("x")}); return err },
		"Commit":   func() error { _, err := s.Commit(ctx, n.batch(nil)); return err },
		"Claim":    func() error { _, err := s.Claim(ctx, store.ClaimRequest{Leases: n.leases, Limit: 1}); return err },
		"Load":     func() error { _, _, err := s.Load(ctx, []store.RunNo{r.No}); return err },
		"List":     func() error { _, err := s.List(ctx, store.Filter{}); return err },
		"Sweep":    func() error { _, err := s.Sweep(ctx, store.SweepRequest{Leases: n.leases}); return err },
	} {
		if err := act(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	proxy.Refuse(false)
	until(t, func() error { _, _, err := s.Load(ctx, []store.RunNo{r.No}); return err })
}

// TestStoppedInTheMiddle: a process that stands still within an act of several
// statements, whose locks others need, is cut off by the server.
func TestStoppedInTheMiddle(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	proxy := servers.NewProxy(t, server.Addr())
	s := open(t, server.TCP(proxy.Addr()))
	n := takeAll(t, s, "n")
	r := n.started(t, "r")
	resume := proxy.Hold(4) // it has begun, and holds its boot's row
	stopped := make(chan error, 1)
	b := n.batch([]*store.Turn{{Run: r.No, Shard: shard, Tags: []store.Pair{{Key: "k", Value: "v"}},
		Update: &store.Update{Status: store.Suspended}}})
	go func() { _, err := s.Commit(t.Context(), b); stopped <- err }()
	<-resume.Held
	other := open(t, server.DSN())
	page, err := other.List(t.Context(), store.Filter{IDs: []string{"r"}})
	if err != nil {
		t.Fatal(err)
	}
	want := store.Fenced
	if page.Runs[0].Status == store.Suspended { // a busy proxy has passed more in fewer pieces
		t.Log("the act was over before it was held")
		want = store.Committed
	}
	begun := time.Now()
	until(t, func() error {
		_, _, err := other.Renew(t.Context(), n.leases, ttl)
		return err
	})
	until(t, func() error { return other.Release(t.Context(), n.leases) })
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("giving the lease back took %s", took)
	}
	resume.Go()
	if err := <-stopped; err != nil && !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the act that stood still gave %v", err)
	}
	result, err := s.Commit(t.Context(), b)
	if err != nil || result.Turns[0].Verdict != want {
		t.Errorf("got %+v, %v; want %s", result, err, want)
	}
}
