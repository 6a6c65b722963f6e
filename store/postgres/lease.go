package postgres

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// forgetAfter is how long a node that ended uncleanly and holds no lease is still listed.
const forgetAfter = 24 * time.Hour

// Register implements store.Store.
func (s *Store) Register(ctx context.Context, n store.Node) (at store.Time, err error) {
	if err := n.Validate(); err != nil {
		return 0, err
	}
	ctx = on(ctx, s.leasing)
	if s.promises.due() {
		_ = s.single(ctx, "read the settings of the server", func(t *tx) error { return s.confirm(t.ctx, t.conn) })
	}
	info, err := json.Marshal(n)
	if err != nil {
		return 0, err
	}
	life := storekit.LifeOf(&n)
	switch former := s.registered.Load(); {
	case n.Stopped, n.Draining: // perhaps by another process
	case former == nil || *former != life:
		s.registered.Store(&life)
		s.warm(ctx, &n)
	default:
		at, done, err := s.heartbeat(ctx, &n, info)
		if done {
			witness{s, life}.keep()
		}
		if done || err != nil {
			return at, err
		}
	}
	news := false // other processes are notified
	err = s.write(ctx, "register node "+n.ID, lockLimit, func(t *tx, now store.Time) error {
		at = now
		switch {
		case n.Stopped:
			news = true
			return t.forget(n)
		case n.Draining:
			changes, err := t.exec("UPDATE stet.nodes SET draining=true WHERE node=$1 AND boot=$2 AND listed AND NOT draining",
				n.ID, n.Boot)
			news = changes > 0
			return err
		}
		var last int64
		if _, err := t.row("SELECT "+lastBatch+" FROM stet.boots n WHERE node=$1 AND boot=$2", []any{n.ID, n.Boot},
			&last); err != nil {
			return err
		}
		if err := storekit.Behind(last, n.LastBatch); err != nil {
			return err
		}
		if _, err := t.exec("UPDATE stet.nodes SET listed=false WHERE node=$1 AND boot<>$2 AND listed", n.ID,
			n.Boot); err != nil {
			return err
		}
		changes, err := t.exec("UPDATE stet.nodes SET info=$3, seen_at=$4 WHERE node=$1 AND boot=$2 AND listed", n.ID,
			n.Boot, info, now)
		if err != nil {
			return err
		}
		if news = changes == 0; news {
			if _, err := t.exec(`INSERT INTO stet.nodes (node, boot, listed, info, seen_at) VALUES ($1,$2,true,$3,$4)
				ON CONFLICT (node, boot) DO UPDATE SET listed=true, draining=false, info=excluded.info, seen_at=excluded.seen_at`,
				n.ID, n.Boot, info, now); err != nil {
				return err
			}
			if err := t.addBoots(now, []string{n.ID}, []string{n.Boot}); err != nil {
				return err
			}
		}
		if _, err := t.exec(`INSERT INTO stet.workflows (name) SELECT q.name FROM unnest($1::text[]) AS q(name)
			WHERE NOT EXISTS (SELECT 1 FROM stet.workflows w WHERE w.name=q.name) ORDER BY q.name
				ON CONFLICT DO NOTHING`, possible(n.Workflows)); err != nil {
			return err
		}
		return t.forgetOld(now)
	})
	if err == nil && news {
		s.hint.notify(store.Change{Nodes: true}, 1)
	}
	if n.Stopped {
		s.witnesses.End(storekit.Boot{Node: n.ID, Boot: n.Boot})
	} else if err == nil {
		witness{s, life}.keep()
	}
	return at, err
}

// warm makes the connections of claims and commits, which a node needs as soon as it has its leases. It lets the
// server plan the query for runs that are ready. It does not wait: a failure is reported by the first act that
// needs what is missing.
func (s *Store) warm(ctx context.Context, n *store.Node) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectLimit)
	var working sync.WaitGroup
	working.Go(func() { _, _ = s.Claim(ctx, store.ClaimRequest{Node: n.ID, Boot: n.Boot}) })
	working.Go(func() {
		if c, err := s.acquireOf(ctx, s.commits); err == nil {
			c.Release()
		}
	})
	s.warming.Go(func() {
		working.Wait()
		cancel()
	})
}

