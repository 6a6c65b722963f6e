package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A server takes a bounded number of connections, and others may have them when those of a process were lost, as after
// an outage. The process then works with those that it gets:
//
//   - An act takes an idle connection of another pool if its own pool can open none.
//   - If none is idle, the sessions that listen and that witness end for a while. Without the one, changes are found
//     by polling, and without the other a takeover waits for the end of the leases.

// scarcity says whether connections are scarce. The zero value says that they are not.
type scarcity struct {
	mu    sync.Mutex
	until time.Time
	begun chan struct{} // closed when they are; nil: nobody waits for that
}

// scarceFor is how long they count as scarce after a connection was refused.
const scarceFor = time.Minute

// begin notes that a connection was refused. It reports whether they were not scarce before.
func (c *scarcity) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := time.Now().After(c.until)
	c.until = time.Now().Add(scarceFor)
	if c.begun != nil {
		close(c.begun)
		c.begun = nil
	}
	return first
}

// over waits until they are not scarce, or until ctx ends.
func (c *scarcity) over(ctx context.Context) {
	for ctx.Err() == nil {
		c.mu.Lock()
		rest := time.Until(c.until)
		c.mu.Unlock()
		if rest <= 0 {
			return
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
	}
}

// unless returns a context that ends when they are scarce.
func (c *scarcity) unless(ctx context.Context) (context.Context, context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun == nil {
		c.begun = make(chan struct{})
	}
	limited, cancel := context.WithCancel(ctx)
	go func(begun <-chan struct{}) {
		select {
		case <-begun:
			cancel()
		case <-limited.Done():
		}
	}(c.begun)
	return limited, cancel
}

// refused reports whether a server has refused a connection because it has too many.
func refused(err error) bool { return sqlState(err) == "53300" }

// now reports whether they are scarce.
func (c *scarcity) now() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.until)
}

// another returns a connection for an act whose own pool was refused one, with err. It waits for a while until one
// is idle.
func (s *Store) another(ctx context.Context, own *pgxpool.Pool, err error) (*pgxpool.Conn, error) {
	if s.scarce.begin() {
		s.log.Warn("the server takes no more connections: the process works with fewer, and hears of changes by polling; "+
			"raise max_connections or the limit of the role, or lower Conns", "error", err)
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for end := time.Now().Add(lookFor); time.Now().Before(end); {
		if c := s.idle(ctx, own); c != nil {
			return c, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return own.Acquire(ctx) // one of those that listen and witness may have ended
}

// lookFor is how long an act waits for an idle connection, and lookEvery how often it looks.
const lookFor, lookEvery = 500 * time.Millisecond, 5 * time.Millisecond

// idle returns an idle connection of a pool other than own; nil: there is none.
func (s *Store) idle(ctx context.Context, own *pgxpool.Pool) (found *pgxpool.Conn) {
	for _, pool := range []*pgxpool.Pool{s.pool, s.leasing, s.looking, s.commits} {
		if pool == nil || pool == own || found != nil {
			continue
		}
		for _, c := range pool.AcquireAllIdle(ctx) {
			if found == nil && c.Ping(ctx) == nil {
				found = c
			} else {
				c.Release()
			}
		}
	}
	return found
}
