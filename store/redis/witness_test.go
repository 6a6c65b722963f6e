package redis_test

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// The leases of these tests are for an hour: who takes one sooner knows by the witness that its
// holder has died.

const anHour = store.Delay(time.Hour / time.Microsecond)

// peer is a node on a handle of its own.
type peer struct {
	s      *redis.Store
	node   store.Node
	leases []store.Lease
}

func newPeer(t *testing.T, url, id string) *peer {
	t.Helper()
	p := &peer{s: openAt(t, url, redis.Slots(1)), node: store.Node{ID: id, Boot: id + "-1", Workflows: []string{"w"}}}
	if _, err := p.s.Register(t.Context(), p.node); err != nil {
		t.Fatal(err)
	}
	return p
}

// tries reports whether the node gets the shard, after a look as its cluster makes it.
func (p *peer) tries(t *testing.T) bool {
	t.Helper()
	_, err := p.s.Describe(t.Context())
	if err == nil {
		var got []store.Acquired
		if got, _, err = p.s.Acquire(t.Context(), p.node, []store.Shard{shard}, anHour); err == nil && got[0].Held {
			p.leases = []store.Lease{got[0].Lease}
			return true
		}
	}
	if err != nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
		t.Fatal(err)
	}
	return false
}

// witnessOf waits until the witness of a node is connected, and returns its number.
func witnessOf(t *testing.T, server *servers.Redis, node string) (number string) {
	t.Helper()
	patiently(t, func() error {
		_, number, _ = strings.Cut(signOf(t, server, "{stet:0}", node), ";")
		if number == "" {
			return store.ErrUnavailable
		}
		if list, err := server.Command("client", "list", "id", number); err != nil || list == "" {
			return store.ErrUnavailable
		}
		return nil
	})
	return number
}

func (p *peer) takes(t *testing.T) {
	t.Helper()
	patiently(t, func() error {
		if p.tries(t) {
			return nil
		}
		return store.ErrUnavailable
	})
}

// A process that has died has no connection any more. Its shards are taken at once, and what it
// has claimed is suspect.
func TestADeadProcessHasNoWitness(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	a, b := newPeer(t, server.URL(), "a"), newPeer(t, server.URL(), "b")
	newPeer(t, server.URL(), "c") // which lives
	a.takes(t)
	if _, err := a.s.Commit(t.Context(), store.Batch{Node: "a", Boot: "a-1", No: 1, Leases: a.leases,
		Commands: []store.Command{start("r")}}); err != nil {
		t.Fatal(err)
	}
	witnessOf(t, server, "a")
	witnessOf(t, server, "c")
	for looks := time.Now(); time.Since(looks) < 3*time.Second; { // b looks three times
		if b.tries(t) {
			t.Fatal("the shard of a living node was taken")
		}
	}
	if err := a.s.Close(); err != nil { // its connections end, as those of a process that was killed
		t.Fatal(err)
	}
	b.takes(t)
	claims, err := b.s.Claim(t.Context(), store.ClaimRequest{Node: "b", Boot: "b-1", Leases: b.leases,
		Workflows: []string{"w"}, Limit: 10})
	if err != nil || len(claims.Runs) != 1 || claims.Runs[0].Run.Suspect != 1 {
		t.Errorf("claimed %+v: %v", claims.Runs, err)
	}
	d, err := b.s.Describe(t.Context())
	if err != nil || len(d.Nodes) != 3 {
		t.Errorf("the nodes are %+v: %v", d.Nodes, err)
	}
	for _, n := range d.Nodes {
		if n.Gone != (n.ID == "a") { // also while it has no shards
			t.Errorf("node %s is gone: %t", n.ID, n.Gone)
		}
	}
}

