package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stet-run/stet/store"
)

// forgetAfter is how long a node that ended uncleanly and holds no lease is
// still listed.
const forgetAfter = 24 * time.Hour

// Register implements store.Store.
func (s *Store) Register(ctx context.Context, n store.Node) (now store.Time, err error) {
	if err := n.Validate(); err != nil {
		return 0, err
	}
	workflows, err := json.Marshal(n.Workflows)
	if err != nil {
		return 0, err
	}
	err = s.write.do(ctx, "register node "+n.ID, func(c *conn, at store.Time) error {
		now = at
		if n.Stopped {
			_, err := c.exec("DELETE FROM nodes WHERE node=? AND boot=?", n.ID, n.Boot)
			return err
		}
		if err := c.ensureNode(n.ID, n.Boot, at); err != nil {
			return err
		}
		if _, err := c.exec("UPDATE nodes SET build=?, host=?, pid=?, workflows=?, seen_at=? WHERE node=?",
			n.Build, n.Host, n.PID, string(workflows), at, n.ID); err != nil {
			return err
		}
		if _, err := c.exec("INSERT INTO workflows (name) SELECT value FROM json_each(?) WHERE true ON CONFLICT DO NOTHING", string(workflows)); err != nil {
			return err
		}
		_, err := c.exec("DELETE FROM nodes WHERE seen_at<? AND node NOT IN (SELECT node FROM leases)", at.Add(-forgetAfter))
		return err
	})
	return now, err
}

// ensureNode makes the node's row, anew if it is of another boot.
func (c *conn) ensureNode(id, boot string, now store.Time) error {
	_, err := c.exec(`INSERT INTO nodes (node, boot, seen_at) VALUES (?1,?2,?3)
		ON CONFLICT DO UPDATE SET boot=?2, build='', host='', pid=0, workflows='[]', seen_at=?3, batch_no=0, verdicts=NULL WHERE boot<>?2`, id, boot, now)
	return err
}

// leaseRow reads a lease; an absent or free one has an empty node.
func (c *conn) leaseRow(shard store.Shard) (store.Lease, error) {
	l := store.Lease{Shard: shard}
	var until int64
	_, err := c.row("SELECT epoch, node, boot, until_at FROM leases WHERE grp=? AND slot=?", []any{shard.Group, shard.Slot},
		&l.Epoch, &l.Node, &l.Boot, &until)
	l.Until = store.Time(until)
	return l, err
}

// current reports whether a lease is held and of the given epoch.
func (c *conn) current(l *store.Lease) (bool, error) {
	row, err := c.leaseRow(l.Shard)
	return row.Node != "" && row.Epoch == l.Epoch, err
}

// Acquire implements store.Store.
func (s *Store) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired, store.Time, error) {
	if err := store.ValidateShards(shards, ttl); err != nil {
		return nil, 0, err
	}
	if err := n.Validate(); err != nil {
		return nil, 0, err
	}
	dead, err := s.owner.acquire()
	if err != nil {
		s.cfg.log.Warn("the owner's lock cannot be used; a dead owner is noticed when its lease ends", "error", err)
	}
	acquired := make([]store.Acquired, len(shards))
	var now store.Time
	err = s.write.do(ctx, "acquire leases", func(c *conn, at store.Time) error {
		now = at
		for i, shard := range shards {
			var err error
			if acquired[i], err = c.acquire(&n, shard, at, ttl, dead); err != nil {
				return err
			}
		}
		return nil
	})
	if dead && !anyHeld(acquired) || err != nil && dead {
		_ = s.owner.release() // closing a file that was only locked
	}
	if err != nil {
		return nil, 0, err
	}
	s.tuneCheckpoint()
	return acquired, now, nil
}

func anyHeld(acquired []store.Acquired) bool {
	for i := range acquired {
		if acquired[i].Held {
			return true
		}
	}
	return false
}

// acquire takes one shard. dead says that the holder's process is known to be.
func (c *conn) acquire(n *store.Node, shard store.Shard, now store.Time, ttl store.Delay, dead bool) (store.Acquired, error) {
	row, err := c.leaseRow(shard)
	if err != nil {
		return store.Acquired{}, err
	}
	own := row.Node == n.ID && row.Boot == n.Boot
	if row.Node != "" && !own && row.Until > now && !dead {
		return store.Acquired{Lease: row}, nil
	}
	a := store.Acquired{Held: true, Clean: row.Node == "" || own}
	if a.Suspects, err = c.giveBack(shard, a.Clean); err != nil {
		return a, err
	}
	a.Lease = store.Lease{Shard: shard, Epoch: row.Epoch + 1, Node: n.ID, Boot: n.Boot, Until: now + store.Time(ttl)}
	_, err = c.exec("INSERT OR REPLACE INTO leases (grp, slot, epoch, node, boot, until_at) VALUES (?,?,?,?,?,?)",
		shard.Group, shard.Slot, a.Lease.Epoch, n.ID, n.Boot, a.Lease.Until)
	return a, err
}

// giveBack makes the shard's claimed runs ready, and suspect unless clean. It
// returns how many became suspect.
func (c *conn) giveBack(shard store.Shard, clean bool) (int, error) {
	suspicion := ", suspect=suspect+1, strikes=strikes+alone"
	if clean {
		suspicion = ""
	}
	n, err := c.exec("UPDATE runs SET ready=1"+suspicion+" WHERE ready=2 AND grp=? AND slot=?", shard.Group, shard.Slot)
	if clean {
		n = 0
	}
	return int(n), err
}

// Renew implements store.Store. An owner that took the lease without the lock of
// the operating system tries to get it here.
func (s *Store) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time, error) {
	if err := store.ValidateShards(nil, ttl); err != nil {
		return nil, 0, err
	}
	renewed := make([]store.Acquired, len(leases))
	var now store.Time
	err := s.write.do(ctx, "renew leases", func(c *conn, at store.Time) error {
		now = at
		for i := range leases {
			row, err := c.leaseRow(leases[i].Shard)
			if err != nil {
				return err
			}
			if row.Node == "" {
				continue
			}
			renewed[i].Lease = row
			if row.Epoch != leases[i].Epoch {
				continue
			}
			renewed[i].Lease.Until = at + store.Time(ttl)
			renewed[i].Held, renewed[i].Clean = true, true
			if _, err := c.exec("UPDATE leases SET until_at=? WHERE grp=? AND slot=?", renewed[i].Lease.Until, row.Shard.Group, row.Shard.Slot); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if anyHeld(renewed) {
		if _, err := s.owner.acquire(); err != nil {
			s.cfg.log.Warn("the owner's lock cannot be used", "error", err)
		}
	}
	return renewed, now, nil
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, leases []store.Lease) error {
	err := s.write.do(ctx, "release leases", func(c *conn, _ store.Time) error {
		s.write.hand.forget()
		for i := range leases {
			l := &leases[i]
			if ok, err := c.current(l); err != nil || !ok {
				if err != nil {
					return err
				}
				continue
			}
			if _, err := c.giveBack(l.Shard, true); err != nil {
				return err
			}
			if _, err := c.exec("UPDATE leases SET node='', boot='', until_at=0 WHERE grp=? AND slot=?", l.Shard.Group, l.Shard.Slot); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.owner.release(); err != nil {
		return err
	}
	s.tuneCheckpoint()
	return nil
}

func (s *Store) tuneCheckpoint() {
	s.write.mu.Lock()
	defer s.write.mu.Unlock()
	if s.write.c == nil {
		return
	}
	if err := s.write.setCheckpoint(); err != nil {
		s.cfg.log.Warn("setting the checkpoint size", "error", err)
	}
}
