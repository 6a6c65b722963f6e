package redis

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// commitConn is a connection to a single server for commits alone. The caller of a commit
// writes to it and reads the answer itself. On the shared connection one goroutine writes
// and another reads, and to wake them takes time while all runs wait.
//
// Nothing reads from it between commits, so its death goes unnoticed. A commit that fails
// on it is repeated over the shared connection, which law 9 allows for a batch with a
// number. When the context of a commit is cancelled the connection is closed, which takes
// up to a second. It is also closed when nothing was committed for a while, because the
// client asks each connection every second whether it is alive.
type commitConn struct {
	use sync.Mutex // held by the commit that uses c

	mu      sync.Mutex
	c       rueidis.DedicatedClient // nil: there is none
	idle    *time.Timer             // calls rest; nil: there was no connection yet
	dialing bool
	closed  bool
	done    sync.WaitGroup // of dialing
}

// commitConnRest is how long the connection stays open without a commit.
const commitConnRest = 10 * time.Second

// commitConnTimeout bounds the opening of the connection.
const commitConnTimeout = 5 * time.Second

// longestAnswer is the deadline of a commit that has none. It is longer than the client's
// own, which then counts.
const longestAnswer = 30 * time.Second

// commit executes a script on the connection. It reports false if the script has to be
// executed on the shared one, because this one is not to be had or has failed. An error
// says that no answer came in time.
func (l *commitConn) commit(ctx context.Context, s *Store, sc *script, c call) (reply, bool, error) {
	if !l.use.TryLock() {
		return reply{}, false, nil
	}
	defer l.use.Unlock()
	conn := l.get(s.client)
	if conn == nil {
		return reply{}, false, nil
	}
	limited := ctx
	if _, ok := ctx.Deadline(); !ok { // without one the client would use its goroutines
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, longestAnswer)
		defer cancel()
	}
	stop := context.AfterFunc(ctx, conn.Close)
	args := append(slices.Clip(s.head()), c.args...)
	m, err := conn.Do(limited,
		conn.B().Evalsha().Sha1(sc.text().sha).Numkeys(1).Key(s.tag(c.part)+"n").Arg(args...).Build()).ToMessage()
	ended := !stop()
	_, answered := rueidis.IsRedisErr(err)
	if err != nil && !answered || ended {
		l.drop(conn)
	}
	switch {
	case err == nil:
		return m, true, nil
	case answered:
		return reply{}, false, nil
	case ctx.Err() != nil:
		return reply{}, false, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return reply{}, false, err
	}
	return reply{}, false, nil
}

// get returns the connection. If there is none it returns nil and opens one in the
// background.
func (l *commitConn) get(client rueidis.Client) rueidis.DedicatedClient {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c == nil && !l.dialing && !l.closed {
		l.dialing = true
		l.done.Go(func() { l.dial(client) })
	}
	if l.c != nil {
		l.idle.Reset(commitConnRest)
	}
	return l.c
}

// rest closes the connection, or tries again later if a commit uses it.
func (l *commitConn) rest() {
	if !l.use.TryLock() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closed {
			l.idle.Reset(commitConnRest)
		}
		return
	}
	defer l.use.Unlock()
	l.mu.Lock()
	c := l.c
	l.c = nil
	l.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

func (l *commitConn) dial(client rueidis.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), commitConnTimeout)
	defer cancel()
	c, _ := client.Dedicate()
	err := c.Do(ctx, c.B().Ping().Build()).Error()
	l.mu.Lock()
	l.dialing = false
	if err == nil && !l.closed {
		l.c, c = c, nil
		if l.idle == nil {
			l.idle = time.AfterFunc(commitConnRest, l.rest)
		}
		l.idle.Reset(commitConnRest)
	}
	l.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// drop closes a connection that has failed.
func (l *commitConn) drop(c rueidis.DedicatedClient) {
	l.mu.Lock()
	if l.c == c {
		l.c = nil
	}
	l.mu.Unlock()
	c.Close()
}

// close ends the commit that uses the connection, and lets no other be opened.
func (l *commitConn) close() {
	l.mu.Lock()
	c := l.c
	l.c, l.closed = nil, true
	if l.idle != nil {
		l.idle.Stop()
	}
	l.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// wait waits for the goroutine that opens the connection.
func (l *commitConn) wait() { l.done.Wait() }
