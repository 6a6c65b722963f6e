package redis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

var (
	node  = store.Node{ID: "n", Boot: "n-1"}
	shard = store.Shard{Group: store.DefaultGroup}
)

const ttl = store.Delay(10_000_000)

// quiet and small are for the many handles of the tests: each has several connections, with a megabyte of buffers.
var (
	quiet = redis.Logger(slog.New(slog.DiscardHandler))
	small = redis.Client(func(o *rueidis.ClientOption) {
		o.ReadBufferEachConn, o.WriteBufferEachConn, o.RingScaleEachConn = 16<<10, 16<<10, 8
	})
)

// openAt opens a store that is closed with the test.
func openAt(t *testing.T, url string, options ...redis.Option) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), url, append([]redis.Option{quiet, small}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func acquire(t *testing.T, s *redis.Store, shards ...store.Shard) []store.Lease {
	t.Helper()
	got, _, err := s.Acquire(t.Context(), node, shards, ttl)
	if err != nil {
		t.Fatal(err)
	}
	var leases []store.Lease
	for _, a := range got {
		if !a.Held {
			t.Fatalf("%s is held by %+v", a.Lease.Shard, a.Lease)
		}
		leases = append(leases, a.Lease)
	}
	return leases
}

func start(id string) store.Command {
	return store.Command{Claim: true,
		Start: &store.Start{ID: id, Shard: shard, Workflow: "w", Seed: store.Seed([]byte(fmt.Sprintf("%-16.16s", id)))}}
}

func message(run, id string) store.Command {
	return store.Command{RunID: run, Item: &store.Item{Kind: store.ItemMessage, Name: "m", ID: id, Origin: "o",
		Value: []byte(id)}}
}

// patiently repeats an act while the store is away, as the engine does.
func patiently(t *testing.T, act func() error) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	again := time.NewTicker(5 * time.Millisecond) // nothing tells when a server is back
	defer again.Stop()
	for {
		err := act()
		if err == nil {
			return
		}
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) || time.Now().After(limit) {
			t.Fatal(err)
		}
		<-again.C
	}
}

// A server that stands still, and does not even close the connection, is given up; of
// an act it is then unknown whether it has happened.
func TestServerThatStandsStillIsGivenUp(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL(), redis.Slots(1))
	if _, err := server.Command("client", "pause", "30000", "all"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	if _, err := s.List(ctx, store.Filter{}); !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("reading: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, _, err := s.Apply(ctx, []store.Command{start("a")})
	if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, store.ErrUnavailable) {
		t.Errorf("an act with a deadline: %v", err)
	}
}

// TestSilenceIsGivenUp: nothing comes from the server any more, as if the network were gone. A call that reads is given
// up. Of an act it is unknown whether it has happened.
func TestSilenceIsGivenUp(t *testing.T) {
	t.Parallel()
	url, prefix := shared(t)
	proxy := servers.NewProxy(t, address(url))
	s := openAt(t, "redis://"+proxy.Addr()+"?prefix="+prefix, redis.Slots(1))
	join := proxy.Sever()
	t.Cleanup(join)
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
	if _, _, err := s.Apply(ctx, []store.Command{start("a")}); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("an act that is cancelled: %v", err)
	}
	within, end := context.WithTimeout(t.Context(), time.Minute) // six times as long as a connection may be silent
	defer end()
	if _, err := s.List(within, store.Filter{}); !errors.Is(err, store.ErrUnavailable) || within.Err() != nil {
		t.Errorf("reading: %v, %v", err, within.Err())
	}
}

