package redis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
	"github.com/stet-run/stet/store/storetest"
)

// ground is a cluster of three masters, of which a test takes one away.
type ground struct {
	url      string
	options  []redis.Option
	masters  []string
	takeAway func(t *testing.T, master string) (comeBack func())
}

// open opens a store of the test's own.
func (g *ground) open(t *testing.T, options ...redis.Option) *redis.Store {
	t.Helper()
	s := openAt(t, g.url, append(slices.Clone(g.options), options...)...)
	if n := len(s.Lanes()); n != 3 {
		t.Fatalf("the store has %d lanes; want 3", n)
	}
	return s
}

// newGround is the shared cluster, and a proxy before each of its masters. away makes a proxy the end of the world.
func newGround(t *testing.T, away func(*servers.Proxy) (comeBack func())) *ground {
	t.Helper()
	url, prefix := servers.SharedRedisCluster(t)
	proxies := map[string]*servers.Proxy{}
	for addr := range clusterOf(t, url).Nodes() {
		proxies[addr] = servers.NewProxy(t, addr)
	}
	dial := func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if p := proxies[addr]; p != nil {
			addr = p.Addr()
		}
		return dialer.DialContext(ctx, "tcp", addr)
	}
	return &ground{url: url, masters: slices.Sorted(maps.Keys(proxies)),
		options:  []redis.Option{redis.Prefix(prefix), redis.Client(func(o *rueidis.ClientOption) { o.DialCtxFn = dial })},
		takeAway: func(_ *testing.T, master string) func() { return away(proxies[master]) },
	}
}

// refused is a master that is not there.
func refused(p *servers.Proxy) (comeBack func()) {
	p.Refuse(true)
	return func() { p.Refuse(false) }
}

// newMasters is a cluster of its own, whose masters are stopped, or stand still.
func newMasters(t *testing.T, away func(*testing.T, *servers.Redis) (comeBack func())) *ground {
	t.Helper()
	cluster := servers.NewRedisMasters(t, servers.Durable...)
	g := &ground{url: cluster.URL()}
	for _, r := range cluster.Servers {
		g.masters = append(g.masters, r.Addr())
	}
	g.takeAway = func(t *testing.T, master string) func() {
		return away(t, cluster.Servers[slices.Index(g.masters, master)])
	}
	return g
}

// stopped is a master that was killed.
func stopped(t *testing.T, r *servers.Redis) (comeBack func()) {
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
	}
}

// still is a master that stands still without a word.
func still(t *testing.T, r *servers.Redis) (comeBack func()) { return r.Pause(t) }

