package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// forgetAfter is how long a node that ended uncleanly and holds no lease is
// still listed.
const forgetAfter = 24 * time.Hour

// nodeAbout are the parts of a node that are kept as JSON.
type nodeAbout struct {
	Groups []string
	Needs  []store.Requirement
	TTL    store.Delay
	Bodies []store.Body `json:",omitempty"`
	Tasks  []string     `json:",omitempty"`
	Lost   []store.Loss `json:",omitempty"`
	Zones  string       `json:",omitempty"`
	Lacks  []string     `json:",omitempty"`
	Lines  bool         `json:",omitempty"`
}

// Register implements store.Store.
func (s *Store) Register(ctx context.Context, n store.Node) (now store.Time, err error) {
	if err := n.Validate(); err != nil {
		return 0, err
	}
	workflows, err := json.Marshal(n.Workflows)
	if err != nil {
		return 0, err
	}
	about, err := json.Marshal(nodeAbout{
		n.Groups, n.Requirements, n.TTL, n.Bodies, n.Tasks, n.Lost, n.Zones, n.Lacks, n.Lines,
	})
	if err != nil {
		return 0, err
	}
	do := s.write.doUnsynced
	if n.Draining || n.Stopped {
		do = s.write.do
	}
	err = do(ctx, "register node "+n.ID, func(c *conn, at store.Time) error {
		now = at
		s.write.cache.forget()
		if n.Draining && !n.Stopped {
			_, err := c.exec("UPDATE stet_nodes SET draining=1 WHERE node=? AND boot=? AND listed=1", n.ID, n.Boot)
			return err
		}
		if n.Stopped {
			delete(s.write.cache.applied, boot{n.ID, n.Boot})
			_, err := c.exec("DELETE FROM stet_nodes WHERE node=? AND boot=?", n.ID, n.Boot)
			return err
		}
		var last int64
		found, err := c.row("SELECT batch_no FROM stet_nodes WHERE node=? AND boot=?", []any{n.ID, n.Boot}, &last)
		if err != nil {
			return err
		}
		if found {
			last = max(last, s.write.cache.applied[boot{n.ID, n.Boot}])
		}
		if err := storekit.Behind(last, n.LastBatch); err != nil {
			return err
		}
		if _, err := c.exec("UPDATE stet_nodes SET listed=0 WHERE node=? AND boot<>?", n.ID, n.Boot); err != nil {
			return err
		}
		if _, err := c.exec(`INSERT INTO stet_nodes (node, boot, listed, build, host, pid, workflows, seen_at, about)
			VALUES (?1,?2,1,?3,?4,?5,?6,?7,?8)
			ON CONFLICT DO UPDATE SET listed=1, draining=draining*listed, build=?3, host=?4, pid=?5, workflows=?6,
			seen_at=?7, about=?8`,
			n.ID, n.Boot, n.Build, n.Host, n.PID, string(workflows), at, string(about)); err != nil {
			return err
		}
		if _, err := c.exec(`INSERT INTO stet_workflows (name) SELECT value FROM json_each(?)
			WHERE type='text' ON CONFLICT DO NOTHING`, string(workflows)); err != nil {
			return err
		}
		_, err = c.exec(`DELETE FROM stet_nodes
			WHERE seen_at<? AND (node, boot) NOT IN (SELECT node, boot FROM stet_leases)`, at.Add(-forgetAfter))
		return err
	})
	return now, err
}

// leaseRow is a lease as it is stored; an absent or free one has an empty node.
type leaseRow struct {
	store.Lease
	locked bool // its holder had the lock of the operating system
}

func (c *conn) lease(shard store.Shard) (leaseRow, error) {
	l := leaseRow{Lease: store.Lease{Shard: shard}}
	var until, locked int64
	_, err := c.row("SELECT epoch, node, boot, until_at, locked FROM stet_leases WHERE grp=? AND slot=?",
		[]any{shard.Group, shard.Slot},
		&l.Epoch, &l.Node, &l.Boot, &until, &locked)
	l.Until, l.locked = store.Time(until), locked != 0
	return l, err
}

// current reports whether a lease is held and of the given epoch.
func (c *conn) current(l *store.Lease) (bool, error) {
	row, err := c.lease(l.Shard)
	return row.Node != "" && row.Epoch == l.Epoch, err
}

// enterOwner begins an act on leases.
func (s *Store) enterOwner() (locked bool) {
	locked, err := s.owner.enter()
	if err != nil {
		s.cfg.log.Warn("the owner's lock cannot be used; a dead owner is noticed when its lease ends",
			"file", s.owner.path, "error", err)
	}
	return locked
}

