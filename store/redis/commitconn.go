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

// line is a connection to a single server for commits alone. Who commits writes to it and
// reads the answer himself. What goes over the shared connection passes through a
// goroutine that writes and one that reads, whose waking takes time while all runs wait.
//
// Nobody listens while it is not in use, so it may be dead without anybody knowing: what
// fails on it is repeated over the shared connection, which batches with a number may be
// (law 9). When the context of a commit is cancelled the line is closed, which takes up to
// a second. It is also closed when nothing was committed for a while, because the client
// asks each connection every second whether it is alive.
type line struct {
	use sync.Mutex // held by who uses c

	mu      sync.Mutex
	c       rueidis.DedicatedClient // nil: there is none
	idle    *time.Timer             // calls rest; nil: there was no line yet
	dialing bool
	closed  bool
	done    sync.WaitGroup // of dialing
}

// lineRest is after how long without a commit the line is closed.
const lineRest = 10 * time.Second

// lineTimeout bounds the making of a line.
const lineTimeout = 5 * time.Second

// longestAnswer is the deadline of a commit that has none. It is longer than the client's
// own, which then counts.
const longestAnswer = 30 * time.Second

// commit executes a script on the line. It reports false if that cannot be done, or has
// failed so that it is to be repeated otherwise. An error says that there was no answer in
// time.
func (l *line) commit(ctx context.Context, s *Store, sc *script, c call) (reply, bool, error) {
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
	m, err := conn.Do(limited, conn.B().Evalsha().Sha1(sc.text().sha).Numkeys(1).Key(s.tag(c.part)+"n").Arg(args...).Build()).ToMessage()
	ended := !stop()
	_, told := rueidis.IsRedisErr(err)
	if err != nil && !told || ended {
		l.drop(conn)
	}
	switch {
	case err == nil:
		return m, true, nil
	case told:
		return reply{}, false, nil
	case ctx.Err() != nil:
		return reply{}, false, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return reply{}, false, err
	}
	return reply{}, false, nil
}

// get returns the connection, or nil and has one made.
func (l *line) get(client rueidis.Client) rueidis.DedicatedClient {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c == nil && !l.dialing && !l.closed {
		l.dialing = true
		l.done.Go(func() { l.dial(client) })
	}
	if l.c != nil {
		l.idle.Reset(lineRest)
	}
	return l.c
}

// rest closes the line. If a commit is on its way it is tried again later.
func (l *line) rest() {
	if !l.use.TryLock() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closed {
			l.idle.Reset(lineRest)
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

func (l *line) dial(client rueidis.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), lineTimeout)
	defer cancel()
	c, _ := client.Dedicate()
	err := c.Do(ctx, c.B().Ping().Build()).Error()
	l.mu.Lock()
	l.dialing = false
	if err == nil && !l.closed {
		l.c, c = c, nil
		if l.idle == nil {
			l.idle = time.AfterFunc(lineRest, l.rest)
		}
		l.idle.Reset(lineRest)
	}
	l.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// drop closes a connection that has failed.
func (l *line) drop(c rueidis.DedicatedClient) {
	l.mu.Lock()
	if l.c == c {
		l.c = nil
	}
	l.mu.Unlock()
	c.Close()
}

// close ends what is on the line, and there is none any more.
func (l *line) close() {
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

// wait waits for the line's goroutine.
func (l *line) wait() { l.done.Wait() }
