package postgres_test

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store/postgres"
)

// counter stands between clients and a Postgres server, and counts the statements
// that the server is asked to execute.
type counter struct {
	addr       string
	statements atomic.Int64
}

func newCounter(t testing.TB, target string) *counter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := &counter{addr: l.Addr().String()}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close() // nobody is there for it
				continue
			}
			go func() {
				_, _ = io.Copy(client, server) // until one of them is closed
				_ = client.Close()
			}()
			go func() {
				_ = c.copy(server, client) // until one of them is closed
				_ = server.Close()
			}()
		}
	}()
	return c
}

// copy copies what a client says: first a message without a type, then messages of a
// type (E: execute, Q: a text of statements), each with its length.
func (c *counter) copy(server io.Writer, client io.Reader) error {
	for head := 4; ; head = 5 {
		buffer := make([]byte, head)
		if _, err := io.ReadFull(client, buffer); err != nil {
			return err
		}
		if head == 5 && (buffer[0] == 'E' || buffer[0] == 'Q') {
			c.statements.Add(1)
		}
		rest := make([]byte, binary.BigEndian.Uint32(buffer[head-4:])-4)
		if _, err := io.ReadFull(client, rest); err != nil {
			return err
		}
		if _, err := server.Write(append(buffer, rest...)); err != nil {
			return err
		}
	}
}

// TestIdleCost: a process of default settings with nothing to do, and runs that sleep,
// asks the server at most four times in a second.
func TestIdleCost(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.Fast...)
	count := newCounter(t, server.Addr())
	s := open(t, server.TCP(count.addr), postgres.AllowLoss())
	nap := stet.Define("nap", func(ctx stet.Context, _ int) (int, error) { return 1, stet.Sleep(ctx, "s", time.Hour) })
	quick := stet.Define("quick", func(ctx stet.Context, n int) (int, error) { return n, nil })
	e := serveWith(t, stet.Config{Store: s, Workflows: []stet.Definition{nap, quick}, ParkFor: 10 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler)})
	for i := range 20 {
		if _, err := nap.Start(t.Context(), e, i); err != nil {
			t.Fatal(err)
		}
	}
	run, err := quick.Start(t.Context(), e, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	const window = 6 * time.Second
	for tries := 5; ; tries-- { // on a busy machine it takes a while until what has begun has ended
		<-time.After(time.Second)
		before := count.statements.Load()
		<-time.After(window)
		asked := count.statements.Load() - before
		t.Logf("%d statements in %s", asked, window)
		if float64(asked) <= 4*window.Seconds() {
			break
		}
		if tries == 1 {
			t.Fatalf("asked %d times in %s", asked, window)
		}
	}
}
