package torture_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/cmd/stet/internal/torture"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store/postgres"
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
	soak.Faults(t)
	server := servers.NewRedis(t, servers.Durable...)
	proxy := servers.NewProxy(t, server.Addr())
	endures(t, "redis://"+proxy.Addr(), restart(server),
		torture.Outage{Name: "connections cut", Do: func(context.Context) error { proxy.Cut(); return nil }},
		torture.Outage{Name: "answer lost", Do: func(context.Context) error { proxy.LoseAnswer(3); return nil }})
}

// Processes are killed that have the settings which an engine has by default: others go on long before a lease ends.
func TestDefaultsEndure(t *testing.T) {
	soak.Faults(t)
	for name, db := range map[string]func(t *testing.T) string{
		"SQLite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "torture.db") },
		"Postgres": func(t *testing.T) string { return servers.NewPostgres(t).DSN() },
		"Redis":    func(t *testing.T) string { return servers.NewRedis(t, servers.Durable...).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			longer(t, 4*time.Second, func(d time.Duration, last bool) bool {
				cfg := configOf(t, db(t))
				cfg.For, cfg.Defaults, cfg.Faults, cfg.NoPoison = d, true, []string{"kill"}, true
				cfg.Strikes = int(d / time.Second)
				report := tortured(t, cfg)
				if !report.OK {
					t.Errorf("seed %d: there are violations", report.Seed)
				}
				enough := report.Counts["runs: succeeded"] > 0 && report.Counts["takeovers"] > 0
				if !enough && last {
					t.Errorf("seed %d: nothing was done, or nobody killed", report.Seed)
				}
				return enough
			})
		})
	}
}

// The same in a cluster, whose masters are killed and come back before a replica takes
// over, which may not have the last acknowledgements.
func TestRedisClusterEndures(t *testing.T) {
	soak.Faults(t)
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

// A store over two and three Postgres servers, of which one is killed and comes back after longer than leases last, and
// another one moves to another address. Meanwhile processes are killed, paused and stopped.
func TestDatabasesEndure(t *testing.T) {
	soak.Faults(t)
	if testing.Short() {
		t.Skip("not in -short: it takes half a minute, and minutes under STET_SOAK=10")
	}
	sizes := []int{3}
	if soak.On() {
		sizes = []int{2, 3}
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var dsns []string
			var outages []torture.Outage
			for i := range n {
				server := servers.NewPostgres(t)
				dsns = append(dsns, server.DSN())
				if i == 1 {
					at := []string{server.DSN(), server.DSN() + " stet_schema=elsewhere"}
					outages = append(outages, torture.Outage{Name: "a database moved",
						Do: func(ctx context.Context) error {
							slices.Reverse(at)
							return postgres.Move(ctx, at[1], at[0])
						}})
				}
				if i == 0 {
					outages = append(outages, torture.Outage{Name: "a database away",
						Do: func(context.Context) error {
							err := server.Stop()
							time.Sleep(2500 * time.Millisecond) // the outage itself: leases last 1.5 s
							return errors.Join(err, server.Start())
						}})
				}
			}
			cfg := configOf(t, strings.Join(dsns, "; "))
			cfg.For, cfg.Nodes, cfg.Strikes, cfg.Outages = seconds(t), 3, int(seconds(t)/time.Second), outages
			cfg.NoPoison = !soak.On()
			report := tortured(t, cfg)
			if !report.OK {
				t.Errorf("seed %d: there are violations", report.Seed)
			}
			for _, name := range []string{"runs: succeeded", "takeovers", "acknowledged: send"} {
				if report.Counts[name] == 0 {
					t.Errorf("seed %d: nothing was done of %q", report.Seed, name)
				}
			}
			if report.Counts["outages: a database away"]+report.Counts["outages: a database moved"] == 0 {
				t.Errorf("seed %d: no database was away, or moved", report.Seed)
			}
		})
	}
}

// A cluster of three masters without replicas, of which one is killed, or stands still, for longer than leases last,
// while processes are killed, paused and stopped.
func TestMastersEndure(t *testing.T) {
	soak.Faults(t)
	if testing.Short() {
		t.Skip("not in -short: it takes half a minute, and minutes under STET_SOAK=10")
	}
	cluster := servers.NewRedisMasters(t, servers.Durable...)
	const away = 2500 * time.Millisecond // the outage itself: leases last 1.5 s
	var outages []torture.Outage
	for _, master := range cluster.Servers[1:] { // the address of the first one is what processes begin with
		outages = append(outages, torture.Outage{Name: "a master away", Do: func(context.Context) error {
			err := master.Stop()
			time.Sleep(away)
			return errors.Join(err, master.Start())
		}}, torture.Outage{Name: "a silent master", Do: func(context.Context) error {
			resume := master.Pause(t)
			time.Sleep(away)
			resume()
			return nil
		}})
	}
	cfg := configOf(t, cluster.URL())
	cfg.For, cfg.Nodes, cfg.Strikes, cfg.Outages = seconds(t), 3, int(seconds(t)/time.Second), outages
	cfg.NoPoison = !soak.On()
	report := tortured(t, cfg)
	if !report.OK {
		t.Errorf("seed %d: there are violations", report.Seed)
	}
	for _, name := range []string{"runs: succeeded", "takeovers", "acknowledged: send"} {
		if report.Counts[name] == 0 {
			t.Errorf("seed %d: nothing was done of %q", report.Seed, name)
		}
	}
	if report.Counts["outages: a master away"]+report.Counts["outages: a silent master"] == 0 {
		t.Errorf("seed %d: no master was away", report.Seed)
	}
}
