package redis_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
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
func witnessOf(t *testing.T, url, node string) (number string) {
	t.Helper()
	patiently(t, func() error {
		number = numberOf(signOf(t, address(url), homeOf(url), node))
		if number == "" {
			return store.ErrUnavailable
		}
		if list, err := ask(t, address(url), "client", "list", "id", number); err != nil || list == "" {
			return store.ErrUnavailable
		}
		return nil
	})
	return number
}

// numberOf returns the number of the connection in a sign, or "".
func numberOf(sign string) string {
	_, rest, _ := strings.Cut(sign, ";")
	number, _, _ := strings.Cut(rest, ";")
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
	url, _ := shared(t)
	a, b := newPeer(t, url, "a"), newPeer(t, url, "b")
	newPeer(t, url, "c") // which lives
	a.takes(t)
	if _, err := a.s.Commit(t.Context(), store.Batch{Node: "a", Boot: "a-1", No: 1, Leases: a.leases,
		Commands: []store.Command{start("r")}}); err != nil {
		t.Fatal(err)
	}
	witnessOf(t, url, "a")
	witnessOf(t, url, "c")
	b.looksInVain(t, url)
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

// TestASignNamesTheProcess, so that others on its machine know at once that it has ended.
func TestASignNamesTheProcess(t *testing.T) {
	t.Parallel()
	url, _ := shared(t)
	s := openAt(t, url, redis.Slots(1))
	node := store.Node{ID: "a", Boot: "a-1", Host: "host;with a sign", PID: 4711, Workflows: []string{"w"}}
	if _, err := s.Register(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	number := witnessOf(t, url, "a")
	life, sign, ok := redis.ReadSign(signOf(t, address(url), homeOf(url), "a"))
	if !ok || life == "" || fmt.Sprint(sign.Number) != number || sign.Host != node.Host || sign.PID != node.PID {
		t.Errorf("expected the number %s and the process %d of %s, found %+v, %t", number, node.PID, node.Host, sign, ok)
	}
	for _, damaged := range []string{"", "life", "life;1", "life;x;1;host", "life;1;x;host"} {
		if _, _, ok := redis.ReadSign(damaged); ok {
			t.Errorf("the sign %q is read", damaged)
		}
	}
}

// A process that is stopped reads nothing and asks nothing, on any of its connections, and they stay open. Its lease
// counts until they end.
func TestAProcessThatDoesNotReadIsAlive(t *testing.T) {
	t.Parallel()
	url, _ := shared(t)
	proxy := servers.NewProxy(t, address(url))
	a := newPeer(t, strings.Replace(url, address(url), proxy.Addr(), 1), "a")
	b := newPeer(t, url, "b")
	a.takes(t)
	witnessOf(t, url, "a")
	witnessOf(t, url, "b")
	hold := proxy.HoldAll()
	again := sync.OnceFunc(hold.Go)
	t.Cleanup(again)
	<-hold.Held
	for range 2 { // for longer than between two looks, and shorter than WitnessAnswer
		b.looksInVain(t, url)
	}
	again()
	if err := a.s.Close(); err != nil {
		t.Fatal(err)
	}
	b.takes(t)
}

// A process that is alone seldom looks for others: here never by itself. It hears of one that comes, and then learns
// that it has died.
func TestAProcessThatIsAloneHearsOfAnother(t *testing.T) {
	t.Parallel()
	url, _ := shared(t)
	s := openAt(t, url, redis.Slots(1))
	redis.RestAlone(s, time.Hour)
	a := &peer{s: s, node: store.Node{ID: "a", Boot: "a-1", Workflows: []string{"w"}}}
	if _, err := s.Register(t.Context(), a.node); err != nil {
		t.Fatal(err)
	}
	number := witnessOf(t, url, "a")
	rest := func() int { // in seconds, since its last command
		list, err := ask(t, address(url), "client", "list", "id", number)
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
	b := newPeer(t, url, "b")
	witnessOf(t, url, "b")
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
	url, _ := shared(t)
	a, b := newPeer(t, url, "a"), newPeer(t, url, "b")
	a.takes(t)
	for i := range 10 {
		number := witnessOf(t, url, "a")
		if _, err := ask(t, address(url), "client", "kill", "id", number); err != nil {
			t.Fatal(err)
		}
		patiently(t, func() error {
			if b.tries(t) {
				t.Fatalf("cut %d: the shard of a living node was taken", i)
			}
			if witnessOf(t, url, "a") == number {
				return store.ErrUnavailable
			}
			return nil
		})
	}
}

// A node that is cut off from the server is as one that has died. What it then writes is fenced.
func TestANodeThatIsCutOffIsFenced(t *testing.T) {
	t.Parallel()
	url, _ := shared(t)
	proxy := servers.NewProxy(t, address(url))
	a := newPeer(t, strings.Replace(url, address(url), proxy.Addr(), 1), "a")
	b := newPeer(t, url, "b")
	a.takes(t)
	witnessOf(t, url, "a")
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
	soak.Faults(t)
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	a, b := newPeer(t, server.URL(), "a"), newPeer(t, server.URL(), "b")
	a.takes(t)
	former := witnessOf(t, server.URL(), "b")
	witnessOf(t, server.URL(), "a")
	if err := a.s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	witnessOf(t, server.URL(), "b")
	t.Logf("the former witness was %s", former)
	b.looksInVain(t, server.URL())
}

// A server that is promoted has no connection of the former one's processes, dead or alive: leases count there.
func TestAPromotedServerKnowsNoWitness(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	sentinel := servers.NewRedisSentinel(t, servers.Durable...)
	a, b := newPeer(t, sentinel.URL(), "a"), newPeer(t, sentinel.URL(), "b")
	a.takes(t)
	witnessOf(t, sentinel.Master.URL(), "a")
	witnessOf(t, sentinel.Master.URL(), "b")
	former := signOf(t, sentinel.Master.Addr(), "{stet:0}", "b")
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
		return err == nil && signOf(t, sentinel.Replica.Addr(), "{stet:0}", "b") != former
	})
	b.looksInVain(t, sentinel.Replica.URL())
}

// TestASignOfAFormerLifeSaysNothing: the sign of a process is of a server that was promoted or begun since. The process
// dies, and its lease counts.
func TestASignOfAFormerLifeSaysNothing(t *testing.T) {
	t.Parallel()
	url, _ := shared(t)
	a, b := newPeer(t, url, "a"), newPeer(t, url, "b")
	a.takes(t)
	number := witnessOf(t, url, "a")
	witnessOf(t, url, "b")
	sign := strings.Repeat("0", 40) + ";" + number
	if _, err := ask(t, address(url), "hset", homeOf(url)+"g", "a\na-1", sign); err != nil {
		t.Fatal(err)
	}
	if err := a.s.Close(); err != nil { // its connections end, as those of a process that was killed
		t.Fatal(err)
	}
	b.looksInVain(t, url)
}

// A process on a cluster has a witness in each lane. When it has died all of its shards are taken, by what each master
// knows.
func TestADeadProcessHasNoWitnessInAnyLane(t *testing.T) {
	t.Parallel()
	url, prefix := servers.SharedRedisCluster(t)
	a, b := newCrewPeer(t, url, prefix, "a"), newCrewPeer(t, url, prefix, "b")
	servers.Until(t, "all shards", func() bool { return a.takesOf(t) == len(a.shards) })
	homes := redis.Homes(a.s)
	if len(homes) != 3 {
		t.Fatalf("the store has %d lanes", len(homes))
	}
	for i, home := range homes {
		master := redis.Masters(a.s)[i]
		servers.Until(t, "a witness", func() bool {
			number := numberOf(signOf(t, master, home, "a"))
			list, err := ask(t, master, "client", "list", "id", cmp.Or(number, "0"))
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

func newCrewPeer(t *testing.T, url, prefix, id string) *crewPeer {
	t.Helper()
	const slots = 7
	p := &crewPeer{s: openAt(t, url, redis.Prefix(prefix), redis.Slots(slots)),
		node: store.Node{ID: id, Boot: id + "-1", Workflows: []string{"w"}}}
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

// homeOf returns the tag of the first part of the store at a URL.
func homeOf(url string) string {
	_, prefix, _ := strings.Cut(url, "?prefix=")
	return "{" + cmp.Or(prefix, "stet") + ":0}"
}

// signOf returns the sign of a node's witness at a server, in the lane whose home has a tag.
func signOf(t *testing.T, addr, home, node string) string {
	t.Helper()
	sign, err := ask(t, addr, "hget", home+"g", node+"\n"+node+"-1")
	if err != nil {
		t.Fatal(err)
	}
	return sign
}

// looksInVain: the node looks three times more, and does not get the shard.
func (p *peer) looksInVain(t *testing.T, url string) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond) // nothing tells when it has looked
	defer again.Stop()
	for last, looks := "", 0; looks < 4; <-again.C {
		number := witnessOf(t, url, p.node.ID)
		list, err := ask(t, address(url), "client", "list", "id", number)
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
