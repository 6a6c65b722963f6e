package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet/store"
)

// Acts that a node cannot do without have connections of their own, so that no reader, and
// no command that waits for an application's transaction, keeps them waiting: one is for
// commits, one for leases and heartbeats, one for claims.

// fewConns is the number of connections up to which leases and claims share those of
// readers.
const fewConns = 4

type laneKey struct{}

// on returns a context whose acts take their connections from a pool; nil: from that of
// readers.
func on(ctx context.Context, pool *pgxpool.Pool) context.Context {
	if pool == nil {
		return ctx
	}
	return context.WithValue(ctx, laneKey{}, pool)
}

// connection returns a connection for an act.
func connection(ctx context.Context, s *Store) (*pgxpool.Conn, error) {
	pool, ok := ctx.Value(laneKey{}).(*pgxpool.Pool)
	if !ok {
		pool = s.pool
	}
	return s.acquireOf(ctx, pool)
}

// acquireOf returns a connection of a pool, or of another one if the server refuses one more.
func (s *Store) acquireOf(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	if s.scarce.now() && pool.Stat().TotalConns() == 0 { // it would be refused again
		if c := s.idle(ctx, pool); c != nil {
			return c, nil
		}
	}
	conn, err := pool.Acquire(ctx)
	if refused(err) {
		return s.another(ctx, pool, err)
	}
	return conn, err
}

// BeforeConnect is called before each connection is made, also those that listen: it may
// change the address and the credentials, such as a password that is valid for minutes. It
// may be called concurrently, and its error fails the act that needs the connection.
func BeforeConnect(fn func(context.Context, *pgx.ConnConfig) error) Option {
	return func(c *config) { c.before = fn }
}

// connect makes a connection outside of the pools.
func (c *config) connect(ctx context.Context, cc *pgx.ConnConfig) (*pgx.Conn, error) {
	cc = cc.Copy()
	if c.before != nil {
		if err := c.before(ctx, cc); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, cc)
}

const (
	// waitLimit is how long a command waits for a lock with a connection. Another
	// transaction may hold the lock for minutes.
	waitLimit = 100 * time.Millisecond
	// waitPause is how long it then waits without one.
	waitPause = 50 * time.Millisecond
)

// patiently calls act until it need not wait for a lock any more, or lockLimit has passed.
// Of all acts of a process that wait so, one at a time has a connection.
func patiently(ctx context.Context, s *Store, act func() error) error {
	begun := time.Now()
	err := act()
	for sqlState(err) == "55P03" && time.Since(begun) < lockLimit {
		select {
		case <-time.After(waitPause):
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case s.waiting <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		err = act()
		<-s.waiting
	}
	return err
}

// slower is by what part of itself the floor of the store's time is slower than the clock
// of this process: the two clocks differ by less, so the floor does not overtake the
// server's clock unless that is set back.
const slower = 1000

// floorOf returns the time that an act is not before: what was read last, and the time that
// has passed since. If the server's clock is set back, time goes on.
func floorOf(last store.Time, at time.Time) store.Time {
	if at.IsZero() {
		return last
	}
	passed := time.Since(at)
	return last.Add(passed - passed/slower)
}
