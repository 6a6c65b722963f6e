package redis_test

import (
	"fmt"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestFailoverThatLostWrites: a master dies whose replica lacks what was acknowledged last. Parts
// on other masters have sent to its parts, and got from them, more than these now know. Later runs
// go on all the same: their starts, messages, children and the ends of those arrive.
func TestFailoverThatLostWrites(t *testing.T) {
	soak.Faults(t)
	cluster := servers.NewRedisCluster(t, servers.Forgetful...)
	open := func() *redis.Store { return openAt(t, cluster.URL(), redis.Slots(6)) }
	s := open()
	l := newLoad(t, 2, open)
	start := func(prefix string, n int) (ids []string) {
		t.Helper()
		for i := range n {
			id := fmt.Sprint(prefix, i)
			ids = append(ids, id)
			if err := l.again(t.Context(), func() error {
				_, err := l.order.Start(t.Context(), l.client, id, stet.ID(id))
				return err
			}); err != nil {
				t.Fatalf("start %s: %v", id, err)
			}
			if err := l.again(t.Context(), func() error {
				return told.Send(t.Context(), l.client, id, 1, stet.SendKey("go"))
			}); err != nil {
				t.Fatalf("send to %s: %v", id, err)
			}
		}
		return ids
	}
	finish := func(ids []string) {
		t.Helper()
		for _, id := range ids {
			if !l.finished(t.Context(), id) {
				return
			}
		}
	}
	const runs = 40
	finish(start("before-", runs))
	master := cluster.Owner(t, cluster.SlotOf(t, "{stet:0}n"))
	cluster.StopReplication(t, master)
	finish(start("lost-", runs))
	cluster.Lose(t, master)
	finish(start("after-", runs))
	var page store.Page
	if err := l.again(t.Context(), func() (err error) {
		page, err = s.List(t.Context(), store.Filter{IDPrefix: "lost-", Limit: runs})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(page.Runs) == 0 || len(page.Runs) == runs {
		t.Errorf("%d of %d runs are left: the failover was to lose some, and those of other masters stay",
			len(page.Runs), runs)
	}
	t.Logf("%d of %d runs are left", len(page.Runs), runs)
}
