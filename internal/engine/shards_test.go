package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// A claim that says that a lease is not current ends the stay of the shard at once. The
// runs of other shards are left alone.
func TestFencedClaimEndsTheStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New(memory.Slots(2))}
		var lost atomic.Pointer[store.Shard]
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			claims, err := s.Store.Claim(ctx, req)
			if shard := lost.Swap(nil); shard != nil && err == nil {
				claims.Fenced = append(claims.Fenced, *shard)
			}
			return claims, err
		}
		var happened trace
		body := waits(time.Minute, &happened)
		e := newEngine(t, s, "n", with("w", does(body)))
		defer serve(t, e)()
		time.Sleep(time.Minute) // it takes the shards in steps
		ids := []string{"a", "b"}
		for e.Slot(ids[0]) == e.Slot(ids[1]) {
			ids[1] += "b"
		}
		start(t, e, "w", ids...)
		synctest.Wait()
		happened.expect(t, "begin", "begin")
		lost.Store(&newStart(e, "w", ids[0]).Shard)
		for _, id := range ids {
			expectEnd(t, e, id, store.Succeeded, "done")
		}
		happened.expectAll(t, "begin", "cancelled", "end", "end")
	})
}

// A node that joins gets its share of the shards. They are given back when the bodies in
// them have ended, and no run is executed twice.
func TestShardsAreSharedWithANodeThatJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Slots(8))
		var happened trace
		patient := func(cfg *engine.Config) { cfg.Grace = time.Minute }
		code := with("w", does(waits(30*time.Second, &happened)))
		first := newEngine(t, s, "first", patient, code)
		defer serve(t, first)()
		time.Sleep(time.Minute) // it takes the shards in steps
		var ids []string
		for i := range 8 {
			ids = append(ids, fmt.Sprint("run", i))
		}
		start(t, first, "w", ids...)
		synctest.Wait()
		second := newEngine(t, s.Join(), "second", patient, code)
		defer serve(t, second)()
		for _, id := range ids {
			expectEnd(t, second, id, store.Succeeded, "done")
		}
		want := slices.Concat(slices.Repeat([]string{"begin"}, 8), slices.Repeat([]string{"end"}, 8))
		happened.expectAll(t, want...)
		time.Sleep(time.Minute)
		d, err := s.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held := map[string]int{}
		for _, l := range d.Leases {
			held[l.Node]++
		}
		if held["first"] == 0 || held["second"] == 0 || held["first"]+held["second"] != 2*8 {
			t.Errorf("the nodes hold %v; want a share each of %d", held, 2*8)
		}
	})
}

// A shard of a node that must go, and whose code does not return, is given back all the same, after the grace
// period, and the log names the code.
func TestShardIsGivenBackThoughItsCodeHasNotReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Slots(2))
		free := make(chan struct{})
		var l logs
		var begun atomic.Int64
		code := with("w", does(func(context.Context) string {
			if begun.Add(1) <= 4 {
				<-free
			}
			return "done"
		}))
		first := newEngine(t, s, "first", logging(&l), code)
		stop := serve(t, first)
		time.Sleep(time.Minute) // it takes the shards in steps
		start(t, first, "w", "a", "b", "c", "d")
		synctest.Wait()
		second := newEngine(t, s.Join(), "second", code)
		defer serve(t, second)()
		time.Sleep(time.Minute)
		if n := begun.Load(); n != 4 {
			t.Errorf("%d bodies have begun; a node that joins ends none", n)
		}
		drain := store.Node{ID: "first", Boot: first.Boot(), Draining: true}
		if _, err := s.Register(t.Context(), drain); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		lines := l.lines("code in them has not returned")
		if len(lines) != 1 || len(l.lines("step work")) != 1 {
			t.Errorf("logged were %q; want one line with the steps", lines)
		}
		if n := begun.Load(); n <= 4 {
			t.Error("no run was executed by the next owner")
		}
		close(free)
		synctest.Wait()
		stop()
		for _, id := range []string{"a", "b", "c", "d"} {
			expectEnd(t, second, id, store.Succeeded, "done")
		}
	})
}