// A process that is alone seldom looks for others: here never by itself. It hears of one that comes, and then learns
// that it has died.
func TestAProcessThatIsAloneHearsOfAnother(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL(), redis.Slots(1))
	redis.RestAlone(s, time.Hour)
	a := &peer{s: s, node: store.Node{ID: "a", Boot: "a-1", Workflows: []string{"w"}}}
	if _, err := s.Register(t.Context(), a.node); err != nil {
		t.Fatal(err)
	}
	number := witnessOf(t, server, "a")
	rest := func() int { // in seconds, since its last command
		list, err := server.Command("client", "list", "id", number)
		_, text, _ := strings.Cut(list, " idle=")
		text, _, _ = strings.Cut(text, " ")
		seconds, atoiErr := strconv.Atoi(text)
		if err != nil || atoiErr != nil {
			t.Fatal(err, atoiErr, list)
		}
		return seconds
	}
	until := func(is func() bool) {
		t.Helper()
		patiently(t, func() error {
			if !is() {
				return store.ErrUnavailable
			}
			return nil
		})
	}
	until(func() bool { return rest() >= 2 })
	b := newPeer(t, server.URL(), "b")
	witnessOf(t, server, "b")
	for range 2 { // it looks often now
		until(func() bool { return rest() >= 1 })
		until(func() bool { return rest() == 0 })
	}
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	until(func() bool {
		d, err := s.Describe(t.Context())
		return err == nil && slices.ContainsFunc(d.Nodes, func(n store.Node) bool { return n.ID == "b" && n.Gone })
	})
}

// A witness that is cut comes back, and nobody takes the shards of its node meanwhile.
func TestAWitnessThatIsCutComesBack(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	a, b := newPeer(t, server.URL(), "a"), newPeer(t, server.URL(), "b")
	a.takes(t)
	for i := range 10 {
		number := witnessOf(t, server, "a")
		if _, err := server.Command("client", "kill", "id", number); err != nil {
			t.Fatal(err)
		}
		patiently(t, func() error {
			if b.tries(t) {
				t.Fatalf("cut %d: the shard of a living node was taken", i)
			}
			if witnessOf(t, server, "a") == number {
				return store.ErrUnavailable
			}
			return nil
		})
	}
}

// A node that is cut off from the server is as one that has died. What it then writes is fenced.
func TestANodeThatIsCutOffIsFenced(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	proxy := servers.NewProxy(t, server.Addr())
	a := newPeer(t, strings.Replace(server.URL(), server.Addr(), proxy.Addr(), 1), "a")
	b := newPeer(t, server.URL(), "b")
	a.takes(t)
	witnessOf(t, server, "a")
	join := proxy.Sever()
	t.Cleanup(join)
	b.takes(t)
	join()
	patiently(t, func() error {
		result, err := a.s.Commit(t.Context(), store.Batch{Node: "a", Boot: "a-1", No: 1, Leases: a.leases,
			Turns: []*store.Turn{{Run: 1, Shard: shard}}})
		if err == nil && result.Turns[0].Verdict != store.Fenced {
			t.Fatalf("a commit under the former epoch: %+v", result)
		}
		return err
	})
}

// A server that has begun since knows nothing of its former connections: leases count.
func TestAServerThatHasBegunKnowsNoWitness(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	a, b := newPeer(t, server.URL(), "a"), newPeer(t, server.URL(), "b")
	a.takes(t)
	former := witnessOf(t, server, "b")
	witnessOf(t, server, "a")
	if err := a.s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	witnessOf(t, server, "b")
	t.Logf("the former witness was %s", former)
	b.looksInVain(t, server)
}

// A server that is promoted has no connection of the former one's processes, dead or alive: leases count there.
func TestAPromotedServerKnowsNoWitness(t *testing.T) {
	t.Parallel()
	sentinel := servers.NewRedisSentinel(t, servers.Durable...)
	a, b := newPeer(t, sentinel.URL(), "a"), newPeer(t, sentinel.URL(), "b")
	a.takes(t)
	witnessOf(t, sentinel.Master, "a")
	witnessOf(t, sentinel.Master, "b")
	former := signOf(t, sentinel.Master, "{stet:0}", "b")
	if _, _, err := a.s.Apply(t.Context(), []store.Command{start("after")}); err != nil {
		t.Fatal(err)
	}
	servers.Until(t, "the replica has followed", func() bool {
		got, err := sentinel.Replica.Command("hexists", "{stet:0}id", "after")
		if err != nil {
			t.Fatal(err)
		}
		return got == "1"
	})
	if err := a.s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sentinel.Master.Stop(); err != nil {
		t.Fatal(err)
	}
	servers.Until(t, "a witness at the new master", func() bool {
		_, err := b.s.Describe(t.Context())
		return err == nil && signOf(t, sentinel.Replica, "{stet:0}", "b") != former
	})
	b.looksInVain(t, sentinel.Replica)
}

