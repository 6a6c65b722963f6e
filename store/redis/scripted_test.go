package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
)

// scripted is a server within the test: answer returns what it writes for a command, as it goes over the wire.
type scripted struct {
	listener net.Listener
	answer   func(words []string) string

	mu    sync.Mutex
	conns []net.Conn
}

// newScripted starts a scripted server. It ends with the test.
func newScripted(t *testing.T, answer func(words []string) string) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{listener: l, answer: answer}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			done.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // ends the loop
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close() // that is the purpose
		}
		s.mu.Unlock()
		done.Wait()
	})
	return s
}

func (s *scripted) addr() string { return s.listener.Addr().String() }

// serve answers the commands of a connection until it is closed.
func (s *scripted) serve(c net.Conn) {
	for in := bufio.NewReader(c); ; {
		words, err := command(in)
		if err != nil {
			return
		}
		answer := s.answer(words)
		if answer == "" {
			answer = greeting(words)
		}
		s.mu.Lock()
		_, err = io.WriteString(c, answer)
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// push writes to all connections.
func (s *scripted) push(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_, _ = io.WriteString(c, text) // it may be closed
	}
}

// greeting answers what a client asks first.
func greeting(words []string) string {
	switch words[0] {
	case "HELLO":
		return "%2\r\n" + bulk("version") + bulk("7.2.0") + bulk("proto") + ":3\r\n"
	case "PING":
		return "+PONG\r\n"
	}
	return "+OK\r\n"
}

// command reads a command.
func command(in *bufio.Reader) (words []string, err error) {
	number := func(mark string) int {
		line, failed := in.ReadString('\n')
		n, wrong := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(line), mark))
		err = errors.Join(err, failed, wrong)
		return n
	}
	for n := number("*"); err == nil && len(words) < n; {
		word := make([]byte, number("$")+2)
		if err == nil {
			_, err = io.ReadFull(in, word)
		}
		words = append(words, string(word[:len(word)-2]))
	}
	return words, err
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func list(texts ...string) string {
	answer := fmt.Sprintf("*%d\r\n", len(texts))
	for _, text := range texts {
		answer += bulk(text)
	}
	return answer
}

// TestSettingsThatServersReport: a server that is not to be used is refused, and one that reads its data is away. The
// description says what a failover may lose.
func TestSettingsThatServersReport(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		info    string
		refused error
		says    string // the error, or what is described
	}{
		"a master": {"role:master\r\nconnected_slaves:0\r\n", nil, "survives the death of the server"},
		"replicas": {"role:master\r\nconnected_slaves:1\r\n", nil,
			"the failover to a replica may lose the last acknowledgements"},
		"a replica": {"role:slave\r\n", store.ErrInvalid, "expected a master, found a slave"},
		"loading":   {"loading:1\r\nrole:master\r\naof_enabled:0\r\n", store.ErrUnavailable, "is reading its data"},
		"no file":   {"role:master\r\naof_enabled:0\r\n", store.ErrUnavailable, "does not write its append-only file yet"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newScripted(t, func(words []string) string {
				switch words[0] {
				case "INFO":
					return bulk("redis_version:7.0.15\r\naof_enabled:1\r\n" + row.info)
				case "CONFIG":
					return list("maxmemory-policy", "noeviction", "appendfsync", "always", "appendonly", "yes")
				}
				return ""
			})
			s := &opening{Store: &Store{client: scriptedClient(t, server), cfg: config{log: slog.New(slog.DiscardHandler)}}}
			err := s.inspect(t.Context())
			switch {
			case !errors.Is(err, row.refused):
				t.Errorf("got %v; want %v", err, row.refused)
			case err != nil && !strings.Contains(err.Error(), row.says):
				t.Errorf("got %v; want %q in it", err, row.says)
			case err == nil && !strings.Contains(s.known.durable(), row.says):
				t.Errorf("described as %q; want %q in it", s.known.durable(), row.says)
			}
		})
	}
}

