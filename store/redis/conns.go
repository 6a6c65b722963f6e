package redis

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
)

// conns are the connections of a store to its servers.
type conns struct {
	heard atomic.Int64 // on how many the server has said something so far
	bound atomic.Int64 // of silence, as a time.Duration; 0: the client's own, silence
}

// leased notes how long a lease is. A connection that falls silent must be noticed while the lease is
// trusted, so that it is renewed over another one: the first renewal that has no answer shows it.
func (c *conns) leased(ttl store.Delay) {
	bound := int64(min(max(time.Duration(ttl)*time.Microsecond/3, leastSilence), silence))
	for {
		former := c.bound.Load()
		if former != 0 && former <= bound || c.bound.CompareAndSwap(former, bound) {
			return
		}
	}
}

// leastSilence is for short leases: a busy server may be silent for some time.
const leastSilence = time.Second

// watch makes a client of a store count and watch its connections.
func (c *conns) watch(o *rueidis.ClientOption) {
	dial := o.DialCtxFn
	if dial == nil {
		dial = dialDefault
	}
	o.DialCtxFn = func(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, address, d, t)
		if err != nil {
			return nil, err
		}
		return &watched{Conn: conn, of: c}, nil
	}
}

// dialDefault is what the client does by itself.
func dialDefault(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	if t != nil {
		return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", address)
	}
	return d.DialContext(ctx, "tcp", address)
}

// watched is a connection that is closed when it has been silent for long after something was sent.
type watched struct {
	net.Conn
	of *conns

	mu     sync.Mutex
	heard  bool        // the server has said something
	since  time.Time   // when something was sent after the last answer; zero: nothing was
	timer  *time.Timer // looks at since; nil: nothing was sent yet
	closed bool
}

func (w *watched) Write(p []byte) (int, error) {
	if bound := time.Duration(w.of.bound.Load()); bound > 0 {
		w.mu.Lock()
		if w.since.IsZero() && !w.closed {
			w.since = time.Now()
			if w.timer == nil {
				w.timer = time.AfterFunc(bound, w.look)
			} else {
				w.timer.Reset(bound)
			}
		}
		w.mu.Unlock()
	}
	return w.Conn.Write(p)
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.mu.Lock()
		if w.since = (time.Time{}); !w.heard {
			w.heard = true
			w.of.heard.Add(1) // before an answer is read that acknowledges something
		}
		w.mu.Unlock()
	}
	return n, err
}

func (w *watched) Close() error {
	w.mu.Lock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	return w.Conn.Close()
}

// look closes the connection if it has been silent for long.
func (w *watched) look() {
	bound := time.Duration(w.of.bound.Load())
	w.mu.Lock()
	silent := !w.since.IsZero()
	if rest := bound - time.Since(w.since); silent && rest > 0 && !w.closed {
		w.timer.Reset(rest)
		silent = false
	}
	w.mu.Unlock()
	if silent {
		_ = w.Conn.Close() // its reader meets the error
	}
}
