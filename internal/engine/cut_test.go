package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// cutClaims makes claims leave items out, as a store does when there are many: of each run the first ones stay.
func cutClaims(s store.Store, random func(int) int, cuts *atomic.Int64) *gated {
	g := &gated{Store: s}
	g.claim = func(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
		claims, err := s.Claim(ctx, req)
		for i := range claims.Runs {
			c := &claims.Runs[i]
			if n := random(len(c.Items) + 1); n < len(c.Items) && random(3) > 0 {
				c.Items, claims.MoreItems = c.Items[:n], true
				cuts.Add(1)
			}
		}
		if claims.MoreItems { // those whose items are all left out, and that were claimed before, are not in the answer
			runs := claims.Runs[:0]
			for _, c := range claims.Runs {
				if c.New || len(c.Items) > 0 {
					runs = append(runs, c)
				}
			}
			claims.Runs = runs
		}
		return claims, err
	}
	return g
}

// Messages of one process come in their order to runs whose shards move from node to node, and
// whose claims are cut, whether the process has the run in memory when it sends or not.
func TestMessagesKeepTheirOrderWhereShardsMove(t *testing.T) {
	const runs, words = 6, 30
	var cuts, moves atomic.Int64
	first, end := soak.Range(t, 40)
	for seed := uint64(first); seed < uint64(end); seed++ {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			source := rand.New(rand.NewPCG(seed, 0))
			random := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return source.IntN(n)
			}
			base := memory.New(memory.Slots(4))
			options := []func(*engine.Config){with("w", hears(words)), func(cfg *engine.Config) {
				cfg.MaxRuns, cfg.MaxParkedBytes, cfg.ParkFor = 2+random(2*runs), 20_000*random(runs+1),
					time.Duration(1+random(2000))*time.Millisecond
			}}
			sender := newEngine(t, cutClaims(base, random, &cuts), "sender", options...)
			defer serve(t, sender)()
			time.Sleep(time.Minute)
			var ids []string
			for i := range runs {
				ids = append(ids, fmt.Sprint("run-", i))
			}
			start(t, sender, "w", ids...)
			stop, moved := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(moved)
				for n := 0; ; n++ {
					other := newEngine(t, cutClaims(base.Join(), random, &cuts), fmt.Sprint("other-", n), options...)
					leave := serve(t, other)
					moves.Add(1)
					select {
					case <-time.After(time.Duration(random(8000)) * time.Millisecond):
						leave()
					case <-stop:
						leave()
						return
					}
				}
			}()
			var want []string
			for i := range words {
				word := fmt.Sprint(i)
				want = append(want, word)
				for _, id := range ids {
					send(t, sender, id, word)
				}
				if random(3) == 0 {
					time.Sleep(time.Duration(random(4000)) * time.Millisecond)
				}
			}
			for _, id := range ids {
				expectEnd(t, sender, id, store.Succeeded, strings.Join(want, " "))
			}
			close(stop)
			<-moved
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if cuts.Load() == 0 || moves.Load() < 2 {
		t.Errorf("%d claims were cut, and %d nodes came", cuts.Load(), moves.Load())
	}
	t.Logf("%d claims were cut, and %d nodes came", cuts.Load(), moves.Load())
}