// scriptedClient returns a client of a scripted server, with the settings that stores have.
func scriptedClient(t *testing.T, server *scripted) rueidis.Client {
	t.Helper()
	_, option, err := configure("redis://"+server.addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	option.ForceSingleClient = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// TestWhatAServerRefusesHasNotHappened: a server says that it cannot carry out an act now, as while a slot moves. The
// act is unavailable and has not happened. Of an act on several parts that is not known.
func TestWhatAServerRefusesHasNotHappened(t *testing.T) {
	t.Parallel()
	var says atomic.Value // of string
	client := scriptedClient(t, newScripted(t, func(words []string) string {
		if words[0] == "EVALSHA" {
			return "-" + says.Load().(string) + "\r\n"
		}
		return ""
	}))
	for _, text := range []string{
		"TRYAGAIN Multiple keys request during rehashing of slot", "ASK 1 127.0.0.1:1", "MOVED 1 127.0.0.1:1",
		"CLUSTERDOWN The cluster is down", "LOADING Redis is loading the dataset in memory",
		"MASTERDOWN Link with MASTER is down", "READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.", "MISCONF Errors writing to the AOF file: No space left",
		"NOREPLICAS Not enough good replicas to write.", "BUSY Redis is busy running a script.",
	} {
		says.Store(text)
		err := client.Do(t.Context(), client.B().Evalsha().Sha1("s").Numkeys(0).Build()).Error()
		one, several := classify(t.Context(), "act", err, false), classify(t.Context(), "act", err, true)
		if !errors.Is(one, store.ErrUnavailable) || errors.Is(one, store.ErrUnknown) {
			t.Errorf("%s: %v; want that nothing has happened", text, one)
		}
		if !errors.Is(several, store.ErrUnavailable) || !errors.Is(several, store.ErrUnknown) {
			t.Errorf("%s, of several parts: %v; want that it is unknown", text, several)
		}
	}
}

// TestASilentServerIsAway: the client gave up before the caller did. Its error may be that of a context. A reader tries
// it again all the same.
func TestASilentServerIsAway(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, err := range []error{context.DeadlineExceeded, context.Canceled, os.ErrDeadlineExceeded} {
		got := classify(t.Context(), "act", err, false)
		if !errors.Is(got, store.ErrUnavailable) || !errors.Is(got, store.ErrUnknown) {
			t.Errorf("%v: %v; want that the server is away, and the outcome unknown", err, got)
		}
		got = classify(ended, "act", err, false)
		if errors.Is(got, store.ErrUnavailable) || !errors.Is(got, store.ErrUnknown) {
			t.Errorf("%v, by the caller: %v; want that the outcome is unknown", err, got)
		}
	}
}

// TestAStoreFollowsItsSentinels: the master is not reached any more, and the sentinels name another one. The same
// handle goes on there. Both addresses are of one server.
func TestAStoreFollowsItsSentinels(t *testing.T) {
	t.Parallel()
	url, prefix := servers.SharedRedis(t)
	server := strings.TrimPrefix(url, "redis://")
	first, second := servers.NewProxy(t, server), servers.NewProxy(t, server)
	var mu sync.Mutex
	master := first.Addr()
	words := func() []string {
		mu.Lock()
		defer mu.Unlock()
		host, port, _ := net.SplitHostPort(master)
		return []string{host, port}
	}
	sentinel := newScripted(t, func(asked []string) string {
		switch {
		case asked[0] == "SENTINEL" && strings.EqualFold(asked[1], "get-master-addr-by-name"):
			return list(words()...)
		case asked[0] == "SENTINEL":
			return list()
		case asked[0] == "SUBSCRIBE":
			answer := ""
			for i, channel := range asked[1:] {
				answer += ">3\r\n" + bulk("subscribe") + bulk(channel) + fmt.Sprintf(":%d\r\n", i+1)
			}
			return answer
		}
		return ""
	})
	s, err := Open(context.Background(), "redis://"+sentinel.addr()+"?master_set=stet", Prefix(prefix), Slots(1),
		Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	begin := func(id string) error {
		_, _, err := s.Apply(t.Context(), []store.Command{{Start: &store.Start{ID: id, Shard: store.Shard{Group: "g"},
			Workflow: "w", Seed: store.Seed([]byte(fmt.Sprintf("%-16s", id)))}}})
		return err
	}
	if err := begin("before"); err != nil {
		t.Fatal(err)
	}
	former := words()
	first.Refuse(true)
	mu.Lock()
	master = second.Addr()
	mu.Unlock()
	news := strings.Join(slices.Concat([]string{"stet"}, former, words()), " ")
	sentinel.push(">3\r\n" + bulk("message") + bulk("+switch-master") + bulk(news))
	servers.Until(t, "the store goes on with the other master", func() bool {
		err := begin("after")
		if err != nil && !away(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	page, err := s.List(t.Context(), store.Filter{})
	if err != nil || len(page.Runs) != 2 {
		t.Errorf("there are %d runs, %v; want 2", len(page.Runs), err)
	}
}
