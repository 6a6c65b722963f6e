package postgres_test

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store/postgres"
)

// TestSilentConnectionsEnd: the operating system gives each connection up that has been silent for
// seconds, by what it was told when the connection was made.
func TestSilentConnectionsEnd(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var conns []*net.TCPConn
	server := newDatabase(t)
	s := open(t, server.TCP(server.Addr()), postgres.BeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		dial := c.DialFunc
		c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if tcp, ok := conn.(*net.TCPConn); ok {
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, tcp)
			}
			return conn, err
		}
		return nil
	}))
	takeAll(t, s, "n").started(t, "run")
	listen(t, s)
	mu.Lock()
	defer mu.Unlock()
	looked := 0
	for _, c := range conns {
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err = raw.Control(func(fd uintptr) {
			looked++
			for option, want := range map[int]int{
				0x12:                  10_000, // TCP_USER_TIMEOUT, in ms
				syscall.TCP_KEEPIDLE:  5,
				syscall.TCP_KEEPINTVL: 2,
				syscall.TCP_KEEPCNT:   3,
			} {
				if got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option); err != nil || got != want {
					t.Errorf("option %#x of a connection is %d, expected %d: %v", option, got, want, err)
				}
			}
		})
		if err != nil {
			t.Log("it was closed before it was looked at:", err)
		}
	}
	if looked < 4 {
		t.Errorf("%d connections were looked at; expected those of commits, leases, readers and hints", looked)
	}
}
