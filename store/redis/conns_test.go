package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
)

// TestASilentConnectionIsClosedWithinTheLease: while it is trusted, so that a renewal goes over another one. A
// connection that answers stays, and so does one on which nothing was sent.
func TestASilentConnectionIsClosedWithinTheLease(t *testing.T) {
	for _, c := range []struct {
		ttl    time.Duration // 0: nothing is leased
		answer time.Duration // 0: there is none
		closed time.Duration // 0: it stays
	}{
		{10 * time.Second, 0, 10 * time.Second / 3},
		{10 * time.Second, 3 * time.Second, 0},
		{time.Second, 0, time.Second},
		{time.Second, 500 * time.Millisecond, 0},
		{5 * time.Minute, 0, 10 * time.Second},
		{0, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			var conns conns
			var o rueidis.ClientOption
			o.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return client, nil }
			conns.watch(&o)
			conn, err := o.DialCtxFn(t.Context(), "", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.ttl > 0 {
				conns.leased(store.Delay(time.Hour.Microseconds()))
				conns.leased(store.Delay(c.ttl.Microseconds()))
			}
			go func() {
				for b := make([]byte, 1); ; {
					if _, err := io.ReadFull(server, b); err != nil {
						return
					}
					if c.answer > 0 {
						time.Sleep(c.answer)
						_, _ = server.Write(b)
					}
				}
			}()
			ended := make(chan struct{})
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				close(ended)
			}()
			time.Sleep(time.Minute) // nothing was sent
			began := time.Now()
			for range 5 {
				if _, err := conn.Write([]byte{1}); err != nil {
					t.Fatal(err)
				}
				if c.answer == 0 {
					break
				}
				time.Sleep(2 * c.answer)
			}
			select {
			case <-ended:
				if took := time.Since(began); c.closed == 0 || took != c.closed {
					t.Errorf("with leases of %s and answers after %s it was closed after %s; want %s", c.ttl, c.answer, took, c.closed)
				}
			case <-time.After(time.Minute):
				if c.closed > 0 {
					t.Errorf("with leases of %s and answers after %s it was not closed", c.ttl, c.answer)
				}
			}
			if err := errors.Join(conn.Close(), server.Close()); err != nil && !errors.Is(err, net.ErrClosed) &&
				!errors.Is(err, io.ErrClosedPipe) {
				t.Error(err)
			}
			want := int64(min(c.answer, 1)) // of a silent one nothing is confirmed
			if got := conns.heard.Load(); got != want {
				t.Errorf("%d connections were counted, want %d", got, want)
			}
		})
	}
}