// heartbeat renews the registration of a node, in one statement. It reports false if
// more has changed than its time.
func (s *Store) heartbeat(ctx context.Context, n *store.Node, info []byte) (at store.Time, done bool, err error) {
	floor, test := s.times()
	err = s.single(ctx, "register node "+n.ID, func(t *tx) error {
		_, err := t.row(`WITH t AS MATERIALIZED (SELECT `+nowExpr+` AS now),
			more AS MATERIALIZED (SELECT EXISTS (SELECT FROM stet.nodes WHERE node=$3 AND boot<>$4 AND listed)
				OR EXISTS (SELECT FROM unnest($6::text[]) AS q(name)
					WHERE NOT EXISTS (SELECT FROM stet.workflows w WHERE w.name=q.name))
				OR EXISTS (SELECT FROM stet.nodes n, t WHERE seen_at<t.now-$7::bigint
					AND NOT EXISTS (SELECT FROM stet.leases l WHERE l.node=n.node AND l.boot=n.boot)) AS any),
			u AS (UPDATE stet.nodes SET info=$5, seen_at=t.now FROM t, more WHERE node=$3 AND boot=$4 AND listed
				AND NOT more.any AND coalesce((SELECT `+lastBatch+` FROM stet.boots n WHERE node=$3 AND boot=$4), 0)>=$8::bigint
				RETURNING 1),
			m AS (UPDATE stet.meta SET value=q.now FROM (SELECT `+replicationNow+` AS now) q
				WHERE key='replication' AND value<>q.now)
			SELECT t.now, EXISTS (SELECT FROM u) FROM t`,
			[]any{floor, test, n.ID, n.Boot, info, possible(n.Workflows), forgetAfter.Microseconds(), n.LastBatch},
			(*int64)(&at), &done)
		return err
	})
	if err == nil {
		s.beats.beat()
		s.observe(at)
	}
	return at, done, err
}

// lockLeases reads leases and locks them, with the rows of the boots that hold one which
// take accepts. No commit of these boots is then under way, and none begins until the
// transaction ends, after which they have another fence. A shard that never had a lease
// gets a row. The boots come first, because a commit locks its boot's row before it reads
// leases.
func (t *tx) lockLeases(now store.Time, shards []store.Shard,
	take func(l *store.Lease) bool) (map[store.Shard]*store.Lease, error) {
	grps, slots := make([]string, len(shards)), make([]int64, len(shards))
	for i, shard := range shards {
		grps[i], slots[i] = shard.Group, int64(shard.Slot)
	}
	if _, err := t.exec(`INSERT INTO stet.leases (grp, slot, epoch, node, boot, until_at)
		SELECT DISTINCT q.grp, q.slot, 0, '', '', 0 FROM unnest($1::text[], $2::bigint[]) AS q(grp, slot)
		WHERE NOT EXISTS (SELECT 1 FROM stet.leases l WHERE l.grp=q.grp AND l.slot=q.slot) ORDER BY 1, 2
			ON CONFLICT DO NOTHING`, grps, slots); err != nil {
		return nil, err
	}
	read := func(lock string) (map[store.Shard]*store.Lease, error) {
		leases := make(map[store.Shard]*store.Lease, len(shards))
		err := t.each(`SELECT l.grp, l.slot, l.epoch, l.node, l.boot, l.until_at FROM stet.leases l
			WHERE (l.grp, l.slot) IN (SELECT * FROM unnest($1::text[], $2::bigint[]))
				ORDER BY l.grp, l.slot`+lock, []any{grps, slots}, func(scan func(...any) error) error {
			l := &store.Lease{}
			err := scan(&l.Shard.Group, &l.Shard.Slot, &l.Epoch, &l.Node, &l.Boot, (*int64)(&l.Until))
			leases[l.Shard] = l
			return err
		})
		return leases, err
	}
	seen, err := read("")
	if err != nil {
		return nil, err
	}
	locked := map[string]bool{}
	for {
		nodes, boots := []string{}, []string{}
		for _, l := range seen {
			if key := l.Node + "\x00" + l.Boot; l.Node != "" && take(l) && !locked[key] {
				locked[key] = true
				nodes, boots = append(nodes, l.Node), append(boots, l.Boot)
			}
		}
		if len(nodes) > 0 {
			// A boot may have no row: its Register has failed, or it was forgotten. It gets one
			// here, because its own commit would make one that nobody has locked.
			if err := t.addBoots(now, nodes, boots); err != nil {
				return nil, err
			}
			if _, err := t.exec(`WITH b AS (SELECT node, boot FROM stet.boots
				WHERE (node, boot) IN (SELECT * FROM unnest($1::text[], $2::text[])) ORDER BY node, boot FOR UPDATE)
				UPDATE stet.boots n SET fence=gen_random_uuid() FROM b
					WHERE n.node=b.node AND n.boot=b.boot`, nodes, boots); err != nil {
				return nil, err
			}
		}
		current, err := read(" FOR UPDATE")
		if err != nil {
			return nil, err
		}
		again := false
		for _, l := range current {
			again = again || l.Node != "" && take(l) && !locked[l.Node+"\x00"+l.Boot]
		}
		if !again {
			return current, nil
		}
		seen = current // another boot has taken one in between; now none can
	}
}

