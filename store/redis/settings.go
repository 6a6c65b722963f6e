package redis

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
)

// settings are those of the weakest of the servers.
type settings struct {
	cluster  bool
	software string // "Redis 7.0.15"
	aof      bool
	fsync    string // appendfsync, "" if the server does not tell
	replicas bool
	whole    bool              // the masters of the cluster refuse everything while one is away
	lives    map[string]string // run_id of each master, by address
}

// durable describes in one line which acts survive.
func (k *settings) durable() string {
	var kept string
	switch {
	case !k.aof:
		kept = "no append-only file: what was acknowledged since the last snapshot is lost when the server ends"
	case k.fsync == "always":
		kept = "append-only file, appendfsync always: survives the death of the server and of its machine"
	case k.fsync == "":
		kept = "append-only file; the server does not tell appendfsync: with everysec, the last second of acknowledgements " +
			"is lost with the machine"
	case k.fsync == "no":
		kept = "append-only file, appendfsync no: what the operating system has not written, half a minute or so, is lost " +
			"with the machine"
	default:
		kept = "append-only file, appendfsync " + k.fsync +
			": about a second of acknowledgements is lost when the server or its machine dies"
	}
	if k.replicas {
		kept += "; the failover to a replica may lose the last acknowledgements"
	}
	return k.software + ", " + kept
}

// minVersion is the oldest server.
const minVersion = "6.2.0"

// inspect asks all masters for their settings. It refuses those that would break a
// promise, and logs which acts can be lost.
func (s *opening) inspect(ctx context.Context) (err error) {
	s.known.cluster = s.client.Mode() == rueidis.ClientModeCluster
	limited, cancel := s.limited(ctx) // of a cluster some may stand still
	defer cancel()
	known, silent, err := s.ask(ctx, limited, nil)
	s.silent = s.silent || silent
	if err != nil {
		return err
	}
	s.known = known
	if !s.known.aof || s.known.fsync != "always" || s.known.replicas {
		s.cfg.log.Warn("the Redis server can lose what was acknowledged", "durable", s.known.durable())
	}
	return nil
}

// ask asks all masters for their settings, and refuses those that would break a promise. limited bounds the first
// question. Masters that live since last was found are not asked for what INFO does not say; nil: all are. silent: a
// server of the cluster has not answered.
func (s *Store) ask(ctx, limited context.Context, last *settings) (k settings, silent bool, err error) {
	k = settings{aof: true, fsync: "always", cluster: s.client.Mode() == rueidis.ClientModeCluster,
		lives: map[string]string{}}
	masters := 0
	type answer struct {
		address string
		node    rueidis.Client
		text    string
		err     error
	}
	nodes := s.client.Nodes()
	answers := make(chan answer, len(nodes))
	for address, node := range nodes {
		go func() {
			text, err := node.Do(limited, node.B().Info().Build()).ToString()
			answers <- answer{address, node, text, err}
		}()
	}
	for range nodes {
		a := <-answers
		if a.err != nil {
			if k.cluster {
				silent = silent || limited.Err() != nil
				continue // a replica or a node that is down; the masters are counted
			}
			return k, silent, classify(limited, "ask "+a.address+" for its settings", a.err, false)
		}
		info := fields(a.text)
		if info["loading"] == "1" { // until then it reports another append-only file
			if k.cluster {
				continue
			}
			return k, silent, fmt.Errorf("%s: %w: the server is reading its data", a.address, store.ErrUnavailable)
		}
		if info["role"] != "master" {
			if k.cluster {
				continue
			}
			return k, silent, fmt.Errorf("%s: %w: expected a master, found a %s: open its master, or the sentinels with "+
				"master_set=NAME", a.address, store.ErrInvalid, info["role"])
		}
		masters++
		if err := s.inspectMaster(ctx, &k, last, a.address, a.node, info); err != nil {
			return k, silent, err
		}
	}
	if masters == 0 {
		return k, silent, fmt.Errorf("%w: no master answers", store.ErrUnavailable)
	}
	return k, silent, nil
}

// inspectMaster adds the settings of a master to those of the weakest.
func (s *Store) inspectMaster(ctx context.Context, k, last *settings, address string, node rueidis.Client,
	info map[string]string) error {
	version, software := info["redis_version"], "Redis "+info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		software = "Valkey " + v
	}
	if versionNumber(version) < versionNumber(minVersion) {
		return fmt.Errorf("%s: %w: expected Redis %s or newer, or Valkey, found %s", address, store.ErrSchema, minVersion,
			software)
	}
	k.software = software
	policy, fsync, aof := info["maxmemory_policy"], "", info["aof_enabled"] == "1"
	k.lives[address] = info["run_id"]
	same := last != nil && last.lives[address] != "" && last.lives[address] == info["run_id"]
	if same {
		fsync, k.whole = last.fsync, k.whole || last.whole
	}
	if k.cluster && !same {
		full, err := node.Do(ctx, node.B().ConfigGet().Parameter("cluster-require-full-coverage").Build()).AsStrMap()
		k.whole = k.whole || err == nil && full["cluster-require-full-coverage"] == "yes"
	}
	// Hosts of Redis may forbid CONFIG; INFO then has to do.
	if !same {
		config, err := node.Do(ctx, node.B().ConfigGet().Parameter("maxmemory-policy", "appendfsync", "appendonly").Build()).
			AsStrMap()
		if err != nil {
			config, err = node.Do(ctx, node.B().ConfigGet().Parameter("appendfsync").Build()).AsStrMap()
		}
		if err == nil {
			fsync, policy = config["appendfsync"], cmp.Or(config["maxmemory-policy"], policy)
		}
		if !aof && config["appendonly"] == "yes" { // a replica that has just become the master begins its file
			return fmt.Errorf("%s: %w: the server does not write its append-only file yet", address, store.ErrUnavailable)
		}
	}
	if policy != "" && policy != "noeviction" {
		return fmt.Errorf("%s: %w: expected maxmemory-policy noeviction, found %s, by which the server deletes runs when "+
			"memory is short: set it in redis.conf or with CONFIG SET",
			address, store.ErrInvalid, policy)
	}
	if !aof {
		k.aof = false
		if !s.cfg.volatile {
			return fmt.Errorf("%s: %w: expected appendonly yes, found no: every run since the last snapshot would be lost with "+
				"the server: "+
				"set appendonly yes and appendfsync always, or open the store with AllowLoss (parameter volatile=1 of the URL)",
				address, store.ErrInvalid)
		}
	}
	if fsync != "always" {
		k.fsync = fsync
	}
	if n, _ := strconv.Atoi(info["connected_slaves"]); n > 0 {
		k.replicas = true
	}
	return nil
}

// fields reads the answer to INFO.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[key] = value
		}
	}
	return all
}

func versionNumber(v string) int {
	n := 0
	for i, part := range strings.SplitN(v, ".", 3) {
		digits := strings.TrimRightFunc(part, func(c rune) bool { return c < '0' || c > '9' })
		k, err := strconv.Atoi(digits)
		if err != nil {
			return 0
		}
		n += k * [...]int{1_000_000, 1_000, 1}[i]
	}
	return n
}
