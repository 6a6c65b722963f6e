package redis_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// Inboxes were read at the time that a claim says, or later: what the server has answered to
// others since does not count. Otherwise a deadline would win over a message that was earlier.
func TestAClaimSaysWhenItHasReadInboxes(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	proxy := servers.NewProxy(t, server.Addr())
	at, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	at.Host = proxy.Addr()
	s := openAt(t, at.String(), redis.Slots(1))
	b := store.Batch{Node: node.ID, Boot: node.Boot, Leases: acquire(t, s, shard)}
	commit := func(id string) store.Time {
		t.Helper()
		b.No++
		b.Commands = []store.Command{start(id)}
		b.Commands[0].Claim = false
		result, err := s.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		return result.Now
	}
	patiently(t, func() error { // until commits have a connection of their own
		commit(fmt.Sprint("r", b.No))
		if id, last := commitConnOf(t, server); id == "" || last != "evalsha" {
			return store.ErrUnavailable
		}
		return nil
	})
	claim := func() (store.Claims, error) {
		return s.Claim(t.Context(), store.ClaimRequest{
			Node: node.ID, Boot: node.Boot, Leases: b.Leases, Workflows: []string{"w"}, Limit: 1000,
		})
	}
	if _, err := claim(); err != nil {
		t.Fatal(err)
	}
	for round := 0; ; round++ {
		hold := proxy.Hold(0)
		claimed := make(chan store.Claims, 1)
		go func() {
			defer close(claimed)
			claims, err := claim()
			if err != nil {
				t.Error(err)
				return
			}
			claimed <- claims
		}()
		<-hold.Held
		later := commit(fmt.Sprint("later", round))
		hold.Go()
		claims, ok := <-claimed
		if !ok {
			return
		}
		if len(claims.Runs) > 0 {
			continue // a hint was held, and the claim was carried out after the commit
		}
		if claims.Now >= later {
			t.Errorf("the server answered the claim before %s, and it says %s", later, claims.Now)
		}
		return
	}
}
