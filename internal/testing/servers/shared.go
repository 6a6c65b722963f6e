package servers

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sharedServer is a server that all test processes of a user share: see keeper.go.
type sharedServer struct {
	kind     string
	variable string // of the environment: the address of a server to use instead
	start    func() (address string, end func() error, err error)

	once    sync.Once
	address string
	err     error
}

var sharedServers = []*sharedServer{
	{kind: "postgres", variable: "STET_TEST_POSTGRES", start: func() (string, func() error, error) {
		p, err := StartPostgres(Fast...)
		if err != nil {
			return "", nil, err
		}
		return p.DSN(), p.Close, nil
	}},
	{kind: "redis", variable: "STET_TEST_REDIS", start: func() (string, func() error, error) {
		r, err := StartRedis("redis-server", Forgetful...)
		if err != nil {
			return "", nil, err
		}
		return r.URL(), r.Close, nil
	}},
	{kind: "cluster", variable: "STET_TEST_REDIS_CLUSTER", start: func() (string, func() error, error) {
		c, err := startRedisCluster(0, Forgetful)
		if err != nil {
			return "", nil, err
		}
		return c.URL(), c.Close, nil
	}},
}

// get returns the server's address. The server lives at least as long as this process.
func (s *sharedServer) get() (string, error) {
	s.once.Do(func() {
		if s.address = os.Getenv(s.variable); s.address == "" {
			favor()
			s.address, s.err = attach(s.kind)
		}
	})
	return s.address, s.err
}

// names counts the schemas and prefixes that tests were given.
var names atomic.Int64

// SharedPostgres returns the address of a server that all test processes share, and the name of a schema that no other
// test has. The server is that of the environment variable STET_TEST_POSTGRES, or is started from installed binaries
// and loses its data in a power cut. Other tests use it at the same time: a test that changes or stops a server takes
// NewPostgres.
func SharedPostgres(t testing.TB) (dsn, schema string) {
	t.Helper()
	dsn, err := sharedServers[0].get()
	need(t, err)
	return dsn, fmt.Sprintf("stet_test_%d_%d", os.Getpid(), names.Add(1))
}

// SharedRedis returns the URL of a server that all test processes share, and a prefix that no other test has. The
// server is that of the environment variable STET_TEST_REDIS, or is started and loses its data in a power cut.
func SharedRedis(t testing.TB) (url, prefix string) {
	t.Helper()
	url, err := sharedServers[1].get()
	need(t, err)
	return url, uniquePrefix()
}

// SharedRedisCluster is SharedRedis for a cluster of three masters without replicas. Its environment variable is
// STET_TEST_REDIS_CLUSTER.
func SharedRedisCluster(t testing.TB) (url, prefix string) {
	t.Helper()
	url, err := sharedServers[2].get()
	need(t, err)
	return url, uniquePrefix()
}

func uniquePrefix() string {
	return fmt.Sprintf("t%d-%d-%d", os.Getpid(), time.Now().UnixNano(), names.Add(1))
}

// Share starts the shared servers, or finds them, and keeps them until this process ends: for the parent of many test
// processes. It returns a line for each server that is not installed.
func Share() (missing []string, err error) {
	errs := make([]error, len(sharedServers))
	var all sync.WaitGroup
	for i, s := range sharedServers {
		all.Go(func() { _, errs[i] = s.get() })
	}
	all.Wait()
	for i, s := range sharedServers {
		if errors.Is(errs[i], ErrMissing) {
			missing, errs[i] = append(missing, fmt.Sprintf("%s: %v", s.kind, errs[i])), nil
		}
	}
	return missing, errors.Join(errs...)
}
