package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// known is what a connection has seen of the leases of a boot. It stands as long as
// the boot's row has the fence that it had then: whoever takes a lease from the boot,
// or raises its epoch, changes that first.
type known struct {
	conn       *pgx.Conn // nil: nothing is known
	node, boot string
	fence      [16]byte
	epochs     map[store.Shard]int64
}

// holds reports whether the leases are the boot's.
func (k *known) holds(leases []store.Lease) bool {
	for i := range leases {
		if epoch, ok := k.epochs[leases[i].Shard]; !ok || epoch != leases[i].Epoch {
			return false
		}
	}
	return true
}

// fenceOf returns the fence under which all leases of a batch are the boot's; false if
// they are not. The caller has entered.
func (s *Store) fenceOf(ctx context.Context, conn *pgx.Conn, u *usual) (fence [16]byte, ok bool, err error) {
	k := &s.fence
	if k.conn == conn && k.node == u.b.Node && k.boot == u.b.Boot && k.holds(u.leases) {
		return k.fence, true, nil
	}
	*k = known{node: u.b.Node, boot: u.b.Boot, epochs: map[store.Shard]int64{}}
	err = (&tx{ctx: ctx, s: s, conn: conn}).each(`SELECT n.fence, coalesce(l.grp, ''), coalesce(l.slot, -1), coalesce(l.epoch, 0) FROM stet.nodes n
		LEFT JOIN stet.leases l ON l.node=n.node AND l.boot=n.boot WHERE n.node=$1 AND n.boot=$2`, []any{k.node, k.boot}, func(scan func(...any) error) error {
		var l store.Lease
		err := scan(&k.fence, &l.Shard.Group, &l.Shard.Slot, &l.Epoch)
		k.epochs[l.Shard] = l.Epoch
		return err
	})
	if err != nil {
		return fence, false, err
	}
	k.conn = conn
	return k.fence, len(k.epochs) > 0 && k.holds(u.leases), nil
}