// Connections are cut after each of the server's answers while a batch is on its way,
// and the batch is repeated: its entry, its item of a stream, its start and its messages
// are there once, and the answers are those of a batch that went well. One of the answers
// reports the claim of a run that was claimed, otherwise no node would execute it.
func TestLostAnswers(t *testing.T) {
	for _, row := range []struct {
		name    string
		options []redis.Option
	}{{"one part", []redis.Option{redis.Slots(7)}}, {"parts", []redis.Option{redis.Slots(7), redis.Spread()}}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			url, prefix := shared(t)
			proxy := servers.NewProxy(t, address(url))
			s := openAt(t, "redis://"+proxy.Addr()+"?prefix="+prefix, row.options...)
			var shards []store.Shard
			for slot := range 7 {
				shards = append(shards, store.Shard{Group: store.DefaultGroup, Slot: slot})
			}
			b := store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: acquire(t, s, shards...), Commands: starts(s, 3)}
			result, err := s.Commit(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			first, second, third := result.Commands[0].Run, result.Commands[1].Run, result.Commands[2].Run
			lost, batches := 0, 0
			adopted := map[string]bool{first.ID: true, second.ID: true, third.ID: true}
			for ; batches < 40 || lost == 0; batches++ { // a hint may be what is lost
				answers, id := batches%6, fmt.Sprint("m", batches)
				b.No++
				b.Turns = []*store.Turn{
					{Run: first.No, Shard: first.Shard, Entries: []store.Entry{{Loc: id, Kind: store.KindStep, State: store.Done}},
						Sends: []store.Command{message(second.ID, id)}},
					{Run: second.No, Shard: second.Shard, Entries: []store.Entry{{Loc: id, Kind: store.KindStep, State: store.Done}}},
					// No entry shows that this one is there already.
					{Run: third.No, Shard: third.Shard, Appends: []store.Append{{Name: "said", Value: []byte(id)}}},
				}
				child, sent := start("child "+id), start("sent "+id)
				for _, c := range []store.Command{child, sent} {
					c.Start.Shard.Slot = redis.SlotOf(s, c.Start.ID)
				}
				b.Turns[1].Sends = []store.Command{sent}
				b.Commands = []store.Command{message(first.ID, id), child}
				proxy.LoseAnswer(answers)
				patiently(t, func() (err error) {
					if result, err = s.Commit(t.Context(), b); err != nil {
						lost++
					}
					return err
				})
				for i, turn := range result.Turns {
					if turn.Verdict != store.Committed {
						t.Errorf("after %d answers turn %d is %s: %s", answers, i, turn.Verdict, turn.Reason)
					}
					for _, a := range turn.Sends {
						adopted[a.Run.ID] = adopted[a.Run.ID] || a.Claimed
					}
				}
				adopted[child.Start.ID] = true
				for i, a := range result.Commands {
					if a.Outcome != store.Applied || a.Claimed != (i == 1) {
						t.Errorf("after %d answers command %d: %+v", answers, i, a)
					}
				}
			}
			proxy.LoseAnswer(-1)
			patiently(t, func() error {
				items, err := s.Stream(t.Context(), store.StreamQuery{Run: third.No, Name: "said"})
				if err == nil && len(items) != batches {
					t.Errorf("the stream has %d items of %d", len(items), batches)
				}
				return err
			})
			patiently(t, func() error { // connections may just be cut; with parts what is sent may come later
				for _, run := range []store.Run{first, second} {
					entries, err := s.History(t.Context(), store.HistoryQuery{Run: run.No})
					if err != nil {
						return err
					}
					if len(entries) != batches {
						t.Errorf("%s has %d entries", run.ID, len(entries))
					}
					items, err := s.Inbox(t.Context(), run.No)
					if err != nil {
						return err
					}
					if len(items) < batches {
						return fmt.Errorf("%w: %s has %d messages", store.ErrUnavailable, run.ID, len(items))
					}
					if len(items) > batches {
						t.Errorf("%s has %d messages", run.ID, len(items))
					}
				}
				return nil
			})
			var page store.Page
			patiently(t, func() (err error) { page, err = s.List(t.Context(), store.Filter{Limit: 100}); return err })
			if len(page.Runs) != 3+2*batches {
				t.Errorf("there are %d runs", len(page.Runs))
			}
			for _, r := range page.Runs {
				if r.Claimed && !adopted[r.ID] {
					t.Errorf("%s is in hand, and nobody was told", r.ID)
				}
			}
		})
	}
}

