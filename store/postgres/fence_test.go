package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestFence takes a lease from a boot that has seen it held, in each way there is: its
// next commit, of nothing but a completed step, is fenced, and so is the one after that.
func TestFence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		take func(t *testing.T, a, b *node, pass func(time.Duration))
	}{
		{"by another node", func(t *testing.T, _, b *node, pass func(time.Duration)) {
			pass(2 * time.Hour)
			b.acquire(t)
		}},
		{"by itself", func(t *testing.T, a, _ *node, _ func(time.Duration)) {
			old := a.leases
			a.acquire(t)
			a.leases = old
		}},
		{"released", func(t *testing.T, a, _ *node, _ func(time.Duration)) {
			if err := a.s.Release(t.Context(), a.leases); err != nil {
				t.Fatal(err)
			}
		}},
		{"released and taken again", func(t *testing.T, a, _ *node, _ func(time.Duration)) {
			old := a.leases
			if err := a.s.Release(t.Context(), a.leases); err != nil {
				t.Fatal(err)
			}
			a.acquire(t)
			a.leases = old
		}},
		{"from a boot that is forgotten", func(t *testing.T, a, b *node, pass func(time.Duration)) {
			stopped := a.node
			stopped.Stopped = true
			if _, err := a.s.Register(t.Context(), stopped); err != nil {
				t.Fatal(err)
			}
			pass(2 * time.Hour)
			b.acquire(t)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var now atomic.Int64
			now.Store(time.Now().UnixMicro())
			clock := postgres.Clock(func() time.Time { return time.UnixMicro(now.Load()) })
			h := newHandles(t, clock)
			a := takeAll(t, h.first, "a")
			b := &node{s: h.open(t), node: store.Node{ID: "b", Boot: "b-1", Workflows: []string{"w"}}}
			if _, err := b.s.Register(t.Context(), b.node); err != nil {
				t.Fatal(err)
			}
			run := a.started(t, "run")
			step := func(loc string) store.Verdict {
				t.Helper()
				return a.commit(t, &store.Turn{Run: run.No, Shard: run.Shard, Insert: true,
					Entries: []store.Entry{done(loc)}}).Turns[0].Verdict
			}
			if v := step("a"); v != store.Committed {
				t.Fatalf("expected a commit, found %s", v)
			}
			c.take(t, a, b, func(d time.Duration) { now.Add(d.Microseconds()) })
			for _, loc := range []string{"b", "c"} {
				if v := step(loc); v != store.Fenced {
					t.Errorf("expected %s to be fenced, found %s", loc, v)
				}
			}
			if s, _, err := b.s.Load(t.Context(), []store.RunNo{run.No}); err != nil || len(s[0].Entries) != 1 {
				t.Errorf("expected one entry, found %+v: %v", s, err)
			}
		})
	}
}

// TestFenceOfABootWithoutARow takes the lease of a boot that was never registered, while the
// boot writes its first batches: the takeover waits for the lease in between. No commit of
// the boot counts after that.
func TestFenceOfABootWithoutARow(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(time.Now().UnixMicro())
	clock := postgres.Clock(func() time.Time { return time.UnixMicro(now.Load()) })
	h := newHandles(t, clock, postgres.Patient())
	dsn, schema := h.dsn, h.schema
	a := &node{s: h.first, node: store.Node{ID: "a", Boot: "a-1"}}
	a.acquire(t)
	b := &node{s: h.open(t), node: store.Node{ID: "b", Boot: "b-1"}}
	watcher, holder := application(t, dsn), application(t, dsn)
	if _, err := holder.Exec(t.Context(), "BEGIN; SELECT FROM "+schema+".leases FOR SHARE"); err != nil {
		t.Fatal(err)
	}
	now.Add(2 * time.Hour.Microseconds())
	taken := make(chan error, 1)
	go func() {
		got, _, err := b.s.Acquire(context.Background(), b.node, []store.Shard{shard}, ttl)
		if err == nil && !got[0].Held {
			err = fmt.Errorf("the lease is held: %+v", got)
		}
		taken <- err
	}()
	servers.Until(t, "the takeover waits", func() bool {
		var waits int
		if err := watcher.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type='Lock' AND query LIKE '%'||$1||'".leases%'`, schema).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits > 0
	})
	write := func() (committed bool) {
		a.no++
		result, err := a.s.Commit(t.Context(), store.Batch{Node: "a", Boot: "a-1", No: a.no, Leases: a.leases,
			Commands: []store.Command{claimedStart(fmt.Sprint("run-", a.no))}})
		return err == nil && result.Commands[0].Claimed
	}
	for range 3 { // they may wait for the takeover, in vain
		write()
	}
	if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if write() {
			t.Error("the former owner has claimed a run after the takeover")
		}
	}
}

// TestFreshThatIsWrong says of entries that stand already that they do not.
func TestFreshThatIsWrong(t *testing.T) {
	t.Parallel()
	s, _, _ := fresh(t)
	n := takeAll(t, s, "n")
	run := n.started(t, "run")
	step := func(value string) store.Verdict {
		t.Helper()
		e := done("a")
		e.Value = []byte(value)
		return n.commit(t, &store.Turn{Run: run.No, Shard: run.Shard, Insert: true,
			Entries: []store.Entry{e}}).Turns[0].Verdict
	}
	for _, c := range []struct {
		value string
		want  store.Verdict
	}{{"v", store.Committed}, {"v", store.Committed}, {"w", store.Refused}, {"v", store.Committed}} {
		if got := step(c.value); got != c.want {
			t.Errorf("%q: expected %s, found %s", c.value, c.want, got)
		}
	}
}
