package engine

import (
	"errors"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// A transaction that an application has begun on the store's database, and has not
// ended, may decide what becomes of a turn or a command: it has started a run of
// the same ID, or sent an item of the same ID. Nothing else waits for it.

// busyPause is how long a turn waits at first that was left out, and busyMost at
// last.
const (
	busyPause = 50 * time.Millisecond
	busyMost  = time.Second
)

// later hands a turn over again, to be tried alone.
func (c *committer) later(p pendingTurn) {
	pause := min(busyPause<<min(p.busy, 10), busyMost)
	p.busy++
	c.t.drivers.Add(1)
	go func() {
		defer c.t.drivers.Done()
		select {
		case <-time.After(pause):
			c.mu.Lock()
			c.turns = append(c.turns, p)
			c.mu.Unlock()
			hint(c.wake)
		case <-c.t.held.Done(): // the turn is forgotten with its activation
		}
	}()
}

// elsewhere applies a command outside of the batches, where it may wait.
func (c *committer) elsewhere(in *ownership.Shards, p pendingCommand) {
	c.t.drivers.Add(1)
	go func() {
		defer c.t.drivers.Done()
		for {
			answers, now, err := c.t.e.base.Apply(c.t.held, []store.Command{p.command})
			switch {
			case err == nil:
				p.done(in, answers[0], now, nil)
				return
			case c.t.held.Err() != nil:
				p.done(nil, store.Answer{}, 0, errNotOwner)
				return
			case !errors.Is(err, store.ErrUnavailable):
				p.done(nil, store.Answer{}, 0, err)
				return
			}
			c.t.log().Warn("a command waits for a transaction; trying again", "error", err)
			select {
			case <-time.After(busyPause):
			case <-c.t.held.Done():
			}
		}
	}()
}
