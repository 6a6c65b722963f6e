package sqlite

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// pool is a few connections that read.
type pool struct {
	s     *Store
	mu    sync.Mutex
	free  []*conn
	freed chan struct{} // capacity 1: a connection may be free
	slots chan struct{} // a token per connection in use
}

const maxReaders = 4

// openingTakes is how long it takes to open a connection, which reads and parses the
// schema. A reader waits that long for one that is in use before it opens another.
const openingTakes = 3 * time.Millisecond

func newPool(s *Store) pool {
	return pool{s: s, freed: make(chan struct{}, 1), slots: make(chan struct{}, maxReaders)}
}

// take returns a free connection, or nil if one is to be opened.
func (p *pool) take(ctx context.Context) *conn {
	var patience <-chan time.Time
	for {
		p.mu.Lock()
		if n := len(p.free); n > 0 {
			c := p.free[n-1]
			p.free = p.free[:n-1]
			p.mu.Unlock()
			return c
		}
		p.mu.Unlock()
		if len(p.slots) == 1 { // none is in use
			return nil
		}
		if patience == nil {
			patience = time.After(openingTakes)
		}
		select {
		case <-p.freed:
		case <-patience:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// do calls fn with a connection in a read transaction.
func (p *pool) do(ctx context.Context, act string, fn func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.slots }()
	if p.s.closed.Load() {
		return store.ErrClosed
	}
	c := p.take(ctx)
	if c == nil {
		var err error
		if c, err = openConn(ctx, &p.s.cfg, sqlite3.OPEN_READWRITE); err != nil {
			return classifyWithin(ctx, act, err)
		}
	}
	c.SetInterrupt(ctx)
	err := c.beginRead()
	if err == nil {
		err = bounded(func() error { return fn(c) })
	}
	c.SetInterrupt(context.Background())
	if !c.GetAutocommit() {
		if _, endErr := c.exec("COMMIT"); endErr != nil && err == nil {
			err = endErr
		}
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if broken := err != nil || !c.GetAutocommit(); broken || !p.keep(c) {
		_ = c.close() // another is opened later; err matters more
	}
	return classify(act, err)
}

// sorting calls fn in a read transaction of a connection of its own, which sorts in temporary files and not in its
// memory. A connection that has been used may be unable to change over.
func (p *pool) sorting(ctx context.Context, act string, fn func(*conn) error) error {
	if p.s.closed.Load() {
		return store.ErrClosed
	}
	c, err := openConn(ctx, &p.s.cfg, sqlite3.OPEN_READWRITE)
	if err != nil {
		return classifyWithin(ctx, act, err)
	}
	c.SetInterrupt(ctx)
	if err = c.sortOnDisk(true); err == nil {
		err = c.beginRead()
	}
	if err == nil {
		err = bounded(func() error { return fn(c) })
	}
	c.SetInterrupt(context.Background())
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return classify(act, errors.Join(err, c.close()))
}

// maxRead is how long a read transaction may live before breathe ends it: as long as a
// snapshot is kept, the WAL cannot start over.
const maxRead = 250 * time.Millisecond

func (c *conn) beginRead() error {
	c.begun = time.Now()
	_, err := c.exec("BEGIN")
	return err
}

// breathe begins a new read transaction if the present one has lived for long. Rows that
// are read later may then be newer than those read before.
func (c *conn) breathe() error {
	if time.Since(c.begun) < maxRead {
		return nil
	}
	if _, err := c.exec("COMMIT"); err != nil {
		return err
	}
	return c.beginRead()
}

func (p *pool) keep(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.s.closed.Load() {
		return false
	}
	p.free = append(p.free, c)
	select {
	case p.freed <- struct{}{}:
	default: // a reader that waits looks again in any case
	}
	return true
}

func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, c := range p.free {
		errs = append(errs, c.close())
	}
	p.free = nil
	return errors.Join(errs...)
}
