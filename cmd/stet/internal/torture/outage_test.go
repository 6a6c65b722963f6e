package torture_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stet-run/stet/cmd/stet/internal/torture"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
)

// seconds is how long a store is struck at: some seconds times STET_SOAK.
func seconds(t *testing.T) time.Duration {
	t.Helper()
	return 4 * time.Second * time.Duration(soak.Times(t))
}

// restart kills a server and starts it again.
func restart(r *servers.Redis) torture.Outage {
	return torture.Outage{Name: "server killed",
		Do: func(context.Context) error { return errors.Join(r.Stop(), r.Start()) }}
}

// endures checks that nothing is broken while processes and the store are struck at.
func endures(t *testing.T, url string, outages ...torture.Outage) {
	t.Helper()
	cfg := configOf(t, url)
	cfg.For, cfg.Nodes, cfg.Outages = seconds(t), 3, outages
	cfg.Strikes = 2 * int(cfg.For/time.Second)
	report := tortured(t, cfg)
	if !report.OK {
		t.Errorf("seed %d: there are violations", report.Seed)
	}
	struck := int64(0)
	for _, o := range outages {
		struck += report.Counts["outages: "+o.Name]
	}
	if struck == 0 {
		t.Errorf("seed %d: the store was never away", report.Seed)
	}
	for _, name := range []string{"runs: succeeded", "takeovers", "acknowledged: send"} {
		if report.Counts[name] == 0 {
			t.Errorf("seed %d: nothing was done of %q", report.Seed, name)
		}
	}
}

// A Redis server that keeps what it acknowledges is killed, connections are cut and
// answers lost, while the processes are killed, paused and stopped.
func TestRedisEndures(t *testing.T) {
	server := servers.NewRedis(t, servers.Durable...)
	proxy := servers.NewProxy(t, server.Addr())
	endures(t, "redis://"+proxy.Addr(), restart(server),
		torture.Outage{Name: "connections cut", Do: func(context.Context) error { proxy.Cut(); return nil }},
		torture.Outage{Name: "answer lost", Do: func(context.Context) error { proxy.LoseAnswer(3); return nil }})
}

// The same in a cluster, whose masters are killed and come back before a replica takes
// over, which may not have the last acknowledgements.
func TestRedisClusterEndures(t *testing.T) {
	if testing.Short() {
		t.Skip("not in -short: it takes 15 seconds, and a minute and a half under STET_SOAK=10")
	}
	// A busy machine may take its time to start a server.
	cluster := servers.NewRedisCluster(t, append([]string{"cluster-node-timeout 30000"}, servers.Durable...)...)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, s := range cluster.Servers {
			t.Logf("%s:\n%s", s.Addr(), s.Log())
		}
	})
	var outages []torture.Outage
	for _, master := range cluster.Masters() {
		outages = append(outages, restart(master))
	}
	if soak.On() {
		endures(t, cluster.URL(), outages...)
		return
	}
	cfg := configOf(t, cluster.URL())
	cfg.For, cfg.Nodes, cfg.Live, cfg.Strikes, cfg.NoPoison, cfg.Outages = 4*time.Second, 2, 6, 6, true, outages
	if report := tortured(t, cfg); !report.OK || report.Counts["runs: succeeded"] == 0 ||
		report.Counts["payments booked"] == 0 {
		t.Errorf("seed %d: there are violations, or nothing was done", report.Seed)
	}
}