// Acquire implements store.Store.
func (s *Store) Acquire(
	ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay,
) ([]store.Acquired, store.Time, error) {
	if err := storekit.ValidateShards(shards, ttl); err != nil {
		return nil, 0, err
	}
	if err := n.Validate(); err != nil {
		return nil, 0, err
	}
	locked := s.enterOwner()
	defer s.owner.leave()
	acquired := make([]store.Acquired, len(shards))
	var now store.Time
	err := s.write.do(ctx, "acquire leases", func(c *conn, at store.Time) error {
		now = at
		s.write.cache.forget()
		for i, shard := range shards {
			row, err := c.lease(shard)
			if err != nil {
				return err
			}
			// A holder that had the lock when it wrote the row, and does not have it now,
			// is dead or has closed its Store.
			dead := locked && row.locked && !s.owner.owns(shard, row.Epoch)
			if acquired[i], err = c.acquire(&n, row, at, ttl, dead, locked); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for i := range acquired {
		if acquired[i].Held {
			s.owner.took(shards[i], acquired[i].Lease.Epoch)
		}
	}
	return acquired, now, nil
}

// acquire takes one shard. dead: the holder's process is known to be dead.
func (c *conn) acquire(
	n *store.Node, row leaseRow, now store.Time, ttl store.Delay, dead, locked bool,
) (store.Acquired, error) {
	own := row.Node == n.ID && row.Boot == n.Boot
	if row.Node != "" && !own && row.Until > now && !dead && !n.Supersedes(&row.Lease) {
		return store.Acquired{Lease: row.Lease}, nil
	}
	a := store.Acquired{Held: true, Clean: row.Node == "" || own}
	var err error
	if a.Suspects, err = c.giveBack(row.Shard, a.Clean); err != nil {
		return a, err
	}
	a.Lease = store.Lease{Shard: row.Shard, Epoch: row.Epoch + 1, Node: n.ID, Boot: n.Boot, Until: now + store.Time(ttl)}
	_, err = c.exec(`INSERT OR REPLACE INTO stet_leases (grp, slot, epoch, node, boot, until_at, locked)
		VALUES (?,?,?,?,?,?,?)`,
		row.Shard.Group, row.Shard.Slot, a.Lease.Epoch, n.ID, n.Boot, a.Lease.Until, locked)
	return a, err
}

// giveBack makes the shard's claimed runs ready, and suspect unless clean. It
// returns how many became suspect.
func (c *conn) giveBack(shard store.Shard, clean bool) (int, error) {
	// A run that was claimed at rest goes back as it was.
	_, err := c.exec(`UPDATE stet_runs
		SET ready=CASE WHEN status={suspended} OR wake_at IS NOT NULL THEN {idle} ELSE {ready} END
		WHERE ready={claimed} AND grp=? AND slot=? AND (marks & {pausedOrHeld} OR status IN ({queued},{suspended}))`,
		shard.Group, shard.Slot)
	if err != nil {
		return 0, err
	}
	suspicion := `, alone=0, suspect=CASE WHEN alone OR suspect<2 THEN suspect+1 ELSE max(suspect-1, 2) END,
		strikes=CASE WHEN alone THEN strikes+1 ELSE 0 END`
	if clean {
		suspicion = ", alone=0"
	}
	n, err := c.exec("UPDATE stet_runs SET ready={ready}"+suspicion+" WHERE ready={claimed} AND grp=? AND slot=?",
		shard.Group, shard.Slot)
	if clean {
		n = 0
	}
	return int(n), err
}

// Renew implements store.Store. An owner that took the lease without the lock of
// the operating system tries to get it here.
func (s *Store) Renew(
	ctx context.Context, leases []store.Lease, ttl store.Delay,
) ([]store.Acquired, store.Time, error) {
	if err := storekit.ValidateShards(nil, ttl); err != nil {
		return nil, 0, err
	}
	locked := s.enterOwner()
	defer s.owner.leave()
	renewed := make([]store.Acquired, len(leases))
	var now store.Time
	err := s.write.doUnsynced(ctx, "renew leases", func(c *conn, at store.Time) error {
		now = at
		for i := range leases {
			row, err := c.lease(leases[i].Shard)
			if err != nil {
				return err
			}
			renewed[i] = store.Acquired{}
			if row.Node == "" {
				continue
			}
			renewed[i].Lease = row.Lease
			if row.Epoch != leases[i].Epoch {
				continue
			}
			renewed[i].Lease.Until = at + store.Time(ttl)
			renewed[i].Held, renewed[i].Clean = true, true
			// A renewal of a lease that another process took does not vouch for that process.
			locked := locked && s.owner.owns(row.Shard, row.Epoch) || row.locked
			if _, err := c.exec("UPDATE stet_leases SET until_at=?, locked=? WHERE grp=? AND slot=?",
				renewed[i].Lease.Until, locked, row.Shard.Group, row.Shard.Slot); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for i := range leases {
		if !renewed[i].Held {
			s.owner.lost(leases[i].Shard, leases[i].Epoch)
		}
	}
	return renewed, now, nil
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, leases []store.Lease) error {
	s.enterOwner()
	defer s.owner.leave()
	err := s.write.do(ctx, "release leases", func(c *conn, _ store.Time) error {
		s.write.cache.forget()
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
			if _, err := c.exec("UPDATE stet_leases SET node='', boot='', until_at=0, locked=0 WHERE grp=? AND slot=?",
				l.Shard.Group, l.Shard.Slot); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range leases {
		s.owner.lost(leases[i].Shard, leases[i].Epoch)
	}
	return nil
}
