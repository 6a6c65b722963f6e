package redis_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/internal/testing/servers"
)

// shared returns the URL of a store of the test's own on the shared server.
func shared(t testing.TB) (url, prefix string) {
	t.Helper()
	url, prefix = servers.SharedRedis(t)
	return url + "?prefix=" + prefix, prefix
}

// address returns the host and port in a URL.
func address(url string) string {
	url, _, _ = strings.Cut(strings.TrimPrefix(url, "redis://"), "?")
	return url
}

// clients are the connections on which tests ask servers, by address. A process for each question is much slower.
var clients sync.Map

// clientOf returns a client of one server.
func clientOf(t testing.TB, addr string) rueidis.Client {
	t.Helper()
	if c, ok := clients.Load(addr); ok {
		return c.(rueidis.Client)
	}
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true,
		DisableCache: true, AlwaysRESP2: true})
	if err != nil {
		t.Fatal(err)
	}
	if former, loaded := clients.LoadOrStore(addr, c); loaded {
		c.Close()
		return former.(rueidis.Client)
	}
	return c
}

// ask executes a command on a server, and returns its answer as redis-cli writes it.
func ask(t testing.TB, addr string, words ...string) (string, error) {
	t.Helper()
	c := clientOf(t, addr)
	m, err := c.Do(context.Background(), c.B().Arbitrary(words...).Build()).ToMessage()
	if _, answered := rueidis.IsRedisErr(err); err != nil && !answered { // the connection is of before a restart
		m, err = c.Do(context.Background(), c.B().Arbitrary(words...).Build()).ToMessage()
	}
	switch {
	case rueidis.IsRedisNil(err):
		return "", nil
	case err != nil:
		return "", err
	case m.IsInt64():
		n, err := m.AsInt64()
		return strconv.FormatInt(n, 10), err
	}
	return m.ToString()
}
