package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// executions returns how many scripts were executed since the statistics began anew.
func executions(t *testing.T, server *servers.Redis) (n int) {
	t.Helper()
	text, err := ask(t, server.Addr(), "info", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			if _, err := fmt.Sscanf(rest, "%d,", &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// TestTakeoverIsCutIntoScripts: a script gives some 2,000 runs back, and takes up to 128 shards. All
// are taken, and each says how many suspects it has.
func TestTakeoverIsCutIntoScripts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ slots, runs, scripts, calls int }{
		{512, 2000, 4, 2600}, // with 512 leases and some runs in each
		{64, 5120, 3, 7400},  // with 80 runs in each, which are more than a script gives back
	} {
		t.Run(fmt.Sprint(c.slots), func(t *testing.T) {
			server := servers.NewRedis(t, servers.Durable...)
			now := time.Unix(1_700_000_000, 0)
			clock := redis.Clock(func() time.Time { return now })
			s := openAt(t, server.URL(), redis.Slots(c.slots), clock)
			other := openAt(t, server.URL(), redis.Slots(c.slots), clock)
			var shards []store.Shard
			for slot := range c.slots {
				shards = append(shards, store.Shard{Group: store.DefaultGroup, Slot: slot})
			}
			b := store.Batch{Node: node.ID, Boot: node.Boot, Leases: acquire(t, s, shards...)}
			for i := 0; i < c.runs; b.Commands = nil {
				for range min(1000, c.runs-i) {
					command := start(fmt.Sprint("run ", i))
					command.Claim, command.Start.Shard.Slot = true, redis.SlotOf(s, command.Start.ID)
					b.Commands = append(b.Commands, command)
					i++
				}
				b.No++
				if _, err := s.Commit(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			now = now.Add(time.Minute)
			calls(t, server) // begins anew
			taken, _, err := other.Acquire(t.Context(), store.Node{ID: "m", Boot: "m-1"}, shards, ttl)
			if err != nil {
				t.Fatal(err)
			}
			scripts := executions(t, server)
			made := sum(calls(t, server))
			suspects := 0
			for i, a := range taken {
				if !a.Held || a.Lease.Shard != shards[i] || a.Lease.Node != "m" {
					t.Fatalf("shard %d: %+v", i, a)
				}
				suspects += a.Suspects
			}
			if suspects != c.runs {
				t.Errorf("expected %d suspects, found %d", c.runs, suspects)
			}
			if scripts < c.scripts || made/scripts > c.calls {
				t.Errorf("it took %d scripts with %d calls; expected %d scripts, of some %d calls each", scripts, made, c.scripts,
					c.calls)
			}
		})
	}
}

// TestClaimOfManyItemsIsCut: a claim has some of them, and says that there are more.
func TestClaimOfManyItemsIsCut(t *testing.T) {
	t.Parallel()
	const items = 5000
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL(), redis.Slots(1))
	leases := acquire(t, s, shard)
	commands := []store.Command{start("r")}
	commands[0].Claim = true
	for i := range items {
		commands = append(commands, store.Command{RunID: "r", Item: &store.Item{Kind: store.ItemMessage, Name: "m",
			ID: fmt.Sprint(i)}})
	}
	b := store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases, Commands: commands}
	result, err := s.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for left := items; left > 0; {
		calls(t, server) // begins anew
		claims, err := s.Claim(t.Context(),
			store.ClaimRequest{Node: node.ID, Boot: node.Boot, Leases: leases, Workflows: []string{"w"}, Limit: 10})
		if err != nil || len(claims.Runs) != 1 {
			t.Fatalf("claimed %d runs, %v", len(claims.Runs), err)
		}
		got := claims.Runs[0].Items
		if n := sum(calls(t, server)); n > 5000 || claims.MoreItems != (len(got) < left) || len(got) == 0 {
			t.Fatalf("a claim of %d items of %d takes %d calls; more of them: %v", len(got), left, n, claims.MoreItems)
		}
		turn := &store.Turn{Run: result.Commands[0].Run.No, Shard: shard}
		for i := range got {
			turn.Seen = append(turn.Seen, got[i].No)
		}
		b.No, b.Commands, b.Turns = b.No+1, nil, []*store.Turn{turn}
		if r, err := s.Commit(t.Context(), b); err != nil || r.Turns[0].Verdict != store.Committed {
			t.Fatal(r.Turns, err)
		}
		left -= len(got)
	}
}

// TestWorkOfPermitsIsLinear: what the scripts do for steps that need permits grows with their
// number, and no faster, however many wait.
func TestWorkOfPermitsIsLinear(t *testing.T) {
	t.Parallel()
	const queues = 5
	steps := 40
	if soak.Usual(t) {
		steps = 100
	}
	child := stet.Define("child", func(ctx stet.Context, queue string) (int, error) {
		done, err := stet.Map(ctx, "items", make([]int, steps), func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "load", func(context.Context) (int, error) { return 1, nil }, stet.OnStepQueue(queue))
		})
		return len(done), err
	})
	parent := stet.Define("parent", func(ctx stet.Context, children []string) (int, error) {
		done, err := stet.Map(ctx, "children", children, func(ctx stet.Context, queue string) (int, error) {
			return child.Call(ctx, queue)
		})
		return len(done), err
	})
	work := func(t *testing.T, settings stet.QueueSettings, children int) (made int) {
		server := servers.NewRedis(t, servers.Forgetful...)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		e, err := stet.New(ctx, stet.Config{Store: openAt(t, server.URL()), Workflows: []stet.Definition{parent, child},
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- e.Run(running) }()
		var names []string
		for i := range queues {
			names = append(names, fmt.Sprint("q", i))
			if err := e.Queues().Create(ctx, names[i], settings); err != nil {
				t.Fatal(err)
			}
		}
		var in []string
		for i := range children {
			in = append(in, names[i%queues])
		}
		calls(t, server) // begins anew
		run, err := parent.Start(ctx, e, in)
		if err == nil {
			_, err = run.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		made = sum(calls(t, server))
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		return made
	}
	for _, c := range []struct {
		name     string
		settings stet.QueueSettings
	}{
		{"nobody waits", stet.QueueSettings{Concurrency: 1000}},
		{"many wait for a place", stet.QueueSettings{Concurrency: 10}},
		{"many wait for a rate", stet.QueueSettings{Rate: 10, Per: 20 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			few, many := work(t, c.settings, 10), work(t, c.settings, 50)
			t.Logf("%d calls for %d steps, %d for %d: %.1f and %.1f each", few, 10*steps, many, 50*steps,
				float64(few)/float64(10*steps), float64(many)/float64(50*steps))
			// Of fewer steps more are asked for and taken in one turn, on a busy machine above all: 8 times as many
			// calls were seen there. Where the work grows with the square it is 25 times as many.
			if ratio := float64(many) / float64(few); ratio > 11 {
				t.Errorf("five times as many steps took %.1f times as many calls", ratio)
			}
		})
	}
}