// Acquire implements store.Store.
func (s *Store) Acquire(ctx context.Context, n store.Node, shards []store.Shard,
	ttl store.Delay) ([]store.Acquired, store.Time, error) {
	if err := storekit.ValidateShards(shards, ttl); err != nil {
		return nil, 0, err
	}
	if err := n.Validate(); err != nil {
		return nil, 0, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer s.leave()
	ctx = on(ctx, s.leasing)
	acquired := make([]store.Acquired, len(shards))
	var at store.Time
	err := s.write(ctx, "acquire leases", lockLimit, func(t *tx, now store.Time) error {
		own := func(l *store.Lease) bool { return l.Node == n.ID && l.Boot == n.Boot }
		// A lease may have been renewed while its lock was waited for, and time has
		// passed: it is read again, and compared as it is then.
		dead, err := t.bury(s, shards)
		if err != nil {
			return err
		}
		free := func(l *store.Lease) bool {
			return own(l) || l.Until <= now || s.ahead.Ended(l) || dead[storekit.Boot{Node: l.Node, Boot: l.Boot}] ||
				n.Supersedes(l)
		}
		leases, err := t.lockLeases(now, shards, free)
		if err != nil {
			return err
		}
		at = now
		taken := newEnds()
		for i, shard := range shards {
			l := leases[shard]
			if l.Node != "" && !free(l) {
				acquired[i] = store.Acquired{Lease: *l}
				continue
			}
			clean := l.Node == "" || own(l)
			taken.add(shard, clean)
			epoch := nextEpoch(l.Epoch, now)
			*l = store.Lease{Shard: shard, Epoch: epoch, Node: n.ID, Boot: n.Boot, Until: now + store.Time(ttl)}
			acquired[i] = store.Acquired{Held: true, Lease: *l, Clean: clean}
		}
		suspects, err := t.giveBack(taken)
		if err != nil {
			return err
		}
		for i, shard := range shards {
			if acquired[i].Held && !acquired[i].Clean {
				acquired[i].Suspects = suspects[shard]
			}
		}
		grps, slots, epochs := []string{}, []int64{}, []int64{}
		for shard, l := range leases {
			if taken.has(shard) {
				grps, slots, epochs = append(grps, shard.Group), append(slots, int64(shard.Slot)), append(epochs, l.Epoch)
			}
		}
		_, err = t.exec(`UPDATE stet.leases l SET epoch=q.epoch, node=$4, boot=$5, until_at=$6
			FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS q(grp, slot, epoch) WHERE l.grp=q.grp AND l.slot=q.slot`,
			grps, slots, epochs, n.ID, n.Boot, now+store.Time(ttl))
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	s.hint.notify(store.Change{Nodes: true}, 1)
	return acquired, at, nil
}

// nextEpoch returns the epoch of a lease that is taken. It comes from the clock, so that a
// server that went back gives none again that it gave before.
func nextEpoch(epoch int64, now store.Time) int64 { return max(epoch+1, int64(now)/1000) }

// ends lists shards whose lease ends, cleanly or not.
type ends struct {
	shardArrays
	clean []bool
	index map[store.Shard]bool
}

func newEnds() *ends {
	return &ends{shardArrays: shardArrays{[]string{}, []int64{}}, clean: []bool{}, index: map[store.Shard]bool{}}
}

func (e *ends) has(shard store.Shard) bool { return e.index[shard] }

func (e *ends) add(shard store.Shard, clean bool) {
	if !e.index[shard] {
		e.index[shard] = true
		e.grps, e.slots = append(e.grps, shard.Group), append(e.slots, int64(shard.Slot))
		e.clean = append(e.clean, clean)
	}
}

// giveBack makes the claimed runs of shards ready, and suspect unless the lease has ended
// cleanly. It returns how many became suspect, by shard.
func (t *tx) giveBack(taken *ends) (map[store.Shard]int, error) {
	suspects := map[store.Shard]int{}
	if len(taken.grps) == 0 {
		return suspects, nil
	}
	// A run that was claimed at rest goes back as it was.
	err := t.each(`WITH c AS (SELECT r.run_no, r.marks & {pausedOrHeld} <> 0
		OR r.status IN ({queued},{suspended}) AS rest, q.clean
			FROM unnest($1::text[], $2::bigint[], $3::boolean[]) AS q(grp, slot, clean) JOIN stet.runs r
				ON r.grp=q.grp AND r.slot=q.slot AND r.ready={claimed}
			ORDER BY r.run_no FOR UPDATE OF r),
		u AS (UPDATE stet.runs r SET
			ready=CASE WHEN c.rest AND (r.status={suspended} OR r.wake_at IS NOT NULL) THEN {idle} ELSE {ready} END,
			suspect=CASE WHEN c.rest OR c.clean THEN r.suspect WHEN r.alone OR r.suspect<2 THEN r.suspect+1
				ELSE greatest(r.suspect-1, 2) END,
			strikes=CASE WHEN c.rest OR c.clean THEN r.strikes WHEN r.alone THEN r.strikes+1 ELSE 0 END,
			alone=r.alone AND c.rest
			FROM c WHERE r.run_no=c.run_no RETURNING r.grp, r.slot, NOT c.rest AND NOT c.clean AS suspect)
		SELECT grp, slot, count(*) FROM u WHERE suspect GROUP BY grp, slot`,
		[]any{taken.grps, taken.slots, taken.clean}, func(scan func(...any) error) error {
			var shard store.Shard
			var n int
			err := scan(&shard.Group, &shard.Slot, &n)
			suspects[shard] = n
			return err
		})
	return suspects, err
}

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, leases []store.Lease,
	ttl store.Delay) ([]store.Acquired, store.Time, error) {
	if err := storekit.ValidateShards(nil, ttl); err != nil {
		return nil, 0, err
	}
	ctx = on(ctx, s.leasing)
	renewed := make([]store.Acquired, len(leases))
	grps, slots, epochs := leaseArrays(leases)
	floor, test := s.times()
	var at store.Time
	err := s.single(ctx, "renew leases", func(t *tx) error {
		// One statement: the rows are locked in their order, then changed. Of leases that are
		// still held only the places are sent: hundreds of rows would come in many packets.
		return t.each(`WITH t AS MATERIALIZED (SELECT `+nowExpr+` AS now),
			held AS MATERIALIZED (SELECT l.grp, l.slot, l.epoch, l.node, l.boot, l.until_at FROM stet.leases l
				WHERE (l.grp, l.slot) IN (SELECT * FROM unnest($3::text[], $4::bigint[])) AND l.node<>''
					ORDER BY l.grp, l.slot FOR NO KEY UPDATE),
			asked AS (SELECT q.place::integer, h.*, q.epoch=h.epoch AS own
				FROM unnest($3::text[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS q(grp, slot, epoch, place)
				JOIN held h ON h.grp=q.grp AND h.slot=q.slot),
			u AS (UPDATE stet.leases l SET until_at=t.now+$6::bigint FROM t
				WHERE (l.grp, l.slot) IN (SELECT a.grp, a.slot FROM asked a WHERE a.own))
			SELECT array_agg(a.place), 0::bigint, a.node, a.boot, t.now+$6::bigint, true, t.now
				FROM asked a, t WHERE a.own GROUP BY a.node, a.boot, t.now
			UNION ALL SELECT ARRAY[a.place], a.epoch, a.node, a.boot, a.until_at, false, t.now FROM asked a, t WHERE NOT a.own
			UNION ALL SELECT '{}', 0, '', '', 0, false, t.now FROM t`,
			[]any{floor, test, grps, slots, epochs, int64(ttl)}, func(scan func(...any) error) error {
				var places []int32
				var a store.Acquired
				l := &a.Lease
				err := scan(&places, &l.Epoch, &l.Node, &l.Boot, (*int64)(&l.Until), &a.Held, (*int64)(&at))
				if err != nil {
					return err
				}
				a.Clean = a.Held
				for _, place := range places {
					asked := leases[place-1]
					l.Shard = asked.Shard
					if a.Held {
						l.Epoch = asked.Epoch
					}
					renewed[place-1] = a
				}
				return nil
			})
	})
	if err != nil {
		return nil, 0, err
	}
	s.beats.beat()
	s.observe(at)
	return renewed, at, nil
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, leases []store.Lease) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	shards, epochs := make([]store.Shard, len(leases)), map[store.Shard]int64{}
	for i := range leases {
		shards[i] = leases[i].Shard
		epochs[leases[i].Shard] = leases[i].Epoch
	}
	err := s.write(on(ctx, s.leasing), "release leases", lockLimit, func(t *tx, now store.Time) error {
		mine := func(l *store.Lease) bool { return l.Node != "" && l.Epoch == epochs[l.Shard] }
		held, err := t.lockLeases(now, shards, mine)
		if err != nil {
			return err
		}
		given := newEnds()
		for shard, l := range held {
			if mine(l) {
				given.add(shard, true)
			}
		}
		if _, err := t.giveBack(given); err != nil {
			return err
		}
		_, err = t.exec(`UPDATE stet.leases SET node='', boot='', until_at=0
			WHERE (grp, slot) IN (SELECT * FROM unnest($1::text[], $2::bigint[]))`, given.grps, given.slots)
		return err
	})
	if err == nil {
		s.hint.notify(store.Change{Nodes: true}, 1)
	}
	return err
}
