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
	slots chan struct{} // a token per connection in use
}

const maxReaders = 4

func newPool(s *Store) pool { return pool{s: s, slots: make(chan struct{}, maxReaders)} }

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
	p.mu.Lock()
	var c *conn
	if n := len(p.free); n > 0 {
		c, p.free = p.free[n-1], p.free[:n-1]
	}
	p.mu.Unlock()
	if c == nil {
		var err error
		if c, err = openConn(ctx, &p.s.cfg, sqlite3.OPEN_READWRITE); err != nil {
			return classifyWithin(ctx, act, err)
		}
	}
	c.SetInterrupt(ctx)
	err := c.beginRead()
	if err == nil {
		err = fn(c)
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
		_ = c.close() // opened anew; err is what counts
	}
	return classify(act, err)
}

// maxRead is how long a read transaction may live before breathe ends it: a
// snapshot that is kept keeps the WAL from beginning anew.
const maxRead = 250 * time.Millisecond

func (c *conn) beginRead() error {
	c.begun = time.Now()
	_, err := c.exec("BEGIN")
	return err
}

// breathe begins a new read transaction if the present one has lived for long.
// What is read after it may be newer than what was read before.
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
