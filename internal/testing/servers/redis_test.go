package servers_test

import (
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
)

func TestRedisStopsAndKeepsWhatItHasAcknowledged(t *testing.T) {
	r := servers.NewRedis(t, servers.Durable...)
	if _, err := r.Command("set", "key", "value"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		if reach(r.Addr()) {
			t.Fatal("the server answers after the stop")
		}
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Command("get", "key"); err != nil || got != "value" {
			t.Errorf("after a stop the key is %q, %v:\n%s", got, err, r.Log())
		}
	}
}

func TestRedisClusterIsWhole(t *testing.T) {
	soak.Faults(t)
	c := servers.NewRedisCluster(t, servers.Forgetful...)
	if masters := c.Masters(); len(masters) != 3 {
		t.Errorf("got %d masters", len(masters))
	}
}

func TestRedisSentinelKnowsTheMaster(t *testing.T) {
	soak.Faults(t)
	s := servers.NewRedisSentinel(t, servers.Forgetful...)
	got, err := s.Sentinel.Command("sentinel", "get-master-addr-by-name", "stet")
	if err != nil || !strings.HasSuffix(s.Master.Addr(), ":"+got[strings.LastIndex(got, "\n")+1:]) {
		t.Errorf("the sentinel says %q, %v; the master is at %s", got, err, s.Master.Addr())
	}
}
