package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Redis is a Redis or Valkey server of one's own. Its methods are called by one
// goroutine at a time.
type Redis struct {
	dir      string
	program  string
	port     int
	also     string // an address more that it listens on
	settings []string
	process  *process
}

// Forgetful are the settings of a server whose data is disposable.
var Forgetful = []string{"appendonly yes", "appendfsync no", "no-appendfsync-on-rewrite yes"}

// Durable are the settings of a server that keeps every acknowledged write.
var Durable = []string{"appendonly yes", "appendfsync always"}

// NewRedis starts a server of a test's own. It ends with the test. A setting is a
// line of redis.conf.
func NewRedis(t testing.TB, settings ...string) *Redis {
	t.Helper()
	r, err := StartRedis("redis-server", settings...)
	need(t, err)
	t.Cleanup(func() { closeRedis(t, r) })
	return r
}

// NewValkey is NewRedis with a Valkey server.
func NewValkey(t testing.TB, settings ...string) *Redis {
	t.Helper()
	r, err := StartRedis("valkey-server", settings...)
	if errors.Is(err, ErrMissing) {
		t.Skip(err) // tested where it is installed
	}
	need(t, err)
	t.Cleanup(func() { closeRedis(t, r) })
	return r
}

func closeRedis(t testing.TB, r *Redis) {
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// StartRedis starts a server of the program. The caller closes it. ErrMissing: it is
// not installed.
func StartRedis(program string, settings ...string) (*Redis, error) {
	path, err := find(program)
	if err != nil {
		return nil, err
	}
	r := &Redis{program: path, settings: settings}
	if r.dir, err = folder("redis"); err != nil {
		return nil, err
	}
	if r.port, err = port(); err == nil {
		err = r.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.dir))
	}
	return r, nil
}

// Start starts a server that was stopped. It has read its data when Start returns.
func (r *Redis) Start() error {
	args := []string{"--port", strconv.Itoa(r.port), "--dir", r.dir, "--daemonize", "no", "--save", "",
		"--bind", "127.0.0.1"}
	if r.also != "" {
		args = append(args, r.also)
	}
	for _, s := range r.settings {
		name, value, _ := strings.Cut(s, " ")
		args = append(append(args, "--"+name), strings.Fields(value)...)
	}
	var err error
	r.process, err = start(r.dir, "KILL", "eady to accept connections", r.program, args...)
	return err
}

// Listen starts the server again, which then has an address more of this machine, such as that of a Network. It returns
// the URL of the server there.
func (r *Redis) Listen(t testing.TB, host string) (url string) {
	t.Helper()
	r.also = host
	if err := errors.Join(r.Stop(), r.Start()); err != nil {
		t.Fatal(err)
	}
	return "redis://" + net.JoinHostPort(host, strconv.Itoa(r.port))
}

// Stop kills the server: connections are cut and nothing is written out.
func (r *Redis) Stop() error { return r.process.stop() }

// Save stops the server as Stop does, keeps a copy of its append-only file, and starts it again. Restore puts that in
// the place of the server's, which is stopped and started too: the server has then lost what it wrote since, and does
// not know it.
func (r *Redis) Save() (restore func() error, err error) {
	return saveDisk(filepath.Join(r.dir, "appendonlydir"), filepath.Join(r.dir, "saved"), r)
}

// Pause makes the server stand still, without a word to its clients, until the returned function is called
// or the test ends.
func (r *Redis) Pause(t testing.TB) (resume func()) {
	t.Helper()
	info, err := r.Command("info", "server")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "process_id:")
	id, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := pause(id, true); err != nil {
		t.Fatal(err)
	}
	resume = sync.OnceFunc(func() {
		if err := pause(id, false); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(resume)
	return resume
}

// Log returns the last lines of the server's log.
func (r *Redis) Log() string { return r.process.lines() }

// Close ends the server and deletes its files.
func (r *Redis) Close() error {
	if r.process != nil {
		select {
		case <-r.process.ended:
		default:
			if err := r.process.stop(); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(r.dir)
}

// Addr returns the host and port that the server listens on.
func (r *Redis) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }

// URL returns the address of the server as a URL.
func (r *Redis) URL() string { return "redis://" + r.Addr() }

// Command executes a command by redis-cli, for a minute at most, and returns its output.
func (r *Redis) Command(args ...string) (string, error) { return r.commandWithin(time.Minute, args...) }

func (r *Redis) commandWithin(limit time.Duration, args ...string) (string, error) {
	cli := filepath.Join(filepath.Dir(r.program), strings.Replace(filepath.Base(r.program), "-server", "-cli", 1))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, cli,
		append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(r.port)}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("redis-cli %s: %w:\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// RedisSentinel is a master with a replica, and a sentinel that watches over them
// under the name "stet".
type RedisSentinel struct {
	Master, Replica, Sentinel *Redis
}

// NewRedisSentinel starts a master, a replica and a sentinel. They end with the test.
func NewRedisSentinel(t testing.TB, settings ...string) *RedisSentinel {
	t.Helper()
	s := &RedisSentinel{Master: NewRedis(t, settings...)}
	s.Replica = NewRedis(t, append([]string{"replicaof 127.0.0.1 " + strconv.Itoa(s.Master.port)}, settings...)...)
	s.Replica.until(t, "a replica that follows", func() bool {
		info, err := s.Replica.Command("info", "replication")
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	s.Sentinel = &Redis{program: s.Master.program}
	var err error
	if s.Sentinel.dir, err = folder("sentinel"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeRedis(t, s.Sentinel) })
	if s.Sentinel.port, err = port(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.Sentinel.dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor stet 127.0.0.1 %d 1\n"+
		"sentinel down-after-milliseconds stet 500\nsentinel failover-timeout stet 2000\n",
		s.Sentinel.port, s.Sentinel.dir, s.Master.port)
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), own(file)); err != nil {
		t.Fatal(err)
	}
	if s.Sentinel.process, err = start(s.Sentinel.dir, "KILL", "+monitor master", s.Sentinel.program, file,
		"--sentinel"); err != nil {
		t.Fatal(err)
	}
	s.Sentinel.until(t, "a sentinel that knows the replica", func() bool {
		info, err := s.Sentinel.Command("info", "sentinel")
		return err == nil && strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=1")
	})
	return s
}

// URL returns the address of the sentinel, and the name that it watches.
func (s *RedisSentinel) URL() string { return s.Sentinel.URL() + "?master_set=stet" }

// until polls a condition until it holds.
func (r *Redis) until(t testing.TB, what string, is func() bool) {
	t.Helper()
	if err := until(is); err != nil {
		t.Fatalf("%s: %v:\n%s", what, err, r.Log())
	}
}