// A server with appendfsync always is killed again and again while a node commits and
// others send: what was acknowledged is there, once.
func TestKilledServerLosesNothing(t *testing.T) {
	soak.Faults(t)
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL(), redis.Slots(1))
	leases := acquire(t, s, shard)
	b := store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases, Commands: []store.Command{start("r")}}
	result, err := s.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	run := result.Commands[0].Run.No
	const kills = 4
	killed := make(chan error, 1)
	progress := make(chan struct{}, 1)
	go func() {
		var err error
		for range kills {
			for range 25 { // commits between two kills, at least
				<-progress
			}
			err = errors.Join(err, server.Stop(), server.Start())
		}
		killed <- err
	}()
	acked := 0
	for done := false; !done; {
		select {
		case err := <-killed:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
		b.No++
		loc := fmt.Sprintf("%06d", acked)
		b.Turns = []*store.Turn{{Run: run, Shard: shard,
			Entries: []store.Entry{{Loc: loc, Kind: store.KindStep, State: store.Done, Value: []byte(loc)}}}}
		b.Commands = []store.Command{message("r", loc)}
		patiently(t, func() error {
			result, err := s.Commit(t.Context(), b)
			if err == nil && (result.Turns[0].Verdict != store.Committed || result.Commands[0].Outcome != store.Applied) {
				t.Fatalf("commit %d: %+v", b.No, result)
			}
			return err
		})
		acked++
		select {
		case progress <- struct{}{}:
		default:
		}
	}
	entries, err := s.History(t.Context(), store.HistoryQuery{Run: run, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	items, err := s.Inbox(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != acked || len(items) != acked {
		t.Errorf("%d commits were acknowledged; there are %d entries and %d messages", acked, len(entries), len(items))
	}
	for i, e := range entries {
		if want := fmt.Sprintf("%06d", i); e.Loc != want || string(e.Value) != want {
			t.Fatalf("entry %d is at %q with %q", i, e.Loc, e.Value)
		}
	}
	t.Logf("%d commits over %d kills", acked, kills)
}

// An act on a server that is away is an error at once, and the same handle goes on
// when it is back; scripts that it has forgotten are loaded again.
func TestStoreGoesOnWhenTheServerIsBack(t *testing.T) {
	soak.Faults(t)
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL(), redis.Slots(1))
	other := openAt(t, server.URL())
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	_, _, err := s.Apply(t.Context(), []store.Command{start("a")})
	if !errors.Is(err, store.ErrUnavailable) || time.Since(begun) > 10*time.Second {
		t.Errorf("with the server away: %v after %s", err, time.Since(begun))
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	patiently(t, func() error { _, _, err := s.Apply(t.Context(), []store.Command{start("a")}); return err })
	if _, err := ask(t, server.Addr(), "script", "flush"); err != nil {
		t.Fatal(err)
	}
	answers, _, err := s.Apply(t.Context(), []store.Command{start("b")})
	if err != nil || answers[0].Outcome != store.Applied {
		t.Errorf("without its scripts the server gives %+v, %v", answers, err)
	}
	hears(t, other, s)
}

// TestStoreGoesOnWhenItsConnectionsAreBack: an act without a connection is an error at once, and nothing has happened.
// The same handle goes on when it can connect again, and hears of others.
func TestStoreGoesOnWhenItsConnectionsAreBack(t *testing.T) {
	t.Parallel()
	url, prefix := shared(t)
	proxy := servers.NewProxy(t, address(url))
	s := openAt(t, "redis://"+proxy.Addr()+"?prefix="+prefix, redis.Slots(1))
	sender := openAt(t, url)
	proxy.Refuse(true)
	if _, _, err := s.Apply(t.Context(), []store.Command{start("a")}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without a connection: %v", err)
	}
	proxy.Refuse(false)
	patiently(t, func() error { _, _, err := s.Apply(t.Context(), []store.Command{start("a")}); return err })
	hears(t, s, sender)
}

// hears waits until hints of one store reach another.
func hears(t *testing.T, s, sender *redis.Store) {
	t.Helper()
	heard := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		var err error
		for range 3 { // the first may be of the time before
			_, failed := s.Changed(ctx)
			err = errors.Join(err, failed)
		}
		heard <- err
	}()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for n := 0; ; n++ {
		select {
		case err := <-heard:
			if err != nil {
				t.Error(err)
			}
			return
		case <-again.C:
		}
		patiently(t, func() error {
			_, _, err := sender.Apply(t.Context(), []store.Command{message("a", fmt.Sprint(n))})
			return err
		})
	}
}

// TestScriptsThatAreForgottenAreLoadedAgain: a server forgets its scripts when it begins again.
func TestScriptsThatAreForgottenAreLoadedAgain(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL(), redis.Slots(1))
	for _, id := range []string{"a", "b"} {
		answers, _, err := s.Apply(t.Context(), []store.Command{start(id)})
		if err != nil || answers[0].Outcome != store.Applied {
			t.Errorf("start %s: %+v, %v", id, answers, err)
		}
		if _, err := ask(t, server.Addr(), "script", "flush"); err != nil {
			t.Fatal(err)
		}
	}
}

// Memory that is used up refuses and goes away; nothing has happened.
func TestFullServerRefusesAndGoesOn(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL(), redis.Slots(1))
	b := store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: acquire(t, s, shard),
		Commands: []store.Command{start("r")}}
	result, err := s.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	run := result.Commands[0].Run.No
	if _, err := ask(t, server.Addr(), "config", "set", "maxmemory", "1mb"); err != nil {
		t.Fatal(err)
	}
	b.No, b.Commands = 2, []store.Command{message("r", "m")}
	b.Turns = []*store.Turn{{Run: run, Shard: shard,
		Entries: []store.Entry{{Loc: "x", Kind: store.KindStep, State: store.Done}}}}
	if _, err := s.Commit(t.Context(), b); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("a full server gives %v; want that nothing has happened", err)
	}
	if _, _, err := s.Apply(t.Context(), []store.Command{start("other")}); !errors.Is(err, store.ErrUnavailable) ||
		errors.Is(err, store.ErrUnknown) {
		t.Errorf("a full server gives %v; want that nothing has happened", err)
	}
	entries, err := s.History(t.Context(), store.HistoryQuery{Run: run})
	if err != nil || len(entries) != 0 {
		t.Errorf("reading goes on, and finds %d entries, %v", len(entries), err)
	}
	if _, err := ask(t, server.Addr(), "config", "set", "maxmemory", "0"); err != nil {
		t.Fatal(err)
	}
	if result, err := s.Commit(t.Context(), b); err != nil || result.Turns[0].Verdict != store.Committed ||
		result.Commands[0].Outcome != store.Applied {
		t.Errorf("with room again: %+v, %v", result, err)
	}
}

