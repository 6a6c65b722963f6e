package servers

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RedisCluster is a cluster of three masters.
type RedisCluster struct {
	Servers []*Redis
}

// NewRedisCluster starts a cluster of six servers: three masters, each with a replica. It ends with the test.
func NewRedisCluster(t testing.TB, settings ...string) *RedisCluster {
	t.Helper()
	return newRedisCluster(t, 1, settings)
}

// NewRedisMasters starts a cluster of three masters without replicas, which go on while one of them is away.
// It ends with the test.
func NewRedisMasters(t testing.TB, settings ...string) *RedisCluster {
	t.Helper()
	return newRedisCluster(t, 0, append([]string{"cluster-require-full-coverage no"}, settings...))
}

func newRedisCluster(t testing.TB, replicas int, settings []string) *RedisCluster {
	t.Helper()
	c, err := startRedisCluster(replicas, settings)
	need(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// startRedisCluster starts a cluster of three masters with so many replicas each. The caller closes it.
func startRedisCluster(replicas int, settings []string) (c *RedisCluster, err error) {
	c = &RedisCluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	settings = append([]string{"cluster-enabled yes", "cluster-node-timeout 5000", "cluster-config-file nodes.conf"},
		settings...)
	for range 3 + 3*replicas {
		r, err := StartRedis("redis-server", settings...)
		if err != nil {
			return c, err
		}
		c.Servers = append(c.Servers, r)
	}
	args := []string{"--cluster", "create"}
	for _, r := range c.Servers {
		args = append(args, r.Addr())
	}
	args = append(args, "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes")
	if _, err := c.Servers[0].Command(args...); err != nil {
		return c, err
	}
	for _, r := range c.Servers {
		if err := until(func() bool {
			info, err := r.Command("cluster", "info")
			return err == nil && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprint("cluster_known_nodes:", len(c.Servers)))
		}); err != nil {
			return c, fmt.Errorf("the cluster is not whole: %w:\n%s", err, r.Log())
		}
		if err := until(func() bool {
			info, err := r.Command("info", "replication")
			return err == nil && (strings.Contains(info, "role:master") || strings.Contains(info, "master_link_status:up"))
		}); err != nil {
			return c, fmt.Errorf("a replica does not follow: %w:\n%s", err, r.Log())
		}
	}
	return c, nil
}

// Close ends the servers and deletes their files.
func (c *RedisCluster) Close() error {
	var errs []error
	for _, r := range c.Servers {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// URL returns the address of the cluster, by two of its servers.
func (c *RedisCluster) URL() string { return c.Servers[0].URL() + "?addr=" + c.Servers[1].Addr() }

// Masters returns the servers that are masters now.
func (c *RedisCluster) Masters() []*Redis {
	var list []*Redis
	for _, r := range c.Servers {
		if info, err := r.Command("info", "replication"); err == nil && strings.Contains(info, "role:master") {
			list = append(list, r)
		}
	}
	return list
}

// slots is how many hash slots a cluster has.
const slots = 16384

// SlotOf returns the hash slot of a key.
func (c *RedisCluster) SlotOf(t testing.TB, key string) int {
	t.Helper()
	slot, err := strconv.Atoi(command(t, c.Servers[0], "cluster", "keyslot", key))
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// Owner returns the master of a hash slot.
func (c *RedisCluster) Owner(t testing.TB, slot int) *Redis {
	t.Helper()
	for line := range strings.Lines(command(t, c.Masters()[0], "cluster", "nodes")) {
		node := strings.Fields(line)
		if !strings.Contains(node[2], "master") {
			continue
		}
		for _, has := range node[8:] {
			first, last, ok := strings.Cut(has, "-")
			if !ok {
				last = first
			}
			from, err := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err == nil && err2 == nil && from <= slot && slot <= to {
				for _, r := range c.Servers {
					if strings.HasPrefix(node[1], r.Addr()+"@") {
						return r
					}
				}
			}
		}
	}
	t.Fatalf("slot %d has no master", slot)
	return nil
}

// Keys returns up to n keys of a hash slot that a server has.
func (r *Redis) Keys(t testing.TB, slot, n int) []string {
	t.Helper()
	return strings.Fields(command(t, r, "cluster", "getkeysinslot", strconv.Itoa(slot), strconv.Itoa(n)))
}

// MoveSlot moves a hash slot to another master, step by step as redis-cli --cluster reshard does. between is called
// before each step with the number of keys that are left.
func (c *RedisCluster) MoveSlot(t testing.TB, slot int, to *Redis, between func(left int)) {
	t.Helper()
	from := c.Owner(t, slot)
	text, source, target := strconv.Itoa(slot), command(t, from, "cluster", "myid"), command(t, to, "cluster", "myid")
	command(t, to, "cluster", "setslot", text, "importing", source)
	command(t, from, "cluster", "setslot", text, "migrating", target)
	for {
		keys := from.Keys(t, slot, slots)
		between(len(keys))
		if len(keys) == 0 {
			break
		}
		command(t, from, append([]string{"migrate", "127.0.0.1", strconv.Itoa(to.port), "", "0", "5000", "keys"},
			keys[:(len(keys)+2)/3]...)...)
	}
	command(t, to, "cluster", "setslot", text, "node", target)
	between(0)
	command(t, from, "cluster", "setslot", text, "node", target)
}

// Reshard moves n hash slots from one master to another with redis-cli, when all of them agree about former moves.
func (c *RedisCluster) Reshard(t testing.TB, from, to *Redis, n int) error {
	t.Helper()
	c.Agree(t)
	source, target := command(t, from, "cluster", "myid"), command(t, to, "cluster", "myid")
	const limit = 10 * time.Minute // each slot takes three servers a round trip to their disks, on a busy machine
	out, err := from.commandWithin(limit, "--cluster", "reshard", from.Addr(), "--cluster-from", source,
		"--cluster-to", target, "--cluster-slots", strconv.Itoa(n), "--cluster-yes", "--cluster-pipeline", "3")
	if err != nil {
		return err
	}
	if strings.Contains(out, "[ERR]") || strings.Contains(out, "Node replied with error") {
		return fmt.Errorf("reshard: %s", out[max(0, len(out)-1000):])
	}
	return nil
}

// Agree waits until redis-cli finds nothing wrong with the cluster: its servers hear of a move one after the other.
func (c *RedisCluster) Agree(t testing.TB) {
	t.Helper()
	first := c.Masters()[0]
	if err := until(func() bool {
		_, err := first.Command("--cluster", "check", first.Addr())
		return err == nil
	}); err != nil {
		_, found := first.Command("--cluster", "check", first.Addr())
		t.Fatalf("the servers of the cluster do not agree: %v: %v", err, found)
	}
}

// command executes a command that must succeed.
func command(t testing.TB, r *Redis, args ...string) string {
	t.Helper()
	out, err := r.Command(args...)
	if err != nil || strings.HasPrefix(out, "ERR ") || strings.HasPrefix(out, "IOERR ") {
		t.Fatalf("%s: %v: %s", strings.Join(args[:min(len(args), 8)], " "), err, out)
	}
	return out
}

// StopReplication ends the replication from a master: what it acknowledges from now on is on no
// other server. Its clients notice nothing.
func (c *RedisCluster) StopReplication(t testing.TB, master *Redis) {
	t.Helper()
	command(t, master, "acl", "setuser", "default", "-psync", "-sync")
	command(t, master, "client", "kill", "type", "replica")
	master.until(t, "a master without a replica", func() bool {
		info, err := master.Command("info", "replication")
		return err == nil && strings.Contains(info, "connected_slaves:0")
	})
}

// Lose stops a master for good, and waits until its replica has taken its place.
func (c *RedisCluster) Lose(t testing.TB, master *Redis) {
	t.Helper()
	if err := master.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, r := range c.Servers {
		if r == master {
			continue
		}
		r.until(t, "a cluster that is whole again", func() bool {
			nodes, err := r.Command("cluster", "nodes")
			if err != nil {
				return false
			}
			masters := 0
			for line := range strings.Lines(nodes) {
				f := strings.Fields(line)
				alive := !strings.Contains(f[2], "fail") && !strings.HasPrefix(f[1], master.Addr()+"@")
				if len(f) > 8 && strings.Contains(f[2], "master") && alive {
					masters++
				}
			}
			info, err := r.Command("cluster", "info")
			return err == nil && masters == 3 && strings.Contains(info, "cluster_state:ok")
		})
	}
}
