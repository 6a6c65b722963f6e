package redis_test

import (
	"fmt"
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestDamagedRows: a row of which a field cannot be read is damage of its run. Claims, lists and
// takeovers of the others go on; a run whose row says nothing any more is left alone.
func TestDamagedRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field, text string
		gone        bool // no claim has the run
	}{
		{"tg", "no tag", false}, {"pa", "seven", false}, {"be", "soon", false}, {"xp", "x", false},
		{"m", "nonsense", true}, {"m", "2;1;", true},
	} {
		t.Run(c.field+" "+c.text, func(t *testing.T) {
			url, prefix := shared(t)
			s := openAt(t, url, redis.Slots(1))
			leases := acquire(t, s, shard)
			b := store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases}
			for _, id := range []string{"damaged", "whole"} {
				c := start(id)
				c.Claim = false
				c.Start.Tags = []store.Pair{{Key: "k", Value: "v"}}
				b.Commands = append(b.Commands, c)
			}
			result, err := s.Commit(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			damaged := result.Commands[0].Run.No
			if _, err := ask(t, address(url), "hset", fmt.Sprintf("{%s:0}r:%d", prefix, damaged), c.field, c.text); err != nil {
				t.Fatal(err)
			}
			check := func(what string, damage map[string]string) {
				t.Helper()
				if reason, ok := damage["whole"]; !ok || reason != "" {
					t.Errorf("%s: of the whole run: %v, %q", what, ok, reason)
				}
				if reason, ok := damage["damaged"]; ok == c.gone || ok && reason == "" {
					t.Errorf("%s: of the damaged run: %v, %q", what, ok, reason)
				}
			}
			claim := func() {
				t.Helper()
				claims, err := s.Claim(t.Context(),
					store.ClaimRequest{Node: node.ID, Boot: node.Boot, Leases: leases, Workflows: []string{"w"}, Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				found := map[string]string{}
				for i := range claims.Runs {
					found[claims.Runs[i].Run.ID] = claims.Runs[i].Run.Damage
				}
				check("claimed", found)
			}
			claim()
			snaps, _, err := s.Load(t.Context(), []store.RunNo{damaged, result.Commands[1].Run.No})
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]string{}
			for i := range snaps {
				found[snaps[i].Run.ID] = snaps[i].Run.Damage
			}
			check("loaded", found)
			page, err := s.List(t.Context(), store.Filter{})
			if err != nil || len(page.Runs) != 2 || page.Runs[0].Damage != "" || page.Runs[1].Damage == "" {
				t.Errorf("listed: %+v, %v", page.Runs, err)
			}
			if err := s.Release(t.Context(), leases); err != nil {
				t.Errorf("Release: %v", err)
			}
			leases = acquire(t, s, shard)
			claim()
			if _, err := s.Doctor(t.Context()); err != nil {
				t.Errorf("Doctor: %v", err)
			}
		})
	}
}