// A server whose settings can lose acknowledged acts is refused, or a warning is logged and
// Describe shows it.
func TestSettingsAreReadAtOpen(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	for _, row := range []struct {
		name     string
		settings [3]string // appendonly, appendfsync, maxmemory-policy
		options  []redis.Option
		refused  string // in the error
		warned   bool
		durable  string // in Describe
	}{
		{"always", [3]string{"yes", "always", "noeviction"}, nil, "", false, "appendfsync always"},
		{"everysec", [3]string{"yes", "everysec", "noeviction"}, nil, "", true,
			"about a second of acknowledgements is lost"},
		{"no", [3]string{"yes", "no", "noeviction"}, nil, "", true, "lost with the machine"},
		{"eviction", [3]string{"yes", "always", "allkeys-lru"}, nil,
			"expected maxmemory-policy noeviction, found allkeys-lru", false, ""},
		{"without a file", [3]string{"no", "always", "noeviction"}, nil, "expected appendonly yes, found no", false, ""},
		{"volatile", [3]string{"no", "always", "noeviction"}, []redis.Option{redis.AllowLoss()}, "", true,
			"no append-only file"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for i, name := range []string{"appendonly", "appendfsync", "maxmemory-policy"} {
				configSet(t, server, name, row.settings[i])
			}
			var log bytes.Buffer
			s, err := redis.Open(context.Background(), server.URL(),
				append(row.options, redis.Logger(slog.New(slog.NewTextHandler(&log, nil))))...)
			if row.refused != "" {
				if !errors.Is(err, store.ErrInvalid) || !strings.Contains(fmt.Sprint(err), row.refused) {
					t.Errorf("got %v; want it refused: %s", err, row.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			d, err := s.Describe(t.Context())
			if err != nil || !strings.Contains(d.Durable, row.durable) {
				t.Errorf("described as %q, %v; want %q in it", d.Durable, err, row.durable)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if warned := strings.Contains(log.String(), "can lose what was acknowledged"); warned != row.warned {
				t.Errorf("warned %t:\n%s", warned, log.String())
			}
		})
	}
}

// A shard whose epoch is lower than it was, because the server has lost writes, is fenced; taken again it gets an epoch
// that was never given.
func TestEpochThatWentBackIsNotGivenTwice(t *testing.T) {
	t.Parallel()
	url, prefix := shared(t)
	s := openAt(t, url, redis.Slots(1))
	leases := acquire(t, s, shard)
	lower := fmt.Sprintf("%d;0;\n", leases[0].Epoch-1)
	if _, err := ask(t, address(url), "hset", "{"+prefix+":0}L", "0:default", lower); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Renew(t.Context(), leases, ttl); err != nil || got[0].Held {
		t.Errorf("renew: %+v, %v", got, err)
	}
	result, err := s.Commit(t.Context(), store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases,
		Turns: []*store.Turn{{Run: 1, Shard: shard}}})
	if err != nil || result.Turns[0].Verdict != store.Fenced {
		t.Errorf("commit: %+v, %v", result, err)
	}
	if again := acquire(t, s, shard); again[0].Epoch <= leases[0].Epoch {
		t.Errorf("epoch %d is given after %d", again[0].Epoch, leases[0].Epoch)
	}
}

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"http://localhost":                      "expected the URL of a Redis server",
		"redis://localhost/x":                   "invalid database number",
		"redis://u:secret@127.0.0.1:1?prefix=%": "",
		"redis://127.0.0.1:1?prefix={}":         "without braces",
	} {
		_, err := redis.Open(context.Background(), url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v; want %q in it", url, err, want)
		}
	}
}