// clusterOf returns a client of a cluster. It ends with the test.
func clusterOf(t *testing.T, url string) rueidis.Client {
	t.Helper()
	option, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// TestClusterContract checks the store on a cluster against the contract.
func TestClusterContract(t *testing.T) {
	t.Parallel()
	share(t, func(t *testing.T, clock func() time.Time) storetest.Harness {
		open := func(t *testing.T, clock func() time.Time) storetest.Harness {
			url, prefix := servers.SharedRedisCluster(t)
			h := &harness{url: url, options: []redis.Option{
				redis.Prefix(prefix), redis.Slots(7), redis.SameNumbers(), redis.Clock(clock),
			}}
			h.first = h.open(t)
			return h
		}
		return storetest.Spread(open, 7)(t, clock)
	})
}

// TestClusterSpread: a store on a cluster uses all of its masters.
func TestClusterSpread(t *testing.T) {
	t.Parallel()
	url, prefix := servers.SharedRedisCluster(t)
	s := openAt(t, url, redis.Prefix(prefix))
	d, err := s.Describe(t.Context())
	if err != nil || d.Slots != 256 {
		t.Fatalf("got %d slots, %v", d.Slots, err)
	}
	if _, _, err := s.Apply(t.Context(), starts(s, 64)); err != nil {
		t.Fatal(err)
	}
	for addr, master := range clusterOf(t, url).Nodes() {
		runs := master.B().Keys().Pattern("{" + prefix + ":*}r:*").Build()
		if keys, err := master.Do(t.Context(), runs).AsStrSlice(); err != nil || len(keys) == 0 {
			t.Errorf("the master at %s has no runs: %v", addr, err)
		}
	}
}

// TestDeathOfAMaster: runs are started, once, when the replica has taken its master's place.
func TestDeathOfAMaster(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	cluster := servers.NewRedisCluster(t, servers.Forgetful...)
	s := openAt(t, cluster.URL())
	commands := starts(s, 64)
	if err := cluster.Masters()[0].Stop(); err != nil {
		t.Fatal(err)
	}
	startedOnce(t, s, commands)
}

// TestStartsWaitForAMaster: runs are started, once, when a master is back that could not be reached.
func TestStartsWaitForAMaster(t *testing.T) {
	t.Parallel()
	g := newGround(t, refused)
	s := g.open(t)
	commands := starts(s, 64)
	comeBack := g.takeAway(t, redis.Masters(s)[0])
	if _, _, err := s.Apply(t.Context(), commands); !away(err) {
		t.Errorf("without a master: %v", err)
	}
	comeBack()
	startedOnce(t, s, commands)
}

// startedOnce repeats starts until they are answered.
func startedOnce(t *testing.T, s *redis.Store, commands []store.Command) {
	t.Helper()
	patiently(t, func() error {
		answers, _, err := s.Apply(t.Context(), commands)
		for i, a := range answers {
			if a.Outcome != store.Applied {
				t.Errorf("start %d: %+v", i, a)
			}
		}
		return err
	})
	page, err := s.List(t.Context(), store.Filter{Limit: 1000})
	if err != nil || len(page.Runs) != len(commands) {
		t.Errorf("got %d runs, %v", len(page.Runs), err)
	}
}

// TestAMasterThatReadsItsData says that it has no append-only file. It is away, and no server that loses what it
// acknowledges.
func TestAMasterThatReadsItsData(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	slowly := []string{"key-load-delay 50", "loading-process-events-interval-bytes 1024"}
	cluster := servers.NewRedisCluster(t, append(slowly, servers.Forgetful...)...)
	master := cluster.Masters()[0]
	filled := false
	for i := 0; i < 100 && !filled; i++ { // a slot of the master's
		_, err := master.Command("eval",
			"for i = 1, 20000 do redis.call('SET', KEYS[1] .. i, i) end return redis.status_reply('OK')", "1",
			fmt.Sprintf("{other-%d}", i))
		out, _ := master.Command("dbsize")
		n, _ := strconv.Atoi(out)
		filled = err == nil && n >= 20000
	}
	if !filled {
		t.Fatal("the master has not taken the keys")
	}
	if err := master.Stop(); err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- master.Start() }()
	opened := 0
	for done := false; !done; opened++ {
		select {
		case err := <-started:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
		s, err := redis.Open(t.Context(), cluster.URL(), redis.Prefix("reads"), quiet)
		if err == nil {
			err = s.Close()
		}
		if err != nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
			t.Fatal(err)
		}
	}
	if opened < 2 {
		t.Error("nobody has asked the server while it was reading")
	}
}

// starts are starts of runs, each in the slot of its ID.
func starts(s *redis.Store, n int) []store.Command {
	commands := make([]store.Command, n)
	for i := range commands {
		commands[i] = start(fmt.Sprint("run-", i))
		commands[i].Start.Shard.Slot = redis.SlotOf(s, commands[i].Start.ID)
	}
	return commands
}

// A store that sentinels watch over goes on with the replica when its master dies. It
// says at open what that may lose.
func TestSentinelFailover(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	sentinel := servers.NewRedisSentinel(t, servers.Durable...)
	s := openAt(t, sentinel.URL(), redis.Slots(1))
	d, err := s.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := "the failover to a replica may lose the last acknowledgements"; !strings.Contains(d.Durable, want) {
		t.Errorf("described as %q; want %q in it", d.Durable, want)
	}
	if _, err := redis.Open(context.Background(), sentinel.Replica.URL()); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(fmt.Sprint(err), "expected a master, found a slave") {
		t.Errorf("the replica is opened: %v", err)
	}
	if _, _, err := s.Apply(t.Context(), []store.Command{start("before")}); err != nil {
		t.Fatal(err)
	}
	patiently(t, func() error { // WAIT knows of the writes of its own connection alone
		got, err := sentinel.Replica.Command("hexists", "{stet:0}id", "before")
		if err == nil && got != "1" {
			return fmt.Errorf("%w: the replica has not followed", store.ErrUnavailable)
		}
		return err
	})
	if err := sentinel.Master.Stop(); err != nil {
		t.Fatal(err)
	}
	patiently(t, func() error { _, _, err := s.Apply(t.Context(), []store.Command{start("after")}); return err })
	page, err := s.List(t.Context(), store.Filter{})
	if err != nil || len(page.Runs) != 2 {
		t.Errorf("after the failover there are %d runs, %v", len(page.Runs), err)
	}
}

// TestValkeyContract checks the store on Valkey against the contract.
func TestValkeyContract(t *testing.T) {
	t.Parallel()
	server := servers.NewValkey(t, servers.Forgetful...)
	stores := 0
	share(t, func(t *testing.T, clock func() time.Time) storetest.Harness {
		stores++
		h := &harness{url: server.URL(), options: []redis.Option{
			redis.Prefix(fmt.Sprint("t", stores)), redis.Slots(1), redis.Clock(clock),
		}}
		h.first = h.open(t)
		return h
	})
}