// A process on a cluster has a witness in each lane. When it has died all of its shards are taken, by what each master
// knows.
func TestADeadProcessHasNoWitnessInAnyLane(t *testing.T) {
	t.Parallel()
	cluster := servers.NewRedisMasters(t, servers.Durable...)
	a, b := newCrewPeer(t, cluster.URL(), "a"), newCrewPeer(t, cluster.URL(), "b")
	servers.Until(t, "all shards", func() bool { return a.takesOf(t) == len(a.shards) })
	homes := redis.Homes(a.s)
	if len(homes) != 3 {
		t.Fatalf("the store has %d lanes", len(homes))
	}
	for _, home := range homes {
		master := cluster.Owner(t, cluster.SlotOf(t, home))
		servers.Until(t, "a witness", func() bool {
			_, number, _ := strings.Cut(signOf(t, master, home, "a"), ";")
			list, err := master.Command("client", "list", "id", cmp.Or(number, "0"))
			return err == nil && strings.HasPrefix(list, "id=")
		})
	}
	if n := b.takesOf(t); n > 0 {
		t.Fatalf("%d shards of a living node were taken", n)
	}
	if err := a.s.Close(); err != nil { // its connections end, as those of a process that was killed
		t.Fatal(err)
	}
	servers.Until(t, "all shards", func() bool { return b.takesOf(t) == len(b.shards) })
}

// crewPeer is a node that takes all shards.
type crewPeer struct {
	s      *redis.Store
	node   store.Node
	shards []store.Shard
}

func newCrewPeer(t *testing.T, url, id string) *crewPeer {
	t.Helper()
	const slots = 7
	p := &crewPeer{openAt(t, url, redis.Slots(slots)), store.Node{ID: id, Boot: id + "-1", Workflows: []string{"w"}}, nil}
	for slot := range slots {
		p.shards = append(p.shards, store.Shard{Group: store.DefaultGroup, Slot: slot})
	}
	if _, err := p.s.Register(t.Context(), p.node); err != nil {
		t.Fatal(err)
	}
	return p
}

// takesOf returns how many of the shards the node has, after a look as its cluster makes it.
func (p *crewPeer) takesOf(t *testing.T) (held int) {
	t.Helper()
	if _, err := p.s.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, _, err := p.s.Acquire(t.Context(), p.node, p.shards, anHour)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range got {
		if g.Held {
			held++
		}
	}
	return held
}

// signOf returns the sign of a node's witness at a server, in the lane whose home has a tag.
func signOf(t *testing.T, server *servers.Redis, home, node string) string {
	t.Helper()
	sign, err := server.Command("hget", home+"g", node+"\n"+node+"-1")
	if err != nil {
		t.Fatal(err)
	}
	return sign
}

// looksInVain: the node looks three times more, and does not get the shard.
func (p *peer) looksInVain(t *testing.T, server *servers.Redis) {
	t.Helper()
	for last, looks := "", 0; looks < 4; {
		number := witnessOf(t, server, p.node.ID)
		list, err := server.Command("client", "list", "id", number)
		if err != nil {
			t.Fatal(err)
		}
		_, idle, _ := strings.Cut(list, " idle=")
		idle, _, _ = strings.Cut(idle, " ")
		_, commands, _ := strings.Cut(list, " tot-cmds=")
		if state := number + idle + commands; state != last {
			last, looks = state, looks+1
		}
		if p.tries(t) {
			t.Fatalf("the lease was taken after %d looks, though nobody knows that its holder has died (witness %s)",
				looks, number)
		}
	}
}
