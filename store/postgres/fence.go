package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// known is the leases of a boot as they were read. They stand as long as the boot's row
// has the fence that it had then: an act that takes a lease from the boot, or raises its
// epoch, changes the fence first.
type known struct {
	conn       *pgx.Conn // on which it was read; nil: nothing is known
	timeline   int64     // of the server
	node, boot string
	fenced     bool // the boot has a row
	fence      [16]byte
	epochs     map[store.Shard]int64
}

// holds reports whether the leases are the boot's.
func (k *known) holds(leases []store.Lease) bool {
	for i := range leases {
		if !k.held(&leases[i]) {
			return false
		}
	}
	return true
}

// held reports whether a lease is the boot's.
func (k *known) held(l *store.Lease) bool {
	epoch, ok := k.epochs[l.Shard]
	return ok && epoch == l.Epoch
}

// know reads the leases of a boot.
func (t *tx) know(node, boot string) (known, error) {
	k := known{timeline: t.s.servers.timeline.Load(), node: node, boot: boot, epochs: map[store.Shard]int64{}}
	err := t.each(`SELECT coalesce(n.fence, gen_random_uuid()), n.fence IS NOT NULL, l.grp, l.slot, l.epoch
		FROM stet.leases l
		LEFT JOIN stet.boots n ON n.node=$1 AND n.boot=$2 WHERE l.node=$1 AND l.boot=$2
		UNION ALL SELECT fence, true, '', -1, 0 FROM stet.boots
			WHERE node=$1 AND boot=$2`, []any{name(node), name(boot)}, func(scan func(...any) error) error {
		var l store.Lease
		err := scan(&k.fence, &k.fenced, &l.Shard.Group, &l.Shard.Slot, &l.Epoch)
		k.epochs[l.Shard] = l.Epoch
		return err
	})
	if err == nil {
		k.conn = t.conn
	}
	return k, err
}

// knowThese reads leases of any boot.
func (t *tx) knowThese(leases []store.Lease) (known, error) {
	k := known{conn: t.conn, epochs: map[store.Shard]int64{}}
	grps, slots, epochs := leaseArrays(leases)
	err := t.each(`SELECT q.grp, q.slot, q.epoch
		FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS q(grp, slot, epoch), LATERAL (
		SELECT FROM stet.leases l WHERE l.grp=q.grp AND l.slot=q.slot AND l.epoch=q.epoch AND l.node<>'' OFFSET 0) l`,
		[]any{grps, slots, epochs}, func(scan func(...any) error) error {
			var l store.Lease
			err := scan(&l.Shard.Group, &l.Shard.Slot, &l.Epoch)
			k.epochs[l.Shard] = l.Epoch
			return err
		})
	return k, err
}

// fenceOf returns the fence under which all leases of a batch are the boot's; false if
// they are not. The caller has entered.
func (s *Store) fenceOf(ctx context.Context, conn *pgx.Conn, f *flatBatch) (fence [16]byte, ok bool, err error) {
	k := &s.fence
	if k.conn == conn && k.node == f.b.Node && k.boot == f.b.Boot && k.holds(f.leases) {
		return k.fence, true, nil
	}
	t := tx{ctx: ctx, s: s, conn: conn}
	if *k, err = t.know(f.b.Node, f.b.Boot); err != nil {
		return fence, false, err
	}
	return k.fence, k.fenced && k.holds(f.leases), nil
}
